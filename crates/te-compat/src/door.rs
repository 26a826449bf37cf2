//! The one place where addresses of callers become regions.
//!
//! Mooncake's calls name memory by address, in each request anew. Whoever makes an engine promises
//! once, for all addresses that it will ever be given; that promise is a value, and without it no
//! address is taken.
#![allow(unsafe_code, reason = "the door for callers' addresses; docs/memory-safety.md")]

use te_segment::{Region, RegionError};

/// The promise about all memory that an engine is given by address.
#[derive(Debug, Clone, Copy)]
pub struct CallerMemory(());

impl CallerMemory {
    /// Makes the promise, on behalf of whoever will give addresses.
    ///
    /// # Safety
    /// For each address and length that the engine made with it is given: while a transfer may run on
    /// these bytes no Rust reference to them exists, and while they are registered no other memory,
    /// for which this is not so, appears there. They may be unmapped at any time, or never have been
    /// mapped: the calls and transfers that use them then fail.
    pub const unsafe fn promise() -> Self {
        Self(())
    }
}

/// Names memory of a caller.
pub(crate) fn region(
    _promise: CallerMemory,
    address: u64,
    len: u64,
) -> Result<Region, RegionError> {
    let at = usize::try_from(address).map_err(|_| RegionError::Wraps { address, len })?;
    let len = usize::try_from(len).map_err(|_| RegionError::Wraps { address, len })?;
    let pointer = std::ptr::with_exposed_provenance_mut::<u8>(at);
    // SAFETY: `_promise` was made for every address that comes here, with just these conditions.
    unsafe { Region::from_raw_parts(pointer, len) }
}
