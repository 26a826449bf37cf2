//! What a server answers with.

use thiserror::Error;

use super::{Asker, EndpointQuestion};
use crate::{ChunkDigest, Notify};

/// The part of an engine that answers peers.
///
/// Called on the server's thread, one question at a time: an implementation that waits makes all
/// peers wait. A panic in it costs the connection that asked and nothing else.
pub trait PeerService: Send + Sync {
    /// The segment's descriptor as JSON text, for whoever asks; `None` when there is none to show,
    /// which peers see as an absent segment.
    fn descriptor(&self, asker: &Asker) -> Option<Vec<u8>>;

    /// A part of the descriptor, by the name that the descriptor gives it; `None` when there is no
    /// such part any more. Only a descriptor in parts has some, see
    /// [`crate::SegmentDescriptor::paginate`].
    fn chunk(&self, digest: ChunkDigest) -> Option<Vec<u8>> {
        let _ = digest;
        None
    }

    /// Takes a message for the engine's user.
    ///
    /// # Errors
    /// The message was not taken; the sender is told so.
    fn notify(&self, notify: Notify) -> Result<(), NotifyRefused>;

    /// Answers an endpoint handshake, now or later: connecting may take seconds, and the thread that
    /// calls this serves all peers. An engine without NICs answers
    /// [`crate::EndpointMessage::default`].
    fn endpoint(&self, question: EndpointQuestion);
}

/// Why a notification was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotifyRefused {
    /// There is no room before the user takes some of those that wait. A sender of our kind is told
    /// so, others that it was not taken.
    #[error("full: {waiting} notifications wait to be taken")]
    Full {
        /// Notifications that wait.
        waiting: u64,
    },
    /// Anything else; the sender is only told that it was not taken.
    #[error("the notification was not taken: {reason}")]
    Other {
        /// Why, for the receiver's own log.
        reason: String,
    },
}
