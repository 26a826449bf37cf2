//! One served connection, without its socket.
//!
//! ```text
//!            frame whole             answer known             answer sent, half-closed
//!   Reading ─────────────▶ Waiting ───────────────▶ Answering ─────────────▶ Lingering
//!      │ no frame, end,        │ broken,                │ broken,               │ client's end,
//!      ▼ deadline              ▼ deadline               ▼ deadline              ▼ deadline
//!   every state ends in exactly one Outcome
//! ```
//!
//! I1  The deadline is set when the connection is accepted; no byte moves it. Lingering may only
//!     bring it nearer.
//!     Most answers are known at once; only an endpoint handshake may wait.
//! I2  Bytes behind the frame are dropped, and only [`MAX_EXCESS_BYTES`] of them are taken.

use std::time::{Duration, Instant};

use super::PeerLimits;
use crate::FrameError;
use crate::frame::{Frame, FrameKind, FrameReader};
use crate::sabotage;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Served,
    Malformed,
    Refused,
    TimedOut,
    Dropped,
}

/// Where a connection is, for the choice of one to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Lingering,
    Reading,
    Waiting,
    Answering,
}

#[derive(Debug)]
pub(super) struct Connection {
    state: State,
    accepted: Instant,
    deadline: Instant,
    /// The question was wrong, whatever becomes of the answer.
    malformed: bool,
    /// The client will send no more.
    ended: bool,
    excess: usize,
}

#[derive(Debug)]
enum State {
    Reading(FrameReader),
    /// For the answer to a question of this kind, which has this number.
    Waiting {
        kind: FrameKind,
        number: u64,
    },
    Answering {
        bytes: Vec<u8>,
        n_sent: usize,
    },
    Lingering,
}

impl Connection {
    pub(super) fn new(now: Instant, limits: &PeerLimits) -> Self {
        Self {
            state: State::Reading(FrameReader::new(limits.max_frame)),
            accepted: now,
            deadline: now + limits.serve_timeout,
            malformed: false,
            ended: false,
            excess: 0,
        }
    }

    /// Takes bytes from the client; gives the question once it is whole.
    pub(super) fn on_bytes(&mut self, bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
        match &mut self.state {
            State::Reading(reader) => reader.push(bytes),
            State::Waiting { .. } | State::Answering { .. } | State::Lingering => {
                self.excess += bytes.len();
                Ok(None)
            }
        }
    }

    /// The answer will come later.
    pub(super) fn on_later(&mut self, kind: FrameKind, number: u64) {
        self.state = State::Waiting { kind, number };
    }

    /// What kind of question waits for the answer of this number.
    pub(super) fn awaits(&self, wanted: u64) -> Option<FrameKind> {
        match self.state {
            State::Waiting { kind, number } if number == wanted => Some(kind),
            _ => None,
        }
    }

    /// The answer to the question, or none, which ends the connection.
    pub(super) fn on_answer(
        &mut self,
        answer: Option<Vec<u8>>,
        malformed: bool,
    ) -> Option<Outcome> {
        self.malformed |= malformed;
        match answer {
            Some(bytes) => {
                self.state = State::Answering { bytes, n_sent: 0 };
                None
            }
            None => Some(self.ending(Outcome::Dropped)),
        }
    }

    /// Bytes to send.
    pub(super) fn output(&self) -> &[u8] {
        match &self.state {
            State::Answering { bytes, n_sent } => &bytes[*n_sent..],
            State::Reading(_) | State::Waiting { .. } | State::Lingering => &[],
        }
    }

    /// So many bytes of the output were sent. True when that was the last and the sending side is
    /// to be closed.
    pub(super) fn on_sent(&mut self, now: Instant, n_bytes: usize) -> bool {
        let State::Answering { bytes, n_sent } = &mut self.state else { return false };
        *n_sent += n_bytes;
        if *n_sent < bytes.len() {
            return false;
        }
        self.state = State::Lingering;
        self.deadline = self.deadline.min(now + LINGER);
        true
    }

    /// The client sends no more.
    pub(super) fn on_end(&mut self) -> Option<Outcome> {
        self.ended = true;
        match &self.state {
            State::Reading(reader) if reader.is_fresh() => Some(Outcome::Served),
            State::Reading(_) => Some(self.ending(Outcome::Dropped)),
            State::Waiting { .. } | State::Answering { .. } => None,
            State::Lingering => Some(self.ending(Outcome::Served)),
        }
    }

    /// The connection broke.
    pub(super) fn on_broken(&self) -> Outcome {
        match &self.state {
            State::Lingering => self.ending(Outcome::Served),
            State::Reading(_) | State::Waiting { .. } | State::Answering { .. } => {
                self.ending(Outcome::Dropped)
            }
        }
    }

    /// Whether the time is over, and as what the connection then ends.
    pub(super) fn on_timeout(&self, now: Instant) -> Option<Outcome> {
        if now < self.deadline || sabotage::is_off("serve-deadline") {
            return None;
        }
        Some(match &self.state {
            State::Lingering => self.ending(Outcome::Served),
            State::Reading(_) | State::Waiting { .. } | State::Answering { .. } => {
                self.ending(Outcome::TimedOut)
            }
        })
    }

    /// Whether nothing is left to do: answered, and the client's end or too much of it seen.
    pub(super) fn finished(&self) -> Option<Outcome> {
        match &self.state {
            State::Lingering if self.ended || self.excess > MAX_EXCESS_BYTES => {
                Some(self.ending(Outcome::Served))
            }
            State::Waiting { .. } | State::Answering { .. } if self.excess > MAX_EXCESS_BYTES => {
                Some(self.ending(Outcome::Dropped))
            }
            _ => None,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(super) fn accepted(&self) -> Instant {
        self.accepted
    }

    pub(super) fn stage(&self) -> Stage {
        match self.state {
            State::Lingering => Stage::Lingering,
            State::Reading(_) => Stage::Reading,
            State::Waiting { .. } => Stage::Waiting,
            State::Answering { .. } => Stage::Answering,
        }
    }

    /// Bytes of memory held for the question or the answer.
    pub(super) fn buffered(&self) -> usize {
        match &self.state {
            State::Reading(reader) => reader.buffered(),
            State::Answering { bytes, .. } => bytes.capacity(),
            State::Waiting { .. } | State::Lingering => 0,
        }
    }

    fn ending(&self, otherwise: Outcome) -> Outcome {
        if self.malformed { Outcome::Malformed } else { otherwise }
    }
}

/// How long an answered connection waits for the client to close, so that the answer is not lost
/// to a reset.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes behind a question that are taken and dropped; more of them close the connection.
const MAX_EXCESS_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
