//! Registered memory.
#![allow(unsafe_code, reason = "Python's buffer protocol is a C interface; docs/memory-safety.md")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use te_compat::{Buffer, Code, Failure, RemoteAccess, guarded};

use crate::failure::{About, told};
use crate::home::Handle;
use crate::memory::{Memory, Pin};

/// Memory that is registered with an engine. As a context manager it is unregistered at the end.
#[pyclass(frozen, weakref, module = "te_engine")]
pub(crate) struct Region {
    home: Handle,
    address: u64,
    len: u64,
    location: String,
    is_writable: bool,
    standing: AtomicU8,
    /// What keeps the memory: the engine's own, or somebody's.
    own: Option<te_compat::Region>,
    pin: Arc<Pin>,
}

impl Region {
    /// Allocates memory of the engine, registered.
    ///
    /// # Errors
    /// The exception of the failure; nothing is registered.
    pub(crate) fn allocate(
        py: Python<'_>,
        home: &Handle,
        len: u64,
        location: String,
    ) -> PyResult<Self> {
        let own = home.run(py, About::Memory, |engine| {
            let region = engine.allocate(len)?;
            let regions = std::slice::from_ref(&region);
            engine.register_regions(regions, &location, RemoteAccess::ReadWrite)?;
            Ok(region)
        })?;
        Ok(Self {
            home: home.another(py),
            address: own.address(),
            len: own.len(),
            location,
            is_writable: true,
            standing: AtomicU8::new(REGISTERED),
            own: Some(own),
            pin: Arc::new(Pin::Caller),
        })
    }

    /// Registers memory of an object.
    ///
    /// # Errors
    /// The exception of the failure; nothing is registered.
    pub(crate) fn register(
        py: Python<'_>,
        home: &Handle,
        memory: Memory,
        (location, is_remote): (String, bool),
    ) -> PyResult<Self> {
        let Memory { address, len, is_writable, pin } = memory;
        home.run(py, About::Memory, |engine| {
            if is_writable || !is_remote || len == 0 {
                return engine.register(Buffer { address, len }, &location, is_remote);
            }
            // Its owner says that it does not change.
            let named = engine.local_range(address, len)?;
            let (region, offset) = (named.region(), named.offset());
            let region = if offset == 0 && region.len() == len {
                region.clone()
            } else {
                return Err(overlapping(address));
            };
            engine.register_regions(&[region], &location, RemoteAccess::Read)
        })?;
        let pin = Arc::new(pin);
        home.pin(address, Arc::clone(&pin));
        let (home, standing) = (home.another(py), AtomicU8::new(REGISTERED));
        Ok(Self { home, address, len, location, is_writable, standing, own: None, pin })
    }

    /// Its memory, kept by `object`, which is this region.
    pub(crate) fn memory(&self, object: &Bound<'_, PyAny>) -> PyResult<Memory> {
        let pin = Pin::Object(object.clone().unbind());
        let Self { address, len, is_writable, .. } = *self;
        Ok(Memory { address, len, is_writable, pin })
    }
}

/// Its registration is to be ended by its object.
const REGISTERED: u8 = 0;
/// A thread is at that.
const ENDING: u8 = 1;
/// It has ended.
const GONE: u8 = 2;

/// Another thread ends the registration.
fn busy(address: u64) -> Failure {
    let cause = format!("the memory at {address:#x} is being unregistered by another thread");
    Failure::new(Code::Busy, "unregister", cause)
}

/// The memory is a part of what is registered already.
fn overlapping(address: u64) -> Failure {
    let cause = format!("the memory at {address:#x} is a part of a registered buffer");
    Failure::new(Code::AddressOverlapped, "register", cause)
}

#[pymethods]
impl Region {
    /// First address, in this process. Peers name the memory by it.
    #[getter]
    fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    #[getter]
    fn length(&self) -> u64 {
        self.len
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.len).unwrap_or(usize::MAX)
    }

    /// Where the memory lies: ``"cpu:0"``, or ``"*"`` where that is not known.
    #[getter]
    fn location(&self) -> &str {
        &self.location
    }

    /// Whether it was not unregistered through this object.
    #[getter]
    fn registered(&self) -> bool {
        self.standing.load(Ordering::Acquire) != GONE
    }

    /// Ends the registration. Waits for transfers that use the memory, a few seconds at most.
    ///
    /// Raises BusyError while a transport still holds it, or another thread is about to do the same: it
    /// must be kept, and the call repeated.
    fn unregister(&self, py: Python<'_>) -> PyResult<()> {
        let (taken, seen) = (Ordering::AcqRel, Ordering::Acquire);
        match self.standing.compare_exchange(REGISTERED, ENDING, taken, seen) {
            Err(GONE) => return Ok(()),
            Err(_) => return told(py, About::Memory, Err(busy(self.address))),
            Ok(_) => {}
        }
        let ended = self.home.unregister(py, self.address, Some(&self.pin));
        let standing = if ended.is_ok() { GONE } else { REGISTERED };
        self.standing.store(standing, Ordering::Release);
        ended
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.unregister(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.home.traverse(&visit)?;
        // As long as the engine keeps it too, the keeper tells of it.
        if Arc::strong_count(&self.pin) == 1 { self.pin.traverse(&visit) } else { Ok(()) }
    }

    fn __repr__(&self) -> String {
        let word = if self.registered() { "" } else { ", unregistered" };
        format!("Region({:#x}, {} bytes{word})", self.address, self.len)
    }

    /// The bytes, where the engine allocated them; they live as long as the view.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let region = slf.get();
        let Some(own) = &region.own else {
            let text = "only memory that the engine allocated can be looked at through its region";
            return Err(PyBufferError::new_err(text));
        };
        let at = std::ptr::with_exposed_provenance_mut(usize::try_from(own.address())?);
        let len = isize::try_from(own.len())?;
        // SAFETY: `view` is what the interpreter gave for this call, and it keeps `slf`, which keeps
        // the memory, until the view is released.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at, len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

impl Drop for Region {
    /// The last view of memory that the engine allocated is gone, and so is its registration.
    fn drop(&mut self) {
        let Some(own) = self.own.take() else { return };
        let is_over = *self.standing.get_mut() == GONE;
        // Giving back gigabytes takes a while, and so may transfers of peers. What they still hold is kept
        // by the engine. Without an interpreter, the process ends.
        let end = || {
            if !is_over && self.home.engine().is_here() {
                drop(guarded(|| self.home.engine().unregister(own.address())));
            }
            drop(own);
        };
        Python::try_attach(|py| py.detach(end));
    }
}
