//! A transfer as a value: wait for it, ask for it, call it back, be told of its end.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use te_engine::{BatchId, Notify, SubmitTerms};
use te_sync::Mutex;

use crate::batch::{BatchState, TaskStatus};
use crate::bell::Bell;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::request::Request;

/// How a [`Transfer`] is to be begun.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct TransferOptions {
    /// Sent to the first request's target once every request completed.
    pub notify: Option<Notify>,
    /// Time from submission to the end; the engine's default where none is given.
    pub timeout: Option<Duration>,
    /// Compare sums of the bytes at both ends before a request counts as completed.
    pub checked: bool,
    /// How long to wait for room when too much is outstanding: zero answers at once, with
    /// [`crate::Code::TooManyRequests`] and retryable; the configured transfer timeout where none is
    /// given.
    pub patience: Option<Duration>,
}

/// Requests under way. Dropping it calls nothing back: the requests go on, and their memory stays in
/// use until they have ended. It keeps the engine.
#[must_use = "a transfer that is dropped goes on, and nobody hears of its end"]
pub struct Transfer {
    engine: Engine,
    id: BatchId,
}

impl Engine {
    /// Begins to move requests. A request whose local memory is not mapped becomes a task that failed.
    ///
    /// # Errors
    /// [`Failure`] of phase `submit`; nothing was queued.
    pub fn begin(
        &self,
        requests: impl IntoIterator<Item = Request>,
        options: TransferOptions,
    ) -> Result<Transfer, Failure> {
        let engine = self.inner()?;
        let mut prepared = self.prepare(requests)?;
        for request in prepared.iter_mut().flatten() {
            request.timeout = options.timeout;
            request.checked = options.checked;
        }
        let id = engine.allocate_batch(prepared.len())?;
        let transfer = Transfer { engine: self.clone(), id };
        let terms = SubmitTerms { patience: options.patience, notify: options.notify };
        engine.submit_each(id, &prepared, terms)?;
        Ok(transfer)
    }
}

impl Transfer {
    /// The number of its batch.
    pub fn number(&self) -> u64 {
        self.id.as_u64()
    }

    /// The engine that moves it.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How it stands now.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn state(&self) -> Result<BatchState, Failure> {
        self.engine.batch_state(self.number())
    }

    /// How one of its requests stands.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for a position that is none.
    pub fn task(&self, index: usize) -> Result<TaskStatus, Failure> {
        self.engine.task_status(self.number(), index)
    }

    /// Waits until it is final, at most `timeout`.
    ///
    /// # Errors
    /// [`crate::Code::Clock`]: it goes on.
    pub fn wait(&self, timeout: Duration) -> Result<BatchState, Failure> {
        self.engine.wait_batch(self.number(), timeout)
    }

    /// Calls it back: open requests become `Canceled` once their local memory is free. Does not wait.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn cancel(&self) -> Result<(), Failure> {
        self.engine.cancel_batch(self.number())
    }

    /// Calls `told` once it is final: on this thread if it is so already, else on the thread that
    /// brings the news. That thread moves bytes: `told` should hand the news on and nothing more, must
    /// not wait for anything, and must not drop the last handle of the engine.
    ///
    /// # Errors
    /// [`Failure::forked`]; then it is not called.
    pub fn on_end(&self, told: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let waiting = pin!(self.engine.inner()?.wait_async(self.id)?);
        let once: Box<dyn FnOnce() + Send> = Box::new(told);
        let call = Arc::new(Call(Mutex::new(Some(once))));
        let waker = Waker::from(Arc::clone(&call));
        if waiting.poll(&mut Context::from_waker(&waker)).is_ready() {
            call.make();
        }
        Ok(())
    }

    /// Rings a bell with this token once it is final.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn ring(&self, bell: &Arc<Bell>, token: u64) -> Result<(), Failure> {
        let bell = Arc::clone(bell);
        self.on_end(move || bell.ring(token))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.engine.release(self.id);
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transfer({:?})", self.id)
    }
}

/// A function that is called once, by a waker or by whoever found that there is nothing to wait for.
struct Call(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Call {
    fn make(&self) {
        let told = self.0.lock().take();
        if let Some(told) = told {
            told();
        }
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.make();
    }
}
