//! The thread that runs Python's callbacks of one engine. It starts with the first of them, and sleeps
//! while there is nothing to do.
//!
//! Threads that move bytes only add a number to the queue: they never wait for the interpreter.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use pyo3::exceptions::PySystemExit;
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
        if queue.thread.is_none() {
            self.shared.start(&mut queue);
        }
        self.shared.changed.notify_all();
    }
}

impl Dispatcher {
    /// Keeps a callback until its ring.
    pub(crate) fn expect(&self, function: Py<PyAny>, argument: Py<PyAny>) -> Ring {
        let mut queue = self.shared.queue.lock();
        queue.next += 1;
        let number = queue.next;
        drop(queue);
        self.shared.waiting.lock().insert(number, Callback { function, argument });
        Ring { shared: Arc::clone(&self.shared), number }
    }

    /// Runs what is due, then ends the thread; waits a while for that. A later ring starts it anew.
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
    }
}

impl Shared {
    /// Starts the thread. Where there is none to be had, the next ring tries again.
    fn start(self: &Arc<Self>, queue: &mut Queue) {
        let shared = Arc::clone(self);
        let builder = std::thread::Builder::new().name("te-callbacks".into());
        queue.is_closed = false;
        queue.thread = builder.spawn(move || shared.run()).ok().map(|made| made.thread().id());
    }

    fn run(&self) {
        while self.wait() {
            // Without an interpreter nobody is there to be called.
            if Python::try_attach(|py| self.run_due(py)).is_none() {
                self.queue.lock().due.clear();
            }
        }
    }

    /// Sleeps until something is due; without that, the thread is to end.
    fn wait(&self) -> bool {
        let mut queue = self.queue.lock();
        self.changed.wait_while(&mut queue, |queue| queue.due.is_empty() && !queue.is_closed);
        if queue.due.is_empty() {
            queue.thread = None;
            self.changed.notify_all();
        }
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
