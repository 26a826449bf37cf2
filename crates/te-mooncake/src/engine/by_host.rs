//! Transfers to a host by name (A137).
#![allow(unsafe_code, reason = "calls take memory by address; docs/memory-safety.md")]

use std::ffi::c_void;

use te_compat::Piece;

use crate::engine::{TransferEngine, no_zero};
use crate::error::{EngineError, ended};
use crate::types::{BatchId, Opcode, TransferRequest, TransferStatusCode, address};

impl TransferEngine {
    /// Moves bytes to or from a host and waits for the end, at most the configured time.
    ///
    /// # Errors
    /// [`EngineError::TransferFailed`], [`EngineError::Timeout`]: the local memory is free, or in
    /// quarantine. [`EngineError::OperationFailed`] where the host is not there.
    ///
    /// # Safety
    /// No Rust reference to the local bytes exists while they move.
    #[expect(clippy::too_many_arguments, reason = "the peer's binding has these")]
    pub unsafe fn transfer_sync(
        &self,
        target_hostname: &str,
        local: *mut c_void,
        remote_offset: u64,
        length: u64,
        opcode: Opcode,
    ) -> Result<(), EngineError> {
        no_zero(target_hostname)?;
        let piece = Piece { local: address(local), remote: remote_offset, len: length };
        let moved = self.engine.transfer_sync(opcode.into(), target_hostname, piece);
        moved.map(drop).map_err(|failure| ended(&failure))
    }

    /// Moves bytes to a host.
    ///
    /// # Errors
    /// As [`Self::transfer_sync`].
    ///
    /// # Safety
    /// As [`Self::transfer_sync`].
    pub unsafe fn transfer_sync_write(
        &self,
        target_hostname: &str,
        local: *mut c_void,
        remote_offset: u64,
        length: u64,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller promises the same.
        unsafe { self.transfer_sync(target_hostname, local, remote_offset, length, Opcode::Write) }
    }

    /// Moves bytes from a host.
    ///
    /// # Errors
    /// As [`Self::transfer_sync`].
    ///
    /// # Safety
    /// As [`Self::transfer_sync`].
    pub unsafe fn transfer_sync_read(
        &self,
        target_hostname: &str,
        local: *mut c_void,
        remote_offset: u64,
        length: u64,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller promises the same.
        unsafe { self.transfer_sync(target_hostname, local, remote_offset, length, Opcode::Read) }
    }

    /// Moves pieces to or from a host and waits for the end of all.
    ///
    /// # Errors
    /// As [`Self::transfer_sync`]; [`EngineError::InvalidArgument`] for lists of different lengths.
    ///
    /// # Safety
    /// As [`Self::transfer_sync`], for each piece.
    #[expect(clippy::too_many_arguments, reason = "the peer's binding has these")]
    pub unsafe fn batch_transfer_sync(
        &self,
        target_hostname: &str,
        locals: &[*mut c_void],
        remote_offsets: &[u64],
        lengths: &[u64],
        opcode: Opcode,
    ) -> Result<(), EngineError> {
        no_zero(target_hostname)?;
        let locals: Vec<u64> = locals.iter().map(|local| address(*local)).collect();
        let pieces = te_compat::pieces(&locals, remote_offsets, lengths)
            .map_err(|_| EngineError::InvalidArgument("the lists differ in length"))?;
        if pieces.is_empty() {
            return Ok(());
        }
        let moved = self.engine.batch_transfer_sync(opcode.into(), target_hostname, &pieces);
        moved.map(drop).map_err(|failure| ended(&failure))
    }

    /// Moves pieces to a host.
    ///
    /// # Errors
    /// As [`Self::batch_transfer_sync`].
    ///
    /// # Safety
    /// As [`Self::transfer_sync`], for each piece.
    pub unsafe fn batch_transfer_sync_write(
        &self,
        target_hostname: &str,
        locals: &[*mut c_void],
        remote_offsets: &[u64],
        lengths: &[u64],
    ) -> Result<(), EngineError> {
        let (host, op) = (target_hostname, Opcode::Write);
        // SAFETY: the caller promises the same.
        unsafe { self.batch_transfer_sync(host, locals, remote_offsets, lengths, op) }
    }

    /// Moves pieces from a host.
    ///
    /// # Errors
    /// As [`Self::batch_transfer_sync`].
    ///
    /// # Safety
    /// As [`Self::transfer_sync`], for each piece.
    pub unsafe fn batch_transfer_sync_read(
        &self,
        target_hostname: &str,
        locals: &[*mut c_void],
        remote_offsets: &[u64],
        lengths: &[u64],
    ) -> Result<(), EngineError> {
        let (host, op) = (target_hostname, Opcode::Read);
        // SAFETY: the caller promises the same.
        unsafe { self.batch_transfer_sync(host, locals, remote_offsets, lengths, op) }
    }

    /// Begins to move bytes to a host; gives a batch of one task, which the caller frees.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`]; nothing was queued.
    ///
    /// # Safety
    /// Until the task has ended no Rust reference to the local bytes exists while they may move.
    pub unsafe fn transfer_submit_write(
        &self,
        target_hostname: &str,
        local: *mut c_void,
        remote_offset: u64,
        length: u64,
    ) -> Result<BatchId, EngineError> {
        let target_id = self.open_segment(target_hostname)?;
        let batch_id = self.allocate_batch_id(1)?;
        let request = TransferRequest::write(local, target_id, remote_offset, length);
        // SAFETY: the caller promises the same.
        let submitted = unsafe { self.submit_transfer(batch_id, &[request]) };
        if submitted.is_err() {
            self.engine.release_batch(batch_id.0);
        }
        submitted.map(|()| batch_id)
    }

    /// The state of the first task of a batch. Does not free it.
    ///
    /// # Errors
    /// As [`Self::get_transfer_status`].
    pub fn transfer_check_status(
        &self,
        batch_id: BatchId,
    ) -> Result<TransferStatusCode, EngineError> {
        Ok(self.get_transfer_status(batch_id, 0)?.status)
    }
}
