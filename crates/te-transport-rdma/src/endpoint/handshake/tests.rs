//! Golden bytes and hostile answers.

use te_metadata::QpNumber;

use super::*;

fn gid(last: u8) -> Gid {
    Gid::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 77, last])
}

fn numbers(list: &[u32]) -> Vec<QpNumber> {
    list.iter().map(|number| QpNumber::new(*number).unwrap()).collect()
}

fn ends(last: u8, list: &[u32]) -> Ends {
    Ends { gid: gid(last), lid: 0, queue_pairs: numbers(list) }
}

fn path(text: &str) -> NicPath {
    NicPath::parse(text).unwrap()
}

/// The bytes that a Mooncake of the wheel writes, captured between two of them.
const QUESTION: &str = concat!(
    r#"{"local_gid":"00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:4d:01","local_lid":0,"#,
    r#""local_nic_path":"127.0.0.1:15936@rxe0","payload":"","#,
    r#""peer_nic_path":"127.0.0.1:16238@rxe1","qp_num":[17,18],"ready_ack":false,"reply_msg":""}"#,
    "\n"
);

fn question() -> EndpointMessage {
    let (us, them) = (path("127.0.0.1:15936@rxe0"), path("127.0.0.1:16238@rxe1"));
    request(&us, &them, &ends(1, &[17, 18]))
}

fn good_answer() -> EndpointMessage {
    let (us, them) = (path("127.0.0.1:16238@rxe1"), path("127.0.0.1:15936@rxe0"));
    answer(&us, &them, &ends(2, &[21, 22]))
}

#[test]
fn our_question_is_byte_for_byte_the_wheels() {
    assert_eq!(String::from_utf8(question().encode()).unwrap(), QUESTION);
    let second = ready(question()).encode();
    let wanted = QUESTION.replace(r#""ready_ack":false"#, r#""ready_ack":true"#);
    assert_eq!(String::from_utf8(second).unwrap(), wanted);
}

#[test]
fn a_good_answer_says_the_other_end_and_whether_it_acks() {
    let read = read_answer(&question(), good_answer(), "").unwrap();
    assert_eq!(read, PeerEnds { ends: ends(2, &[21, 22]), acks: true, about: None });
    let old = EndpointMessage { ready_ack: None, ..good_answer() };
    assert!(!read_answer(&question(), old, "").unwrap().acks);
    let silent = EndpointMessage { local_gid: String::new(), ..good_answer() };
    let read = read_answer(&question(), silent, &gid(9).byte_text()).unwrap();
    assert_eq!(read.ends.gid, gid(9));
}

/// E26: the count is learned from a filled refusal; an empty one only refuses.
#[test]
fn e26_a_refusal_is_told_by_its_message_alone() {
    let no = |answer| read_answer(&question(), answer, "").unwrap_err();
    let empty = EndpointMessage::refusal("no such NIC");
    assert!(matches!(no(empty), HandshakeError::Refused { reason } if &*reason == "no such NIC"));
    let filled = filled_refusal(good_answer(), "RTR".to_owned());
    assert!(matches!(no(filled), HandshakeError::Refused { .. }));
    let local = "fe:80:00:00:00:00:00:00:00:00:00:00:00:00:00:01".to_owned();
    let foreign = EndpointMessage { local_gid: local, ..good_answer() };
    let told = no(filled_refusal(foreign, "RTR".to_owned())).text();
    assert_eq!(
        told,
        "::ffff:192.168.77.1 cannot be reached from fe80::1: their GIDs are of different classes; the \
         peer refuses: RTR"
    );
    let other = EndpointMessage { qp_num: numbers(&[1, 2, 3]), ..good_answer() };
    let filled = filled_refusal(other.clone(), "QP count mismatch".to_owned());
    for answer in [filled, other] {
        let wanted = HandshakeError::QueuePairCount { ours: 2, theirs: 3 };
        assert_eq!(no(answer).to_string(), wanted.to_string());
    }
}

#[test]
fn an_answer_for_others_or_without_a_gid_is_a_named_error() {
    let no = |answer| read_answer(&question(), answer, "").unwrap_err();
    assert!(matches!(no(EndpointMessage::default()), HandshakeError::NotMirrored { .. }));
    let foreign = EndpointMessage { local_nic_path: "x@rxe1".to_owned(), ..good_answer() };
    assert!(matches!(no(foreign), HandshakeError::NotMirrored { .. }));
    let zero = "00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00";
    for text in ["", "nonsense", zero, "0:1", "fe80::1"] {
        let bad = EndpointMessage { local_gid: text.to_owned(), ..good_answer() };
        assert!(matches!(no(bad), HandshakeError::BadGid { .. }), "{text}");
    }
}
