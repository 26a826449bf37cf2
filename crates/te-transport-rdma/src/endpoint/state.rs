//! The life of one endpoint.
//!
//! ```text
//!            offer            answer, or the peer's own question       done, peer acks
//!   Idle ───────────▶ Offered ──────────────────────────────▶ Moving ─────────────────▶ Waiting
//!     │     the peer's question                                 ▲ │ done, no acks          │ ack
//!     └─────────────────────────────────────────────────────────┘ └────────▶ Ready ◀────────┘
//!   every state ── replaced, failed, too long half open ──▶ Gone
//! ```
//!
//! While it is Moving, one control thread moves the queue pairs; others wait for the outcome.
//!
//! I1  Only Ready may send. Waiting is connected, not sendable (J86).
//! I2  An ack with other numbers than the connection has changes nothing (J86).
//! I3  The numbers of a connection never change: other numbers of the peer make another endpoint.
//! I4  Waiting ends by itself.
//! I5  Equal numbers mean the same connection only for as long as a handshake may take, and only of the
//!     same process where the peer says which it is. A NIC of a host that started again counts its
//!     queue pairs from the beginning: its packets are new ones, which the old queue pairs would
//!     take for repetitions.

use std::time::Instant;

use te_metadata::{Incarnation, QpNumber, sabotage};
use thiserror::Error;

/// See the module.
#[derive(Debug)]
pub(crate) struct Endpoint {
    state: State,
    /// How many queue pairs it has.
    n_queue_pairs: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Idle,
    Offered,
    Moving {
        peer: Vec<QpNumber>,
        process: Option<Incarnation>,
    },
    Waiting {
        peer: Vec<QpNumber>,
        process: Option<Incarnation>,
        until: Instant,
    },
    /// Until then it may be asked for once more.
    Ready {
        peer: Vec<QpNumber>,
        process: Option<Incarnation>,
        until: Instant,
    },
    Gone,
}

/// What to do with a peer's question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnRequest {
    /// Move the queue pairs; the state is Moving.
    Move,
    /// It is the same connection: answer the same.
    Same,
    /// The peer has other queue pairs: this endpoint has to go.
    Replace,
    /// Queue pairs are being moved: ask again when that is over.
    Busy,
}

/// What to do with the answer to our question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnAnswer {
    /// Move the queue pairs; the state is Moving.
    Move,
    /// The peer's own question connected the same queue pairs already.
    Keep,
    /// The connection is another one by now.
    Stale,
    /// Queue pairs are being moved: ask again when that is over.
    Busy,
}

/// Why an ack is refused. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum AckRefused {
    #[error("the ready-ack is for an endpoint that is not connected")]
    NotConnected,
    #[error("the ready-ack is for other queue pairs than those connected")]
    OtherQueuePairs,
}

impl Endpoint {
    /// One whose queue pairs are made and not connected.
    pub(crate) fn new(n_queue_pairs: usize) -> Self {
        Self { state: State::Idle, n_queue_pairs }
    }

    /// We ask the peer.
    pub(crate) fn offer(&mut self) {
        if self.state == State::Idle {
            self.state = State::Offered;
        }
    }

    /// The peer asks us, `process` being its process where it says so.
    pub(crate) fn on_request(
        &mut self,
        now: Instant,
        theirs: &[QpNumber],
        process: Option<Incarnation>,
    ) -> OnRequest {
        match &self.state {
            // Both asked at once: each connects what the other offered, and both mean the same.
            State::Idle | State::Offered if theirs.len() == self.n_queue_pairs => {
                self.state = State::Moving { peer: theirs.to_vec(), process };
                OnRequest::Move
            }
            State::Moving { .. } => OnRequest::Busy,
            State::Waiting { peer, process: known, until }
            | State::Ready { peer, process: known, until }
                if peer == theirs && now < *until && !differ(*known, process) =>
            {
                OnRequest::Same
            }
            _ => OnRequest::Replace,
        }
    }

    /// The peer answered our question.
    pub(crate) fn on_answer(
        &mut self,
        theirs: &[QpNumber],
        process: Option<Incarnation>,
    ) -> OnAnswer {
        match &self.state {
            State::Offered => {
                self.state = State::Moving { peer: theirs.to_vec(), process };
                OnAnswer::Move
            }
            State::Moving { .. } => OnAnswer::Busy,
            State::Waiting { peer, process: known, .. }
            | State::Ready { peer, process: known, .. }
                if peer == theirs && !differ(*known, process) =>
            {
                OnAnswer::Keep
            }
            _ => OnAnswer::Stale,
        }
    }

    /// The queue pairs are moved. `until` is the end of the handshake, at which the ack is there
    /// where one has to come.
    pub(crate) fn moved(&mut self, until: Instant, acks: bool) {
        let State::Moving { peer, process } = &mut self.state else { return };
        let (peer, process) = (std::mem::take(peer), *process);
        self.state = match acks {
            true => State::Waiting { peer, process, until },
            false => State::Ready { peer, process, until },
        };
    }

    /// The ack came, or ours was answered. Whether the endpoint is ready by this.
    pub(crate) fn acked(&mut self, theirs: &[QpNumber]) -> Result<bool, AckRefused> {
        match &mut self.state {
            State::Waiting { peer, process, until }
                if peer == theirs || sabotage::is_off("rdma-ack-numbers") =>
            {
                let (peer, process, until) = (std::mem::take(peer), *process, *until);
                self.state = State::Ready { peer, process, until };
                Ok(true)
            }
            State::Ready { peer, .. } if peer == theirs => Ok(false),
            State::Waiting { .. } | State::Ready { .. } => Err(AckRefused::OtherQueuePairs),
            _ => Err(AckRefused::NotConnected),
        }
    }

    /// Which process the peer is, where it said so and its queue pairs are known.
    pub(crate) fn process(&self) -> Option<Incarnation> {
        match &self.state {
            State::Moving { process, .. }
            | State::Waiting { process, .. }
            | State::Ready { process, .. } => *process,
            _ => None,
        }
    }

    /// It has to go.
    pub(crate) fn leave(&mut self) {
        self.state = State::Gone;
    }

    /// Whether it was half open for too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.half_open_until().is_some_and(|until| until <= now)
            && !sabotage::is_off("rdma-half-open")
    }

    /// Until when the ack has to come.
    pub(crate) fn half_open_until(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Whether the queue pairs are connected; they may not be used to send yet.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state, State::Waiting { .. } | State::Ready { .. })
    }

    pub(crate) fn is_sendable(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.state, State::Moving { .. })
    }

    /// The peer's queue pairs, once they are known.
    pub(crate) fn peer(&self) -> &[QpNumber] {
        match &self.state {
            State::Moving { peer, .. }
            | State::Waiting { peer, .. }
            | State::Ready { peer, .. } => peer,
            State::Idle | State::Offered | State::Gone => &[],
        }
    }
}

/// Whether both are known, and are two.
fn differ(known: Option<Incarnation>, said: Option<Incarnation>) -> bool {
    known.zip(said).is_some_and(|(known, said)| known != said)
}

#[cfg(test)]
mod tests;
