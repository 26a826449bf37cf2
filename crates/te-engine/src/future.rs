//! Futures for batches, for any runtime: completions wake them from the threads that see them.
//!
//! Dropping a future frees nothing and cancels nothing: the batch goes on, and its memory stays in
//! use until it is final.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::batch::Batch;
use crate::engine::TransferEngine;
use crate::error::{BatchError, SubmitError};
use crate::id::BatchId;
use crate::process::Owner;
use crate::request::TransferRequest;
use crate::status::BatchStatus;

/// Ends when a batch is final. In a forked child it ends at once, as failed with no task counted.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct BatchFuture {
    batch: Arc<Batch>,
    owner: Arc<Owner>,
}

impl Future for BatchFuture {
    type Output = BatchStatus;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BatchStatus> {
        if !self.owner.is_here() {
            // Nothing of the engine runs in a forked child, and its locks must not be touched.
            return Poll::Ready(BatchStatus::unknown());
        }
        match self.batch.poll(context.waker()) {
            Some(status) => Poll::Ready(status),
            None => Poll::Pending,
        }
    }
}

/// Ends when the requests of one [`TransferEngine::transfer_async`] are final, and frees their
/// batch then.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct TransferFuture<'a> {
    engine: &'a TransferEngine,
    id: BatchId,
    waiting: BatchFuture,
}

impl Future for TransferFuture<'_> {
    type Output = BatchStatus;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<BatchStatus> {
        Pin::new(&mut self.waiting).poll(context)
    }
}

impl Drop for TransferFuture<'_> {
    /// The requests go on; their batch is freed when they are final.
    fn drop(&mut self) {
        if self.engine.owner.is_here() {
            self.engine.shared.batches.orphan(self.id);
        }
    }
}

impl TransferEngine {
    /// A future that ends when the batch is final.
    ///
    /// # Errors
    /// [`BatchError::Unknown`].
    pub fn wait_async(&self, batch: BatchId) -> Result<BatchFuture, BatchError> {
        Ok(BatchFuture { batch: self.find(batch)?, owner: Arc::clone(&self.owner) })
    }

    /// Begins to move the requests, and gives a future that ends when all are final. Never blocks:
    /// too much outstanding is an error here.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was queued.
    pub fn transfer_async(
        &self,
        requests: &[TransferRequest],
    ) -> Result<TransferFuture<'_>, SubmitError> {
        let id = self.allocate_batch(requests.len())?;
        let begun = self.submit_within(id, requests, std::time::Duration::ZERO);
        if let Err(error) = begun {
            drop(self.free_batch(id));
            return Err(error);
        }
        let waiting = self.wait_async(id)?;
        Ok(TransferFuture { engine: self, id, waiting })
    }
}
