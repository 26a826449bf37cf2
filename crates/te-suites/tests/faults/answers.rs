//! Answers to our own questions that are not what they should be.

use te_suites::wire::{BASE, HandTarget, TargetSpec};
use te_suites::{Bound, Case, need};

use crate::{serves, target};

/// Answers to a metadata request that are no descriptor, and a word of the error for each.
const NONSENSE: &[(&str, &[u8], &str)] = &[
    ("an array", b"[]", "object"),
    ("an array with one number", b"[1]", "object"),
    ("a string", b"\"x\"", "object"),
    ("a number", b"5", "object"),
    ("null", b"null", ""),
    ("nothing", b"", ""),
    ("no JSON", b"{{{{", ""),
    ("no text", b"\xff\xfe\x00", ""),
    ("an empty object", b"{}", "protocol"),
    ("an object as name", br#"{"name":{},"protocol":"tcp","tcp_data_port":1}"#, "name"),
    ("a string as port", br#"{"name":"a","protocol":"tcp","tcp_data_port":"x"}"#, "tcp_data_port"),
    ("port 0", br#"{"name":"a","protocol":"tcp","tcp_data_port":0,"buffers":[]}"#, "tcp"),
    ("port 70000", br#"{"name":"a","protocol":"tcp","tcp_data_port":70000,"buffers":[]}"#, "tcp_data_port"),
    ("port -1", br#"{"name":"a","protocol":"tcp","tcp_data_port":-1,"buffers":[]}"#, "tcp_data_port"),
    ("a string as buffers", br#"{"name":"a","protocol":"tcp","tcp_data_port":1,"buffers":"x"}"#, "buffers"),
    ("a negative address", br#"{"name":"a","protocol":"tcp","tcp_data_port":1,"buffers":[{"name":"x","addr":-1,"length":1}]}"#, "addr"),
    ("a buffer that wraps", br#"{"name":"a","protocol":"tcp","tcp_data_port":1,"buffers":[{"name":"x","addr":18446744073709551615,"not inside one buffer":2}]}"#, "length"),
    ("a half number", br#"{"name":"a","protocol":"tcp","tcp_data_port":1.5,"buffers":[]}"#, "tcp_data_port"),
];

#[test]
fn fault02_an_answer_that_is_no_descriptor_is_a_named_error() {
    // Peer fault 2, J110: every wrong shape in the answer to an open names its field, and costs the
    // process nothing.
    let test = "fault02_an_answer_that_is_no_descriptor_is_a_named_error";
    let mut ours = need!(test, target());
    serves(&mut ours);
    let case = Case::start("fault 2: answers that are no descriptor", ours.pid());
    let deep = vec![b'['; 100_000];
    let many = [&b"["[..], &b"1,".repeat(200_000), b"1]"].concat();
    let bulky = [("deep nesting", &deep[..], ""), ("a long array", &many[..], "")];
    for (what, reply, word) in NONSENSE.iter().copied().chain(bulky) {
        let spec = TargetSpec { reply: Some(reply.to_vec()), ..TargetSpec::default() };
        let target = HandTarget::start(spec, |_| ()).unwrap();
        let here = ours.addr();
        let answer = ours.write(target.name(), here, BASE, 64);
        let error = answer.refused();
        assert!(error.contains(word), "{what}: `{error}` does not name `{word}`");
        assert!(error.contains(target.name()), "{what}: `{error}` does not name the peer");
        assert!(target.headers().is_empty(), "{what}");
        ours.ping();
    }
    serves(&mut ours);
    case.end(Bound::NOTHING);
    ours.quit();
}
