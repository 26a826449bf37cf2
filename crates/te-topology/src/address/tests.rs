//! FB16: which address is told.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn interface(name: &str, index: u32, kind: InterfaceKind, addresses: &[&str]) -> HostInterface {
    HostInterface::new(name, index, kind, addresses.iter().map(|a| ip(a)).collect())
}

/// The host of FB16: a container bridge first, an overlay, and the real one.
fn host() -> Vec<HostInterface> {
    vec![
        interface("docker0", 1, InterfaceKind::Bridge, &["172.17.0.1"]),
        interface("flannel.1", 2, InterfaceKind::Overlay, &["10.244.0.0"]),
        interface("lo", 3, InterfaceKind::Loopback, &["127.0.0.1", "::1"]),
        interface("eth0", 4, InterfaceKind::Hardware, &["10.9.0.2", "fe80::1", "2001:db8::2"])
            .with_default_route(100),
        interface("ib0", 5, InterfaceKind::Hardware, &["192.168.7.2"]),
        interface("veth12", 6, InterfaceKind::ContainerLink, &["169.254.1.1"]),
    ]
}

fn auto(interfaces: &[HostInterface]) -> (String, AddressReason) {
    let choice = choose_address(interfaces, &AddressWish::default()).unwrap();
    (choice.advertise.to_string(), choice.reason)
}

/// FB16: without a wish, the address on the interface of the default route.
#[test]
fn fb16_the_default_route_decides() {
    assert_eq!(auto(&host()), ("10.9.0.2".to_owned(), AddressReason::DefaultRoute));
    let choice = choose_address(&host(), &AddressWish::default()).unwrap();
    assert_eq!((choice.interface.as_deref(), choice.bind), (Some("eth0"), ip("0.0.0.0")));
}

/// FB16: what the user names is told unchanged, even if no interface here has it.
#[test]
fn fb16_a_wish_is_kept() {
    for (address, interface) in [("10.9.0.2", Some("eth0")), ("203.0.113.9", None)] {
        let wish = AddressWish { advertise: Some(ip(address)), ..AddressWish::default() };
        let choice = choose_address(&host(), &wish).unwrap();
        assert_eq!((choice.advertise, choice.interface.as_deref()), (ip(address), interface));
        assert_eq!(choice.reason, AddressReason::Asked);
    }
    let wish = AddressWish { interface: Some("ib0".to_owned()), ..AddressWish::default() };
    assert_eq!(choose_address(&host(), &wish).unwrap().advertise, ip("192.168.7.2"));
    let wish = AddressWish { interface: Some("docker0".to_owned()), ..AddressWish::default() };
    assert_eq!(choose_address(&host(), &wish).unwrap().advertise, ip("172.17.0.1"));
}

/// FB16: an interface that is not there is an error that names it and its neighbours.
#[test]
fn fb16_a_missing_interface_is_named() {
    let wish = AddressWish { interface: Some("eht0".to_owned()), ..AddressWish::default() };
    let error = choose_address(&host(), &wish).unwrap_err().to_string();
    assert!(error.contains("eht0") && error.contains("eth0"), "{error}");
    let bare = [interface("eth1", 1, InterfaceKind::Hardware, &[])];
    let wish = AddressWish { interface: Some("eth1".to_owned()), ..AddressWish::default() };
    assert!(matches!(choose_address(&bare, &wish), Err(AddressError::NoAddress { .. })));
    assert_eq!(choose_address(&bare, &AddressWish::default()), Err(AddressError::Nothing));
}

/// FB16: what is bound and what is told are two things; a bound address is told.
#[test]
fn fb16_bind_and_advertise_are_apart() {
    let wish = |bind: &str, advertise: Option<&str>| AddressWish {
        bind: Some(ip(bind)),
        advertise: advertise.map(ip),
        interface: None,
    };
    let ask = |wish| {
        let choice = choose_address(&host(), &wish).unwrap();
        (choice.bind.to_string(), choice.advertise.to_string(), choice.reason)
    };
    let told =
        |bind: &str, advertise: &str, reason| (bind.to_owned(), advertise.to_owned(), reason);
    assert_eq!(
        ask(wish("192.168.7.2", None)),
        told("192.168.7.2", "192.168.7.2", AddressReason::Bound)
    );
    assert_eq!(
        ask(wish("0.0.0.0", Some("203.0.113.9"))),
        told("0.0.0.0", "203.0.113.9", AddressReason::Asked)
    );
    assert_eq!(ask(wish("::", None)), told("::", "10.9.0.2", AddressReason::DefaultRoute));
}

/// FB16: what leads nowhere is taken only if there is nothing else, and the reason says so.
#[test]
fn fb16_the_last_resorts_in_their_order() {
    let mut rest = host();
    rest.retain(|interface| interface.name != "eth0");
    assert_eq!(auto(&rest), ("192.168.7.2".to_owned(), AddressReason::LeadsOutside));
    rest.retain(|interface| interface.name != "ib0");
    assert_eq!(auto(&rest), ("172.17.0.1".to_owned(), AddressReason::NothingBetter));
    rest.retain(|interface| interface.kind == InterfaceKind::Loopback);
    assert_eq!(auto(&rest), ("127.0.0.1".to_owned(), AddressReason::OnlyLoopback));
}

/// FB16: a link-local address of IPv6, which nobody can connect to as it stands, is not even a last
/// resort.
#[test]
fn fb16_an_address_of_one_link_is_not_told() {
    let lo = interface("lo", 1, InterfaceKind::Loopback, &["127.0.0.1"]);
    let link = interface("eth0", 2, InterfaceKind::Hardware, &["fe80::1"]);
    assert_eq!(auto(&[lo, link.clone()]).0, "127.0.0.1");
    let wish = AddressWish { interface: Some("eth0".to_owned()), ..AddressWish::default() };
    let refused = choose_address(std::slice::from_ref(&link), &wish).unwrap_err();
    assert_eq!(refused, AddressError::NoAddress { name: "eth0".to_owned() });
    let wish = AddressWish { advertise: Some(ip("fe80::1")), ..AddressWish::default() };
    assert_eq!(choose_address(&[link], &wish).unwrap().advertise, ip("fe80::1"));
}

#[test]
fn a_bridge_over_a_card_is_as_good_as_the_card() {
    let mut bridge =
        interface("br0", 9, InterfaceKind::Bridge, &["10.0.0.7"]).with_default_route(0);
    let ib = interface("ib0", 5, InterfaceKind::Hardware, &["192.168.7.2"]);
    assert_eq!(auto(&[bridge.clone(), ib.clone()]).0, "192.168.7.2");
    bridge.has_hardware = true;
    assert_eq!(auto(&[bridge, ib]), ("10.0.0.7".to_owned(), AddressReason::DefaultRoute));
}

#[test]
fn metrics_families_and_links_count() {
    let low = interface("eth1", 2, InterfaceKind::Hardware, &["10.0.0.2"]).with_default_route(50);
    let high = interface("eth0", 1, InterfaceKind::Hardware, &["10.0.0.1"]).with_default_route(100);
    assert_eq!(auto(&[high.clone(), low.clone()]).0, "10.0.0.2", "the smaller metric");
    let mut down = low;
    down.is_up = false;
    assert_eq!(auto(&[high, down]).0, "10.0.0.1", "packets must pass");
    let v6 = interface("eth0", 1, InterfaceKind::Hardware, &["fe80::1", "2001:db8::2"]);
    assert_eq!(auto(&[v6]).0, "2001:db8::2");
    let choice = choose_address(
        &[interface("eth0", 1, InterfaceKind::Hardware, &["2001:db8::2"])],
        &AddressWish::default(),
    );
    assert_eq!(choice.unwrap().bind, ip("::"));
}

#[test]
fn every_reason_has_its_words() {
    use AddressReason as R;
    let all = [
        R::Asked,
        R::AskedInterface,
        R::Bound,
        R::DefaultRoute,
        R::LeadsOutside,
        R::NothingBetter,
        R::OnlyLoopback,
    ];
    let words: std::collections::BTreeSet<&str> = all.map(R::text).into();
    assert_eq!(words.len(), all.len());
}
