//! The structs of the two C headers, field by field.
//!
//! I1  Their layouts are those of `transfer_engine_c.h` and `te_c.h`; the suite `capi` compares each
//!     offset with what a C compiler makes of the headers.

use std::ffi::{c_char, c_int, c_void};

/// One read or write.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TransferRequest {
    /// 0 reads from the peer, 1 writes to it.
    pub opcode: c_int,
    /// Local memory.
    pub source: *mut c_void,
    /// The open segment.
    pub target_id: i32,
    /// Address in the peer.
    pub target_offset: u64,
    /// Bytes.
    pub length: u64,
}

/// State of one task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TransferStatus {
    /// A number of te-classic A58.
    pub status: c_int,
    /// Bytes in place.
    pub transferred_bytes: u64,
}

/// Memory to be registered.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BufferEntry {
    /// First byte.
    pub addr: *mut c_void,
    /// Bytes.
    pub length: usize,
}

/// A notification.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NotifyMsg {
    /// Its name; ends with a NUL.
    pub name: *mut c_char,
    /// Its text; ends with a NUL.
    pub msg: *mut c_char,
}

/// Load of one NIC.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NicLoadStat {
    /// Its name; ends with a NUL.
    pub device_name: [c_char; 64],
    /// Bytes on their way.
    pub inflight_bytes: u64,
    /// Bits per second, averaged.
    pub ewma_bandwidth_bps: f64,
}

/// Why a call failed.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ErrorRecord {
    /// The number for it, 0 for none.
    pub code: i32,
    /// What is known of the peer's memory.
    pub remote_side: i32,
    /// What is known of the local memory.
    pub local_state: i32,
    /// Bits.
    pub flags: u32,
    /// Position of the request, -1 for none.
    pub request: i64,
    /// Tries.
    pub attempts: u32,
    /// 0.
    pub reserved: u32,
    /// What was being done.
    pub phase: [c_char; 32],
    /// The peer.
    pub peer: [c_char; 256],
    /// The transport.
    pub transport: [c_char; 32],
    /// The whole of it in one line.
    pub text: [c_char; 1024],
}

/// What an engine is made with.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    /// Bytes of the caller's struct.
    pub size: usize,
    /// Metadata service; null for none.
    pub metadata: *const c_char,
    /// Name of the engine.
    pub name: *const c_char,
    /// Names of NICs; null for all.
    pub filters: *const *const c_char,
    /// How many.
    pub filter_count: usize,
    /// Whether to look for NICs.
    pub auto_discover: i32,
    /// 0.
    pub reserved: i32,
}

/// What closing an engine left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CloseReport {
    /// Tasks that are not final.
    pub open_tasks: u64,
    /// Bytes that a transport never gave back.
    pub kept_bytes: u64,
    /// 1 where every thread has ended.
    pub joined: i32,
    /// 0.
    pub reserved: i32,
}

/// State of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BatchStatus {
    /// As of a task: waiting, completed or failed.
    pub status: i32,
    /// What became of the notification.
    pub notify: i32,
    /// Tasks submitted.
    pub total: u64,
    /// Of these, completed.
    pub completed: u64,
    /// Ended otherwise.
    pub failed: u64,
    /// Of the failed ones, with local memory that is still held.
    pub quarantined: u64,
    /// Bytes in place.
    pub bytes: u64,
}

/// Fragments between one local buffer and one range of a peer.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ScatterRange {
    /// The peer's name.
    pub peer: *const c_char,
    /// Where the range begins in the peer.
    pub remote_base: u64,
    /// Its bytes.
    pub remote_length: u64,
    /// Local buffer.
    pub local: *mut c_void,
    /// Its bytes.
    pub local_length: u64,
    /// Offsets in the buffer.
    pub local_offsets: *const u64,
    /// Offsets in the range.
    pub remote_offsets: *const u64,
    /// Bytes of each fragment.
    pub lengths: *const u64,
    /// Where the outcome of each fragment goes, or null.
    pub outcomes: *mut i32,
    /// How many fragments.
    pub count: usize,
    /// As of a request.
    pub opcode: i32,
    /// 0.
    pub reserved: i32,
}

#[cfg(test)]
mod tests;
