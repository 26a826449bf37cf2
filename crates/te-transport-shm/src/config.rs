//! Settings of both transports.

use std::time::Duration;

use crate::lane::Load;

/// Settings of [`crate::ShmTransport`] and [`crate::LocalTransport`]. The defaults suit any host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShmConfig {
    /// Slices that may wait for one peer, at least 1. More stay with the engine.
    pub max_queued_per_peer: usize,
    /// Bytes that may wait for one peer: once there are so many, no further slice is taken, so that
    /// callers with little are not behind all that another has.
    pub max_queued_bytes_per_peer: u64,
    /// How long the first use of a peer waits for its answer on its socket. A peer that does not
    /// answer is served by another transport.
    pub probe_timeout: Duration,
    /// After a probe that failed for a reason that may pass, such as silence, the next one is made
    /// no sooner than this.
    pub probe_again: Duration,
    /// Processes that may use our memory at the same time; more are turned away.
    pub max_peers: usize,
    /// How long a process that connected to our socket may take to say what it wants.
    pub greeting_timeout: Duration,
    /// Whether bytes may be copied by the kernel, from process to process. Without it, or where the
    /// system does not permit it, only peers are reached whose buffers can all be mapped.
    pub kernel: bool,
    /// Whether memory of peers is mapped where it can be, to copy straight into it.
    pub mapped: bool,
    /// Whether a second thread helps with large pieces while a core is free.
    pub parallel: bool,
}

impl ShmConfig {
    /// What may wait for one peer.
    pub(crate) fn bound(&self) -> Load {
        Load { slices: self.max_queued_per_peer, bytes: self.max_queued_bytes_per_peer }
    }
}

impl Default for ShmConfig {
    fn default() -> Self {
        Self {
            max_queued_per_peer: 1024,
            max_queued_bytes_per_peer: 8 << 20,
            probe_timeout: Duration::from_secs(2),
            probe_again: Duration::from_secs(1),
            max_peers: 1024,
            greeting_timeout: Duration::from_secs(2),
            kernel: true,
            mapped: true,
            parallel: true,
        }
    }
}
