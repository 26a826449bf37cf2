//! Registering memory (A133).
#![allow(unsafe_code, reason = "calls take memory by address; docs/memory-safety.md")]

use std::ffi::c_void;

use te_compat::Buffer;

use crate::engine::{TransferEngine, no_zero};
use crate::error::{EngineError, refused};
use crate::types::{BufferEntry, WILDCARD_LOCATION, address};

impl TransferEngine {
    /// Registers memory that peers may read and write.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] with a number of te-classic A54.
    ///
    /// # Safety
    /// Until it is unregistered no Rust reference to these bytes exists while a transfer may run on
    /// them, and no other memory, for which this is not so, appears there.
    pub unsafe fn register_local_memory(
        &self,
        addr: *mut c_void,
        length: usize,
        location: &str,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller promises the same.
        unsafe { self.register_local_memory_ex(addr, length, location, true) }
    }

    /// Registers memory that peers may use, or only this engine's own requests.
    ///
    /// # Errors
    /// As [`Self::register_local_memory`].
    ///
    /// # Safety
    /// As [`Self::register_local_memory`].
    pub unsafe fn register_local_memory_ex(
        &self,
        addr: *mut c_void,
        length: usize,
        location: &str,
        remote_accessible: bool,
    ) -> Result<(), EngineError> {
        no_zero(location)?;
        let buffer = Buffer { address: address(addr), len: length as u64 };
        let registered = self.engine.register(buffer, location, remote_accessible);
        registered.map_err(|failure| refused(&failure))
    }

    /// Registers memory of which nothing is known.
    ///
    /// # Errors
    /// As [`Self::register_local_memory`].
    ///
    /// # Safety
    /// As [`Self::register_local_memory`].
    pub unsafe fn register_memory(
        &self,
        addr: *mut c_void,
        length: usize,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller promises the same.
        unsafe { self.register_local_memory(addr, length, WILDCARD_LOCATION) }
    }

    /// Unregisters the buffer that starts there; waits for transfers that use it, for a bounded time.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`]: −3 where none starts there, −4 while a transport holds it.
    ///
    /// # Safety
    /// None is needed; the peer's binding has it so.
    pub unsafe fn unregister_local_memory(&self, addr: *mut c_void) -> Result<(), EngineError> {
        self.engine.unregister(address(addr)).map_err(|failure| refused(&failure))
    }

    /// The same.
    ///
    /// # Errors
    /// As [`Self::unregister_local_memory`].
    ///
    /// # Safety
    /// As [`Self::unregister_local_memory`].
    pub unsafe fn unregister_memory(&self, addr: *mut c_void) -> Result<(), EngineError> {
        // SAFETY: the caller promises the same.
        unsafe { self.unregister_local_memory(addr) }
    }

    /// Registers buffers of one location, all or none.
    ///
    /// # Errors
    /// As [`Self::register_local_memory`].
    ///
    /// # Safety
    /// As [`Self::register_local_memory`], for each.
    pub unsafe fn register_local_memory_batch(
        &self,
        buffer_list: &[BufferEntry],
        location: &str,
    ) -> Result<(), EngineError> {
        no_zero(location)?;
        let plain =
            |entry: &BufferEntry| Buffer { address: address(entry.addr), len: entry.length as u64 };
        let buffers: Vec<Buffer> = buffer_list.iter().map(plain).collect();
        let registered = self.engine.register_batch(&buffers, location, true);
        registered.map_err(|failure| refused(&failure))
    }

    /// Unregisters buffers, past errors.
    ///
    /// # Errors
    /// The first; the others were unregistered all the same.
    ///
    /// # Safety
    /// As [`Self::unregister_local_memory`].
    pub unsafe fn unregister_local_memory_batch(
        &self,
        addrs: &[*mut c_void],
    ) -> Result<(), EngineError> {
        let addresses: Vec<u64> = addrs.iter().map(|addr| address(*addr)).collect();
        self.engine.unregister_batch(&addresses).map_err(|failure| refused(&failure))
    }
}
