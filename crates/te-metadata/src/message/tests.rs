//! Notifications and endpoint handshakes: captured bytes, wrong shapes.

use proptest::prelude::*;

use super::*;
use crate::frame::FrameReader;

const QUESTION: &[u8] = include_bytes!("../../tests/fixtures/frame-rdma-endpoint-question.bin");
const READY: &[u8] = include_bytes!("../../tests/fixtures/frame-rdma-endpoint-ready.bin");
const READY_ANSWER: &[u8] =
    include_bytes!("../../tests/fixtures/frame-rdma-endpoint-ready-answer.bin");
const NO_NICS: &[u8] = include_bytes!("../../tests/fixtures/endpoint-no-nics.json");
const NOTIFY: &[u8] = include_bytes!("../../tests/fixtures/frame-notify-question.bin");

fn body(frame: &[u8]) -> Vec<u8> {
    FrameReader::new(1 << 20).push(frame).unwrap().unwrap().body
}

/// B59: captured handshakes are read and written byte by byte.
#[test]
fn b59_captured_handshakes_round_trip() {
    for bytes in [body(QUESTION), body(READY), body(READY_ANSWER), NO_NICS.to_vec()] {
        assert_eq!(EndpointMessage::decode(&bytes).unwrap().encode(), bytes);
    }
    let question = EndpointMessage::decode(&body(QUESTION)).unwrap();
    assert_eq!(question.local_nic_path, "127.0.0.1:16383@rxe0");
    assert_eq!(question.peer_nic_path, "127.0.0.1:18555@rxe1");
    assert_eq!(question.local_gid, "00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01");
    let numbers: Vec<u32> = question.qp_num.iter().map(|number| number.value()).collect();
    assert_eq!((numbers, question.ready_ack), (vec![19, 20], Some(false)));
    assert_eq!(EndpointMessage::decode(&body(READY)).unwrap().ready_ack, Some(true));
}

/// What an engine without NICs answers is what the wheel answers.
#[test]
fn the_default_handshake_is_the_captured_answer_without_nics() {
    assert_eq!(EndpointMessage::default().encode(), NO_NICS);
    assert_eq!(EndpointMessage::decode(b"{}").unwrap(), EndpointMessage::default());
    assert!(EndpointMessage::refusal("no").is_refusal());
    assert!(!EndpointMessage::default().is_refusal());
}

/// J33: an opaque payload survives.
#[test]
fn j33_payload_round_trip() {
    let message = EndpointMessage {
        payload: "\u{0}opaque \"bytes\" \\ é \u{1F600}\n".to_owned(),
        ..EndpointMessage::default()
    };
    assert_eq!(EndpointMessage::decode(&message.encode()).unwrap(), message);
}

/// B63: a captured notification is read and written byte by byte.
#[test]
fn b63_captured_notification_round_trips() {
    let notify = Notify::decode(&body(NOTIFY)).unwrap();
    assert_eq!((notify.name.as_str(), notify.msg.as_str()), ("node-a", "hello"));
    assert_eq!(notify.encode(), body(NOTIFY));
}

/// Peer fault 1, K2: the shapes that end a Mooncake process are errors that name the field.
#[test]
fn fault01_wrong_shapes_name_the_field() {
    for (text, path) in [
        ("[1]", Some("")),
        ("5", Some("")),
        ("null", Some("")),
        (r#"{"name":{}}"#, Some("name")),
        (r#"{"name":"a"}"#, Some("notify_msg")),
        (r#"{"name":"a","notify_msg":[]}"#, Some("notify_msg")),
        ("{", None),
        ("", None),
        (&"[".repeat(100_000), None),
    ] {
        assert_eq!(Notify::decode(text.as_bytes()).unwrap_err().path(), path);
    }
    for (text, path) in [
        ("[1]", Some("")),
        (r#"{"qp_num":["x"]}"#, Some("qp_num[0]")),
        (r#"{"qp_num":[-1]}"#, Some("qp_num[0]")),
        (r#"{"qp_num":[1,16777216]}"#, Some("qp_num[1]")),
        (r#"{"qp_num":{}}"#, Some("qp_num")),
        (r#"{"local_lid":65536}"#, Some("local_lid")),
        (r#"{"local_lid":"1"}"#, Some("local_lid")),
        (r#"{"local_gid":1}"#, Some("local_gid")),
        (r#"{"ready_ack":1}"#, Some("ready_ack")),
        (r#"{"reply_msg":false}"#, Some("reply_msg")),
        (&"[".repeat(100_000), None),
    ] {
        assert_eq!(EndpointMessage::decode(text.as_bytes()).unwrap_err().path(), path, "{text}");
    }
    let many = format!("{{\"qp_num\":[{}1]}}", "1,".repeat(MAX_QUEUE_PAIRS));
    assert_eq!(EndpointMessage::decode(many.as_bytes()).unwrap_err().path(), Some("qp_num"));
}

#[test]
fn unknown_keys_are_ignored() {
    let text = br#"{"barex_port":5,"efa_addr":"x","jetty_num":[1],"qp_num":[16777215]}"#;
    assert_eq!(EndpointMessage::decode(text).unwrap().qp_num, [QpNumber::MAX]);
    assert!(QpNumber::new(1 << 24).is_err());
    assert!(Notify::decode(br#"{"notify_msg":"m","x":1}"#).is_ok());
}

proptest! {
    // Seeds of failures are printed; a counter-proof shall not write files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Notify::decode(&bytes);
        let _ = EndpointMessage::decode(&bytes);
    }

    #[test]
    fn every_notification_round_trips(name in "\\PC*", msg in any::<String>()) {
        let notify = Notify { name, msg };
        prop_assert_eq!(Notify::decode(&notify.encode()).unwrap(), notify);
    }

    #[test]
    fn every_handshake_round_trips(
        texts in prop::array::uniform5(any::<String>()),
        lid in any::<u16>(),
        qps in prop::collection::vec(0u32..1 << 24, 0..9),
        ready_ack in any::<Option<bool>>(),
    ) {
        let [local_gid, local_nic_path, payload, peer_nic_path, reply_msg] = texts;
        let qp_num = qps.into_iter().map(|number| QpNumber::new(number).unwrap()).collect();
        let message = EndpointMessage {
            local_gid, local_lid: lid, local_nic_path, payload, peer_nic_path, qp_num, ready_ack,
            reply_msg,
        };
        prop_assert_eq!(EndpointMessage::decode(&message.encode()).unwrap(), message);
    }
}

/// K7: what a notification is answered, as Mooncake's engines read and write it, and what only ours
/// see in it.
#[test]
fn k7_answers_to_notifications_keep_their_form() {
    let full = r#"{"name":"","notify_msg":"","te":{"refused":"full","waiting":65536}}"#;
    let table = [
        (NotifyAnswer::Taken, r#"{"name":"","notify_msg":"success"}"#),
        (NotifyAnswer::Refused, r#"{"name":"","notify_msg":""}"#),
        (NotifyAnswer::Full { waiting: 65_536 }, full),
    ];
    for (answer, text) in table {
        assert_eq!(answer.encode(), format!("{text}\n").into_bytes());
        assert_eq!(NotifyAnswer::decode(text.as_bytes()).unwrap(), answer);
        // What an engine sees that knows no reasons.
        let plain = Notify::decode(text.as_bytes()).unwrap();
        assert_eq!(plain.msg.is_empty(), answer != NotifyAnswer::Taken);
    }
    assert!(NotifyAnswer::decode(b"{}").is_err());
}

/// A reason that is none, whatever its shape, leaves a plain refusal; and what was taken was taken.
#[test]
fn odd_reasons_of_a_refusal_are_no_reasons() {
    let reasons = [
        "null",
        "7",
        r#""full""#,
        r#"["full"]"#,
        r#"{"refused":"full"}"#,
        r#"{"refused":"full","waiting":-1}"#,
        r#"{"refused":"full","waiting":"9"}"#,
        r#"{"refused":["full"],"waiting":9}"#,
        r#"{"refused":"tired","waiting":9}"#,
    ];
    for reason in reasons {
        let text = format!(r#"{{"name":"","notify_msg":"","te":{reason}}}"#);
        let answer = NotifyAnswer::decode(text.as_bytes()).unwrap();
        assert_eq!(answer, NotifyAnswer::Refused, "{reason}");
    }
    let taken = br#"{"notify_msg":"x","te":{"refused":"full","waiting":9}}"#;
    assert_eq!(NotifyAnswer::decode(taken).unwrap(), NotifyAnswer::Taken);
}
