//! How an exchange with a peer fails.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

use crate::{FrameError, HostPort, MessageError};

/// A step of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerPhase {
    /// Looking up the host's addresses.
    Resolve,
    /// Connecting.
    Connect,
    /// Sending the question.
    Send,
    /// Waiting for the answer.
    Receive,
}

impl fmt::Display for PeerPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "name look-up",
            Self::Connect => "connect",
            Self::Send => "send",
            Self::Receive => "receive",
        })
    }
}

/// Why an exchange with a peer failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The host's addresses could not be found.
    #[error("peer {peer}: {} failed", PeerPhase::Resolve)]
    Resolve {
        /// The peer.
        peer: HostPort,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// [`crate::PeerClient::interrupt`] was called: this side is closing. Nothing of this client
    /// will be answered any more.
    #[error("peer {peer}: {phase} was called off, this side is closing")]
    Interrupted {
        /// The peer.
        peer: HostPort,
        /// What was being done.
        phase: PeerPhase,
    },
    /// The connection failed.
    #[error("peer {peer}: {phase} failed at {address}")]
    Io {
        /// The peer.
        peer: HostPort,
        /// The last address that was tried.
        address: SocketAddr,
        /// What was being done.
        phase: PeerPhase,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The time was over.
    #[error("peer {peer}: {phase} timed out after {} ms", after.as_millis())]
    TimedOut {
        /// The peer.
        peer: HostPort,
        /// What was being done.
        phase: PeerPhase,
        /// How long the exchange had, or the connect where it has a bound of its own.
        after: Duration,
    },
    /// The peer ended the connection before it had answered.
    #[error("peer {peer}: {address} closed the connection without a whole answer")]
    Closed {
        /// The peer.
        peer: HostPort,
        /// Its address.
        address: SocketAddr,
    },
    /// The answer is no frame.
    #[error("peer {peer}: the answer is no frame")]
    Frame {
        /// The peer.
        peer: HostPort,
        /// Why.
        #[source]
        source: FrameError,
    },
    /// The answer has another type than the question.
    #[error("peer {peer}: the answer has another type than the question")]
    WrongType {
        /// The peer.
        peer: HostPort,
    },
    /// The answer's text is wrong.
    #[error("peer {peer}: the answer is malformed")]
    Malformed {
        /// The peer.
        peer: HostPort,
        /// What is wrong.
        #[source]
        source: MessageError,
    },
    /// The peer says no.
    #[error("peer {peer} refused: {reason}")]
    Refused {
        /// The peer.
        peer: HostPort,
        /// What it said, if the format lets it say something.
        reason: String,
    },
    /// The peer has no room for a notification until its user takes some; try again later. A
    /// Mooncake peer never says so.
    #[error("peer {peer} is full: {waiting} notifications wait to be taken")]
    Full {
        /// The peer.
        peer: HostPort,
        /// Notifications that wait there.
        waiting: u64,
    },
    /// The question is longer than a frame may be.
    #[error("peer {peer}: the question has {bytes} bytes, at most {limit} are allowed")]
    QuestionTooLong {
        /// The peer.
        peer: HostPort,
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl PeerError {
    /// The peer.
    pub fn peer(&self) -> &HostPort {
        match self {
            Self::Resolve { peer, .. }
            | Self::Interrupted { peer, .. }
            | Self::Io { peer, .. }
            | Self::TimedOut { peer, .. }
            | Self::Closed { peer, .. }
            | Self::Frame { peer, .. }
            | Self::WrongType { peer }
            | Self::Malformed { peer, .. }
            | Self::Refused { peer, .. }
            | Self::Full { peer, .. }
            | Self::QuestionTooLong { peer, .. } => peer,
        }
    }

    /// What was being done, where the connection and not its content failed.
    pub fn phase(&self) -> Option<PeerPhase> {
        match self {
            Self::Resolve { .. } => Some(PeerPhase::Resolve),
            Self::Io { phase, .. }
            | Self::TimedOut { phase, .. }
            | Self::Interrupted { phase, .. } => Some(*phase),
            Self::Closed { .. } => Some(PeerPhase::Receive),
            _ => None,
        }
    }

    /// Whether nothing of the question can have reached the peer.
    pub fn is_unsent(&self) -> bool {
        let before = matches!(self.phase(), Some(PeerPhase::Resolve | PeerPhase::Connect));
        before || matches!(self, Self::QuestionTooLong { .. })
    }

    /// Whether the time was over.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether this side is closing and asks nobody any more.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::Interrupted { .. })
    }

    /// Whether the peer answered and refused, for want of room or otherwise.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Full { .. })
    }

    /// Whether the peer answered that it has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Whether the same question may be answered later. Unless the error is
    /// [unsent](Self::is_unsent) or a [refusal](Self::is_refusal) the peer may have acted on this
    /// one: a notification can then arrive twice.
    pub fn is_retryable(&self) -> bool {
        self.is_full() || (self.phase().is_some() && !self.is_interrupted())
    }

    /// Whether another address of the same peer would change nothing.
    pub(super) fn is_final(&self) -> bool {
        self.is_protocol() || self.is_interrupted()
    }

    /// Whether the peer answered something that no peer should.
    pub fn is_protocol(&self) -> bool {
        matches!(self, Self::Frame { .. } | Self::WrongType { .. } | Self::Malformed { .. })
    }
}
