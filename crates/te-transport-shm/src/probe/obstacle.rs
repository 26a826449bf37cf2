//! Why a peer is not reached by copies between processes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::fd::SealError;
use crate::offer::OfferError;

/// Why a peer is not reached by copies between processes. Another transport has to serve it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Its descriptor says nothing of it: another kind of peer, or it is switched off there.
    #[error("the peer does not offer it")]
    NotOffered,
    /// Its descriptor says something that we do not understand.
    #[error("the peer's offer is not understood")]
    Offer(#[from] OfferError),
    /// It is this engine itself, which the transport `local` serves.
    #[error("the peer is this engine itself")]
    ThisEngine,
    /// It runs on another host, or on this one before it was started anew.
    #[error("the peer is on another host")]
    OtherHost,
    /// Its process ids are not ours: it runs in another container.
    #[error("the peer is in another pid namespace")]
    OtherNamespace,
    /// The process that is found is not the one that the descriptor names.
    #[error("the process is not the one of the descriptor: another {what}")]
    OtherProcess {
        /// What differs.
        what: &'static str,
    },
    /// No such process, or nobody listens on its socket in our network namespace.
    #[error("the peer's process cannot be found here")]
    Gone {
        /// What the system said.
        #[source]
        cause: Arc<io::Error>,
    },
    /// Its socket does not answer.
    #[error("the peer did not answer within {waited:?}")]
    Silent {
        /// How long that was.
        waited: Duration,
    },
    /// It closed the connection without an answer, as it does with another user's processes.
    #[error("the peer turned us away")]
    TurnedAway,
    /// It serves as many processes as it may.
    #[error("the peer has no room for one more process")]
    Full,
    /// What it answered is no answer.
    #[error("the peer's answer is not understood")]
    Answer,
    /// The memory that it passed cannot be trusted.
    #[error("the peer's guard table cannot be used")]
    Memory(#[source] Arc<SealError>),
    /// The system, or our settings, do not let us touch its memory, and not all of it can be mapped.
    #[error("copies from and to the peer's process are not permitted, nor can all be mapped")]
    NotPermitted,
    /// What we sent to the socket did not appear in the memory of the process.
    #[error("the process behind the peer's socket is not the one of its process id")]
    Unproven,
    /// It was reached before, and has left.
    #[error("the peer has left: {cause}")]
    Left {
        /// How that was noticed.
        cause: Box<str>,
    },
    /// This transport is not started, or closed.
    #[error("the transport is not running")]
    NotRunning,
}

impl Obstacle {
    pub(super) fn gone(cause: io::Error) -> Self {
        Self::Gone { cause: Arc::new(cause) }
    }

    /// Whether nothing is wrong: the peer is of another kind, elsewhere, or ourselves.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::NotOffered | Self::ThisEngine | Self::OtherHost | Self::OtherNamespace)
    }

    /// Whether it stays so for as long as the peer's process lives.
    pub fn lasts(&self) -> bool {
        !matches!(self, Self::Silent { .. } | Self::Full | Self::Gone { .. } | Self::Left { .. })
    }
}

impl From<SealError> for Obstacle {
    fn from(error: SealError) -> Self {
        Self::Memory(Arc::new(error))
    }
}
