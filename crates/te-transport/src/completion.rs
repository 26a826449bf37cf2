//! How a slice ends.

use std::collections::VecDeque;
use std::fmt;

use te_segment::{SegmentId, SliceToken};

use crate::fault::SliceFault;

/// What is known of the peer's memory when a slice or a task has ended.
///
/// It speaks of this slice or task alone. A later one that ends [`Self::Untouched`], or that
/// completes, settles nothing about an earlier write to the same range that is
/// [in doubt](Self::InDoubt): the bytes of that one may still land, also on top of newer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RemoteSide {
    /// Nothing of it reached the peer.
    Untouched,
    /// The peer is done with it: nothing more will change.
    Settled,
    /// The peer may still apply bytes that were sent, or may have applied some.
    InDoubt,
}

impl RemoteSide {
    /// What is known of both together: the less certain one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

impl fmt::Display for RemoteSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untouched => "untouched",
            Self::Settled => "settled",
            Self::InDoubt => "in doubt",
        })
    }
}

/// The end of one slice. When it is given, the transport touches the slice's local memory no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Which slice.
    pub token: SliceToken,
    /// Whether all its bytes are where they should be: remote memory for a write, local memory for
    /// a read.
    pub result: Result<(), SliceFault>,
    /// What is known of the peer's memory.
    pub remote: RemoteSide,
}

/// Where a transport reports. Called from a driver thread, from a caller that drives or from within
/// [`crate::Transport::submit`]; must not block, and may call that again.
pub trait CompletionSink: Send + Sync {
    /// Takes the end of a slice; exactly once for each slice that the transport took.
    fn complete(&self, completion: Completion);

    /// Takes the ends of several slices, in order, and each out of the list before anything comes of
    /// it. Costs less than [`CompletionSink::complete`] for each.
    fn complete_all(&self, completions: &mut VecDeque<Completion>) {
        while let Some(completion) = completions.pop_front() {
            self.complete(completion);
        }
    }

    /// There is room again for slices to this peer, after a `submit` left some behind.
    fn room(&self, peer: SegmentId);
}
