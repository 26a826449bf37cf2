//! Mooncake's Python class: the same names, arguments, defaults and numbers.
//!
//! A call that fails answers with a number; `last_error()` has the rest.
#![expect(clippy::too_many_arguments, reason = "the arguments are those of Mooncake's calls")]

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyDictMethods, PyTuple, PyType};
use te_compat::{
    Buffer, Engine, Failure, Notify, Opcode, Options, Piece, Protocol, answer, local_topology,
    pieces, set_last_failure,
};
use te_sync::RwLock;

use crate::failure::{About, raised, told};
use crate::home::Home;
use crate::names::{InnerTransferEngine, TransferNotify, TransferOpcode};
use crate::numbers::{Content, Number, Numbers, Text};
use crate::raw;

/// A transfer engine with Mooncake's calls. Numbers below 0, or 0 where a handle is given, are failures.
#[pyclass(frozen, weakref, subclass, module = "te_engine.compat", name = "TransferEngine")]
pub(crate) struct TransferEngine {
    home: RwLock<Option<Arc<Home>>>,
}

/// A call before `initialize`.
fn uninitialized() -> Failure {
    Failure::invalid("build", "the engine is not initialized")
}

impl TransferEngine {
    fn home(&self) -> Result<Arc<Home>, Failure> {
        self.home.read().clone().ok_or_else(uninitialized)
    }

    /// Runs a call while other Python threads run; its failure is kept as the last one.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let result = self.home().and_then(|home| home.call(py, call));
        result.inspect_err(set_last_failure)
    }

    /// 0, or the failure's number (A54).
    fn code(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine) -> Result<(), Failure> + Send,
    ) -> i32 {
        answer(self.call(py, call))
    }

    /// 0, or −1 for every failure (A156–A160).
    fn flag<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine) -> Result<T, Failure> + Send,
    ) -> i32 {
        if self.call(py, call).is_ok() { 0 } else { -1 }
    }

    /// A handle or an address, or 0 (A154, A159, A162).
    fn handle(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Engine) -> Result<u64, Failure> + Send,
    ) -> u64 {
        self.call(py, call).unwrap_or(0)
    }

    fn start(&self, py: Python<'_>, start: &Start<'_>) -> Result<(), Failure> {
        let options = start.options()?;
        let home = Home::new(py, &options)?;
        let former = self.home.write().replace(home);
        // Its end may take a while, and is not to be waited for under the lock.
        drop(former);
        Ok(())
    }

    fn moved(&self, py: Python<'_>, op: Opcode, host: &Text, piece: Piece) -> PyResult<i32> {
        let host = host.required()?;
        Ok(self.flag(py, |engine| engine.transfer_sync(op, host, piece)))
    }

    fn moved_all(&self, py: Python<'_>, op: Opcode, host: &Text, lists: Lists) -> PyResult<i32> {
        let host = host.required()?;
        Ok(self.flag(py, |engine| engine.batch_transfer_sync(op, host, &lists.pieces()?)))
    }

    fn begun(&self, py: Python<'_>, op: Opcode, host: &Text, lists: Lists) -> PyResult<u64> {
        let host = host.required()?;
        Ok(self.handle(py, |engine| engine.transfer_async(op, host, &lists.pieces()?, None)))
    }
}

/// The arguments of `initialize_ext`.
struct Start<'a> {
    name: &'a str,
    server: &'a str,
    protocol: &'a str,
    devices: &'a str,
    scheme: &'a str,
}

impl Start<'_> {
    fn options(&self) -> Result<Options, Failure> {
        let protocol = Protocol::parse(self.protocol)?;
        let metadata = Options::connection(self.server, self.scheme);
        Ok(Options::new(metadata, self.name).protocol(protocol).filters(self.devices))
    }
}

/// The lists of a batch call.
struct Lists(Numbers, Numbers, Numbers);

impl Lists {
    fn pieces(&self) -> Result<Vec<Piece>, Failure> {
        pieces(&self.0.0, &self.1.0, &self.2.0)
    }
}

fn piece(local: Number, remote: Number, len: Number) -> Piece {
    Piece { local: local.0, remote: remote.0, len: len.0 }
}

fn notify(notify: Option<&Bound<'_, TransferNotify>>) -> Option<Notify> {
    notify.map(|notify| notify.get().notify())
}

#[pymethods]
impl TransferEngine {
    /// The directions, for programs that look for them here.
    #[classattr]
    #[pyo3(name = "TransferOpcode")]
    fn opcode_type(py: Python<'_>) -> Bound<'_, PyType> {
        py.get_type::<TransferOpcode>()
    }

    /// Makes an engine that `initialize` starts. What a subclass takes is for its `__init__`.
    #[new]
    #[classmethod]
    #[pyo3(signature = (*arguments, **named))]
    fn new(
        kind: &Bound<'_, PyType>,
        arguments: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let is_own = kind.is(kind.py().get_type::<Self>());
        let is_bare = arguments.is_empty() && named.is_none_or(PyDictMethods::is_empty);
        if is_own && !is_bare {
            return Err(PyTypeError::new_err("TransferEngine() takes no arguments"));
        }
        Ok(Self { home: RwLock::new(None) })
    }

    /// Starts the engine: 0, or −1. A metadata server without a scheme is etcd (A151).
    #[pyo3(signature = (local_hostname, metadata_server, protocol, device_name, /))]
    fn initialize(
        &self,
        py: Python<'_>,
        local_hostname: Text,
        metadata_server: Text,
        protocol: Text,
        device_name: Text,
    ) -> PyResult<i32> {
        let kind = Text(Some("etcd".to_owned()));
        self.initialize_ext(py, local_hostname, metadata_server, protocol, device_name, kind)
    }

    /// Starts the engine with the kind of its metadata service given apart: 0, or −1 (A152).
    #[pyo3(signature = (
        local_hostname, metadata_server, protocol, device_name, metadata_type, /
    ))]
    fn initialize_ext(
        &self,
        py: Python<'_>,
        local_hostname: Text,
        metadata_server: Text,
        protocol: Text,
        device_name: Text,
        metadata_type: Text,
    ) -> PyResult<i32> {
        let start = Start {
            name: local_hostname.required()?,
            server: metadata_server.required()?,
            protocol: protocol.0.as_deref().unwrap_or_default(),
            devices: device_name.0.as_deref().unwrap_or_default(),
            scheme: metadata_type.0.as_deref().unwrap_or_default(),
        };
        let started = self.start(py, &start);
        Ok(if started.inspect_err(set_last_failure).is_ok() { 0 } else { -1 })
    }

    /// The port that peers talk to; 0 before `initialize`.
    fn get_rpc_port(&self) -> u16 {
        self.home().map_or(0, |home| home.engine().rpc_port())
    }

    /// The engine as an object to be handed on; None before `initialize`.
    fn get_engine(&self) -> Option<InnerTransferEngine> {
        Some(InnerTransferEngine { _engine: self.home().ok()?.engine().clone() })
    }

    /// A number that tells engines apart, 0 before `initialize`. It is no pointer to anything that
    /// Mooncake's C++ could use.
    fn get_engine_ptr(&self) -> u64 {
        self.home().map_or(0, |home| Arc::as_ptr(&home).addr() as u64)
    }

    /// Registered memory of at least so many bytes; its address, or 0 (A154).
    #[pyo3(signature = (length, /))]
    fn allocate_managed_buffer(&self, py: Python<'_>, length: Number) -> u64 {
        self.handle(py, |engine| engine.allocate_managed(length.0))
    }

    /// Takes memory back that `allocate_managed_buffer` gave for this length: 0, or −1.
    #[pyo3(signature = (buffer_addr, length, /))]
    fn free_managed_buffer(&self, py: Python<'_>, buffer_addr: Number, length: Number) -> i32 {
        self.flag(py, |engine| engine.free_managed(buffer_addr.0, length.0))
    }

    /// Registers memory that the caller keeps: 0, or a number below 0 (A155).
    #[pyo3(signature = (buffer_addr, capacity, location=Text(Some("*".to_owned()))))]
    fn register_memory(
        &self,
        py: Python<'_>,
        buffer_addr: Number,
        capacity: Number,
        location: Text,
    ) -> PyResult<i32> {
        let location = location.required()?;
        let buffer = Buffer { address: buffer_addr.0, len: capacity.0 };
        Ok(self.code(py, |engine| engine.register(buffer, location, true)))
    }

    /// Ends a registration: 0, −3 where there is none, −4 while a transport still holds the memory.
    #[pyo3(signature = (buffer_addr, /))]
    fn unregister_memory(&self, py: Python<'_>, buffer_addr: Number) -> i32 {
        self.code(py, |engine| engine.unregister(buffer_addr.0))
    }

    /// Registers several buffers, all or none.
    #[pyo3(signature = (buffer_addresses, capacities, location=Text(Some("*".to_owned()))))]
    fn batch_register_memory(
        &self,
        py: Python<'_>,
        buffer_addresses: Numbers,
        capacities: Numbers,
        location: Text,
    ) -> PyResult<i32> {
        let location = location.required()?;
        let (addresses, lens) = (buffer_addresses.0, capacities.0);
        Ok(self.code(py, |engine| {
            if addresses.len() != lens.len() {
                return Err(Failure::invalid("register", "the lists differ in length"));
            }
            let pairs = addresses.iter().zip(&lens);
            let buffers: Vec<Buffer> =
                pairs.map(|(address, len)| Buffer { address: *address, len: *len }).collect();
            engine.register_batch(&buffers, location, true)
        }))
    }

    /// Ends several registrations, past failures; the first failure's number.
    #[pyo3(signature = (buffer_addresses, /))]
    fn batch_unregister_memory(&self, py: Python<'_>, buffer_addresses: Numbers) -> i32 {
        self.code(py, |engine| engine.unregister_batch(&buffer_addresses.0))
    }

    /// Copies to a host and waits for the end: 0, or −1. Nothing is read any more when it returns, or
    /// `unregister_memory` answers −4 (A156).
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint=None))]
    fn transfer_sync_write(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffer: Number,
        peer_buffer_address: Number,
        length: Number,
        transport_hint: Option<Text>,
    ) -> PyResult<i32> {
        drop(transport_hint);
        let piece = piece(buffer, peer_buffer_address, length);
        self.moved(py, Opcode::Write, &target_hostname, piece)
    }

    /// Copies from a host and waits for the end: 0, or −1.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint=None))]
    fn transfer_sync_read(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffer: Number,
        peer_buffer_address: Number,
        length: Number,
        transport_hint: Option<Text>,
    ) -> PyResult<i32> {
        drop(transport_hint);
        let piece = piece(buffer, peer_buffer_address, length);
        self.moved(py, Opcode::Read, &target_hostname, piece)
    }

    /// Copies to or from a host, then notifies it where that is asked for: 0, or −1 (A157).
    #[pyo3(signature = (
        target_hostname, buffer, peer_buffer_address, length, opcode, notify=None,
        transport_hint=None
    ))]
    fn transfer_sync(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffer: Number,
        peer_buffer_address: Number,
        length: Number,
        opcode: &Bound<'_, TransferOpcode>,
        notify: Option<&Bound<'_, TransferNotify>>,
        transport_hint: Option<Text>,
    ) -> PyResult<i32> {
        drop(transport_hint);
        let piece = piece(buffer, peer_buffer_address, length);
        let op = opcode.get().op();
        match self::notify(notify) {
            None => self.moved(py, op, &target_hostname, piece),
            Some(notify) => {
                let host = target_hostname.required()?;
                Ok(self.flag(py, |engine| engine.transfer_sync_notify(op, host, &[piece], &notify)))
            }
        }
    }

    /// Copies several pieces to a host and waits for the end of all: 0, or −1 (A158).
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None
    ))]
    fn batch_transfer_sync_write(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffers: Numbers,
        peer_buffer_addresses: Numbers,
        lengths: Numbers,
        transport_hint: Option<Text>,
    ) -> PyResult<i32> {
        drop(transport_hint);
        let lists = Lists(buffers, peer_buffer_addresses, lengths);
        self.moved_all(py, Opcode::Write, &target_hostname, lists)
    }

    /// Copies several pieces from a host and waits for the end of all: 0, or −1.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None
    ))]
    fn batch_transfer_sync_read(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffers: Numbers,
        peer_buffer_addresses: Numbers,
        lengths: Numbers,
        transport_hint: Option<Text>,
    ) -> PyResult<i32> {
        drop(transport_hint);
        let lists = Lists(buffers, peer_buffer_addresses, lengths);
        self.moved_all(py, Opcode::Read, &target_hostname, lists)
    }

    /// Copies several pieces to or from a host, then notifies it where that is asked for: 0, or −1.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, opcode, notify=None,
        transport_hint=None
    ))]
    fn batch_transfer_sync(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffers: Numbers,
        peer_buffer_addresses: Numbers,
        lengths: Numbers,
        opcode: &Bound<'_, TransferOpcode>,
        notify: Option<&Bound<'_, TransferNotify>>,
        transport_hint: Option<Text>,
    ) -> PyResult<i32> {
        drop(transport_hint);
        let lists = Lists(buffers, peer_buffer_addresses, lengths);
        let op = opcode.get().op();
        match self::notify(notify) {
            None => self.moved_all(py, op, &target_hostname, lists),
            Some(notify) => {
                let host = target_hostname.required()?;
                Ok(self.flag(py, |engine| {
                    engine.transfer_sync_notify(op, host, &lists.pieces()?, &notify)
                }))
            }
        }
    }

    /// Begins to copy several pieces to or from a host: a handle, or 0 (A159).
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, opcode, transport_hint=None
    ))]
    fn batch_transfer_async(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffers: Numbers,
        peer_buffer_addresses: Numbers,
        lengths: Numbers,
        opcode: &Bound<'_, TransferOpcode>,
        transport_hint: Option<Text>,
    ) -> PyResult<u64> {
        drop(transport_hint);
        let lists = Lists(buffers, peer_buffer_addresses, lengths);
        self.begun(py, opcode.get().op(), &target_hostname, lists)
    }

    /// Begins to copy several pieces to a host: a handle, or 0.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None
    ))]
    fn batch_transfer_async_write(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffers: Numbers,
        peer_buffer_addresses: Numbers,
        lengths: Numbers,
        transport_hint: Option<Text>,
    ) -> PyResult<u64> {
        drop(transport_hint);
        let lists = Lists(buffers, peer_buffer_addresses, lengths);
        self.begun(py, Opcode::Write, &target_hostname, lists)
    }

    /// Begins to copy several pieces from a host: a handle, or 0.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None
    ))]
    fn batch_transfer_async_read(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffers: Numbers,
        peer_buffer_addresses: Numbers,
        lengths: Numbers,
        transport_hint: Option<Text>,
    ) -> PyResult<u64> {
        drop(transport_hint);
        let lists = Lists(buffers, peer_buffer_addresses, lengths);
        self.begun(py, Opcode::Read, &target_hostname, lists)
    }

    /// Waits for all of these handles and frees them: 0, or −1 where any failed (A160).
    #[pyo3(signature = (batch_ids, /))]
    fn get_batch_transfer_status(&self, py: Python<'_>, batch_ids: Numbers) -> i32 {
        if batch_ids.0.is_empty() {
            return 0;
        }
        self.flag(py, |engine| engine.await_transfers(&batch_ids.0))
    }

    /// Begins to copy to a host: a handle, or 0 (A161).
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint=None))]
    fn transfer_submit_write(
        &self,
        py: Python<'_>,
        target_hostname: Text,
        buffer: Number,
        peer_buffer_address: Number,
        length: Number,
        transport_hint: Option<Text>,
    ) -> PyResult<u64> {
        drop(transport_hint);
        let host = target_hostname.required()?;
        let piece = piece(buffer, peer_buffer_address, length);
        Ok(self.handle(py, |engine| engine.transfer_async(Opcode::Write, host, &[piece], None)))
    }

    /// How a handle stands: 1 done, 0 running, −1 failed, −2 its time ran out (A161).
    #[pyo3(signature = (batch_id, /))]
    fn transfer_check_status(&self, py: Python<'_>, batch_id: Number) -> i32 {
        use te_compat::Check;
        let check = self.call(py, |engine| engine.check_transfer(batch_id.0));
        if let Ok(Check::Failed(failure) | Check::TimedOut(failure)) = &check {
            set_last_failure(failure);
        }
        check.map_or(-1, |check| check.as_i32())
    }

    /// Where the first published buffer of a segment begins, or 0 (A162).
    #[pyo3(signature = (segment_name, /))]
    fn get_first_buffer_address(&self, py: Python<'_>, segment_name: Text) -> PyResult<u64> {
        let name = segment_name.required()?;
        Ok(self.handle(py, |engine| engine.first_buffer_address(name)))
    }

    /// Copies `length` of the bytes to an address of this process: 0, or −1 (A163).
    #[pyo3(signature = (dest_address, src_ptr, length, /))]
    fn write_bytes_to_buffer(
        &self,
        py: Python<'_>,
        dest_address: Number,
        src_ptr: Content,
        length: Number,
    ) -> i32 {
        self.flag(py, |engine| {
            let len = usize::try_from(length.0).unwrap_or(usize::MAX);
            let bytes = src_ptr.bytes().get(..len);
            let short =
                || Failure::invalid("memory", "there are fewer bytes than are to be copied");
            engine.write_bytes(dest_address.0, bytes.ok_or_else(short)?)
        })
    }

    /// The bytes at an address of this process (A163).
    ///
    /// Raises EngineError where they cannot be read.
    #[pyo3(signature = (source_address, length, /))]
    fn read_bytes_from_buffer<'py>(
        &self,
        py: Python<'py>,
        source_address: Number,
        length: Number,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let home = told(py, About::Anything, self.home())?;
        // Room is made only for what is there.
        home.run(py, About::Anything, |engine| engine.local_range(source_address.0, length.0))?;
        raw::bytes(py, length.0, |bytes| {
            te_compat::guarded(|| home.engine().read_bytes(source_address.0, bytes))
        })?
        .map_err(|failure| raised(py, About::Anything, &failure))
    }

    /// The NICs of this machine, as JSON; `device_name` names the only ones to look at (A164).
    #[pyo3(signature = (device_name=None))]
    fn get_local_topology(&self, py: Python<'_>, device_name: Option<Text>) -> PyResult<String> {
        let devices = device_name.and_then(|name| name.0);
        told(
            py,
            About::Anything,
            py.detach(|| te_compat::guarded(|| local_topology(devices.as_deref()))),
        )
    }

    /// Takes the notifications that have arrived, oldest first (A165).
    fn get_notifies(&self, py: Python<'_>) -> Vec<TransferNotify> {
        let taken = self.call(py, Engine::take_notifies).unwrap_or_default();
        taken.into_iter().map(TransferNotify::of).collect()
    }

    /// Asks the engine of that name whether it lives: 0, or a number below 0 (A165).
    #[pyo3(signature = (peer_server_name))]
    fn send_probe(&self, py: Python<'_>, peer_server_name: Text) -> PyResult<i32> {
        let name = peer_server_name.required()?;
        Ok(self.code(py, |engine| engine.probe_by_name(name).map(drop)))
    }

    /// Does nothing: there is no EFA here (A166).
    #[pyo3(signature = (segment_name))]
    fn warmup_efa_segment(&self, segment_name: Text) -> PyResult<i32> {
        segment_name.required().map(|_| 0)
    }
}

/// The last failure of a call on this thread, as an exception that is not raised, or None. A call that
/// succeeds leaves it.
#[pyfunction]
pub(crate) fn last_error(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    let failure = te_compat::last_failure()?;
    Some(raised(py, About::Anything, &failure).into_value(py).into_bound(py).into_any())
}
