//! Which types may be read from memory of a C caller.
#![allow(unsafe_code, reason = "the trait is a promise; docs/memory-safety.md")]

use std::ffi::{c_char, c_void};

use crate::abi::{
    BatchStatus, BufferEntry, CloseReport, ErrorRecord, NicLoadStat, NotifyMsg, Options,
    ScatterRange, TransferRequest, TransferStatus,
};

/// A type of which any bytes are a value, and that owns nothing.
///
/// # Safety
/// All that it consists of are numbers and raw pointers.
pub(crate) unsafe trait Plain: Copy + 'static {}

macro_rules! plain {
    ($($name:ty),* $(,)?) => {$(
        // SAFETY: numbers and raw pointers, see its definition.
        unsafe impl Plain for $name {}
    )*};
}

plain!(i32, u64, usize, *mut c_void, *const c_char);
plain!(BatchStatus, BufferEntry, CloseReport, ErrorRecord, NicLoadStat, NotifyMsg, Options);
plain!(ScatterRange, TransferRequest, TransferStatus);
