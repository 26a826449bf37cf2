//! What a caller asks for.

use std::time::Duration;

use te_segment::{LocalRange, Opcode, SegmentId};

/// One read or write: a local range, and as many bytes at an address of a segment (te-classic A56).
#[derive(Debug, Clone)]
pub struct TransferRequest {
    /// Direction.
    pub op: Opcode,
    /// Bytes of this process; a part of a [`te_segment::Region`].
    pub local: LocalRange,
    /// The segment, as [`crate::TransferEngine::open_segment`] gave it.
    pub target: SegmentId,
    /// Where in the segment: the peer's virtual address for memory segments.
    pub offset: u64,
    /// Time from submission to the end; the engine's default when `None`. The task then ends as
    /// `Timeout`.
    pub timeout: Option<Duration>,
    /// Sum the bytes at the source and compare at the destination before the task counts as
    /// completed. Costs a pass over the bytes on both sides; towards Mooncake, a second transfer.
    pub checked: bool,
}

impl TransferRequest {
    /// A request without limits and checks of its own.
    pub fn new(op: Opcode, local: LocalRange, target: SegmentId, offset: u64) -> Self {
        Self { op, local, target, offset, timeout: None, checked: false }
    }

    /// Copies from the peer into `local`.
    pub fn read(local: LocalRange, target: SegmentId, offset: u64) -> Self {
        Self::new(Opcode::Read, local, target, offset)
    }

    /// Copies `local` to the peer.
    pub fn write(local: LocalRange, target: SegmentId, offset: u64) -> Self {
        Self::new(Opcode::Write, local, target, offset)
    }

    /// Asks for the end-to-end check.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.checked = true;
        self
    }

    /// Gives this request a time limit of its own.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
