//! The handshake port under fire.

use std::io::Write as _;
use std::time::Duration;

use te_suites::pattern::Random;
use te_suites::wire::{Frame, HandshakeAnswer, HandshakeClient, reset_on_close};
use te_suites::{Bound, Case, Heartbeat, Node, need, now, say};

use crate::{serves, target};

fn client(node: &Node) -> HandshakeClient {
    HandshakeClient::new("127.0.0.1", node.rpc_port())
}

/// Well-formed JSON of the wrong shape: what to call it, type, text. The first seven ended the
/// published peer's process.
fn wrong_shapes() -> Vec<(&'static str, u8, Vec<u8>)> {
    let text = |what, kind, body: &str| (what, kind, body.as_bytes().to_vec());
    let deep = vec![b'['; 100_000];
    let closed = [vec![b'['; 50_000], vec![b']'; 50_000]].concat();
    let list = format!("[{}1]", "1,".repeat(200_000));
    let pairs = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(100_000));
    let mut shapes = vec![
        text("notify: a list", 2, "[1]"),
        text("notify: a number", 2, "5"),
        text("notify: name is an object", 2, r#"{"name":{}}"#),
        text("endpoint: a list", 0, "[1]"),
        text("endpoint: qp_num holds a text", 0, r#"{"qp_num":["x"]}"#),
        text("endpoint: qp_num is negative", 0, r#"{"qp_num":[-1]}"#),
        ("notify: deep nesting", 2, deep.clone()),
        text("notify: null", 2, "null"),
        text("notify: message is a list", 2, r#"{"name":"a","notify_msg":[]}"#),
        text("notify: message is missing", 2, r#"{"name":"a"}"#),
        text("notify: half a surrogate pair", 2, r#"{"name":"\ud800","notify_msg":"x"}"#),
        text("endpoint: null", 0, "null"),
        text("endpoint: qp_num is no list", 0, r#"{"qp_num":7}"#),
        text("endpoint: qp_num too large", 0, r#"{"qp_num":[4294967296]}"#),
        text("endpoint: lid too large", 0, r#"{"local_lid":70000}"#),
        text("endpoint: gid is a number", 0, r#"{"local_gid":1}"#),
        text("endpoint: a huge number", 0, r#"{"local_lid":1e999}"#),
        text("metadata: a list", 1, "[]"),
        text("metadata: a text", 1, "\"x\""),
        text("probe: a list", 3, "[]"),
        text("probe: a number", 3, "-0.5e-7"),
    ];
    for kind in 0..4 {
        shapes.push(("deep nesting", kind, deep.clone()));
        shapes.push(("deep nesting that ends", kind, closed.clone()));
        shapes.push(("a long list", kind, list.clone().into_bytes()));
        shapes.push(("one key many times", kind, pairs.clone().into_bytes()));
    }
    shapes
}

#[test]
fn fault01_json_of_the_wrong_shape_ends_nothing() {
    // Peer fault 1, J110: each message is answered or its connection closed, and the next one served.
    let mut node = need!("fault01_json_of_the_wrong_shape_ends_nothing", target());
    serves(&mut node);
    let case = Case::start("fault 1: wrong shapes", node.pid());
    let shapes = wrong_shapes();
    for (what, kind, body) in &shapes {
        let answer = client(&node).ask(&Frame::typed(*kind, body));
        assert!(answer.is_ok(), "{what}, type {kind}: neither answered nor closed: {answer:?}");
        assert!(node.is_alive(), "{what}, type {kind} ended the process");
    }
    serves(&mut node);
    say(&format!("fault 1: {} messages", shapes.len()));
    case.end(Bound::NOTHING);
    assert_eq!(node.notifies(), [], "something was taken for a notification");
    node.quit();
}

/// What is no message at all: what to call it, and the bytes.
fn garbage() -> Vec<(String, Frame)> {
    let mut random = Random::new(30);
    let mut all = vec![
        ("a length of 1 TiB".to_owned(), Frame::with_length(1 << 40, b"\x01{}")),
        ("the largest length".to_owned(), Frame::with_length(u64::MAX, b"\x01{}")),
        ("a length of 2^63".to_owned(), Frame::with_length(1 << 63, b"\x01{}")),
        ("one byte above the limit".to_owned(), Frame::with_length((1 << 20) + 1, b"\x01{}")),
        ("length 0".to_owned(), Frame::with_length(0, b"")),
        ("length 1, no body".to_owned(), Frame::typed(1, b"")),
        ("no JSON".to_owned(), Frame::typed(1, b"{{{{")),
        ("no text".to_owned(), Frame::typed(2, b"\xff\xfe\xfd")),
        ("zeros".to_owned(), Frame::raw(&[0; 4096])),
        ("an HTTP request".to_owned(), Frame::raw(b"GET /metadata HTTP/1.1\r\nHost: x\r\n\r\n")),
        ("a TLS hello".to_owned(), Frame::raw(&tls_hello())),
        ("the old framing".to_owned(), Frame::untyped(br#"{"local_nic_path":"x"}"#)),
        ("the old framing, a list".to_owned(), Frame::untyped(b"[1]")),
        ("the old framing, a text".to_owned(), Frame::untyped(b"\"x\"")),
    ];
    for kind in 4..=255 {
        all.push((format!("type {kind}"), Frame::typed(kind, b"{}")));
    }
    for i in 0..200 {
        let len = usize::try_from(random.below(300)).unwrap();
        all.push((format!("random bytes {i}"), Frame::raw(&random.bytes(len))));
    }
    all
}

fn tls_hello() -> Vec<u8> {
    let mut hello = vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    hello.resize(517, 0x5a);
    hello
}

#[test]
fn fault30_garbage_on_the_handshake_port_ends_nothing() {
    // Peer fault 30: closed, within the time that one request may take, and nothing kept.
    let mut node = need!("fault30_garbage_on_the_handshake_port_ends_nothing", target());
    serves(&mut node);
    let case = Case::start("fault 30: garbage, handshake port", node.pid());
    let all = garbage();
    for (what, frame) in &all {
        let answer = client(&node).ask_and_end(frame);
        assert!(answer.is_ok(), "{what}: neither answered nor closed: {answer:?}");
        assert!(node.is_alive(), "{what} ended the process");
    }
    serves(&mut node);
    say(&format!("fault 30: {} messages", all.len()));
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn fault30_a_message_that_stops_is_closed_in_time() {
    // Peer fault 30: half a message holds a connection for a bounded time and delays nobody.
    let mut node = need!("fault30_a_message_that_stops_is_closed_in_time", target());
    serves(&mut node);
    let case = Case::start("fault 30: half messages", node.pid());
    let whole = Frame::typed(1, b"{}");
    let heartbeat = Heartbeat::start();
    let start = now();
    let mut halves = Vec::new();
    for n in 0..whole.bytes().len() {
        let mut stream = client(&node).connect().unwrap();
        stream.write_all(&whole.bytes()[..n]).unwrap();
        halves.push(stream);
    }
    let asked = now();
    assert!(matches!(client(&node).ask(&whole), Ok(HandshakeAnswer::Framed(1, _))));
    heartbeat.assert_within("a good question meanwhile", asked.elapsed(), Duration::from_secs(1));
    for mut stream in halves {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let left = std::io::Read::read(&mut stream, &mut [0; 64]);
        assert!(!matches!(left, Ok(1..)), "half a message was answered: {left:?}");
    }
    // The limit of serving one question is 5 s.
    heartbeat.assert_within("closing half messages", start.elapsed(), Duration::from_secs(8));
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn fault31_clients_that_reset_before_the_answer_end_nothing() {
    // Peer fault 31: 200 requests whose sender is gone before the answer.
    let test = "fault31_clients_that_reset_before_the_answer_end_nothing";
    let mut node = need!(test, target());
    serves(&mut node);
    let case = Case::start("fault 31: resets, handshake port", node.pid());
    for i in 0..200_u8 {
        let mut stream = client(&node).connect().unwrap();
        reset_on_close(&stream).unwrap();
        stream.write_all(Frame::typed(i % 4, b"{}").bytes()).unwrap();
    }
    serves(&mut node);
    case.end(Bound::NOTHING);
    node.quit();
}
