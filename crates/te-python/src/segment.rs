//! Somebody's published memory, and moving bytes to and from it.

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods};
use te_compat::{Notify, OPCODE_READ, OPCODE_WRITE, Request, TransferOptions};
use te_engine::SegmentId;

use crate::failure::About;
use crate::home::Handle;
use crate::memory::Memory;
use crate::numbers::{Lengths, Number, Numbers, room, seconds};
use crate::transfer::Transfer;
use crate::work::{Plan, Work};

/// The published memory of a peer, or of this engine.
#[pyclass(frozen, weakref, module = "te_engine")]
pub(crate) struct Segment {
    home: Handle,
    id: i32,
    name: String,
}

impl Segment {
    pub(crate) fn open(py: Python<'_>, home: &Handle, name: String) -> PyResult<Self> {
        let id = home.run(py, About::Segment, |engine| engine.open_segment(&name))?;
        Ok(Self { home: home.another(py), id, name })
    }

    fn id(&self) -> SegmentId {
        SegmentId::from_u64(u64::try_from(self.id).unwrap_or(u64::MAX))
    }

    fn request(&self, opcode: i32, source: u64, offset: u64, len: u64) -> Request {
        Request { opcode, source, target: self.id, offset, len }
    }

    /// One piece: all bytes of a buffer.
    fn one(
        &self,
        opcode: i32,
        local: &Bound<'_, PyAny>,
        address: u64,
        options: TransferOptions,
    ) -> PyResult<Plan> {
        let memory = memory(opcode, local)?;
        let requests = vec![self.request(opcode, memory.address, address, memory.len)];
        Ok(Plan { requests, options, pins: vec![memory.pin] })
    }

    /// Many pieces of one buffer, or of the whole address space.
    fn many(
        &self,
        opcode: i32,
        pieces: Pieces<'_, '_>,
        options: TransferOptions,
    ) -> PyResult<Plan> {
        let Pieces { local, offsets: Numbers(offsets), addresses: Numbers(addresses), lengths } =
            pieces;
        let n = offsets.len();
        if addresses.len() != n || lengths.differs_from(n) {
            return Err(PyValueError::new_err("the lists differ in length"));
        }
        let (base, size, pins) = match local {
            Some(local) => {
                let memory = memory(opcode, local)?;
                (memory.address, memory.len, vec![memory.pin])
            }
            None => (0, u64::MAX, Vec::new()),
        };
        let mut requests = room(n)?;
        for (index, (offset, address)) in offsets.iter().zip(&addresses).enumerate() {
            let len = lengths.at(index);
            let is_inside = offset.checked_add(len).is_some_and(|end| end <= size);
            let source = base.checked_add(*offset).filter(|_| is_inside);
            let Some(source) = source else {
                let text = format!("piece {index} is not inside the local buffer");
                return Err(PyIndexError::new_err(text));
            };
            requests.push(self.request(opcode, source, *address, len));
        }
        Ok(Plan { requests, options, pins })
    }

    fn finish(&self, py: Python<'_>, plan: Plan) -> PyResult<u64> {
        Work::begin_waiting(py, &self.home, plan)?.finish(py, &self.home)
    }

    fn submit(&self, py: Python<'_>, plan: Plan) -> PyResult<Transfer> {
        Ok(Transfer::new(py, &self.home, Work::begin(py, &self.home, plan)?))
    }
}

#[expect(clippy::too_many_arguments, reason = "four lists are what describes many pieces")]
#[pymethods]
impl Segment {
    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The published buffers: first address, bytes, location. As they are known here; see `refresh`.
    fn buffers(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, String)>> {
        self.home.run(py, About::Segment, |engine| {
            let segment = engine.inner()?.segment(self.id());
            let buffers = segment.iter().flat_map(|segment| segment.descriptor().buffers());
            Ok(buffers.map(|it| (it.addr, it.length, it.name.clone())).collect())
        })
    }

    /// First address of the first published buffer.
    ///
    /// Raises OpenError where there is none.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<u64> {
        self.home.run(py, About::Segment, |engine| engine.first_buffer_address(&self.name))
    }

    /// The transport that requests go by, or None where none reaches it.
    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.home.run(py, About::Segment, |engine| Ok(engine.inner()?.transport_to(self.id())))
    }

    /// Asks its owner, or the metadata service, what is published now. Says whether that was answered.
    fn refresh(&self, py: Python<'_>) -> PyResult<bool> {
        let report = self
            .home
            .run(py, About::Segment, |engine| engine.sync_segment_cache(Some(&self.name)))?;
        Ok(report.failed == 0)
    }

    /// Copies `local` to `address` of the peer, and waits for the end. Gives the bytes moved.
    ///
    /// By keyword: `timeout` in seconds, `checked` (sums are compared), `notify` (name, message).
    /// Raises TransferError; the memory is free then, or `local_state` says otherwise.
    #[pyo3(signature = (local, address, **terms))]
    fn write(
        &self,
        py: Python<'_>,
        local: &Bound<'_, PyAny>,
        address: Number,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        self.finish(py, self.one(OPCODE_WRITE, local, address.0, options(terms)?)?)
    }

    /// Copies from `address` of the peer into `local`, and waits for the end. Gives the bytes moved.
    ///
    /// By keyword: `timeout` in seconds, `checked` (sums are compared), `notify` (name, message).
    /// Raises TransferError; the memory is free then, or `local_state` says otherwise.
    #[pyo3(signature = (local, address, **terms))]
    fn read(
        &self,
        py: Python<'_>,
        local: &Bound<'_, PyAny>,
        address: Number,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        self.finish(py, self.one(OPCODE_READ, local, address.0, options(terms)?)?)
    }

    /// Begins what `write` does.
    ///
    /// Raises TransferError where nothing was begun, `retryable` where too much is outstanding; later
    /// errors come from the Transfer.
    #[pyo3(signature = (local, address, **terms))]
    fn submit_write(
        &self,
        py: Python<'_>,
        local: &Bound<'_, PyAny>,
        address: Number,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transfer> {
        self.submit(py, self.one(OPCODE_WRITE, local, address.0, options(terms)?)?)
    }

    /// Begins what `read` does.
    ///
    /// Raises TransferError where nothing was begun, `retryable` where too much is outstanding; later
    /// errors come from the Transfer.
    #[pyo3(signature = (local, address, **terms))]
    fn submit_read(
        &self,
        py: Python<'_>,
        local: &Bound<'_, PyAny>,
        address: Number,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transfer> {
        self.submit(py, self.one(OPCODE_READ, local, address.0, options(terms)?)?)
    }

    /// Does `write` for many pieces at once: piece `i` has `lengths[i]` bytes, at `offsets[i]` of
    /// `local` and at `addresses[i]` of the peer. Without `local`, offsets are addresses here, of
    /// memory that the caller keeps. One length may stand for all.
    ///
    /// The lists may be arrays of 64-bit integers. Raises IndexError for a piece outside `local`.
    #[pyo3(signature = (local, offsets, addresses, lengths, **terms))]
    fn write_many(
        &self,
        py: Python<'_>,
        local: Option<&Bound<'_, PyAny>>,
        offsets: Numbers,
        addresses: Numbers,
        lengths: Lengths,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let pieces = Pieces { local, offsets, addresses, lengths };
        self.finish(py, self.many(OPCODE_WRITE, pieces, options(terms)?)?)
    }

    /// Begins what `write_many` does.
    #[pyo3(signature = (local, offsets, addresses, lengths, **terms))]
    fn submit_write_many(
        &self,
        py: Python<'_>,
        local: Option<&Bound<'_, PyAny>>,
        offsets: Numbers,
        addresses: Numbers,
        lengths: Lengths,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transfer> {
        let pieces = Pieces { local, offsets, addresses, lengths };
        self.submit(py, self.many(OPCODE_WRITE, pieces, options(terms)?)?)
    }

    /// Does `read` for many pieces at once: piece `i` has `lengths[i]` bytes, at `offsets[i]` of
    /// `local` and at `addresses[i]` of the peer. Without `local`, offsets are addresses here, of
    /// memory that the caller keeps. One length may stand for all.
    ///
    /// The lists may be arrays of 64-bit integers. Raises IndexError for a piece outside `local`.
    #[pyo3(signature = (local, offsets, addresses, lengths, **terms))]
    fn read_many(
        &self,
        py: Python<'_>,
        local: Option<&Bound<'_, PyAny>>,
        offsets: Numbers,
        addresses: Numbers,
        lengths: Lengths,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<u64> {
        let pieces = Pieces { local, offsets, addresses, lengths };
        self.finish(py, self.many(OPCODE_READ, pieces, options(terms)?)?)
    }

    /// Begins what `read_many` does.
    #[pyo3(signature = (local, offsets, addresses, lengths, **terms))]
    fn submit_read_many(
        &self,
        py: Python<'_>,
        local: Option<&Bound<'_, PyAny>>,
        offsets: Numbers,
        addresses: Numbers,
        lengths: Lengths,
        terms: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transfer> {
        let pieces = Pieces { local, offsets, addresses, lengths };
        self.submit(py, self.many(OPCODE_READ, pieces, options(terms)?)?)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.home.traverse(&visit)
    }

    fn __repr__(&self) -> String {
        format!("Segment({:?})", self.name)
    }
}

/// The lists of a call with many pieces.
struct Pieces<'a, 'py> {
    local: Option<&'a Bound<'py, PyAny>>,
    offsets: Numbers,
    addresses: Numbers,
    lengths: Lengths,
}

fn memory(opcode: i32, local: &Bound<'_, PyAny>) -> PyResult<Memory> {
    if opcode == OPCODE_READ { Memory::writable(local) } else { Memory::of(local) }
}

/// What every call that moves bytes may be told, by keyword.
fn options(terms: Option<&Bound<'_, PyDict>>) -> PyResult<TransferOptions> {
    let mut options = TransferOptions::default();
    for (name, value) in terms.into_iter().flat_map(PyDictMethods::iter) {
        match name.extract::<String>()?.as_str() {
            "timeout" => {
                options.timeout = value.extract::<Option<f64>>()?.map(seconds).transpose()?
            }
            "checked" => options.checked = value.is_truthy()?,
            "notify" => {
                let notify: Option<(String, String)> = value.extract()?;
                options.notify = notify.map(|(name, msg)| Notify { name, msg });
            }
            other => {
                let text = format!("unexpected keyword argument '{other}'");
                return Err(PyTypeError::new_err(text));
            }
        }
    }
    Ok(options)
}
