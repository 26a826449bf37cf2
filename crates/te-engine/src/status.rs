//! What is known of a task or a batch.

use std::fmt;

use te_segment::{Opcode, SegmentId};
use te_transport::{RemoteSide, SliceFault};

/// State of a task, with the peer's numbers (te-classic A58). The last five are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum TaskState {
    /// Queued or moving.
    Waiting = 0,
    /// Not used by this engine; kept for the numbering.
    Pending = 1,
    /// The request was not valid.
    Invalid = 2,
    /// Called back by `cancel` or by closing the engine.
    Canceled = 3,
    /// Every byte is where it should be.
    Completed = 4,
    /// Its time ran out.
    Timeout = 5,
    /// It failed; the fault says why.
    Failed = 6,
}

impl TaskState {
    /// Whether nothing changes any more.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Pending)
    }
}

/// Why a task did not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFault {
    /// Position of the request in its batch.
    pub index: usize,
    /// Direction.
    pub op: Opcode,
    /// The peer's name.
    pub peer: Box<str>,
    /// The segment.
    pub target: SegmentId,
    /// How often a piece of it was tried, from 1; 0 when none was.
    pub attempts: u16,
    /// Whether its local memory is in quarantine: a transport still holds it, and it must not be
    /// freed or filled anew before [`crate::TransferEngine::wait_quiescent`] says so.
    pub quarantined: bool,
    /// The last fault of a piece.
    pub fault: SliceFault,
}

impl fmt::Display for TaskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            Opcode::Read => "read",
            Opcode::Write => "write",
        };
        write!(f, "request {} ({op}, segment {}): {}", self.index, self.peer, self.fault)?;
        if self.attempts > 1 {
            write!(f, ", attempt {}", self.attempts)?;
        }
        if self.quarantined { f.write_str(", local memory in quarantine") } else { Ok(()) }
    }
}

impl std::error::Error for TaskFault {}

/// State of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferStatus {
    /// Its state.
    pub state: TaskState,
    /// Bytes known to be in place: grows piece by piece, the whole length once completed (A67).
    pub bytes: u64,
    /// What is known of the peer's memory; meaningful once the state is final.
    pub remote: RemoteSide,
    /// The task ended, but a transport still holds its local memory: unregistering answers Busy,
    /// and the memory must not be freed, until it has come back.
    pub quarantined: bool,
    /// The transport that the last piece of it went to, by name; `None` where none did. A task whose
    /// path failed may have used others before.
    pub transport: Option<&'static str>,
    /// Why it did not complete.
    pub fault: Option<TaskFault>,
}

/// What became of the notification that was to follow a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotifyOutcome {
    /// None was asked for, or the batch did not complete.
    None,
    /// It is being delivered.
    Sending,
    /// The peer took it.
    Delivered,
    /// The peer had no room for it and says so; the text names the peer. What is sent again once
    /// the peer's user has taken some is not received twice.
    Full(Box<str>),
    /// The peer did not take it, as far as is known; the text says why.
    Failed(Box<str>),
}

impl NotifyOutcome {
    /// Why it was not delivered, where that is known to be so.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Full(cause) | Self::Failed(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether the peer had no room for it.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

/// State of a batch. Unlike the peer's (A73, A74), it is final only when every task is, and the
/// notification that belongs to it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchStatus {
    /// `Waiting` until all is final; then `Completed` where every task completed, else `Failed`.
    pub state: TaskState,
    /// Tasks submitted so far.
    pub total: usize,
    /// Tasks that completed.
    pub completed: usize,
    /// Tasks that ended otherwise.
    pub failed: usize,
    /// Of these, tasks whose local memory was put into quarantine.
    pub quarantined: usize,
    /// Bytes in place, of all tasks.
    pub bytes: u64,
    /// What became of the notification.
    pub notify: NotifyOutcome,
    /// The first fault that was met.
    pub fault: Option<TaskFault>,
}

#[cfg(feature = "async")]
impl BatchStatus {
    /// What a forked child is told of a batch that it cannot look at.
    pub(crate) fn unknown() -> Self {
        Self {
            state: TaskState::Failed,
            total: 0,
            completed: 0,
            failed: 0,
            quarantined: 0,
            bytes: 0,
            notify: NotifyOutcome::None,
            fault: None,
        }
    }
}
