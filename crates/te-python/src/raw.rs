//! Where addresses that Python code gives become memory: the only `unsafe` of this crate, beside that
//! of `region.rs`.
//!
//! I1  An address and a length are believed only as far as the engine checks them: it asks the
//!     kernel, and copies so that unmapped memory is an error.
#![allow(unsafe_code, reason = "pointers of Python objects; docs/memory-safety.md")]

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyCapsuleMethods};
use te_compat::CallerMemory;

use crate::failure::device_memory;
use crate::memory::objects;

// SAFETY: no Rust reference is ever made to memory of Python objects. That no other memory appears
// at a registered address is kept for objects by holding them, and for bare addresses it is what
// docs/python.md asks of the caller, as Mooncake's calls do.
const PROMISE: CallerMemory = unsafe { CallerMemory::promise() };

/// The promise about all memory that Python code names.
pub(crate) fn promise() -> CallerMemory {
    PROMISE
}

/// Bytes that a DLPack capsule describes.
pub(crate) struct Tensor {
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) is_writable: bool,
}

/// Memory that this host's processors can read and write: plain, or pinned for a device.
const HOST: [c_int; 3] = [1, 3, 11];

/// Refuses what is not memory of this host.
///
/// # Errors
/// `DeviceMemoryError`.
pub(crate) fn check_device(py: Python<'_>, device: c_int) -> PyResult<()> {
    if HOST.contains(&device) { Ok(()) } else { Err(device_memory(py, device)) }
}

/// Reads a capsule as `__dlpack__()` gives it.
///
/// # Errors
/// It is none, lies elsewhere than in this host's memory, or is not contiguous.
pub(crate) fn tensor(capsule: &Bound<'_, PyCapsule>) -> PyResult<Tensor> {
    let (tensor, flags) = if capsule.is_valid_checked(Some(c"dltensor_versioned")) {
        let pointer = capsule.pointer_checked(Some(c"dltensor_versioned"))?;
        // SAFETY: a capsule of this name holds a `DLManagedTensorVersioned`, which begins with its
        // version in every version, and lives as long as the capsule, which the caller has.
        let major = unsafe { pointer.cast::<u32>().read() };
        if major != 1 {
            let text = format!("DLPack of version {major} is not known here");
            return Err(PyValueError::new_err(text));
        }
        // SAFETY: as above; this is what it looks like in version 1.
        let managed = unsafe { pointer.cast::<DlManagedVersioned>().read() };
        (managed.tensor, managed.flags)
    } else {
        let pointer = capsule.pointer_checked(Some(c"dltensor"))?.cast::<DlTensor>();
        // SAFETY: a capsule of this name holds a `DLManagedTensor`, which begins with a `DLTensor`
        // and lives as long as the capsule, which the caller has.
        (unsafe { pointer.read() }, 0)
    };
    check_device(capsule.py(), tensor.device_type)?;
    if tensor.kind == OPAQUE {
        return Err(objects());
    }
    let n = usize::try_from(tensor.n_dimensions).unwrap_or(0);
    let shape = numbers(tensor.shape, n);
    if !is_contiguous(&shape, tensor.strides.map(|at| numbers(Some(at), n))) {
        return Err(PyValueError::new_err("the tensor is not contiguous"));
    }
    let items = shape.iter().try_fold(1u64, |all, n| all.checked_mul(u64::try_from(*n).ok()?));
    let bits = u64::from(tensor.bits) * u64::from(tensor.lanes);
    let len = items.and_then(|items| items.checked_mul(bits)).map(|bits| bits.div_ceil(8));
    let len = len.ok_or_else(|| PyValueError::new_err("the tensor has an impossible shape"))?;
    let address = tensor.data.map_or(0, |at| at.as_ptr().expose_provenance() as u64);
    let address = address.wrapping_add(tensor.byte_offset);
    Ok(Tensor { address, len, is_writable: flags & READ_ONLY == 0 })
}

/// `DLTensor` of DLPack, as every version of it has.
#[repr(C)]
struct DlTensor {
    data: Option<NonNull<c_void>>,
    device_type: c_int,
    _device: c_int,
    n_dimensions: c_int,
    kind: u8,
    bits: u8,
    lanes: u16,
    shape: Option<NonNull<i64>>,
    strides: Option<NonNull<i64>>,
    byte_offset: u64,
}

/// `DLManagedTensorVersioned` of DLPack 1.
#[repr(C)]
struct DlManagedVersioned {
    _version: [u32; 2],
    _context: Option<NonNull<c_void>>,
    _deleter: Option<NonNull<c_void>>,
    flags: u64,
    tensor: DlTensor,
}

/// DLPack's flag of memory that must not be written.
const READ_ONLY: u64 = 1;

/// DLPack's number for items that are handles of whatever made them.
const OPAQUE: u8 = 3;

/// The numbers of a shape, or of strides.
fn numbers(at: Option<NonNull<i64>>, n: usize) -> Vec<i64> {
    let Some(at) = at else { return Vec::new() };
    let number = |index| {
        // SAFETY: DLPack says that there are as many numbers as dimensions.
        let at = unsafe { at.add(index) };
        // SAFETY: as above.
        unsafe { at.read() }
    };
    (0..n).map(number).collect()
}

/// Whether the last dimension varies fastest, without gaps. Strides that are not told mean that.
fn is_contiguous(shape: &[i64], strides: Option<Vec<i64>>) -> bool {
    let Some(strides) = strides else { return true };
    let mut expected = 1i64;
    for (n, stride) in shape.iter().zip(&strides).rev() {
        if *n != 1 && *stride != expected {
            return shape.contains(&0);
        }
        expected = expected.saturating_mul(*n);
    }
    true
}

/// A `bytes` object that `fill` fills, while other Python threads run.
///
/// # Errors
/// Without the memory for it.
pub(crate) fn bytes<'py, E: Send>(
    py: Python<'py>,
    len: u64,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E> + Send,
) -> PyResult<Result<Bound<'py, PyBytes>, E>> {
    let size = ffi::Py_ssize_t::try_from(len).unwrap_or(ffi::Py_ssize_t::MAX);
    // SAFETY: without bytes to copy it makes an object of that size, or raises an error.
    let made = unsafe { ffi::PyBytes_FromStringAndSize(std::ptr::null(), size) };
    // SAFETY: that gave an object which is ours, or null with an error set.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    // SAFETY: it is a bytes object.
    let at = unsafe { ffi::PyBytes_AsString(object.as_ptr()) }.cast::<u8>();
    let place = Place(at, size.unsigned_abs());
    let filled = py.detach(move || {
        let Place(at, len) = { place };
        // SAFETY: the object has that many bytes, and nobody else knows it yet.
        unsafe { at.write_bytes(0, len) };
        // SAFETY: they were just written, and nobody else reads or writes them.
        fill(unsafe { std::slice::from_raw_parts_mut(at, len) })
    });
    Ok(match filled {
        Ok(()) => Ok(object.cast_into::<PyBytes>()?),
        Err(error) => Err(error),
    })
}

/// Bytes that only their maker knows of.
struct Place(*mut u8, usize);

// SAFETY: the thread that has it is the only one that uses it.
unsafe impl Send for Place {}
