//! FB16 and FB48 from files: addresses and GID tables as the kernel's files tell them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod common;

use common::fixture::Fixture;
use te_topology::{
    AddressReason, AddressWish, Gid, GidClass, GidType, GidWish, HostInterface, InterfaceKind,
    LinkLayer, NicName, SysTree, choose_address, choose_gid,
};

const HOST: &str = "\
net docker0 bridge
net flannel.1 vxlan operstate=unknown
net lo operstate=unknown
net veth3f2 operstate=up
root pci0000:00
  0000:00:03.0 net eth0
  0000:00:04.0 net ib0
";

/// The kernel's table: `Main` has the networks, `Local` our addresses, each maybe twice.
const FIB: &str = "file proc/net/fib_trie = Main:\\n  +-- 0.0.0.0/0 3 0 5\\n     |-- 0.0.0.0\\n\
        /0 universe UNICAST\\n     |-- 10.9.0.0\\n        /24 link UNICAST\\nLocal:\\n\
     |-- 10.9.0.2\\n        /32 host LOCAL\\n     |-- 10.9.0.255\\n        /32 link BROADCAST\\n\
     |-- 10.244.0.0\\n        /32 host LOCAL\\n     |-- 127.0.0.1\\n        /32 host LOCAL\\n\
     |-- 172.17.0.1\\n        /32 host LOCAL\\n     |-- 192.168.7.2\\n        /32 host LOCAL\\n\
     |-- 10.9.0.2\\n        /32 host LOCAL\n";

const ROUTES: &str = "file proc/net/route = Iface Destination Gateway Flags RefCnt Use Metric Mask\\n\
     docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0\\n\
     eth0 00000000 0100090A 0003 0 0 100 00000000 0 0 0\\n\
     eth0 0000090A 00000000 0001 0 0 100 00FFFFFF 0 0 0\\n\
     flannel.1 0000F40A 00000000 0001 0 0 0 0000FFFF 0 0 0\\n\
     ib0 0007A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";

const V6: &str = "file proc/net/if_inet6 = \
     fe800000000000000000000000000001 04 40 20 80 eth0\\n\
     20010db8000000000000000000000002 04 40 00 80 eth0\\n\
     00000000000000000000000000000001 01 80 10 80 lo\n";

fn interfaces(more: &str) -> Vec<HostInterface> {
    Fixture::parse(&format!("{HOST}{more}")).tree().host_interfaces()
}

fn addresses(interfaces: &[HostInterface], name: &str) -> String {
    let interface = interfaces.iter().find(|interface| interface.name == name).unwrap();
    interface.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn advertised(interfaces: &[HostInterface]) -> (String, AddressReason) {
    let choice = choose_address(interfaces, &AddressWish::default()).unwrap();
    (choice.advertise.to_string(), choice.reason)
}

/// FB16: a container bridge with the first index, an overlay, and the card with the default route.
#[test]
fn fb16_the_card_with_the_default_route_is_told() {
    let interfaces = interfaces(&format!("{FIB}{ROUTES}{V6}"));
    assert_eq!(addresses(&interfaces, "eth0"), "10.9.0.2 fe80::1 2001:db8::2");
    assert_eq!(addresses(&interfaces, "docker0"), "172.17.0.1");
    assert_eq!(addresses(&interfaces, "flannel.1"), "10.244.0.0");
    assert_eq!(addresses(&interfaces, "ib0"), "192.168.7.2");
    assert_eq!(addresses(&interfaces, "lo"), "127.0.0.1 ::1");
    let eth0 = interfaces.iter().find(|interface| interface.name == "eth0").unwrap();
    assert_eq!((eth0.default_route, eth0.kind), (Some(100), InterfaceKind::Hardware));
    assert_eq!(advertised(&interfaces), ("10.9.0.2".to_owned(), AddressReason::DefaultRoute));
}

/// A container whose address is in no network of its own: the default route's interface has it.
#[test]
fn an_address_without_a_network_is_the_default_routes() {
    let text = "net eth0 veth\nnet lo\n\
        file proc/net/route = Iface D G F R U M Mask\\neth0 00000000 0101FEA9 0003 0 0 0 00000000\\n\
        eth0 0101FEA9 00000000 0001 0 0 0 FFFFFFFF\n\
        file proc/net/fib_trie = Local:\\n |-- 10.1.2.3\\n /32 host LOCAL\n";
    let interfaces = Fixture::parse(text).tree().host_interfaces();
    assert_eq!(interfaces[0].kind, InterfaceKind::Virtual, "the inner end of a pair");
    assert_eq!(advertised(&interfaces), ("10.1.2.3".to_owned(), AddressReason::DefaultRoute));
}

/// Of two networks that cover an address, the narrower one has it.
#[test]
fn the_narrowest_network_has_the_address() {
    let text = "root pci0000:00\n  0000:00:03.0 net eth0\n  0000:00:04.0 net eth1\n\
        file proc/net/route = I D G F R U M Mask\\neth0 0000000A 00000000 0001 0 0 0 000000FF\\n\
        eth1 0002000A 00000000 0001 0 0 0 00FFFFFF\n\
        file proc/net/fib_trie = Local:\\n |-- 10.0.2.9\\n /32 host LOCAL\\n\
        |-- 10.7.0.1\\n /32 host LOCAL\n";
    let interfaces = Fixture::parse(text).tree().host_interfaces();
    assert_eq!(addresses(&interfaces, "eth1"), "10.0.2.9");
    assert_eq!(addresses(&interfaces, "eth0"), "10.7.0.1");
}

/// Without any route, the only interface that leads outside has the address.
#[test]
fn without_routes_the_only_card_has_the_address() {
    let text = "net lo\nroot pci0000:00\n  0000:00:03.0 net eth0\n\
        file proc/net/fib_trie = Local:\\n |-- 10.1.2.3\\n /32 host LOCAL\n";
    let interfaces = Fixture::parse(text).tree().host_interfaces();
    assert_eq!(advertised(&interfaces), ("10.1.2.3".to_owned(), AddressReason::LeadsOutside));
}

/// A host with IPv6 only, and its default route.
#[test]
fn ipv6_only_hosts_have_a_default_route() {
    let zeros = "0".repeat(32);
    let route = |name: &str, flags: &str| {
        format!(
            "{zeros} 00 {zeros} 00 fe80000000000000000000000000000a 00000400 1 0 {flags} {name}\\n"
        )
    };
    let table = format!("{}{}", route("lo", "00200200"), route("eth0", "00000003"));
    let interfaces = interfaces(&format!("{V6}file proc/net/ipv6_route = {table}\n"));
    assert_eq!(advertised(&interfaces), ("2001:db8::2".to_owned(), AddressReason::DefaultRoute));
}

/// A bridge that a card is a port of is where such a host's address is.
#[test]
fn a_bridge_with_a_card_leads_outside() {
    let text = "root pci0000:00\n  0000:00:03.0 net eth0\nnet br0 bridge lower=eth0\n\
        file proc/net/route = I D G F R U M Mask\\nbr0 00000000 0100090A 0003 0 0 0 00000000\\n\
        br0 0000090A 00000000 0001 0 0 0 00FFFFFF\n\
        file proc/net/fib_trie = Local:\\n |-- 10.9.0.2\\n /32 host LOCAL\n";
    let interfaces = Fixture::parse(text).tree().host_interfaces();
    assert_eq!(advertised(&interfaces), ("10.9.0.2".to_owned(), AddressReason::DefaultRoute));
}

/// FB48: a table of 256 slots with three entries; empty ones are not asked for their type.
#[test]
fn fb48_a_table_is_read_from_files() {
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    let mut capture = format!("{port}/link_layer\tEthernet\n");
    let entries = [
        ("fe80:0000:0000:0000:0690:81ff:fe37:a9e8", "IB/RoCE v1"),
        ("fe80:0000:0000:0000:0690:81ff:fe37:a9e8", "RoCE v2"),
        ("0000:0000:0000:0000:0000:ffff:0a66:0965", "RoCE v2"),
    ];
    for slot in 0..256 {
        let (gid, kind) = entries.get(slot).copied().unwrap_or((EMPTY, ""));
        capture += &format!("{port}/gids/{slot}\t{gid}\n");
        if !kind.is_empty() {
            capture += &format!("{port}/gid_attrs/types/{slot}\t{kind}\n");
            capture += &format!("{port}/gid_attrs/ndevs/{slot}\teth2\n");
        }
    }
    let tree = SysTree::from_capture(&capture).unwrap();
    let nic: NicName = "mlx5_0".parse().unwrap();
    let table = tree.gid_table(&nic, 1);
    assert_eq!((table.entries.len(), table.slots), (3, 256));
    assert_eq!(table.entries[0].kind, GidType::RoceV1);
    let choice = choose_gid(&nic, false, &table, &GidWish::default()).unwrap();
    assert_eq!((choice.index, choice.class), (2, GidClass::OwnPrivate));
    assert_eq!(choice.gid, Gid::parse("::ffff:10.102.9.101").unwrap());
    assert!(tree.gid_table(&nic, 2).entries.is_empty(), "no such port");
    assert!(!tree.capture().contains("0a66"), "captures have no addresses");
}

const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

/// An InfiniBand port of an old kernel, which has no types.
#[test]
fn infiniband_without_types_is_read() {
    let port = "sys/class/infiniband/qib0/ports/1";
    let capture = format!(
        "{port}/link_layer\tInfiniBand\n{port}/gids/0\tfe80:0000:0000:0000:0011:7500:0077:cfc8\n"
    );
    let tree = SysTree::from_capture(&capture).unwrap();
    let nic: NicName = "qib0".parse().unwrap();
    let table = tree.gid_table(&nic, 1);
    assert_eq!(table.entries[0].kind, GidType::Ib);
    let is_infiniband =
        te_topology::read_tree(&tree).nics()[0].link_layer() == Some(LinkLayer::InfiniBand);
    assert_eq!(choose_gid(&nic, is_infiniband, &table, &GidWish::default()).unwrap().index, 0);
}
