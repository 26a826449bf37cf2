//! One task: a request, cut into pieces, each of which ends once.
//!
//! ```text
//!   Waiting ──cut──▶ pieces in flight ──all done──────────────────▶ Completed
//!      │                    │ fault for good, cancel, deadline
//!      │                    ▼
//!      └──────────────▶ ending ──last piece came back──▶ Failed | Canceled | Timeout
//! ```
//!
//! I1  A task is final only when no piece of it is in flight, so that the local buffer is free, or
//!     when it says that the buffer is in quarantine.
//! I2  `Completed` means that the done bytes are exactly the request's bytes.
//! I3  A final task holds neither its region nor its guard.
//! I4  A task that was refused before it began is final from the start, and touched nothing.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use te_segment::{
    BufferHold, LocalRange, Opcode, RemoteRange, RemoteSegment, SegmentId, SlicePolicy,
};
use te_transport::{Completion, RemoteSide, SliceFault};

use crate::classic::Via;
use crate::request::RefusedRequest;
use crate::status::{TaskFault, TaskState, TransferStatus};

/// One piece of a task: where it begins, how long it is, how often it was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) attempt: u16,
    /// How often it went over to another transport.
    pub(crate) detours: u8,
    /// The transport that may still apply it, so that no other may be given it.
    pub(crate) bound: Option<Via>,
}

impl Piece {
    /// A piece that was never tried.
    pub(crate) fn new(offset: u64, len: u64) -> Self {
        Self { offset, len, attempt: 0, detours: 0, bound: None }
    }

    /// The first `max` bytes of it, and the rest where there is one.
    pub(crate) fn split(self, max: u64) -> (Self, Option<Self>) {
        let len = self.len.min(max.max(1));
        let rest = Self { offset: self.offset + len, len: self.len - len, ..self };
        (Self { len, ..self }, Some(rest).filter(|rest| rest.len > 0))
    }
}

/// What lives only while a task is open. There may be a million of them.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) local: LocalRange,
    pub(crate) remote: RemoteRange,
    /// The peer as it was known when the request came: the process it is meant for.
    pub(crate) peer: Arc<RemoteSegment>,
    /// When the task is to end; once it is ending, when its memory goes to quarantine.
    pub(crate) deadline: Option<Instant>,
    /// Keeps the local buffer registered; absent for unregistered memory.
    _hold: Option<BufferHold>,
    /// Bytes that were cut off.
    cut: u64,
    /// How long pieces are; 0 before the first.
    piece: u64,
    ending: Option<Box<Ending>>,
    in_flight: u32,
    pub(crate) op: Opcode,
    pub(crate) checked: bool,
}

#[derive(Debug)]
struct Ending {
    state: TaskState,
    fault: SliceFault,
}

/// A request and what became of it.
#[derive(Debug)]
pub(crate) struct Task {
    work: Option<Work>,
    state: TaskState,
    bytes: u64,
    remote: RemoteSide,
    attempts: u16,
    fault: Option<Box<TaskFault>>,
    quarantined: bool,
    /// The transport that the last piece went to.
    via: Option<Via>,
}

/// What a transport needs of a piece.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) op: Opcode,
    pub(crate) local: LocalRange,
    pub(crate) remote: RemoteRange,
    pub(crate) checked: bool,
}

impl Work {
    pub(crate) fn new(
        request: &crate::TransferRequest,
        peer: &Arc<RemoteSegment>,
        remote: RemoteRange,
        hold: Option<BufferHold>,
        deadline: Option<Instant>,
    ) -> Self {
        Self {
            local: request.local.clone(),
            remote,
            peer: Arc::clone(peer),
            deadline,
            _hold: hold,
            cut: 0,
            piece: 0,
            ending: None,
            in_flight: 0,
            op: request.op,
            checked: request.checked,
        }
    }

    /// Whether some of these bytes are its local memory.
    pub(crate) fn uses(&self, bytes: &Range<u64>) -> bool {
        let (start, len) = (self.local.address(), self.local.len());
        start < bytes.end && bytes.start < start.saturating_add(len)
    }

    /// The segment that the request names.
    pub(crate) fn target(&self) -> SegmentId {
        self.peer.id()
    }
}

impl Task {
    /// An open task; a request without bytes is complete at once (A65).
    pub(crate) fn new(work: Work) -> Self {
        let empty = work.local.is_empty();
        Self {
            work: (!empty).then_some(work),
            state: if empty { TaskState::Completed } else { TaskState::Waiting },
            bytes: 0,
            remote: RemoteSide::Untouched,
            attempts: 0,
            fault: None,
            quarantined: false,
            via: None,
        }
    }

    /// A task that failed before it began.
    pub(crate) fn refused(refused: &RefusedRequest, peer: &RemoteSegment) -> Self {
        let fault = TaskFault {
            index: 0,
            op: refused.op,
            peer: peer.name().as_str().into(),
            target: refused.target,
            attempts: 0,
            quarantined: false,
            fault: refused.fault.clone(),
        };
        Self {
            work: None,
            state: TaskState::Failed,
            bytes: 0,
            remote: RemoteSide::Untouched,
            attempts: 0,
            fault: Some(Box::new(fault)),
            quarantined: false,
            via: None,
        }
    }

    /// The transport that its last piece went to.
    pub(crate) fn via(&self) -> Option<Via> {
        self.via
    }

    pub(crate) fn state(&self) -> TaskState {
        self.state
    }

    /// Bytes that an open task still accounts for; 0 once it is final.
    pub(crate) fn len(&self) -> u64 {
        self.work.as_ref().map_or(0, |work| work.local.len())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn fault(&self) -> Option<&TaskFault> {
        self.fault.as_deref()
    }

    pub(crate) fn status(&self) -> TransferStatus {
        TransferStatus {
            state: self.state,
            bytes: self.bytes,
            remote: self.remote,
            quarantined: self.quarantined,
            transport: None,
            fault: self.fault.as_deref().cloned(),
        }
    }

    /// The work of a task that may still be cut; `None` once it is ending or final.
    pub(crate) fn open_work(&self) -> Option<&Work> {
        self.work.as_ref().filter(|work| work.ending.is_none())
    }

    /// When something is to be done about the task, if it is not final before.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.work.as_ref()?.deadline
    }

    /// Whether it is open and some of these bytes are its local memory.
    pub(crate) fn uses(&self, bytes: &Range<u64>) -> bool {
        self.work.as_ref().is_some_and(|work| work.uses(bytes))
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.quarantined
    }

    /// Whether it was told to end and has not yet: its transport holds a slice of it.
    pub(crate) fn is_ending(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.ending.is_some())
    }

    /// Brings the deadline forward, never back.
    pub(crate) fn limit(&mut self, deadline: Instant) {
        if let Some(work) = self.work.as_mut().filter(|work| work.ending.is_none()) {
            work.deadline = Some(work.deadline.map_or(deadline, |at| at.min(deadline)));
        }
    }

    /// The request is meant for this process: it named a range that an earlier one did not offer.
    pub(crate) fn retarget(&mut self, peer: &Arc<RemoteSegment>) {
        if let Some(work) = self.work.as_mut() {
            work.peer = Arc::clone(peer);
        }
    }

    /// Takes the next piece that was never cut. Where another transport began, its pieces may be
    /// longer than this one takes.
    pub(crate) fn cut(&mut self, policy: &SlicePolicy) -> Option<Piece> {
        let work = self.work.as_mut().filter(|work| work.ending.is_none())?;
        let left = work.local.len() - work.cut;
        if left == 0 {
            return None;
        }
        if work.piece == 0 {
            work.piece = policy.piece_len(work.local.len());
        }
        work.piece = work.piece.min(policy.max_piece.max(1));
        let piece = Piece::new(work.cut, work.piece.min(left));
        work.cut += piece.len;
        Some(piece)
    }

    /// Whether every piece was cut once, or nothing more shall be.
    pub(crate) fn is_cut(&self) -> bool {
        match self.open_work() {
            Some(work) => work.cut == work.local.len(),
            None => true,
        }
    }

    /// A piece goes to a transport. Gives its ranges, or `None` where the task is ending.
    pub(crate) fn launch(&mut self, piece: Piece, via: Via) -> Option<Launch> {
        let work = self.work.as_mut().filter(|work| work.ending.is_none())?;
        let local = work.local.part(piece.offset, piece.len).ok()?;
        let remote = work.remote.part(piece.offset, piece.len).ok()?;
        work.in_flight += 1;
        let tries = piece.attempt.saturating_add(u16::from(piece.detours)).saturating_add(1);
        self.attempts = self.attempts.max(tries);
        self.via = Some(via);
        Some(Launch { op: work.op, local, remote, checked: work.checked })
    }

    /// A piece came back. `None` where its fault is for the caller to judge: the piece then counts
    /// as queued again until it is launched, or the task is ended.
    pub(crate) fn land(&mut self, piece: Piece, completion: &Completion) -> Landing {
        let Some(work) = self.work.as_mut() else { return Landing::Stale };
        work.in_flight -= 1;
        let merged = self.remote.and(completion.remote);
        self.remote = merged;
        match &completion.result {
            Ok(()) => {
                self.bytes += piece.len;
                if self.bytes == work.local.len() {
                    self.finish(TaskState::Completed);
                    return Landing::Final;
                }
            }
            Err(fault) if work.ending.is_none() => return Landing::Fault(fault.clone()),
            Err(_) => {}
        }
        self.settle()
    }

    /// Nothing more of the task shall begin; it becomes final when the last piece is back. After
    /// `patience` its memory may be put into quarantine instead.
    pub(crate) fn end(
        &mut self,
        state: TaskState,
        fault: SliceFault,
        patience: Instant,
    ) -> Landing {
        let Some(work) = self.work.as_mut() else { return Landing::Stale };
        if work.ending.is_none() {
            work.ending = Some(Box::new(Ending { state, fault }));
            work.deadline = Some(patience);
        }
        self.settle()
    }

    /// Makes an ending task final although a transport holds pieces of it. Gives what must live
    /// until they are back.
    pub(crate) fn give_up_waiting(&mut self) -> Option<Work> {
        let mut work = self.work.take_if(|work| work.ending.is_some())?;
        let ending = work.ending.take()?;
        self.remote = self.remote.and(RemoteSide::InDoubt);
        self.quarantined = true;
        self.fault = Some(self.fault_of(&work, ending.fault));
        if let Some(fault) = self.fault.as_mut() {
            fault.quarantined = true;
        }
        self.state = ending.state;
        Some(work)
    }

    fn settle(&mut self) -> Landing {
        let Some(work) = self.work.as_mut() else { return Landing::Stale };
        if work.in_flight > 0 || work.ending.is_none() {
            return Landing::Open;
        }
        let Some(ending) = work.ending.take() else { return Landing::Open };
        let Ending { state, fault } = *ending;
        if let Some(work) = self.work.take() {
            self.fault = Some(self.fault_of(&work, fault));
        }
        self.state = state;
        Landing::Final
    }

    fn fault_of(&self, work: &Work, fault: SliceFault) -> Box<TaskFault> {
        let (op, target, peer) = (work.op, work.target(), work.peer.name().as_str().into());
        Box::new(TaskFault {
            index: 0,
            op,
            peer,
            target,
            attempts: self.attempts,
            quarantined: false,
            fault,
        })
    }

    fn finish(&mut self, state: TaskState) {
        self.state = state;
        self.work = None;
    }

    /// Completes the fault with what only the batch knows.
    pub(crate) fn number_fault(&mut self, index: usize) {
        if let Some(fault) = self.fault.as_mut() {
            fault.index = index;
        }
    }
}

/// What an event made of a task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// Still open.
    Open,
    /// Final since this event.
    Final,
    /// A piece failed while the task was not ending: retry it or end the task.
    Fault(SliceFault),
    /// The task was final before.
    Stale,
}
