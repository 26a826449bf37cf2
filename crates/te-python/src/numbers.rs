//! Numbers, lists of numbers and texts as calls take them.

use std::time::Duration;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyByteArray, PyBytes, PySequence, PyString};

/// A number from 0 to 2^64 − 1; anything else is a `TypeError`, as Mooncake's calls have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract::<u64>().map(Self).map_err(|_| {
            PyTypeError::new_err("a whole number from 0 to 18446744073709551615 is expected")
        })
    }
}

/// A list of such numbers: an array of 64-bit integers, or any sequence of integers.
#[derive(Debug)]
pub(crate) struct Numbers(pub(crate) Vec<u64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let object = object.to_owned();
        if let Some(numbers) = of_array(&object)? {
            return Ok(Self(numbers));
        }
        let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
        let sequence = object.cast::<PySequence>().ok().filter(|_| !is_text);
        let Some(sequence) = sequence else {
            return Err(PyTypeError::new_err("a sequence of whole numbers is expected"));
        };
        let said = sequence.len()?;
        let mut numbers = room(said)?;
        for item in sequence.try_iter()? {
            let Number(number) = item?.extract()?;
            // What an object says of its length need not be true.
            if numbers.len() == said {
                return Err(PyValueError::new_err("a sequence is longer than it says"));
            }
            numbers.push(number);
        }
        Ok(Self(numbers))
    }
}

/// The most numbers of a list: more than that no batch takes.
const MOST: usize = 1 << 24;

/// An empty list with room for so many.
///
/// # Errors
/// `ValueError` for more than [`MOST`], `MemoryError`.
pub(crate) fn room<T>(n: usize) -> PyResult<Vec<T>> {
    if n > MOST {
        return Err(PyValueError::new_err(format!("a list has {n} numbers, {MOST} at most")));
    }
    let mut list = Vec::new();
    list.try_reserve_exact(n).map_err(|_| PyMemoryError::new_err("no memory for a list"))?;
    Ok(list)
}

/// The numbers of an array, without an object for each.
fn of_array(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
    if object.is_instance_of::<pyo3::types::PyList>() {
        return Ok(None);
    }
    if let Some(numbers) = items::<u64>(object)? {
        return Ok(Some(numbers));
    }
    let Some(signed) = items::<i64>(object)? else { return Ok(None) };
    let numbers = signed.iter().map(|number| u64::try_from(*number).ok()).collect();
    match numbers {
        Some(numbers) => Ok(Some(numbers)),
        None => Err(PyTypeError::new_err("a number is below 0")),
    }
}

/// The items of an array of this type, which are in this machine's byte order.
fn items<T: Element + Default>(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<T>>> {
    let Ok(buffer) = PyBuffer::<T>::get(object) else { return Ok(None) };
    if !is_native(buffer.format().to_bytes()) {
        return Ok(None);
    }
    let n = buffer.item_count();
    let mut items = room(n)?;
    items.resize(n, T::default());
    buffer.copy_to_slice(object.py(), &mut items)?;
    Ok(Some(items))
}

/// Whether a format of a buffer is a number in this machine's byte order.
fn is_native(format: &[u8]) -> bool {
    let own = if cfg!(target_endian = "little") { b'<' } else { b'>' };
    match format {
        [kind] => kind.is_ascii_alphabetic(),
        [order, kind] => [b'@', b'=', own].contains(order) && kind.is_ascii_alphabetic(),
        _ => false,
    }
}

/// A text, given as `str` or as UTF-8 bytes; `None` is told apart.
#[derive(Debug, Clone)]
pub(crate) struct Text(pub(crate) Option<String>);

impl<'a, 'py> FromPyObject<'a, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self(None));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self(Some(text.to_str()?.to_owned())));
        }
        let bytes = match object.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes().to_vec(),
            Err(_) => object.cast::<PyByteArray>()?.to_vec(),
        };
        let text =
            String::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self(Some(text)))
    }
}

impl Text {
    /// The text, where there must be one.
    ///
    /// # Errors
    /// `RuntimeError` for `None`, as Mooncake's calls have it.
    pub(crate) fn required(&self) -> PyResult<&str> {
        self.0.as_deref().ok_or_else(|| PyRuntimeError::new_err("a name is expected, not None"))
    }
}

/// A time in seconds.
///
/// # Errors
/// `ValueError` for what is below zero, or no number.
pub(crate) fn seconds(time: f64) -> PyResult<Duration> {
    if time == f64::INFINITY {
        return Ok(FOREVER);
    }
    let time = Duration::try_from_secs_f64(time).map(|time| time.min(FOREVER));
    time.map_err(|_| PyValueError::new_err("a time is a number of seconds, not below 0"))
}

/// Longer than anybody waits, and short enough to be added to a clock.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Lengths of pieces, in bytes.
#[derive(Debug)]
pub(crate) enum Lengths {
    /// One for all.
    Same(u64),
    /// One for each.
    Each(Vec<u64>),
}

impl Lengths {
    /// Whether there are more or fewer than `n`.
    pub(crate) fn differs_from(&self, n: usize) -> bool {
        matches!(self, Self::Each(lengths) if lengths.len() != n)
    }

    /// That of one piece; 0 for a piece that is not there.
    pub(crate) fn at(&self, index: usize) -> u64 {
        match self {
            Self::Same(length) => *length,
            Self::Each(lengths) => lengths.get(index).copied().unwrap_or(0),
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Lengths {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(length) = object.extract::<u64>() {
            return Ok(Self::Same(length));
        }
        object.extract::<Numbers>().map(|Numbers(lengths)| Self::Each(lengths))
    }
}

/// Bytes, given as such or as text, which then are UTF-8. Those of `bytes` and `str` are not copied.
#[derive(Debug)]
pub(crate) enum Content {
    /// Of a text.
    Text(PyBackedStr),
    /// As such.
    Bytes(PyBackedBytes),
}

impl Content {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Content {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return object.extract().map(Self::Text);
        }
        Ok(Self::Bytes(object.extract()?))
    }
}
