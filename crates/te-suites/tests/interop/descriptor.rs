//! What we need of a peer's descriptor.

use serde_json::{Value, json};
use te_suites::wire::{BASE, HandTarget, TargetSpec};
use te_suites::{Kind, Node, NodeSpec, need, pattern};

/// What becomes of a segment with an edited descriptor.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Works in this framing: the opcodes are these for read and write.
    Works { read: u8, write: u8 },
    /// Nothing is sent; the text of the error has this word in it.
    Refused(&'static str),
}

const V2: Fate = Fate::Works { read: 0x80, write: 0x81 };
const V1: Fate = Fate::Works { read: 0, write: 1 };

/// One row of the table: what is changed, how, and what becomes of it.
struct Row(&'static str, fn(&mut Value), Fate);

fn without(descriptor: &mut Value, key: &str) {
    descriptor.as_object_mut().unwrap().remove(key);
}

const TABLE: &[Row] = &[
    Row("nothing", |_| (), V2),
    Row("no timestamp", |d| without(d, "timestamp"), V2),
    Row("no rdma_server_name", |d| without(d, "rdma_server_name"), V2),
    Row("no tcp_data_host", |d| without(d, "tcp_data_host"), V2),
    Row("no name", |d| without(d, "name"), V2),
    Row("another name", |d| d["name"] = json!("other:1"), V2),
    Row("no tcp_proto_version", |d| without(d, "tcp_proto_version"), V1),
    Row("tcp_proto_version 1", |d| d["tcp_proto_version"] = json!(1), V1),
    Row("tcp_proto_version 3", |d| d["tcp_proto_version"] = json!(3), V2),
    Row("unknown keys", unknown_keys, V2),
    Row("the least that a peer publishes", the_least, V2),
    // Unlike the peer, we send nothing to an address that the descriptor does not list.
    Row("no buffers", |d| without(d, "buffers"), Fate::Refused("not inside one buffer")),
    Row(
        "an empty list of buffers",
        |d| d["buffers"] = json!([]),
        Fate::Refused("not inside one buffer"),
    ),
    Row("no tcp_data_port", |d| without(d, "tcp_data_port"), Fate::Refused("tcp")),
    Row(
        "a buffer without a name",
        |d| d["buffers"][0] = json!({ "addr": BASE, "length": 1 }),
        Fate::Refused("name"),
    ),
    Row("a buffer at address 0", |d| d["buffers"][0]["addr"] = json!(0), Fate::Refused("addr")),
    Row("a buffer of length 0", |d| d["buffers"][0]["length"] = json!(0), Fate::Refused("length")),
    Row("protocol as a list", |d| d["protocol"] = json!(["tcp"]), Fate::Refused("protocol")),
    Row("two protocols", |d| d["protocol"] = json!("rdma,tcp"), Fate::Refused("rdma,tcp")),
    Row("a protocol that does not exist", |d| d["protocol"] = json!("warp"), Fate::Refused("warp")),
];

fn unknown_keys(descriptor: &mut Value) {
    descriptor["x_engine"] = json!({ "a": [1] });
    descriptor["buffers"][0]["x"] = json!(1);
}

fn the_least(descriptor: &mut Value) {
    for key in ["timestamp", "rdma_server_name", "tcp_data_host"] {
        without(descriptor, key);
    }
}

fn check(ours: &mut Node, Row(what, edit, fate): &Row) {
    let target = HandTarget::start(TargetSpec::default(), edit).unwrap();
    let here = ours.addr();
    ours.pattern(0, 4096, 6);
    let write = ours.write(target.name(), here, BASE + 5, 4096);
    match fate {
        Fate::Works { read, write: opcode } => {
            assert!(write.is_ok(), "{what}: {write:?}");
            ours.fill(0, 4096, 0);
            ours.read(target.name(), here, BASE + 5, 4096).ok();
            ours.verify(0, 4096, 6);
            assert_eq!(target.bytes(5, 4096), pattern::bytes(6, 4096), "{what}");
            // In the old framing a write is followed by a small read that confirms it.
            let whole = target.headers().into_iter().filter(|header| header.size == 4096);
            let opcodes = whole.map(|header| header.opcode).collect::<Vec<_>>();
            assert_eq!(opcodes, [*opcode, *read], "{what}");
        }
        Fate::Refused(word) => {
            let error = write.refused();
            assert!(error.contains(word), "{what}: `{error}` does not name `{word}`");
            assert!(target.headers().is_empty(), "{what}");
        }
    }
}

#[test]
fn what_we_need_of_a_descriptor_is_what_the_peer_needs() {
    // J118: the table of the peer's own initiator, against ours; each refusal names its field.
    need!("what_we_need_of_a_descriptor_is_what_the_peer_needs", Kind::Te.available());
    let mut ours = NodeSpec::new(Kind::Te, 1 << 20).start();
    for row in TABLE {
        check(&mut ours, row);
    }
    ours.quit();
}
