//! A transfer that was begun and is waited for later, or awaited.

use std::sync::Arc;
use std::time::Duration;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use te_compat::{NotifyOutcome, TaskState};

use crate::failure::{About, raised};
use crate::home::Handle;
use crate::numbers::seconds;
use crate::work::Work;

/// Requests under way. Await it, wait for it, or be called back. The memory of its requests is kept until
/// the engine uses it no more, also where this object is dropped before.
#[pyclass(frozen, weakref, module = "te_engine")]
pub(crate) struct Transfer {
    home: Handle,
    /// There until this object goes.
    work: Option<Arc<Work>>,
}

impl Transfer {
    pub(crate) fn new(py: Python<'_>, home: &Handle, work: Arc<Work>) -> Self {
        Self { home: home.another(py), work: Some(work) }
    }

    fn work(&self) -> &Work {
        self.work.as_deref().expect("it is taken by `drop` only")
    }
}

#[pymethods]
impl Transfer {
    /// ``"waiting"``, and in the end ``"completed"`` or ``"failed"``.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(match self.work().state(py)?.state {
            TaskState::Waiting | TaskState::Pending => "waiting",
            TaskState::Completed => "completed",
            _ => "failed",
        })
    }

    /// Whether every request has ended.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.work().state(py)?.state.is_final())
    }

    /// Bytes that are known to be in place.
    #[getter]
    fn bytes(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.work().state(py)?.bytes)
    }

    /// What became of the notification: ``"sending"``, ``"delivered"``, ``"full"`` (the peer had no room) or
    /// ``"failed"``. None where none was asked for, or the transfer has not completed.
    #[getter]
    fn notify(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        Ok(match self.work().state(py)?.notify {
            NotifyOutcome::None => None,
            NotifyOutcome::Sending => Some("sending"),
            NotifyOutcome::Delivered => Some("delivered"),
            NotifyOutcome::Full(_) => Some("full"),
            NotifyOutcome::Failed(_) => Some("failed"),
        })
    }

    /// Waits until every request has ended, at most `timeout` seconds; gives the bytes moved.
    ///
    /// Raises TransferError, and TransferTimeout where it goes on.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<u64> {
        self.work().wait(py, timeout.map(seconds).transpose()?)
    }

    /// The bytes moved, of a transfer that has ended.
    ///
    /// Raises TransferError, and TransferTimeout where it goes on.
    fn result(&self, py: Python<'_>) -> PyResult<u64> {
        self.work().wait(py, Some(Duration::ZERO))
    }

    /// Calls it back: requests that are open end as canceled once their memory is free. Does not wait.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let work = self.work();
        self.home.run(py, About::Transfer, |_| work.transfer().cancel())
    }

    /// Calls `function` with this transfer once it has ended, in a thread of the engine.
    fn add_done_callback(slf: &Bound<'_, Self>, function: Py<PyAny>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        // In a forked child nothing of the engine may be touched.
        this.home.run(py, About::Transfer, |engine| engine.inner().map(drop))?;
        let argument = slf.clone().into_any().unbind();
        let ring = this.home.dispatcher().expect(py, (function, argument))?;
        let told = this.work().transfer().on_end(move || ring.ring());
        told.map_err(|failure| raised(py, About::Transfer, &failure))
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let wait = slf.py().import("te_engine._waiting")?.getattr("wait")?;
        wait.call1((slf,))?.call_method0("__await__")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.home.traverse(&visit)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = self.state(py).unwrap_or("of another process");
        format!("Transfer({:#x}, {state})", self.work().transfer().number())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let kept = std::mem::ManuallyDrop::new(work);
        // Without an interpreter the memory of the transfer stays as it is.
        Python::try_attach(|py| self.home.leave(py, std::mem::ManuallyDrop::into_inner(kept)));
    }
}
