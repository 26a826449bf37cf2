//! Batches by number (A27–A33, A58–A76).

use std::time::Duration;

use te_engine::{
    BatchError, BatchId, BatchStatus, Notify, NotifyOutcome, RemoteSide, SubmitTerms, TaskFault,
    TaskState,
};

use crate::code::Code;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::request::Request;

/// Never the number of a batch.
pub const INVALID_BATCH: u64 = u64::MAX;

/// State of one task. A final one means that its local memory is free, or `failure` says that it is
/// in quarantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskStatus {
    /// Its state, with the peer's numbers (A58).
    pub state: TaskState,
    /// Bytes in place; the whole length once completed.
    pub bytes: u64,
    /// The transport that had it last.
    pub transport: Option<&'static str>,
    /// Why it did not complete.
    pub failure: Option<Failure>,
}

/// State of a batch: final when every task is, and the notification that belongs to it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchState {
    /// `Waiting`, then `Completed` where every task did, else `Failed`.
    pub state: TaskState,
    /// Tasks submitted so far.
    pub total: usize,
    /// Tasks that completed.
    pub completed: usize,
    /// Tasks that ended otherwise.
    pub failed: usize,
    /// Of these, tasks whose local memory went into quarantine.
    pub quarantined: usize,
    /// Bytes in place.
    pub bytes: u64,
    /// What became of the notification.
    pub notify: NotifyOutcome,
    /// The first failure that was met.
    pub failure: Option<Failure>,
}

impl BatchState {
    /// The outcome of a final batch.
    ///
    /// # Errors
    /// The first failure.
    pub fn outcome(self) -> Result<u64, Failure> {
        match (self.state, self.failure) {
            (TaskState::Completed, _) => Ok(self.bytes),
            (_, Some(failure)) => Err(failure.among(self.failed, self.total)),
            (state, None) => Err(Failure::invalid("batch", format!("the batch is {state:?}"))),
        }
    }
}

impl Engine {
    /// Makes a batch for at most `capacity` requests. Its number is never 0 nor [`INVALID_BATCH`].
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] above 2^24, [`Code::TooManyRequests`].
    pub fn allocate_batch(&self, capacity: usize) -> Result<u64, Failure> {
        Ok(self.inner()?.allocate_batch(capacity)?.as_u64())
    }

    /// Adds requests to a batch and begins to move them; waits for room when too much is
    /// outstanding. A request whose local memory is not mapped becomes a task that failed.
    ///
    /// # Errors
    /// [`Failure`] of phase `submit` or `batch`, with the request's position; nothing was queued.
    pub fn submit(
        &self,
        batch: u64,
        requests: impl IntoIterator<Item = Request>,
    ) -> Result<(), Failure> {
        self.submit_prepared(BatchId::from_u64(batch), requests, SubmitTerms::default())
    }

    /// As [`Engine::submit`]; once every task of the batch completed, the first request's target
    /// gets `notify` (A30).
    ///
    /// # Errors
    /// As [`Engine::submit`]; [`Code::InvalidArgument`] without a request.
    pub fn submit_with_notify(
        &self,
        batch: u64,
        requests: impl IntoIterator<Item = Request>,
        notify: Notify,
    ) -> Result<(), Failure> {
        let terms = SubmitTerms { notify: Some(notify), ..SubmitTerms::default() };
        self.submit_prepared(BatchId::from_u64(batch), requests, terms)
    }

    fn submit_prepared(
        &self,
        id: BatchId,
        requests: impl IntoIterator<Item = Request>,
        terms: SubmitTerms,
    ) -> Result<(), Failure> {
        let engine = self.inner()?;
        Ok(engine.submit_each(id, &self.prepare(requests)?, terms)?)
    }

    /// State of one task, by its position in the batch.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for an unknown batch or position.
    pub fn task_status(&self, batch: u64, index: usize) -> Result<TaskStatus, Failure> {
        let id = BatchId::from_u64(batch);
        let status = self.inner()?.status(id, index)?;
        let (transport, remote, state) = (status.transport, status.remote, status.state);
        let failure = status.fault.as_ref().map(|fault| of_task(fault, state, remote, transport));
        Ok(TaskStatus { state, bytes: status.bytes, transport, failure })
    }

    /// State of a batch.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for an unknown batch.
    pub fn batch_state(&self, batch: u64) -> Result<BatchState, Failure> {
        let id = BatchId::from_u64(batch);
        let status = self.inner()?.batch_status(id)?;
        Ok(self.state_of(id, status))
    }

    /// Waits until a batch is final, at most `timeout`.
    ///
    /// # Errors
    /// [`Code::Clock`]: the batch goes on; wait again, or cancel it.
    pub fn wait_batch(&self, batch: u64, timeout: Duration) -> Result<BatchState, Failure> {
        let id = BatchId::from_u64(batch);
        let status = self.inner()?.wait(id, timeout)?;
        Ok(self.state_of(id, status))
    }

    /// Calls a batch back: open tasks become `Canceled` once their local memory is free. Does not
    /// wait.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for an unknown batch.
    pub fn cancel_batch(&self, batch: u64) -> Result<(), Failure> {
        Ok(self.inner()?.cancel(BatchId::from_u64(batch))?)
    }

    /// Frees a batch whose tasks are all final, polled or not.
    ///
    /// # Errors
    /// [`Code::Busy`]; [`Code::InvalidArgument`] for an unknown batch.
    pub fn free_batch(&self, batch: u64) -> Result<(), Failure> {
        let id = BatchId::from_u64(batch);
        self.inner()?.free_batch(id)?;
        self.core.started.remove(id);
        Ok(())
    }

    pub(crate) fn state_of(&self, id: BatchId, status: BatchStatus) -> BatchState {
        let failure = status.fault.as_ref().map(|fault| self.explained(id, fault));
        BatchState {
            state: status.state,
            total: status.total,
            completed: status.completed,
            failed: status.failed,
            quarantined: status.quarantined,
            bytes: status.bytes,
            notify: status.notify,
            failure,
        }
    }

    /// A fault with what its task knows besides.
    fn explained(&self, id: BatchId, fault: &TaskFault) -> Failure {
        match self.core.engine.status(id, fault.index) {
            Ok(task) => of_task(fault, task.state, task.remote, task.transport),
            Err(BatchError::Forked) => Failure::forked(),
            Err(_) => Failure::from(fault),
        }
    }
}

fn of_task(
    fault: &TaskFault,
    state: TaskState,
    remote: RemoteSide,
    transport: Option<&'static str>,
) -> Failure {
    Failure::from(fault).edit(|facts| {
        facts.remote = Some(remote);
        facts.transport = transport;
        if state == TaskState::Timeout {
            (facts.code, facts.is_timeout) = (Code::Clock, true);
        }
    })
}
