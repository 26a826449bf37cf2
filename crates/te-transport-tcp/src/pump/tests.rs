//! Turns, on a real pair of sockets.
#![expect(clippy::disallowed_methods, reason = "tests are drivers")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::*;

const ANSWER: &[u8] = b"ok";

/// Wants frames, answers after `due` of them, and wants more.
struct Taker {
    came: usize,
    due: usize,
    answered: usize,
}

impl Machine for Taker {
    fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        let is_due = self.came >= self.due && self.answered < ANSWER.len();
        is_due.then(|| {
            let mut out = Outgoing::new();
            out.bytes(&ANSWER[self.answered..]);
            out
        })
    }

    fn incoming(&mut self) -> Option<Incoming<'_>> {
        Some(Incoming::Frame(4096))
    }

    fn on_sent(&mut self, _now: Instant, n: usize) {
        self.answered += n;
    }

    fn on_frame(&mut self, _now: Instant, bytes: &[u8]) {
        self.came += bytes.len();
    }

    fn on_received(&mut self, _now: Instant, _n: usize) {}

    fn on_end(&mut self, _now: Instant) {}

    fn on_error(&mut self, _now: Instant, _side: Side, error: io::Error) {
        panic!("{error}");
    }

    fn is_over(&self) -> bool {
        false
    }
}

/// The answer to what used up the turn goes out in that turn.
#[test]
fn an_answer_does_not_wait_for_the_next_turn() {
    const LEN: usize = 4096;
    let (mut peer, ours) = UnixStream::pair().unwrap();
    peer.write_all(&[7; 2 * LEN]).unwrap();
    let mut taker = Taker { came: 0, due: LEN, answered: 0 };
    let (now, mut scratch) = (Instant::now(), scratch());
    let mut ready = Ready { readable: true, writable: true };
    let stopped = turn(&mut taker, ours.as_fd(), &mut ready, (now, &mut scratch), LEN);
    assert_eq!((stopped, taker.came, taker.answered), (Stopped::TurnOver, LEN, ANSWER.len()));
    let mut answer = [0; ANSWER.len()];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(answer, ANSWER);
}
