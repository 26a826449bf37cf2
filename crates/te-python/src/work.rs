//! A transfer under way, and the Python objects that it needs until its end.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use te_compat::{
    BatchState, Code, Failure, LocalState, Request, TaskState, Transfer, TransferOptions, guarded,
};
use te_sync::Mutex;

use crate::failure::{About, no_room, not_notified, told};
use crate::home::Home;
use crate::memory::Pin;

/// A transfer, with what it needs.
pub(crate) struct Work {
    transfer: Transfer,
    pins: Mutex<Vec<Pin>>,
}

/// How often a waiting call looks whether Python has a signal to handle.
const LOOK: Duration = Duration::from_millis(50);

impl Work {
    /// Begins to move requests. Waits for nothing: too much outstanding is an error.
    ///
    /// # Errors
    /// The exception of the [`Failure`]; nothing was queued.
    pub(crate) fn begin(py: Python<'_>, home: &Home, plan: Plan) -> PyResult<Arc<Self>> {
        home.sweep(py);
        let begun = plan.begin(py, home, plan.options.timeout, Duration::ZERO);
        Ok(Self::of(told(py, About::Transfer, begun)?, plan))
    }

    /// Begins to move requests. Where too much is outstanding it waits for room, as long as the transfer
    /// may take; handles Python's signals meanwhile.
    ///
    /// # Errors
    /// As [`Work::begin`], or the exception of a signal's handler.
    pub(crate) fn begin_waiting(py: Python<'_>, home: &Home, plan: Plan) -> PyResult<Arc<Self>> {
        home.sweep(py);
        let limit = plan.options.timeout.unwrap_or(home.engine().config().engine.transfer_timeout);
        let mut left = limit;
        loop {
            let step = left.min(LOOK);
            // What was waited for room is not there for the transfer.
            let timeout = plan.options.timeout.map(|_| left);
            match plan.begin(py, home, timeout, step) {
                Err(failure) if is_full(&failure) => {
                    py.check_signals()?;
                    left = left.saturating_sub(step);
                    if left.is_zero() {
                        return Err(no_room(py, &failure, limit));
                    }
                }
                begun => return Ok(Self::of(told(py, About::Transfer, begun)?, plan)),
            }
        }
    }

    fn of(transfer: Transfer, plan: Plan) -> Arc<Self> {
        Arc::new(Self { transfer, pins: Mutex::new(plan.pins) })
    }

    /// The transfer.
    pub(crate) fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    /// How it stands.
    pub(crate) fn state(&self, py: Python<'_>) -> PyResult<BatchState> {
        let state = py.detach(|| guarded(|| self.transfer.state()));
        let state = told(py, About::Transfer, state)?;
        self.settle(&state);
        Ok(state)
    }

    /// Gives the memory back, where that may be done.
    fn settle(&self, state: &BatchState) {
        if state.state.is_final() && state.quarantined == 0 {
            let pins = std::mem::take(&mut *self.pins.lock());
            drop(pins);
        }
    }

    /// Whether it has ended and nothing uses its memory.
    pub(crate) fn is_quiet(&self, py: Python<'_>) -> bool {
        // Asking may move bytes.
        let state = py.detach(|| guarded(|| self.transfer.state()));
        let Ok(state) = state else { return false };
        let engine = self.transfer.engine();
        state.state.is_final()
            && (state.quarantined == 0 || engine.quarantined_bytes().is_ok_and(|bytes| bytes == 0))
    }

    /// Waits until it has ended, at most `timeout`; handles Python's signals meanwhile.
    ///
    /// # Errors
    /// The exception of its [`Failure`], or of a signal's handler; in the latter case, and where the
    /// time is over, it goes on.
    pub(crate) fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<u64> {
        let mut left = timeout;
        loop {
            let step = left.map_or(LOOK, |left| left.min(LOOK));
            match py.detach(|| guarded(|| self.transfer.wait(step))) {
                Ok(state) => return self.ended(py, state),
                Err(failure) if !is_running(&failure) => {
                    return told(py, About::Transfer, Err(failure));
                }
                Err(failure) => {
                    py.check_signals()?;
                    left = left.map(|left| left.saturating_sub(step));
                    if left == Some(Duration::ZERO) {
                        return told(py, About::Transfer, Err(failure));
                    }
                }
            }
        }
    }

    /// What a final state gives.
    fn ended(&self, py: Python<'_>, state: BatchState) -> PyResult<u64> {
        self.settle(&state);
        match state.notify.cause() {
            Some(cause) if state.state == TaskState::Completed => {
                Err(not_notified(py, cause, state.notify.is_full()))
            }
            _ => told(py, About::Transfer, state.outcome()),
        }
    }

    /// Moves and waits for the end. What a signal interrupts is called back, and the memory is free, or
    /// kept, when the call returns.
    ///
    /// # Errors
    /// As [`Work::wait`].
    pub(crate) fn finish(self: Arc<Self>, py: Python<'_>, home: &Arc<Home>) -> PyResult<u64> {
        let result = self.wait(py, None);
        if result.is_err() {
            if !self.is_quiet(py) {
                let limit = home.engine().config().engine.shutdown_timeout;
                let end = || self.transfer.cancel().and_then(|()| self.transfer.wait(limit));
                // Whatever comes of that: it is left to the engine if it is not over.
                drop(py.detach(|| guarded(end)));
            }
            home.leave(py, self);
        }
        result
    }
}

/// What is to be moved.
pub(crate) struct Plan {
    pub(crate) requests: Vec<Request>,
    pub(crate) options: TransferOptions,
    pub(crate) pins: Vec<Pin>,
}

impl Plan {
    fn begin(
        &self,
        py: Python<'_>,
        home: &Home,
        timeout: Option<Duration>,
        patience: Duration,
    ) -> Result<Transfer, Failure> {
        let options = TransferOptions { timeout, patience: Some(patience), ..self.options.clone() };
        let requests = &self.requests;
        home.call(py, |engine| engine.begin(requests.iter().copied(), options))
    }
}

/// Whether nothing was begun because too much is outstanding.
fn is_full(failure: &Failure) -> bool {
    let facts = failure.facts();
    facts.code == Code::TooManyRequests && facts.is_retryable
}

/// Whether a wait ended because its time was over.
fn is_running(failure: &Failure) -> bool {
    let facts = failure.facts();
    facts.code == Code::Clock && facts.local == LocalState::InUse
}
