//! Peers' descriptors, as captured and as somebody might make them up.

use serde_json::{Value, json};
use te_metadata::{HostPort, SegmentName};
use te_topology::Picker;

use super::*;

const WHEEL: &str = include_str!("../../../tests/fixtures/descriptor-wheel-two-nics.json");

fn segment(value: &Value, epoch: u64) -> Arc<RemoteSegment> {
    let descriptor = SegmentDescriptor::decode(value.to_string().as_bytes()).unwrap();
    let (name, rpc) = (SegmentName::parse("b").unwrap(), HostPort::new("10.0.0.1", None).unwrap());
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, epoch))
}

fn changed(change: impl FnOnce(&mut Value)) -> Result<PeerView, PeerViewError> {
    let mut value = serde_json::from_str(WHEEL).unwrap();
    change(&mut value);
    PeerView::read(&segment(&value, 1))
}

fn nic(position: usize) -> PeerNicIndex {
    PeerNicIndex::new(position).unwrap()
}

/// The names that attempts from 1 on visit.
fn visited(view: &PeerView, location: &str) -> Vec<String> {
    let mut picker = Picker::random(1);
    let attempts = 1..=u32::try_from(view.nics().len()).unwrap();
    let select = |attempt| view.selector().select(&location.into(), attempt, &mut picker).ok();
    attempts.filter_map(select).map(|pick| pick.name.to_string()).collect()
}

const BASE: u64 = 139_658_084_212_736;

/// §3.1: what the wheel publishes.
#[test]
fn rdma_3_1_a_captured_descriptor_is_read() {
    let view = changed(|_| {}).unwrap();
    let paths: Vec<&str> = view.nics().iter().map(|nic| &*nic.path).collect();
    assert_eq!(paths, ["127.0.0.1:16770@rxe0", "127.0.0.1:16770@rxe1"]);
    let second = view.nic(nic(1)).unwrap();
    assert_eq!((second.gid, second.lid), (Gid::parse("::ffff:192.168.77.2"), 0));
    let piece = view.remote_piece(nic(1), BASE + 100, 50).unwrap();
    assert_eq!((piece.rkey, piece.len), (Rkey::new(872), 50));
    assert_eq!(view.remote_piece(nic(0), BASE, 1).unwrap().rkey, Rkey::new(948));
    assert_eq!(view.facts(), None);
    assert_eq!(visited(&view, "cpu:0"), ["rxe0", "rxe1"]);
}

/// K12, J115, rdma fault 2: devices that the matrix does not name any more are not chosen, also for
/// `*`, and the others keep their keys, whatever the order.
#[test]
fn j115_devices_and_matrix_are_joined_by_name() {
    let view = changed(|d| d["priority_matrix"] = json!({ "cpu:0": [["rxe1"], []] })).unwrap();
    for location in ["cpu:0", "*"] {
        assert_eq!(visited(&view, location), ["rxe1", "rxe1"], "{location}");
    }
    let mut picker = Picker::random(1);
    let pick = view.selector().select(&MemoryLocation::Any, 0, &mut picker).unwrap();
    let piece = view.remote_piece(nic(pick.index.position()), BASE, 1).unwrap();
    assert_eq!(piece.rkey, Rkey::new(872), "the key of rxe1, though it is first in the matrix");
    let view =
        changed(|d| d["priority_matrix"] = json!({ "cpu:0": [["rxe1", "ghost"], ["rxe0"]] }))
            .unwrap();
    assert_eq!(visited(&view, "cpu:0"), ["rxe1", "rxe0"]);
    let none = changed(|d| d["priority_matrix"] = json!({ "cpu:0": [[], []] })).unwrap();
    assert!(visited(&none, "*").is_empty(), "no NIC of it is active");
    let unknown = changed(|d| drop(d.as_object_mut().unwrap().remove("priority_matrix"))).unwrap();
    assert_eq!(visited(&unknown, "*"), ["rxe0", "rxe1"]);
}

/// §3.4: what makes a descriptor useless is a named error.
#[test]
fn rdma_3_4_a_useless_descriptor_is_a_named_error() {
    let no_name = changed(|d| d["name"] = json!("")).unwrap_err();
    assert_eq!(no_name, PeerViewError::NoName);
    let empty = |d: &mut Value| {
        d["devices"] = json!([]);
        d["buffers"] = json!([]);
    };
    assert_eq!(changed(empty).unwrap_err(), PeerViewError::NoDevice);
    let tcp = changed(|d| d["protocol"] = json!("tcp")).unwrap_err();
    assert_eq!(tcp, PeerViewError::NotRdma { protocol: "tcp" });
}

/// §3.4: a GID that is none is left to the handshake; a device under a free name, and one that is
/// listed twice, are taken as they are.
#[test]
fn rdma_3_4_odd_devices_are_read() {
    let view = changed(|d| {
        d["devices"][0]["gid"] = json!("nonsense");
        d["devices"][1]["gid"] = json!("00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00");
        d["devices"][1]["lid"] = json!(300);
        d["devices"][1]["name"] = json!("rxe0");
        d["rdma_server_name"] = json!("10.9.9.9:4000");
    })
    .unwrap();
    assert_eq!(view.nics().iter().map(|nic| nic.gid).collect::<Vec<_>>(), [None, None]);
    assert_eq!((&*view.nics()[1].path, view.nics()[1].lid), ("10.9.9.9:4000@rxe0", 300));
    assert_eq!(visited(&view, "cpu:0"), ["rxe0", "rxe0"]);
}

/// E22, C40: a piece ends with the buffer that has its first byte; outside is a named error, and so
/// is a buffer without keys.
#[test]
fn e22_pieces_end_with_their_buffer() {
    let view = changed(|d| {
        let buffer = |addr: u64, length: u64, key: u32| {
            json!({ "addr": addr, "length": length,
            "name": "cpu:0", "lkey": [0, 0], "rkey": [key, key + 1] })
        };
        let mut closed = buffer(0x9000, 16, 0);
        closed["rkey"] = json!([]);
        d["buffers"] = json!([buffer(0x2000, 0x1000, 20), buffer(0x1000, 0x1000, 10), closed]);
    })
    .unwrap();
    let piece = |address, len| view.remote_piece(nic(1), address, len);
    assert_eq!(piece(0x1ff0, 0x100), Ok(RemotePiece { rkey: Rkey::new(11), len: 0x10 }));
    assert_eq!(piece(0x2000, 0x100), Ok(RemotePiece { rkey: Rkey::new(21), len: 0x100 }));
    for address in [0, 0xfff, 0x3000, u64::MAX] {
        assert_eq!(piece(address, 1), Err(RemoteRangeError::NotRegistered { address }));
    }
    assert_eq!(piece(0x9000, 1), Err(RemoteRangeError::NoKey { address: 0x9000 }));
    assert!(view.remote_piece(nic(2), 0x1000, 1).is_err(), "there is no such NIC");
}

/// C11: where a byte is, by the name of its buffer.
#[test]
fn c11_locations_are_those_of_the_buffers() {
    let view = changed(|d| {
        let buffer = |addr: u64, name: &str| {
            json!({ "addr": addr, "length": 100, "name": name,
            "lkey": [0, 0], "rkey": [1, 2] })
        };
        d["buffers"] = json!([
            buffer(1000, "segments:4096:0,1"),
            buffer(2000, "cuda:3"),
            buffer(3000, "any text"),
            buffer(4000, "cuda:3"),
        ]);
    })
    .unwrap();
    let told: Vec<String> = [1049, 1050, 2000, 3000, 4099, 5000]
        .map(|address| view.location(address).to_string())
        .into();
    assert_eq!(told, ["cpu:0", "cpu:1", "cuda:3", "any text", "cuda:3", "*"]);
    assert_eq!(view.locations.distinct.len(), 3);
}

/// A descriptor of the largest number of devices and names is read in reasonable time and size.
#[test]
fn a_hostile_descriptor_is_read_quickly() {
    let name = |n: usize| format!("nic{n}");
    let devices: Vec<Value> =
        (0..1024).map(|n| json!({ "name": name(n), "gid": "x", "lid": 0 })).collect();
    let names: Vec<String> = (0..1024).map(name).collect();
    let rows: serde_json::Map<String, Value> =
        (0..256).map(|row| (format!("r{row}"), json!([names, names]))).collect();
    let view = changed(|d| {
        d["devices"] = Value::from(devices);
        d["buffers"] = json!([]);
        d["priority_matrix"] = rows.into();
    })
    .unwrap();
    assert_eq!(visited(&view, "r7").len(), 1024);
}

/// A view is read once for each snapshot.
#[test]
fn views_are_read_once_for_each_snapshot() {
    let value: Value = serde_json::from_str(WHEEL).unwrap();
    let (first, second) = (segment(&value, 1), segment(&value, 2));
    let mut views = PeerViews::default();
    let read = Arc::clone(views.of(&first).unwrap());
    assert!(Arc::ptr_eq(&read, views.of(&first).unwrap()));
    assert!(Arc::ptr_eq(views.of(&second).unwrap().peer(), &second));
    let mut tcp = value;
    tcp["protocol"] = json!("tcp");
    assert!(views.of(&segment(&tcp, 3)).is_err());
}
