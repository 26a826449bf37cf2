//! Names and addresses in all their forms.

use te_suites::{
    Bound, Case, Direction, Kind, Netns, NodeSpec, Pair, Span, Version, free_port, need, say,
};

use crate::{MIB, OURS};

#[test]
fn fb15_ipv6_alone_is_enough() {
    // FB15, P2P half: a transfer over ::1 in a namespace that has no IPv4 address at all; no
    // setting is needed.
    let test = "fb15_ipv6_alone_is_enough";
    need!(test, OURS.0.available());
    let netns = need!(test, Netns::new());
    need!(test, netns.ip(&["addr", "del", "127.0.0.1/8", "dev", "lo"]));
    for host in ["::1", "[::1]"] {
        let mut to = NodeSpec::new(OURS.1, MIB).host(host).within(&netns).start();
        let mut from = NodeSpec::new(OURS.0, MIB).host(host).within(&netns).start();
        assert!(to.name().starts_with("[::1]:"), "{}", to.name());
        let case = Case::start("FB15: ::1 alone", from.pid());
        from.pattern(0, MIB, 15);
        let (name, src, dst) = (to.name().to_owned(), from.addr(), to.addr());
        from.write(&name, src, dst, MIB).ok();
        to.verify(0, MIB, 15);
        from.fill(0, MIB, 0);
        from.read(&name, src, dst, MIB).ok();
        from.verify(0, MIB, 15);
        from.notify(&name, (src, dst, 64), ("six", "only")).ok();
        from.probe(&name).ok();
        assert_eq!(to.notifies(), [("six".to_owned(), "only".to_owned())]);
        case.end(Bound::NOTHING);
        from.quit();
        to.quit();
    }
}

#[test]
fn fb15_ipv6_between_two_hosts() {
    // FB15, P2P half: two namespaces joined by a wire that carries IPv6 only.
    let test = "fb15_ipv6_between_two_hosts";
    need!(test, OURS.0.available());
    let (left, right) = (need!(test, Netns::new()), need!(test, Netns::new()));
    need!(test, left.join("fd07:e::1/64", &right, "fd07:e::2/64"));
    let mut to = NodeSpec::new(OURS.1, MIB).host("fd07:e::2").within(&right).start();
    let mut from = NodeSpec::new(OURS.0, MIB).host("fd07:e::1").within(&left).start();
    from.pattern(0, MIB, 16);
    let (name, src, dst) = (to.name().to_owned(), from.addr(), to.addr());
    from.write(&name, src, dst, MIB).ok();
    to.verify(0, MIB, 16);
    let back = from.name().to_owned();
    to.read(&back, dst, src, MIB).ok();
    to.verify(0, MIB, 16);
    from.quit();
    to.quit();
}

#[test]
fn fb15_ipv4_alone_is_enough() {
    // FB15: the counterpart: a kernel without IPv6 addresses.
    let test = "fb15_ipv4_alone_is_enough";
    need!(test, OURS.0.available());
    let netns = need!(test, Netns::new());
    need!(test, netns.set("net/ipv6/conf/all/disable_ipv6", "1"));
    let mut to = NodeSpec::new(OURS.1, MIB).within(&netns).start();
    let mut from = NodeSpec::new(OURS.0, MIB).within(&netns).start();
    from.pattern(0, MIB, 17);
    let (name, src, dst) = (to.name().to_owned(), from.addr(), to.addr());
    from.write(&name, src, dst, MIB).ok();
    to.verify(0, MIB, 17);
    from.quit();
    to.quit();
}

const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1:15555",
    "127.0.0.1:0",
    "127.0.0.1:",
    "127.0.0.1:99999",
    "127.0.0.1:abc",
    "127.0.0.1:-1",
    "localhost",
    "localhost:15556",
    "[::1]",
    "[::1]:15557",
    "[::1",
    "::1",
    "",
    ":",
    ":15555",
    "a b",
    "999.1.1.1",
    "1.2.3",
    "host.invalid",
    "0.0.0.0",
    "::",
    "fe80::1%lo",
    "ünï.invalid",
    "127.0.0.1/24",
    "http://127.0.0.1",
];

#[test]
fn fb18_every_form_of_host_and_port_starts_or_says_why_not() {
    // FB18: each form of the local name, with and without an explicit port, with and without the
    // old port binding: an engine that answers, or one clear line; never a crash.
    let test = "fb18_every_form_of_host_and_port_starts_or_says_why_not";
    need!(test, OURS.0.available());
    let mut asker = NodeSpec::new(OURS.0, 4096).start();
    let case = Case::start("FB18: the engine that asks", asker.pid());
    let (mut started, mut refused) = (0, 0);
    for &host in HOSTS {
        for port in [None, Some(0), Some(free_port("127.0.0.1").unwrap()), Some(asker.rpc_port())] {
            for legacy in [false, true] {
                let what = format!("host `{host}`, port {port:?}, legacy {legacy}");
                let mut spec = NodeSpec::new(OURS.0, 4096).host(host);
                if legacy {
                    spec = spec.env("MC_LEGACY_RPC_PORT_BINDING", "1");
                }
                if let Some(port) = port {
                    spec = spec.arg("--port").arg(&port.to_string());
                }
                match spec.launch().outcome() {
                    Ok(node) => {
                        started += 1;
                        assert_ne!(node.rpc_port(), 0, "{what}");
                        assert_ne!(node.rpc_port(), asker.rpc_port(), "{what}");
                        if host.contains("127.0.0.1") || host.contains("localhost") {
                            asker.probe(node.name()).ok();
                        }
                    }
                    Err((why, code)) => {
                        refused += 1;
                        assert_eq!(code, Some(3), "{what}: {why}");
                        assert!(!why.is_empty() && !why.contains('\n'), "{what}: {why}");
                    }
                }
            }
        }
    }
    say(&format!("{test}: {started} started, {refused} refused with a reason"));
    assert!(started > 20 && refused > 50, "{started} started, {refused} refused");
    case.end(Bound::NOTHING);
    asker.quit();
}

#[test]
fn fb18_every_form_of_target_is_reached_or_named() {
    // FB18, FB15: what a caller may give as the target.
    let test = "fb18_every_form_of_target_is_reached_or_named";
    let mut pair = need!(test, Pair::start((Kind::Te, Kind::Te), MIB, Version::V2));
    let port = pair.target.rpc_port();
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    for good in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"] {
        pair.initiator.write(&format!("{good}:{port}"), src, dst, 64).ok();
    }
    for host in HOSTS.iter().filter(|host| !host.contains("invalid")) {
        let answer = pair.initiator.write(host, src, dst, 64);
        assert!(!answer.refused().is_empty(), "`{host}`: {answer:?}");
    }
    pair.moves(Direction::Write, Span { src: 64, dst: 64, len: 64 }, 1);
    pair.quit();
}
