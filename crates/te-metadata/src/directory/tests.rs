//! Finding segments: in a store, and by asking a live peer.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;
use crate::{
    AddressFamily, Asker, BoundPeerServer, EndpointMessage, EndpointQuestion, ListenAddress,
    MemoryStore, Notify, NotifyRefused, PAGE_BYTES, PeerLimits, PeerServer, PeerService,
    PortChoice, TcpEndpoint,
};

fn client() -> PeerClient {
    let limits = PeerLimits { exchange_timeout: Duration::from_secs(2), ..PeerLimits::default() };
    PeerClient::new(limits, AddressFamily::Any)
}

fn in_store(store: &MemoryStore) -> Directory {
    Directory::store(Arc::new(store.clone()), KeySpace::new(None), client())
}

fn name(text: &str) -> SegmentName {
    SegmentName::parse(text).unwrap()
}

fn descriptor(name: &str) -> SegmentDescriptor {
    SegmentDescriptor::tcp(name, TcpEndpoint::default(), Vec::new())
}

struct Publisher(Option<Vec<u8>>);

impl PeerService for Publisher {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        self.0.clone()
    }

    fn notify(&self, _: Notify) -> Result<(), NotifyRefused> {
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        question.answer(EndpointMessage::default());
    }
}

fn publish(text: Option<&[u8]>) -> (PeerServer, SegmentName) {
    let lo = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
    let bound = BoundPeerServer::bind(&lo, PortChoice::Exact(0), PeerLimits::default()).unwrap();
    let name = name(&format!("127.0.0.1:{}", bound.port()));
    (bound.start(Arc::new(Publisher(text.map(<[u8]>::to_vec)))).unwrap(), name)
}

fn ask(text: Option<&[u8]>) -> Result<Resolved, ResolveError> {
    let (_server, name) = publish(text);
    Directory::p2p(client()).fetch(&name, b"{}")
}

/// B8: in P2P the peer is asked and its address is the name.
#[test]
fn b08_p2p_asks_the_peer() {
    let (_server, name) = publish(Some(&descriptor("x").encode()));
    let directory = Directory::p2p(client());
    let found = directory.fetch(&name, b"{}").unwrap();
    assert_eq!(found.descriptor, descriptor("x"));
    assert_eq!(found.rpc, name.host_port().unwrap());
    assert_eq!(directory.rpc_address(&name).unwrap(), found.rpc);
    assert!(directory.is_p2p());
    let record = RpcMeta { ip_or_host_name: "x".into(), rpc_port: 1, te_incarnation: None };
    let paged = descriptor("x").paginate(PAGE_BYTES);
    assert!(directory.records(&name, &record, &paged).is_empty(), "nothing is put anywhere");
}

/// B62: a peer without a segment answers null, which is an absent segment.
#[test]
fn b62_null_is_an_absent_segment() {
    assert!(ask(None).unwrap_err().is_not_found());
    assert!(ask(Some(b" null \n")).unwrap_err().is_not_found());
}

/// Peer fault 2: wrong shapes in the answer are a malformed segment, and the field is named.
#[test]
fn fault02_a_malformed_answer_names_the_field() {
    for (text, says) in [
        ("[1]", "the root is an array"),
        ("5", "the root is a number"),
        ("{}", "protocol is missing"),
        (r#"{"protocol":"tcp","buffers":[{"name":{}}]}"#, "buffers[0].name is an object"),
        (r#"{"protocol":"rdma","qp_num":["x"],"devices":5}"#, "devices is a number"),
        (r#"{"protocol":"tcp","tcp_data_port":"x"}"#, "tcp_data_port is a string"),
        (&"[".repeat(100_000), "no JSON"),
        ("{", "no JSON"),
    ] {
        let error = ask(Some(text.as_bytes())).unwrap_err();
        assert!(error.is_malformed(), "{error}");
        assert!(!error.is_retryable());
        let chain = error.chain().to_string();
        assert!(chain.contains(says), "{text}: {chain}");
    }
    let error = ask(Some(br#"{"protocol":"cxl"}"#)).unwrap_err();
    assert!(matches!(error, ResolveError::NotSupported { protocol, .. } if protocol == "cxl"));
}

#[test]
fn an_unreachable_peer_is_told_with_phase_address_and_cause() {
    let (server, name) = publish(None);
    server.close(Duration::from_secs(5)).unwrap();
    let error = Directory::p2p(client()).fetch(&name, b"{}").unwrap_err();
    assert!(error.is_retryable());
    let chain = error.chain().to_string();
    let expected = format!(
        "segment {name} could not be asked for its descriptor: peer {name}: connect failed at \
         {name}: Connection refused"
    );
    assert!(chain.starts_with(&expected), "{chain}");
}

/// FB15: a name that is no address is refused by name before anything is asked.
#[test]
fn fb15_a_name_that_is_no_address_is_an_error() {
    for text in ["host:", "host:99999", "a b", "[::1", "rack1/node"] {
        let error = Directory::p2p(client()).fetch(&name(text), b"{}").unwrap_err();
        assert!(matches!(error, ResolveError::BadAddress { .. }), "{text}: {error}");
    }
    let address = Directory::p2p(client()).rpc_address(&name("[::1]")).unwrap();
    assert_eq!(address.to_string(), "[::1]:12001");
}

fn put_rpc(store: &MemoryStore, node: &SegmentName, record: &RpcMeta) {
    store.put(&KeySpace::new(None).rpc_meta(node), &record.encode()).unwrap();
}

/// J34: an address record can be added, read and removed; reading afterwards fails.
#[test]
fn j34_rpc_meta_add_get_remove() {
    let store = MemoryStore::new();
    let directory = in_store(&store);
    let node = name("node-a");
    assert!(directory.rpc_address(&node).unwrap_err().is_not_found());
    let record = RpcMeta { ip_or_host_name: "::1".into(), rpc_port: 15969, te_incarnation: None };
    put_rpc(&store, &node, &record);
    assert_eq!(directory.rpc_address(&node).unwrap().to_string(), "[::1]:15969");
    store.remove(&KeySpace::new(None).rpc_meta(&node)).unwrap();
    assert!(directory.rpc_address(&node).unwrap_err().is_not_found());
}

/// B11, B12: a store is filled under the peers' keys with the peers' bytes.
#[test]
fn a_store_is_filled_under_the_peers_keys() {
    let store = MemoryStore::new();
    let directory = in_store(&store);
    let node = name("node-a:17001");
    let record =
        RpcMeta { ip_or_host_name: "127.0.0.1".into(), rpc_port: 15920, te_incarnation: None };
    let paged = descriptor("node-a:17001").paginate(PAGE_BYTES);
    for (key, value) in directory.records(&node, &record, &paged) {
        store.put(&key, &value).unwrap();
    }
    let text = store.get("mooncake/rpc_meta/node-a:17001").unwrap().unwrap();
    assert_eq!(text.value, br#"{"ip_or_host_name":"127.0.0.1","rpc_port":15920}"#);
    let text = store.get("mooncake/ram/node-a:17001").unwrap().unwrap();
    assert_eq!(text.value, descriptor("node-a:17001").encode());
    let found = directory.fetch(&node, b"{}").unwrap();
    assert_eq!(found.descriptor, descriptor("node-a:17001"));
    assert_eq!(found.rpc.to_string(), "127.0.0.1:15920");
}

#[test]
fn a_descriptor_without_an_address_record_is_still_found() {
    let store = MemoryStore::new();
    let directory = in_store(&store);
    // A value of etcd ends with a newline.
    let text = [descriptor("node-a").encode(), b"\n".to_vec()].concat();
    store.put("mooncake/ram/node-a", &text).unwrap();
    assert_eq!(directory.fetch(&name("/node-a"), b"{}").unwrap().rpc.to_string(), "node-a:12001");
    assert!(directory.rpc_address(&name("node-a")).unwrap_err().is_not_found());
    assert!(directory.fetch(&name("node-b"), b"{}").unwrap_err().is_not_found());
}

#[test]
fn a_wrong_address_record_is_named() {
    let store = MemoryStore::new();
    let directory = in_store(&store);
    let with = |record: &[u8]| {
        store.put("mooncake/rpc_meta/n", record).unwrap();
        directory.rpc_address(&name("n")).unwrap_err()
    };
    assert!(with(br#"{"ip_or_host_name":"n","rpc_port":"1"}"#).is_malformed());
    let error = with(br#"{"ip_or_host_name":"a b","rpc_port":1}"#);
    assert!(matches!(error, ResolveError::BadAddress { .. }));
}

fn large(owner: u128, n_buffers: u64) -> SegmentDescriptor {
    let buffer = |n: u64| crate::BufferDescriptor {
        name: "node-a".into(),
        addr: (n + 1) << 16,
        length: 1 << 16,
        ..crate::BufferDescriptor::default()
    };
    let buffers = (0..n_buffers).map(buffer).collect();
    let mut descriptor = SegmentDescriptor::tcp("node-a", TcpEndpoint::default(), buffers);
    descriptor.te = Some(crate::TeObject::new(crate::Incarnation::from_u128(owner)));
    descriptor
}

fn put_all(store: &MemoryStore, directory: &Directory, descriptor: &SegmentDescriptor) {
    let record = RpcMeta { ip_or_host_name: "127.0.0.1".into(), rpc_port: 1, te_incarnation: None };
    let paged = descriptor.paginate(PAGE_BYTES);
    for (key, value) in directory.records(&name("node-a"), &record, &paged) {
        assert!(value.len() <= 1 << 20, "{key} has {} bytes", value.len());
        store.put(&key, &value).unwrap();
    }
}

/// 100 000 buffers: published in keys of less than 1 MiB each, opened whole.
#[test]
fn a_segment_of_many_buffers_goes_through_a_store() {
    let store = MemoryStore::new();
    let directory = in_store(&store);
    let whole = large(1, 100_000);
    put_all(&store, &directory, &whole);
    assert!(store.len() > 5);
    assert_eq!(directory.fetch(&name("node-a"), b"{}").unwrap().descriptor, whole);
    // The peer's view: the main key alone is a descriptor.
    let main = store.get("mooncake/ram/node-a").unwrap().unwrap().value;
    assert!(SegmentDescriptor::decode(&main).unwrap().buffers().len() > 5000);
}

/// Read while it is published anew: the old whole, the new whole, or an error that says so.
#[test]
fn parts_of_two_versions_are_never_mixed() {
    let store = MemoryStore::new();
    let directory = in_store(&store);
    let (old, new) = (large(1, 30_000), large(2, 30_001));
    put_all(&store, &directory, &new);
    put_all(&store, &directory, &old);
    let chunks = store.list("mooncake/te_chunk/").unwrap();
    let ours = |key: &str| store.get(key).unwrap().unwrap();
    for chunk in &chunks {
        if ours(&chunk.key).belongs_to(crate::Incarnation::from_u128(1)) {
            store.remove(&chunk.key).unwrap();
        }
    }
    let error = directory.fetch(&name("node-a"), b"{}").unwrap_err();
    assert!(error.is_outdated() && error.is_retryable(), "{error}");
    put_all(&store, &directory, &new);
    assert_eq!(directory.fetch(&name("node-a"), b"{}").unwrap().descriptor, new);
}

/// Peer faults 14 and 15: whoever answers at the recorded address lives, but not we ourselves.
#[test]
fn fault14_owners_are_probed_at_their_address() {
    let (_server, alive) = publish(None);
    let at = |address: &HostPort| RpcMeta {
        ip_or_host_name: address.host().into(),
        rpc_port: address.port_or(0),
        te_incarnation: None,
    };
    let (store, node, limit) = (MemoryStore::new(), name("node-a"), Duration::from_secs(2));
    let directory = in_store(&store);
    let (alive, own) = (alive.host_port().unwrap(), HostPort::parse("127.0.0.1:9").unwrap());
    let state = |own: &HostPort| directory.owner_state(&node, own, limit).unwrap();
    assert_eq!(state(&own), OwnerState::Gone, "no record");
    put_rpc(&store, &node, &at(&alive));
    assert_eq!(state(&own), OwnerState::Alive);
    assert_eq!(state(&alive), OwnerState::Gone, "it is we who answer there");
    put_rpc(&store, &node, &at(&own));
    assert_eq!(state(&alive), OwnerState::Gone, "nobody answers there");
}
