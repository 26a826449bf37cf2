//! From [`Failure`] to the exceptions of `te_engine.errors`.

use std::ffi::c_int;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use te_compat::{Code, Failure, RemoteSide};

/// The module with the exceptions.
static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// What a call is about: the class of its exceptions. That of a forked child, and that of an engine that is
/// closed, count more.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About {
    /// Making an engine.
    Build,
    /// Memory.
    Memory,
    /// A peer's published memory.
    Segment,
    /// Moving bytes.
    Transfer,
    /// Messages to a peer.
    Message,
    /// Whatever the failure says of itself.
    Anything,
}

impl About {
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Build => Some("BuildError"),
            Self::Memory => Some("RegisterError"),
            Self::Segment => Some("OpenError"),
            Self::Transfer => Some("TransferError"),
            Self::Message => Some("PeerError"),
            Self::Anything => None,
        }
    }
}

/// A call that was made without the interpreter, in Python's terms.
pub(crate) fn told<T>(py: Python<'_>, about: About, result: Result<T, Failure>) -> PyResult<T> {
    result.map_err(|failure| raised(py, about, &failure))
}

/// The exception of a failure.
pub(crate) fn raised(py: Python<'_>, about: About, failure: &Failure) -> PyErr {
    let made = facts(py, failure).and_then(|facts| made(py, "of_failure", (about.class(), facts)));
    made.unwrap_or_else(|broken| broken)
}

/// All bytes of a transfer are in place, and its notification was not delivered.
pub(crate) fn not_notified(py: Python<'_>, cause: &str, is_full: bool) -> PyErr {
    let code = if is_full { Code::TooManyRequests } else { Code::Rejected };
    let text = format!("all bytes are in place, and the notification is not: {cause}");
    let failure = Failure::new(code, "notify", text);
    raised_with(py, &failure, |facts| {
        facts.set_item("remote_side", RemoteSide::Settled.to_string())?;
        facts.set_item("retryable", is_full)
    })
}

/// A transfer's time was over before there was room for it.
pub(crate) fn no_room(py: Python<'_>, failure: &Failure, limit: Duration) -> PyErr {
    raised_with(py, failure, |facts| {
        let text = format!("submit: too much is outstanding, and was for {limit:?}");
        facts.set_item("cause", &text)?;
        facts.set_item("text", &text)?;
        facts.set_item("timed_out", true)
    })
}

/// The exception of a transfer's failure, some facts of which are changed.
fn raised_with(
    py: Python<'_>,
    failure: &Failure,
    change: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    let made = facts(py, failure).and_then(|facts| {
        change(&facts)?;
        made(py, "of_failure", (About::Transfer.class(), facts))
    });
    made.unwrap_or_else(|broken| broken)
}

/// Memory of a GPU or another device was given.
pub(crate) fn device_memory(py: Python<'_>, device: c_int) -> PyErr {
    made(py, "of_device", (device,)).unwrap_or_else(|broken| broken)
}

/// What is known of a failure, by name.
fn facts<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyDict>> {
    let facts = failure.facts();
    let dict = PyDict::new(py);
    dict.set_item("code", facts.code.as_i32())?;
    dict.set_item("kind", facts.code.name())?;
    dict.set_item("phase", facts.phase)?;
    dict.set_item("peer", facts.peer.as_deref())?;
    dict.set_item("index", facts.index)?;
    dict.set_item("attempt", facts.attempts)?;
    dict.set_item("transport", facts.transport)?;
    dict.set_item("cause", &*facts.cause)?;
    dict.set_item("remote_side", facts.remote.map(|side| side.to_string()))?;
    dict.set_item("local_state", facts.local.name())?;
    dict.set_item("retryable", facts.is_retryable)?;
    dict.set_item("timed_out", facts.is_timeout)?;
    dict.set_item("text", failure.to_string())?;
    Ok(dict)
}

fn made<'py, A>(py: Python<'py>, maker: &str, arguments: A) -> PyResult<PyErr>
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let errors = ERRORS.get_or_try_init(py, || py.import("te_engine.errors").map(Bound::unbind))?;
    Ok(PyErr::from_value(errors.bind(py).getattr(maker)?.call1(arguments)?))
}
