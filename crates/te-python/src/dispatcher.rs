//! The thread that runs Python's callbacks of one engine. It starts with the first of them, and sleeps
//! while there is nothing to do.
//!
//! Threads that move bytes only add a number to the queue: they never wait for the interpreter.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;

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
    thread: Option<ThreadId>,
    is_closed: bool,
}

/// A Python function, and what it is told.
struct Callback {
    function: Py<PyAny>,
    argument: Py<PyAny>,
}

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
        let mut queue = self.shared.queue.lock();
        queue.due.push_back(self.number);
        self.shared.changed.notify_all();
    }
}

impl Dispatcher {
    /// Keeps a callback until its ring.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn expect(&self, function: Py<PyAny>, argument: Py<PyAny>) -> io::Result<Ring> {
        let mut queue = self.shared.queue.lock();
        if queue.thread.is_none() && !queue.is_closed {
            let shared = Arc::clone(&self.shared);
            let builder = std::thread::Builder::new().name("te-callbacks".into());
            queue.thread = Some(builder.spawn(move || shared.run())?.thread().id());
        }
        queue.next += 1;
        let number = queue.next;
        drop(queue);
        self.shared.waiting.lock().insert(number, Callback { function, argument });
        Ok(Ring { shared: Arc::clone(&self.shared), number })
    }

    /// Runs what is due, then ends the thread; waits a while for that. Callbacks that are expected
    /// later run in whatever thread comes here next.
    pub(crate) fn stop(&self, py: Python<'_>) {
        let own = std::thread::current().id();
        py.detach(|| {
            let mut queue = self.shared.queue.lock();
            queue.is_closed = true;
            self.shared.changed.notify_all();
            if queue.thread != Some(own) {
                let is_there = |queue: &mut Queue| queue.thread.is_some();
                self.shared.changed.wait_while_for(&mut queue, is_there, PATIENCE);
            }
        });
        // Without a thread they are run here.
        if self.shared.queue.lock().thread.is_none() {
            self.shared.run_due(py);
        }
    }
}

impl Shared {
    fn run(&self) {
        while self.wait() {
            if Python::try_attach(|py| self.run_due(py)).is_none() {
                break;
            }
        }
        self.queue.lock().thread = None;
        self.changed.notify_all();
    }

    /// Sleeps until something is due; says whether that is so, or all is over.
    fn wait(&self) -> bool {
        let mut queue = self.queue.lock();
        self.changed.wait_while(&mut queue, |queue| queue.due.is_empty() && !queue.is_closed);
        !queue.due.is_empty()
    }

    fn run_due(&self, py: Python<'_>) {
        loop {
            let Some(number) = self.queue.lock().due.pop_front() else { return };
            let callback = self.waiting.lock().remove(&number);
            let Some(Callback { function, argument }) = callback else { continue };
            if let Err(error) = function.call1(py, (argument,)) {
                // As in threads that Python starts: an exit ends the callback and nothing more.
                if !error.is_instance_of::<PySystemExit>(py) {
                    error.write_unraisable(py, Some(function.bind(py)));
                }
            }
        }
    }
}
