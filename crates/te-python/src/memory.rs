//! What a Python object says of the memory that it stands for.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyCapsule, PyDict, PyMemoryView, PyTuple};

use crate::numbers::Number;
use crate::raw;
use crate::region::Region;

/// Memory of this process, and what keeps it.
pub(crate) struct Memory {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) is_writable: bool,
    pub(crate) pin: Pin,
}

/// What keeps memory where it is for as long as it is used. Dropped with the interpreter attached.
pub(crate) enum Pin {
    /// Nothing: the caller does.
    Caller,
    /// A view that the object's owner has given, and the owner, where it may be told of.
    Buffer(#[expect(dead_code, reason = "held, not used")] PyUntypedBuffer, Option<Py<PyAny>>),
    /// The object.
    Object(#[expect(dead_code, reason = "held, not used")] Py<PyAny>),
}

impl Memory {
    /// Memory of whatever Python has for it: a [`Region`], `(address, length)`, an object with the
    /// buffer protocol, with DLPack, or with `__array_interface__`.
    ///
    /// # Errors
    /// `TypeError` for other objects, `ValueError` for memory with gaps, `DeviceMemoryError`.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(region) = object.cast::<Region>() {
            return region.get().memory(object);
        }
        if let Ok(pair) = object.cast::<PyTuple>() {
            let (Number(address), Number(len)) = pair.extract()?;
            return Ok(Self { address, len, is_writable: true, pin: Pin::Caller });
        }
        match buffer(object) {
            Ok(buffer) => Self::of_buffer(object.py(), buffer),
            Err(error) => match Self::of_tensor(object)? {
                Some(memory) => Ok(memory),
                None => Err(error),
            },
        }
    }

    /// The same, where the memory is to be written.
    ///
    /// # Errors
    /// Also `ValueError` for memory that is read-only.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let memory = Self::of(object)?;
        if memory.is_writable {
            return Ok(memory);
        }
        Err(PyValueError::new_err("the memory is read-only, and is to be written"))
    }

    fn of_buffer(py: Python<'_>, buffer: PyUntypedBuffer) -> PyResult<Self> {
        if has_objects(buffer.format().to_bytes()) {
            return Err(objects());
        }
        if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
            return Err(PyValueError::new_err("the buffer is not contiguous"));
        }
        let owner = buffer.obj(py).filter(|owner| is_plain(owner)).map(|it| it.clone().unbind());
        Ok(Self {
            address: buffer.buf_ptr().expose_provenance() as u64,
            len: buffer.len_bytes() as u64,
            is_writable: !buffer.readonly(),
            pin: Pin::Buffer(buffer, owner),
        })
    }

    /// Tensors have no buffer protocol; they say where they lie in other ways.
    fn of_tensor(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if object.hasattr("__cuda_array_interface__")? {
            raw::check_device(py, CUDA)?;
        }
        if object.hasattr("__dlpack__")? {
            let device = object.call_method0("__dlpack_device__")?;
            raw::check_device(py, device.get_item(0)?.extract()?)?;
            let capsule = capsule(object)?;
            let tensor = raw::tensor(capsule.cast::<PyCapsule>()?)?;
            let pin = Pin::Object(capsule.unbind());
            let raw::Tensor { address, len, is_writable } = tensor;
            return Ok(Some(Self { address, len, is_writable, pin }));
        }
        if object.hasattr("__array_interface__")? {
            return Self::of_array(object).map(Some);
        }
        Ok(None)
    }

    fn of_array(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let facts = object.getattr("__array_interface__")?;
        let strides = facts.call_method1("get", ("strides",))?;
        if !strides.is_none() {
            return Err(PyValueError::new_err("the array is not contiguous"));
        }
        let (address, is_readonly): (u64, bool) = facts.get_item("data")?.extract()?;
        let shape = facts.get_item("shape")?.cast_into::<PyTuple>()?;
        let each = item_bytes(&facts)?;
        let len = shape.iter().try_fold(each, |all, n| {
            Ok::<_, PyErr>(
                all.zip(Some(n.extract()?)).and_then(|(all, n)| u64::checked_mul(all, n)),
            )
        })?;
        let len = len.ok_or_else(|| PyTypeError::new_err("the array has an unknown size"))?;
        let pin = Pin::Object(object.clone().unbind());
        Ok(Self { address, len, is_writable: !is_readonly, pin })
    }
}

impl Pin {
    /// Tells the garbage collector of what it keeps.
    ///
    /// # Errors
    /// The collector's wish to end.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Self::Buffer(_, Some(owner)) = self else { return Ok(()) };
        // Two references: this one and the view's.
        visit.call(owner)?;
        visit.call(owner)
    }
}

/// Whether an owner's memory stays where it is until the last view of it is released, also where the garbage
/// collector clears the owner before. That is known of these; for others the collector is told nothing.
fn is_plain(owner: &Bound<'_, PyAny>) -> bool {
    owner.is_instance_of::<PyByteArray>() || owner.hasattr("__array_interface__").unwrap_or(false)
}

/// A view of an object's memory. Some owners do not tell strides; Python's own view of them does.
fn buffer(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    PyUntypedBuffer::get(object).or_else(|error| {
        let view = PyMemoryView::from(object).map_err(|_| error)?;
        PyUntypedBuffer::get(&view)
    })
}

/// Whether items of this format hold pointers to Python objects. Names of fields stand between colons.
fn has_objects(format: &[u8]) -> bool {
    format.split(|byte| *byte == b':').step_by(2).any(|part| part.contains(&b'O'))
}

/// Pointers to objects would be moved, and overwritten, as if they were bytes.
pub(crate) fn objects() -> PyErr {
    PyTypeError::new_err(
        "the memory holds pointers to Python objects, which are no bytes to be moved",
    )
}

/// Bytes of an item, as an `__array_interface__` tells; `None` where it does not.
fn item_bytes(facts: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let kind: String = facts.get_item("typestr")?.extract()?;
    let size = kind.get(2..).and_then(|digits| digits.parse::<u64>().ok());
    Ok(match kind.as_bytes().get(1) {
        Some(b'O') => return Err(objects()),
        Some(b'b' | b'i' | b'u' | b'f' | b'c' | b'S') => size,
        // Characters of four bytes.
        Some(b'U') => size.and_then(|n| n.checked_mul(4)),
        Some(b'V') => {
            let fields = facts.call_method1("get", ("descr",))?;
            // Fields of fields are told in here too.
            if fields.str()?.to_str()?.contains("|O") {
                return Err(objects());
            }
            size
        }
        _ => None,
    })
}

/// The capsule of an object with DLPack: one with flags, where its maker knows of them.
fn capsule<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let version = PyDict::new(py);
    version.set_item("max_version", (1, 0))?;
    match object.call_method("__dlpack__", (), Some(&version)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0("__dlpack__"),
        told => told,
    }
}

/// DLPack's number for memory of a CUDA device.
const CUDA: i32 = 2;
