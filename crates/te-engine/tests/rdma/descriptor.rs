//! What peers are told, when, and by whom they ask.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::sync::Arc;
use std::time::Duration;

use te_engine::{EngineConfig, SubmitError, TransferError};
use te_metadata::{
    AddressFamily, KeySpace, MemoryStore, MetadataStore, PeerClient, PeerLimits, ProtocolPart,
    SegmentDescriptor, SegmentName,
};

use crate::harness::*;

/// The answer to whoever shows this of itself.
fn asked(node: &Node, own: &str) -> SegmentDescriptor {
    let client = PeerClient::new(PeerLimits::default(), AddressFamily::Any);
    let answer = client.metadata(&node.engine.local_address(), own.as_bytes()).unwrap();
    SegmentDescriptor::decode(&answer).unwrap()
}

fn devices(descriptor: &SegmentDescriptor) -> Vec<String> {
    match &descriptor.part {
        ProtocolPart::Rdma { devices, .. } => devices.iter().map(|d| d.name.to_string()).collect(),
        _ => Vec::new(),
    }
}

const WHEEL_ON_TCP: &str = r#"{"buffers":[],"name":"127.0.0.1:16000","protocol":"tcp",
    "tcp_data_port":15000,"tcp_proto_version":2,"rdma_server_name":"","timestamp":""}"#;
const WHEEL_ON_RDMA: &str = r#"{"buffers":[],"devices":[],"name":"a","protocol":"rdma"}"#;

#[test]
fn whoever_asks_gets_what_it_can_use() {
    let world = World::new();
    let both = world.node("a", 2, &["rdma", "tcp"]);
    for own in [WHEEL_ON_RDMA, "{}", "null"] {
        let told = asked(&both, own);
        assert_eq!((told.protocol_name(), devices(&told).len()), ("rdma", 2), "{own}");
        assert!(told.tcp.data_port.is_some());
        assert!(told.buffers().iter().all(|buffer| buffer.rkeys.len() == 2));
    }
    let plain = asked(&both, WHEEL_ON_TCP);
    assert_eq!(plain.protocol_name(), "tcp");
    assert_eq!(plain.tcp.data_port, asked(&both, "{}").tcp.data_port);
    assert!(plain.buffers().iter().all(|buffer| buffer.rkeys.is_empty()));
    let ours = WHEEL_ON_TCP.replacen('{', r#"{"te":{"v":1},"#, 1);
    assert_eq!(asked(&both, &ours).protocol_name(), "rdma", "our own engines see all ways");
    let only = world.node("b", 1, &["rdma"]);
    assert_eq!(asked(&only, WHEEL_ON_TCP).protocol_name(), "rdma", "there is nothing else");
    let none = world.node("c", 1, &["tcp"]);
    assert_eq!(asked(&none, WHEEL_ON_RDMA).protocol_name(), "tcp");
}

/// E54, E55: who asks in P2P hears of a NIC that goes or comes at once.
#[test]
fn e54_a_nic_that_goes_leaves_the_descriptor_at_once() {
    let world = World::new();
    let node = world.node("a", 2, &["rdma", "tcp"]);
    let told = || devices(&asked(&node, "{}"));
    assert_eq!(told().len(), 2);
    node.nics[0].port_down(1);
    let took = until("one NIC", || told() == ["rxe1"]);
    assert!(took < Duration::from_secs(1), "{took:?}");
    node.nics[1].port_down(1);
    until("no NIC", || told().is_empty());
    // It stays one of RDMA: Mooncake's engine then asks again, where it would keep one of TCP.
    let away = asked(&node, "{}");
    assert_eq!(away.protocol_name(), "rdma");
    assert!(away.tcp.data_port.is_some());
    assert!(away.buffers().iter().all(|buffer| buffer.rkeys.is_empty()));
    node.nics.iter().for_each(|nic| nic.port_up(1));
    let took = until("both NICs", || told().len() == 2);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// E54: what stands in a metadata service follows the NICs.
#[test]
fn e54_a_nic_that_goes_leaves_the_published_record() {
    let world = World::new();
    let (store, nics) = (MemoryStore::new(), world.devices("a", 2));
    let config = EngineConfig::default().adjust(quick).unwrap();
    let builder = world.builder("a", config).only(["rdma", "tcp"]).store(Arc::new(store.clone()));
    let node = Node::of(builder.name("node-a").build().unwrap(), nics);
    let key = KeySpace::new(None).segment(&SegmentName::parse("node-a").unwrap());
    let told = || {
        let record = store.get(&key).unwrap().unwrap();
        SegmentDescriptor::decode(&record.value).unwrap()
    };
    assert!(node.engine.flush_publication(LIMIT));
    assert_eq!(devices(&told()), ["rxe0", "rxe1"]);
    node.nics[0].port_down(1);
    let took = until("one NIC", || devices(&told()) == ["rxe1"]);
    assert!(took < Duration::from_secs(3), "{took:?}");
    node.nics[1].port_down(1);
    until("no NIC", || devices(&told()).is_empty());
    assert_eq!(told().protocol_name(), "rdma");
    node.nics[0].port_up(1);
    until("the NIC again", || devices(&told()) == ["rxe0"]);
}

/// A peer that offers RDMA only, and an engine that has none: both are named, and why.
#[test]
fn a_peer_of_another_transport_is_refused_with_both_names() {
    let world = World::new();
    let peer = world.node("a", 1, &["rdma"]);
    let config = EngineConfig::default();
    let plain = Node::of(world.builder("b", config).only(["tcp"]).build().unwrap(), Vec::new());
    let target = plain.open(&peer);
    assert_eq!(plain.engine.transport_to(target), None);
    let refused = plain.write(target, peer.region.address(), 64).unwrap_err();
    let TransferError::Submit(SubmitError::NoTransport { offers, ours, .. }) = &refused else {
        panic!("{refused}");
    };
    assert!(offers.contains("rdma"), "{offers}");
    assert_eq!(ours, "tcp (RDMA is switched off by the program)");
    peer.nics[0].port_down(1);
    until("the NIC to leave", || devices(&peer.engine.descriptor()).is_empty());
    plain.engine.sync_cache(None);
    let refused = told(&plain.write(target, peer.region.address(), 64).unwrap_err());
    assert!(refused.contains("which offers rdma without an active NIC"), "{refused}");
}
