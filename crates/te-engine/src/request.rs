//! What a caller asks for.

use std::time::Duration;

use te_metadata::Notify;
use te_segment::{LocalRange, Opcode, SegmentId};
use te_transport::{FaultClass, Phase, SliceFault};

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

/// A request that failed before the engine had it, such as one whose local memory is not there. It
/// becomes a task that has failed from the start, so that the positions of the others in the batch
/// are right and the batch fails.
#[derive(Debug, Clone)]
pub struct RefusedRequest {
    /// Direction.
    pub op: Opcode,
    /// The segment; it must be open all the same.
    pub target: SegmentId,
    /// Why, as the task's fault says it.
    pub fault: SliceFault,
}

impl RefusedRequest {
    /// A request whose local memory cannot be used.
    pub fn local(op: Opcode, target: SegmentId, cause: impl Into<Box<str>>) -> Self {
        Self { op, target, fault: SliceFault::new(FaultClass::Local, Phase::Queue, cause) }
    }
}

/// How requests are to be taken; see [`crate::TransferEngine::submit_each`].
#[derive(Debug, Clone, Default)]
pub struct SubmitTerms {
    /// How long to wait for room when too much is outstanding: zero answers at once, and `None` is
    /// the configured transfer timeout.
    pub patience: Option<Duration>,
    /// What the first request's target gets once every task of the batch completed.
    pub notify: Option<Notify>,
}

/// What may be submitted.
pub(crate) trait Submission {
    /// The request, or why there is none.
    fn request(&self) -> Result<&TransferRequest, &RefusedRequest>;

    /// The segment.
    fn target(&self) -> SegmentId {
        self.request().map_or_else(|refused| refused.target, |request| request.target)
    }
}

impl Submission for TransferRequest {
    fn request(&self) -> Result<&TransferRequest, &RefusedRequest> {
        Ok(self)
    }
}

impl Submission for Result<TransferRequest, RefusedRequest> {
    fn request(&self) -> Result<&TransferRequest, &RefusedRequest> {
        self.as_ref()
    }
}
