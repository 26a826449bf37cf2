//! How a hello may be answered.

use super::*;
use crate::frame::Status as PlainStatus;

#[track_caller]
fn refused(b: &mut Bench, class: FaultClass, cause: &str) {
    let Some(News::Refused(fault)) = b.machine.take_news() else { panic!("{cause}: not refused") };
    assert_eq!((fault.class, fault.phase), (class, Phase::Handshake), "{cause}");
    assert!(fault.cause.contains(cause), "{} is not {cause}", fault.cause);
    assert!(b.machine.fate().is_some() && b.machine.outgoing().is_none());
}

#[test]
fn each_answer_but_ok_is_a_fault_of_the_handshake() {
    let other = Incarnation::from_u128(9);
    let table = [
        (Answer { code: AnswerCode::OtherIncarnation, target: other, ..granted() }, "another run"),
        (Answer { target: other, ..granted() }, "another run"),
        (Answer { code: AnswerCode::Version, ..granted() }, "does not speak version 3"),
        (Answer { code: AnswerCode::RequiredFeature, ..granted() }, "lacks a feature"),
        (Answer { code: AnswerCode::Busy, ..granted() }, "busy"),
        (Answer { code: AnswerCode::Closing, ..granted() }, "closing"),
        (Answer { code: AnswerCode::Unknown(77), ..granted() }, "code 77"),
    ];
    for (answer, cause) in table {
        let mut b = greeting();
        b.feed(&answer.encode());
        refused(&mut b, FaultClass::Peer, cause);
    }
    let mut b = greeting();
    b.feed(&Answer { credit: 0, ..granted() }.encode());
    refused(&mut b, FaultClass::Protocol, "no request");
}

/// An old peer answers as to any read that it refuses. A connection that is lost says nothing.
#[test]
fn only_an_old_peers_answer_means_that_it_does_not_speak_version_3() {
    let mut b = greeting();
    b.feed(&PlainStatus::REFUSED.encode()[..7]);
    assert!(b.machine.take_news().is_none());
    b.feed(&PlainStatus::REFUSED.encode()[7..]);
    refused(&mut b, FaultClass::Peer, "does not speak version 3");
    let mut b = greeting();
    b.machine.on_end(b.now);
    refused(&mut b, FaultClass::Rail, "lost before the hello was answered");
    let mut b = greeting();
    let reset = io::Error::from_raw_os_error(libc::ECONNRESET);
    b.machine.on_error(b.now, Side::Receive, reset);
    refused(&mut b, FaultClass::Rail, "lost before the hello was answered");
}

#[test]
fn anything_else_is_a_broken_protocol() {
    let mut b = greeting();
    b.feed(b"HTTP/1.1 400 Bad Request\r\n");
    refused(&mut b, FaultClass::Protocol, "no answer");
    let mut b = greeting();
    let mut bytes = granted().encode();
    bytes[20] ^= 1;
    b.feed(&bytes);
    refused(&mut b, FaultClass::Protocol, "sum does not match");
}

#[test]
fn nothing_but_the_hello_goes_out_before_the_answer() {
    let mut b = greeting();
    b.push(Opcode::Write, &region(b"early"));
    assert!(b.sent().is_empty());
    assert_eq!(b.machine.deadline(), None, "the attempt to connect has a bound of its own");
    for byte in granted().encode() {
        b.feed(&[byte]);
    }
    assert!(matches!(b.machine.take_news(), Some(News::Open { .. })));
    assert_eq!(HELLO_BYTES, 128);
}
