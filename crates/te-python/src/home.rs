//! An engine as Python objects share it, and what it keeps of Python's.
//!
//! I1  A lock here is only taken with the interpreter attached and given back before it is detached, so
//!     that a child which Python code forks finds it free.
//! I2  What a pin keeps is given back only after the engine said that nothing uses the memory; where
//!     it cannot say so, the pin stays for good.
//! I3  Nothing of an engine is touched in a forked child, beyond asking whether this is one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use te_compat::{Engine, EngineCloseReport, Failure, Options, guarded, start_logging};
use te_sync::Mutex;

use crate::dispatcher::Dispatcher;
use crate::failure::{About, raised, told};
use crate::memory::Pin;
use crate::raw;
use crate::work::Work;

/// An engine, and the Python objects that its work needs.
pub(crate) struct Home {
    engine: Engine,
    /// What keeps registered memory, by its first address; one for each registration.
    pins: Mutex<HashMap<u64, Vec<Arc<Pin>>>>,
    /// Transfers that nobody holds any more and that may still use their memory.
    left: Mutex<Vec<Arc<Work>>>,
    dispatcher: Dispatcher,
}

/// A home as its Python objects hold it, so that the garbage collector sees what the engine keeps for them:
/// each of them knows the keeper, and it alone tells of the pins.
pub(crate) struct Handle {
    home: Arc<Home>,
    keeper: Py<Keeper>,
}

/// See [`Handle`].
#[pyclass(frozen, module = "te_engine._native")]
pub(crate) struct Keeper {
    home: Arc<Home>,
}

impl Handle {
    /// That of a new engine.
    ///
    /// # Errors
    /// Without the memory for it.
    pub(crate) fn new(py: Python<'_>, home: Arc<Home>) -> PyResult<Self> {
        let keeper = Py::new(py, Keeper { home: Arc::clone(&home) })?;
        Ok(Self { home, keeper })
    }

    /// Another one.
    pub(crate) fn another(&self, py: Python<'_>) -> Self {
        Self { home: Arc::clone(&self.home), keeper: self.keeper.clone_ref(py) }
    }

    /// Tells the garbage collector of the keeper.
    ///
    /// # Errors
    /// The collector's wish to end.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.keeper)
    }
}

impl std::ops::Deref for Handle {
    type Target = Arc<Home>;

    fn deref(&self) -> &Arc<Home> {
        &self.home
    }
}

#[pymethods]
impl Keeper {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // The interpreter is attached, so that nobody else has the lock (I1).
        let pins = self.home.pins.lock();
        pins.values().flatten().try_for_each(|pin| pin.traverse(&visit))
    }
}

/// Every engine of this process, to be closed before the interpreter goes.
static ALL: Mutex<Vec<Weak<Home>>> = Mutex::new(Vec::new());

impl Home {
    /// Makes an engine, without holding up other Python threads.
    ///
    /// # Errors
    /// The [`Failure`] of [`Engine::new`].
    pub(crate) fn new(py: Python<'_>, options: &Options) -> Result<Arc<Self>, Failure> {
        let engine = py.detach(|| {
            guarded(|| {
                let engine = Engine::new(options, raw::promise())?;
                start_logging(engine.config());
                Ok(engine)
            })
        })?;
        let home = Arc::new(Self {
            engine,
            pins: Mutex::default(),
            left: Mutex::default(),
            dispatcher: Dispatcher::default(),
        });
        let mut all = ALL.lock();
        all.retain(|home| home.strong_count() > 0);
        all.push(Arc::downgrade(&home));
        Ok(home)
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The thread that runs callbacks.
    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// Runs a call of the engine while other Python threads run.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        py.detach(|| guarded(|| call(&self.engine)))
    }

    /// The same, with the failure as an exception.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        about: About,
        call: impl FnOnce(&Engine) -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        told(py, about, self.call(py, call))
    }

    /// Keeps what registered memory needs.
    pub(crate) fn pin(&self, address: u64, pin: Arc<Pin>) {
        self.pins.lock().entry(address).or_default().push(pin);
    }

    /// Ends one registration, and gives back what it kept: `own`. Where that is not told, nothing is
    /// given back until the last registration of the address has ended.
    ///
    /// # Errors
    /// The exception of the failure; everything is kept then.
    pub(crate) fn unregister(
        &self,
        py: Python<'_>,
        address: u64,
        own: Option<&Arc<Pin>>,
    ) -> PyResult<()> {
        // What another thread registers from here on is none of these.
        let before = self.pins.lock().get(&address).cloned().unwrap_or_default();
        let is_last = self.run(py, About::Memory, |engine| {
            engine.unregister(address)?;
            Ok(!engine.overlaps(address, 1)?)
        })?;
        let is_over = |pin: &Arc<Pin>| {
            let is_own = own.is_some_and(|own| Arc::ptr_eq(own, pin));
            is_own || is_last && before.iter().any(|it| Arc::ptr_eq(it, pin))
        };
        let mut pins = self.pins.lock();
        let of_address = pins.remove(&address).unwrap_or_default();
        let (over, kept): (Vec<_>, Vec<_>) = of_address.into_iter().partition(is_over);
        if !kept.is_empty() {
            pins.insert(address, kept);
        }
        // Giving a buffer back may run Python code, which may come here again.
        drop(pins);
        drop((over, before));
        Ok(())
    }

    /// Keeps a transfer until it uses its memory no more.
    pub(crate) fn leave(self: &Arc<Self>, py: Python<'_>, work: Arc<Work>) {
        self.sweep(py);
        if work.is_quiet(py) {
            return;
        }
        self.left.lock().push(Arc::clone(&work));
        // In a forked child nothing of the engine may be touched. Where there is no thread for it, the
        // next transfer looks.
        if self.engine.is_here() {
            drop(self.sweep_after(py, &work));
        }
    }

    /// Looks again once this has ended.
    fn sweep_after(self: &Arc<Self>, py: Python<'_>, work: &Work) -> PyResult<()> {
        let home = Arc::downgrade(self);
        let sweep = PyCFunction::new_closure(py, None, None, move |arguments, _| {
            if let Some(home) = home.upgrade() {
                home.sweep(arguments.py());
            }
        })?;
        let ring = self.dispatcher.expect(py, (sweep.into_any().unbind(), py.None()))?;
        let told = py.detach(|| work.transfer().on_end(move || ring.ring()));
        told.map_err(|failure| raised(py, About::Transfer, &failure))
    }

    /// Gives up the transfers whose memory is free by now.
    pub(crate) fn sweep(&self, py: Python<'_>) {
        let left = std::mem::take(&mut *self.left.lock());
        if left.is_empty() {
            return;
        }
        let (keep, gone): (Vec<_>, Vec<_>) = left.into_iter().partition(|work| !work.is_quiet(py));
        self.left.lock().extend(keep);
        drop(gone);
    }

    /// Ends the engine within `timeout`, then runs the callbacks that became due by that.
    pub(crate) fn close(
        &self,
        py: Python<'_>,
        timeout: Duration,
    ) -> Result<EngineCloseReport, Failure> {
        let report = self.call(py, |engine| engine.close(timeout))?;
        self.dispatcher.stop(py);
        self.give_back(is_clean(&report));
        Ok(report)
    }

    /// Gives back everything that is kept, where that may be done.
    fn give_back(&self, is_clean: bool) {
        let (pins, left) = (std::mem::take(&mut *self.pins.lock()), self.left.lock().split_off(0));
        if is_clean {
            drop((pins, left));
        } else {
            std::mem::forget((pins, left));
        }
    }
}

/// Whether nothing uses memory any more.
fn is_clean(report: &EngineCloseReport) -> bool {
    report.open_tasks == 0 && report.joined && report.kept_bytes == 0
}

impl Drop for Home {
    /// The last object of the engine is gone. It is closed here, since what keeps memory must stay
    /// until then.
    fn drop(&mut self) {
        if !self.engine.is_here() {
            self.give_back(false);
            return;
        }
        let limit = self.engine.config().engine.shutdown_timeout;
        // Without an interpreter there is nobody to close it for; its process ends.
        let closed = Python::try_attach(|py| self.close(py, limit).is_ok());
        if closed != Some(true) {
            self.give_back(false);
        }
    }
}

/// Closes every engine of this process, all within `timeout`.
pub(crate) fn close_all(py: Python<'_>, timeout: Duration) {
    let all: Vec<Arc<Home>> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    let here: Vec<_> = all.iter().filter(|home| home.engine.is_here()).collect();
    // At once, since each of them may have to wait for a peer.
    py.detach(|| {
        std::thread::scope(|scope| {
            for home in &here {
                let engine = &home.engine;
                // Where no thread can be had, its process ends all the same.
                let close = move || drop(guarded(|| engine.close(timeout)));
                drop(std::thread::Builder::new().spawn_scoped(scope, close));
            }
        });
    });
    for home in here {
        // What is closed answers at once, now with the callbacks that are due.
        drop(home.close(py, Duration::ZERO));
    }
}
