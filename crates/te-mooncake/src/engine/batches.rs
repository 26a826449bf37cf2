//! Batches by number (A134–A136).
#![allow(unsafe_code, reason = "calls take memory by address; docs/memory-safety.md")]

use std::time::Duration;

use te_compat::Code;

use crate::engine::{TransferEngine, plain_notify};
use crate::error::{EngineError, refused, status};
use crate::types::{BatchId, NotifyMsg, TransferRequest, TransferStatus, TransferStatusCode};

/// How long one wait of an endless one is.
const LONG: Duration = Duration::from_secs(3600);

impl TransferEngine {
    /// Makes a batch for at most this many requests.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`].
    pub fn allocate_batch_id(&self, batch_size: usize) -> Result<BatchId, EngineError> {
        self.engine.allocate_batch(batch_size).map(BatchId).map_err(|failure| refused(&failure))
    }

    /// Adds requests to a batch and begins to move them; no request is a success.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] with a number of te-classic A53; nothing was queued.
    ///
    /// # Safety
    /// Until the tasks have ended no Rust reference to the local bytes exists while they may move.
    pub unsafe fn submit_transfer(
        &self,
        batch_id: BatchId,
        requests: &[TransferRequest],
    ) -> Result<(), EngineError> {
        if requests.is_empty() {
            return Ok(());
        }
        let plain = requests.iter().map(TransferRequest::plain);
        self.engine.submit(batch_id.0, plain).map_err(|failure| status(&failure))
    }

    /// The same; when every task of the batch has completed, the first target gets the notification.
    ///
    /// # Errors
    /// As [`Self::submit_transfer`].
    ///
    /// # Safety
    /// As [`Self::submit_transfer`].
    pub unsafe fn submit_transfer_with_notify(
        &self,
        batch_id: BatchId,
        requests: &[TransferRequest],
        notify: &NotifyMsg,
    ) -> Result<(), EngineError> {
        if requests.is_empty() {
            return Ok(());
        }
        let (plain, notify) = (requests.iter().map(TransferRequest::plain), plain_notify(notify)?);
        let submitted = self.engine.submit_with_notify(batch_id.0, plain, notify);
        submitted.map_err(|failure| status(&failure))
    }

    /// The state of a task.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] of 1 for a batch or a task that is not there.
    pub fn get_transfer_status(
        &self,
        batch_id: BatchId,
        task_id: usize,
    ) -> Result<TransferStatus, EngineError> {
        let task = self.engine.task_status(batch_id.0, task_id).map_err(|it| status(&it))?;
        if let Some(failure) = &task.failure {
            te_compat::set_last_failure(failure);
        }
        Ok(TransferStatus { status: task.state.into(), transferred_bytes: task.bytes })
    }

    /// Waits until the batch is final, and looks at its first `count` tasks. Does not free it.
    ///
    /// # Errors
    /// [`EngineError::TransferFailed`] where one of them did not complete; [`EngineError::Timeout`]
    /// where the batch is not final in time: it goes on.
    pub fn wait_all(
        &self,
        batch_id: BatchId,
        count: usize,
        timeout: Option<Duration>,
    ) -> Result<(), EngineError> {
        self.wait_final(batch_id, timeout)?;
        for task in 0..count {
            if self.get_transfer_status(batch_id, task)?.status != TransferStatusCode::Completed {
                return Err(EngineError::TransferFailed);
            }
        }
        Ok(())
    }

    fn wait_final(&self, batch_id: BatchId, timeout: Option<Duration>) -> Result<(), EngineError> {
        loop {
            let waited = self.engine.wait_batch(batch_id.0, timeout.unwrap_or(LONG));
            match waited {
                Ok(_) => return Ok(()),
                Err(failure) if failure.code() != Code::Clock => return Err(status(&failure)),
                Err(_) if timeout.is_none() => {}
                Err(failure) => {
                    te_compat::set_last_failure(&failure);
                    return Err(EngineError::Timeout);
                }
            }
        }
    }

    /// Moves requests and waits for their end. When the time is over they are called back, and the call
    /// returns when the local memory is free, or in quarantine.
    ///
    /// # Errors
    /// As [`Self::submit_transfer`] and [`Self::wait_all`].
    ///
    /// # Safety
    /// As [`Self::submit_transfer`].
    pub unsafe fn submit_and_wait(
        &self,
        requests: &[TransferRequest],
        timeout: Option<Duration>,
    ) -> Result<(), EngineError> {
        if requests.is_empty() {
            return Ok(());
        }
        let batch_id = self.allocate_batch_id(requests.len())?;
        // SAFETY: the caller promises the same.
        let submitted = unsafe { self.submit_transfer(batch_id, requests) };
        let ended = submitted.and_then(|()| self.wait_all(batch_id, requests.len(), timeout));
        if matches!(ended, Err(EngineError::Timeout))
            && let Some(failure) = te_compat::last_failure()
        {
            te_compat::set_last_failure(&self.engine.call_back(&[batch_id.0], failure));
        }
        self.engine.release_batch(batch_id.0);
        ended
    }

    /// Frees a batch whose tasks are final.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`]: 4 while tasks are open, 1 for a batch that is not there.
    pub fn free_batch_id(&self, batch_id: BatchId) -> Result<(), EngineError> {
        self.engine.free_batch(batch_id.0).map_err(|failure| status(&failure))
    }
}
