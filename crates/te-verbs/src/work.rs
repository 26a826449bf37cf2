//! Work requests and what becomes of them.

use std::fmt;

use te_segment::Opcode;

/// One range of registered local memory. It has the layout of `struct ibv_sge`, so that lists of it
/// are handed to the library as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Sge {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// The key of the region it lies in.
    pub lkey: u32,
}

/// The local side of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Ranges that the device reads or writes by itself, at least one.
    Ranges(&'a [Sge]),
    /// Bytes that go with the request, for a WRITE. They are taken before the call returns.
    Inline(&'a [u8]),
}

/// A one-sided transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkRequest<'a> {
    /// Given back in the completion.
    pub id: u64,
    /// Direction.
    pub op: Opcode,
    /// Local bytes.
    pub payload: Payload<'a>,
    /// First address in the peer.
    pub remote_address: u64,
    /// The peer's key for it.
    pub rkey: u32,
    /// Whether success is told. Failure always is.
    pub signaled: bool,
}

/// The end of a work request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkCompletion {
    /// As it was posted.
    pub id: u64,
    /// How it ended.
    pub status: WorkStatus,
    /// The queue pair.
    pub queue_pair: u32,
    /// What the vendor says beside it.
    pub vendor_error: u32,
}

/// How a work request ended; `enum ibv_wc_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkStatus {
    /// The bytes are there.
    Success,
    /// A local range is longer than the message may be.
    LocalLength,
    /// The queue pair cannot do it.
    LocalQueuePairOperation,
    /// A local key or range is wrong.
    LocalProtection,
    /// The queue pair went to ERR before this was done.
    Flushed,
    /// The peer answered what it may not.
    BadResponse,
    /// A local range may not be accessed so.
    LocalAccess,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer's key, range or right is wrong.
    RemoteAccess,
    /// The peer could not do it.
    RemoteOperation,
    /// The peer did not acknowledge in all tries.
    RetryExceeded,
    /// The peer was not ready in all tries.
    RnrRetryExceeded,
    /// The peer gave it up.
    RemoteAborted,
    /// The device failed.
    Fatal,
    /// Nothing came in time.
    ResponseTimeout,
    /// Another, by the library's number.
    Other(u32),
}

impl WorkStatus {
    /// Whether this side is to blame (E52).
    pub fn is_local(self) -> bool {
        matches!(
            self,
            Self::LocalLength
                | Self::LocalQueuePairOperation
                | Self::LocalProtection
                | Self::LocalAccess
                | Self::Fatal
        )
    }
}

impl fmt::Display for WorkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::LocalLength => "local length error",
            Self::LocalQueuePairOperation => "local queue pair operation error",
            Self::LocalProtection => "local protection error",
            Self::Flushed => "flushed",
            Self::BadResponse => "bad response",
            Self::LocalAccess => "local access error",
            Self::RemoteInvalidRequest => "remote invalid request",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RetryExceeded => "transport retries exceeded",
            Self::RnrRetryExceeded => "receiver-not-ready retries exceeded",
            Self::RemoteAborted => "remote aborted",
            Self::Fatal => "fatal device error",
            Self::ResponseTimeout => "response timeout",
            Self::Other(number) => return write!(f, "work status {number}"),
        })
    }
}
