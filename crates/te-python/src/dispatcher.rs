//! The thread that runs Python's callbacks of one engine. It starts with the first of them, and sleeps
//! while there is nothing to do.
//!
//! I1  Threads that move bytes only add a number to the queue: they never wait for the interpreter.
//! I2  It is a thread of Python's (`_callbacks.py`), and callbacks are called from there: an interpreter
//!     that ends takes such a thread away wherever it is, which no frame of Rust above it survives.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::prelude::*;
use te_sync::{Condvar, Mutex};

/// See the module.
#[derive(Default)]
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// What waits for the numbers; only touched with the interpreter attached.
    waiting: Mutex<HashMap<u64, Callback>>,
}

#[derive(Default)]
struct Queue {
    due: VecDeque<u64>,
    next: u64,
    /// How many have not been taken yet, due or not.
    expected: usize,
    is_there: bool,
    /// The thread, since it asked for the first time.
    thread: Option<ThreadId>,
    is_busy: bool,
    is_closed: bool,
}

/// A Python function, and what it is told.
type Callback = (Py<PyAny>, Py<PyAny>);

/// How long the end of the interpreter, or of an engine, waits for callbacks that run.
const PATIENCE: Duration = Duration::from_secs(2);

/// Gives a callback's number to the thread.
pub(crate) struct Ring {
    shared: Arc<Shared>,
    number: u64,
}

impl Ring {
    /// It is due now. Waits for nothing.
    pub(crate) fn ring(self) {
        self.shared.queue.lock().due.push_back(self.number);
        self.shared.changed.notify_all();
    }
}

impl Dispatcher {
    /// Keeps a callback until its ring. Starts the thread.
    ///
    /// # Errors
    /// Python's, where there is no thread to be had.
    pub(crate) fn expect(&self, py: Python<'_>, callback: Callback) -> PyResult<Ring> {
        let (number, is_first) = self.shared.queue.lock().expect();
        self.shared.waiting.lock().insert(number, callback);
        if is_first && let Err(error) = self.start(py) {
            self.shared.queue.lock().unexpect();
            let callback = self.shared.waiting.lock().remove(&number);
            drop(callback);
            return Err(error);
        }
        Ok(Ring { shared: Arc::clone(&self.shared), number })
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let due = Py::new(py, Due { shared: Arc::clone(&self.shared) })?;
        py.import("te_engine._callbacks")?.call_method1("start", (due,)).map(drop)
    }

    /// Waits a while until what is due has run. The thread ends when nothing more can become due.
    pub(crate) fn stop(&self, py: Python<'_>) {
        let own = std::thread::current().id();
        py.detach(|| {
            let mut queue = self.shared.queue.lock();
            queue.is_closed = true;
            self.shared.changed.notify_all();
            if queue.thread != Some(own) {
                self.shared.changed.wait_while_for(&mut queue, |queue| queue.has_work(), PATIENCE);
            }
        });
    }
}

impl Queue {
    /// One more; says its number, and whether it needs a thread.
    fn expect(&mut self) -> (u64, bool) {
        self.next += 1;
        self.expected += 1;
        self.is_closed = false;
        (self.next, !std::mem::replace(&mut self.is_there, true))
    }

    /// One less, and no thread.
    fn unexpect(&mut self) {
        self.expected -= 1;
        self.is_there = false;
    }

    /// Whether the thread is there and has something to run, or is about to end.
    fn has_work(&self) -> bool {
        self.is_there && (self.is_busy || self.expected == 0 || !self.due.is_empty())
    }
}

impl Shared {
    /// Sleeps until something is due; without that, the thread is to end.
    fn next(&self) -> Option<u64> {
        let mut queue = self.queue.lock();
        queue.thread = Some(std::thread::current().id());
        queue.is_busy = false;
        self.changed.notify_all();
        self.changed.wait_while(&mut queue, |queue| {
            queue.due.is_empty() && !(queue.is_closed && queue.expected == 0)
        });
        let number = queue.due.pop_front();
        if number.is_some() {
            queue.expected -= 1;
            queue.is_busy = true;
        } else {
            (queue.is_there, queue.thread) = (false, None);
            self.changed.notify_all();
        }
        number
    }
}

/// The queue as the thread sees it.
#[pyclass(frozen, module = "te_engine._native")]
struct Due {
    shared: Arc<Shared>,
}

#[pymethods]
impl Due {
    /// Waits for a callback: the function and its argument, or None where the thread is to end.
    fn take(&self, py: Python<'_>) -> Option<Callback> {
        loop {
            let number = py.detach(|| self.shared.next())?;
            let callback = self.shared.waiting.lock().remove(&number);
            if callback.is_some() {
                return callback;
            }
        }
    }

    /// A callback has raised this.
    fn failed(&self, function: &Bound<'_, PyAny>, error: Bound<'_, PyAny>) {
        let py = function.py();
        PyErr::from_value(error).write_unraisable(py, Some(function));
    }
}
