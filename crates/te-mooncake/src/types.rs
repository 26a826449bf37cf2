//! Numbers and records with the peer's values and layouts (te-classic A58, A100, A141).
#![allow(unsafe_code, reason = "addresses are sent between threads; docs/memory-safety.md")]

use std::ffi::c_void;

use te_compat::{Request, TaskState};

/// The location of memory of which nothing is known.
pub const WILDCARD_LOCATION: &str = "*";
/// The segment of this engine itself.
pub const LOCAL_SEGMENT: SegmentId = te_compat::LOCAL_SEGMENT;
/// Never the number of a batch.
pub const INVALID_BATCH: u64 = te_compat::INVALID_BATCH;

/// An open segment.
pub type SegmentId = i32;

/// A batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct BatchId(pub u64);

impl BatchId {
    /// Whether it is [`INVALID_BATCH`].
    pub fn is_invalid(self) -> bool {
        self.0 == INVALID_BATCH
    }
}

/// The direction of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Opcode {
    /// From the peer.
    Read = te_compat::OPCODE_READ,
    /// To the peer.
    Write = te_compat::OPCODE_WRITE,
}

impl From<Opcode> for te_compat::Opcode {
    fn from(opcode: Opcode) -> Self {
        match opcode {
            Opcode::Read => Self::Read,
            Opcode::Write => Self::Write,
        }
    }
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum TransferStatusCode {
    /// Queued or moving.
    Waiting = 0,
    /// Not used.
    Pending = 1,
    /// The request was not valid.
    Invalid = 2,
    /// Called back.
    Canceled = 3,
    /// Every byte is where it should be.
    Completed = 4,
    /// Its time ran out.
    Timeout = 5,
    /// It failed.
    Failed = 6,
}

impl TransferStatusCode {
    /// Reads a number; one that is none is [`Self::Invalid`].
    pub fn from_raw(number: i32) -> Self {
        match number {
            0 => Self::Waiting,
            1 => Self::Pending,
            3 => Self::Canceled,
            4 => Self::Completed,
            5 => Self::Timeout,
            6 => Self::Failed,
            _ => Self::Invalid,
        }
    }

    /// Whether nothing changes any more.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Waiting | Self::Pending)
    }

    /// Whether every byte is where it should be.
    pub fn is_completed(self) -> bool {
        self == Self::Completed
    }
}

impl From<TaskState> for TransferStatusCode {
    fn from(state: TaskState) -> Self {
        Self::from_raw(state as i32)
    }
}

/// One read or write.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TransferRequest {
    /// Direction.
    pub opcode: Opcode,
    /// The local bytes, registered or not.
    pub source: *mut c_void,
    /// The segment, as `open_segment` gave it.
    pub target_id: SegmentId,
    /// Where in the segment: the peer's address.
    pub target_offset: u64,
    /// Bytes.
    pub length: u64,
}

impl TransferRequest {
    /// Copies from the peer.
    pub fn read(local: *mut c_void, target_id: SegmentId, target_offset: u64, length: u64) -> Self {
        Self { opcode: Opcode::Read, source: local, target_id, target_offset, length }
    }

    /// Copies to the peer.
    pub fn write(
        local: *mut c_void,
        target_id: SegmentId,
        target_offset: u64,
        length: u64,
    ) -> Self {
        Self { opcode: Opcode::Write, source: local, target_id, target_offset, length }
    }

    pub(crate) fn plain(&self) -> Request {
        Request {
            opcode: self.opcode as i32,
            source: address(self.source),
            target: self.target_id,
            offset: self.target_offset,
            len: self.length,
        }
    }
}

// SAFETY: a request names memory by address; whoever submits it makes the promise about the memory,
// and from which thread makes no difference.
unsafe impl Send for TransferRequest {}
// SAFETY: as above; nothing of a request changes behind a shared reference.
unsafe impl Sync for TransferRequest {}

/// Memory to be registered.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BufferEntry {
    /// First byte.
    pub addr: *mut c_void,
    /// Bytes.
    pub length: usize,
}

impl BufferEntry {
    /// These bytes.
    pub fn new(addr: *mut c_void, length: usize) -> Self {
        Self { addr, length }
    }
}

// SAFETY: it names memory by address; whoever registers it makes the promise about the memory.
unsafe impl Send for BufferEntry {}
// SAFETY: as above.
unsafe impl Sync for BufferEntry {}

/// The state of a task, and bytes in place.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TransferStatus {
    /// The state.
    pub status: TransferStatusCode,
    /// Bytes in place.
    pub transferred_bytes: u64,
}

impl TransferStatus {
    /// Whether every byte is where it should be.
    pub fn is_completed(&self) -> bool {
        self.status.is_completed()
    }

    /// Whether nothing changes any more.
    pub fn is_terminal(&self) -> bool {
        self.status.is_terminal()
    }
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyMsg {
    /// Who sends it; a free text.
    pub name: String,
    /// The message.
    pub msg: String,
}

impl NotifyMsg {
    /// A notification.
    pub fn new(name: impl Into<String>, msg: impl Into<String>) -> Self {
        Self { name: name.into(), msg: msg.into() }
    }
}

/// The load of a NIC.
#[derive(Debug, Clone)]
pub struct NicLoadStat {
    /// Its name.
    pub device_name: String,
    /// Bytes on their way.
    pub inflight_bytes: u64,
    /// Bits per second, averaged.
    pub ewma_bandwidth_bps: f64,
}

/// The number of an address; what is named by it may be used by whoever has the number.
pub(crate) fn address(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}
