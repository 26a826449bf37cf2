//! The served connection as a machine, on a clock of our own.

use std::time::Duration;

use super::*;
use crate::frame::{FrameType, encode_frame};
use crate::peer::deadline::now;

const SECOND: Duration = Duration::from_secs(1);

fn fresh() -> (Instant, Connection) {
    let start = now();
    (start, Connection::new(start, &PeerLimits::default()))
}

fn asked() -> (Instant, Connection) {
    let (start, mut connection) = fresh();
    let question = encode_frame(FrameType::Probe, b"{}");
    assert!(connection.on_bytes(&question).unwrap().is_some());
    (start, connection)
}

fn answered() -> (Instant, Connection) {
    let (start, mut connection) = asked();
    assert_eq!(connection.on_answer(Some(vec![7; 10]), false), None);
    (start, connection)
}

#[test]
fn a_question_is_answered_and_the_connection_lingers_for_the_client() {
    let (start, mut connection) = answered();
    assert_eq!((connection.output().len(), connection.stage()), (10, Stage::Answering));
    assert!(!connection.on_sent(start, 4));
    assert_eq!(connection.output().len(), 6);
    assert!(connection.on_sent(start, 6));
    assert_eq!((connection.stage(), connection.finished()), (Stage::Lingering, None));
    assert_eq!(connection.deadline(), start + SECOND);
    assert_eq!(connection.on_end(), Some(Outcome::Served));
}

/// Peer fault 7: no byte moves the deadline.
#[test]
fn fault07_dripping_bytes_do_not_move_the_deadline() {
    let (start, mut connection) = fresh();
    for byte in [200, 0, 0, 0, 0, 0, 0, 0, 1] {
        connection.on_bytes(&[byte]).unwrap();
    }
    assert_eq!(connection.deadline(), start + 5 * SECOND);
    assert_eq!(connection.on_timeout(start + 5 * SECOND - Duration::from_millis(1)), None);
    assert_eq!(connection.on_timeout(start + 5 * SECOND), Some(Outcome::TimedOut));
}

#[test]
fn a_client_that_never_reads_ends_at_the_deadline() {
    let (start, connection) = answered();
    assert_eq!(connection.on_timeout(start + 5 * SECOND), Some(Outcome::TimedOut));
    let (start, mut connection) = answered();
    assert!(connection.on_sent(start + 4 * SECOND + SECOND / 2, 10));
    assert_eq!(connection.deadline(), start + 5 * SECOND);
    assert_eq!(connection.on_timeout(start + 5 * SECOND), Some(Outcome::Served));
}

#[test]
fn ends_are_told_apart() {
    assert_eq!(fresh().1.on_end(), Some(Outcome::Served));
    let (_, mut connection) = fresh();
    connection.on_bytes(&[1]).unwrap();
    assert_eq!(connection.on_end(), Some(Outcome::Dropped));
    assert_eq!(fresh().1.on_broken(), Outcome::Dropped);
    let (start, mut connection) = answered();
    assert_eq!(connection.on_end(), None);
    assert!(connection.on_sent(start, 10));
    assert_eq!(connection.finished(), Some(Outcome::Served));
}

#[test]
fn a_wrong_question_stays_one_whatever_becomes_of_the_answer() {
    let wrong = || {
        let (start, mut connection) = asked();
        assert_eq!(connection.on_answer(Some(vec![7]), true), None);
        (start, connection)
    };
    assert_eq!(wrong().1.on_broken(), Outcome::Malformed);
    let (start, connection) = wrong();
    assert_eq!(connection.on_timeout(start + 9 * SECOND), Some(Outcome::Malformed));
    let (_, mut connection) = asked();
    assert_eq!(connection.on_answer(None, true), Some(Outcome::Malformed));
}

#[test]
fn bytes_behind_the_question_are_bounded() {
    let (start, mut connection) = answered();
    connection.on_bytes(&vec![0; MAX_EXCESS_BYTES]).unwrap();
    assert_eq!(connection.finished(), None);
    connection.on_bytes(&[0]).unwrap();
    assert_eq!(connection.finished(), Some(Outcome::Dropped));
    connection.on_sent(start, 10);
    assert_eq!(connection.finished(), Some(Outcome::Served));
    assert_eq!(connection.buffered(), 0);
}
