//! Counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a server did since it started, and how many connections are open now.
///
/// Every accepted connection ends in exactly one of `served`, `malformed`, `refused`, `timed_out`
/// and `dropped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PeerServerStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections whose whole answer was handed to the kernel, or that ended without a question.
    pub served: u64,
    /// Connections whose question was no frame, no JSON or of the wrong shape.
    pub malformed: u64,
    /// Connections closed for a limit on connections or bytes.
    pub refused: u64,
    /// Connections whose time was over before they were answered.
    pub timed_out: u64,
    /// Connections that broke or ended in the middle of a question or an answer, or that were
    /// open when the server closed.
    pub dropped: u64,
    /// Connections open now.
    pub open: u64,
}

/// The counters themselves. All are independent, so relaxed order is enough.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) served: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) open: AtomicU64,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> PeerServerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PeerServerStats {
            accepted: read(&self.accepted),
            served: read(&self.served),
            malformed: read(&self.malformed),
            refused: read(&self.refused),
            timed_out: read(&self.timed_out),
            dropped: read(&self.dropped),
            open: read(&self.open),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
