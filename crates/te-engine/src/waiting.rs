//! Waiting for a batch, and calling one back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::Batch;
use crate::engine::{FAR, TransferEngine};
use crate::error::{BatchError, WaitError};
use crate::id::BatchId;
use crate::status::{BatchStatus, TaskState};

impl TransferEngine {
    /// Waits until a batch is final. The calling thread may run the transport's step meanwhile.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]: the batch goes on; wait again, or cancel it.
    pub fn wait(&self, batch: BatchId, timeout: Duration) -> Result<BatchStatus, WaitError> {
        self.wait_for(&*self.find(batch)?, None, timeout)
    }

    /// Waits until `timeout` after `begun` at most; from now on, where that is not given.
    pub(crate) fn wait_for(
        &self,
        found: &Batch,
        begun: Option<Instant>,
        timeout: Duration,
    ) -> Result<BatchStatus, WaitError> {
        /// A caller that drives looks up at least this often: its batch may end elsewhere.
        const LOOK_UP: Duration = Duration::from_millis(5);
        let mut begun = begun;
        loop {
            let status = found.status();
            if status.state.is_final() {
                return Ok(status);
            }
            let now = self.now();
            let begun = *begun.get_or_insert(now);
            let until = begun.checked_add(timeout).unwrap_or(begun + FAR);
            if now >= until {
                let open = status.total - status.completed - status.failed;
                let (batch, waited) = (found.id(), now - begun);
                return Err(WaitError::TimedOut { batch, waited, open, total: status.total });
            }
            if self.path.drive(found, until.min(now + LOOK_UP)) == te_transport::Driven::Busy {
                found.wait(until - now);
            }
        }
    }

    /// Calls a batch back: open tasks become `Canceled` once their local memory is free. Final
    /// tasks stay as they are. Does not wait.
    ///
    /// # Errors
    /// [`BatchError::Unknown`].
    pub fn cancel(&self, batch: BatchId) -> Result<(), BatchError> {
        self.call_back(&self.find(batch)?);
        Ok(())
    }

    pub(crate) fn call_back(&self, found: &Arc<Batch>) {
        let all: Vec<usize> = (0..found.status().total).collect();
        self.path.end(found, &all, TaskState::Canceled, "cancelled by the caller");
    }

    /// Calls one task back; see [`TransferEngine::cancel`].
    ///
    /// # Errors
    /// [`BatchError::Unknown`], [`BatchError::NoTask`].
    pub fn cancel_task(&self, batch: BatchId, index: usize) -> Result<(), BatchError> {
        let found = self.find(batch)?;
        found.task_status(index)?;
        self.path.end(&found, &[index], TaskState::Canceled, "cancelled by the caller");
        Ok(())
    }

    /// Brings the deadline of every open task of a batch forward to `timeout` from now.
    ///
    /// # Errors
    /// [`BatchError::Unknown`].
    pub fn limit_batch(&self, batch: BatchId, timeout: Duration) -> Result<(), BatchError> {
        let found = self.find(batch)?;
        if let Some(deadline) = self.now().checked_add(timeout) {
            found.limit(deadline);
            self.shared.alarm.at(deadline);
        }
        Ok(())
    }
}
