//! The engine as Python programs see it.

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use te_compat::{EngineConfig, Failure, Notify, Options, Protocol};
use te_engine::{LoadOptions, ProcessEnvironment};

use crate::failure::{About, told};
use crate::home::{Handle, Home};
use crate::memory::Memory;
use crate::numbers::seconds;
use crate::region::Region;
use crate::segment::Segment;

/// A transfer engine. As a context manager it is closed at the end; else when the last object of it
/// goes, or the interpreter does.
///
/// `name` is the address or name that peers reach this host by. By keyword: `metadata`, `P2PHANDSHAKE` or
/// `scheme://rest`; `port`, 0 to 65535, to be found at the same name again; `protocol`, `"tcp"` to leave
/// RDMA out; `nics`, the only ones to use; `config`, a file. Raises BuildError.
#[pyclass(frozen, weakref, module = "te_engine")]
pub(crate) struct Engine {
    home: Handle,
}

/// How an engine is to be made, by keyword.
#[derive(Default)]
struct Wishes {
    metadata: Option<String>,
    port: Option<u16>,
    protocol: Option<String>,
    nics: Option<Vec<String>>,
    config: Option<PathBuf>,
}

impl Wishes {
    fn of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut wishes = Self::default();
        for (name, value) in given.into_iter().flat_map(|given| given.iter()) {
            match name.extract::<String>()?.as_str() {
                "metadata" => wishes.metadata = Some(value.extract()?),
                "port" => wishes.port = value.extract()?,
                "protocol" => wishes.protocol = Some(value.extract()?),
                "nics" => wishes.nics = Some(names(&value)?),
                "config" => wishes.config = value.extract()?,
                other => {
                    let text = format!("unexpected keyword argument '{other}'");
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        Ok(wishes)
    }

    fn options(self, name: &str) -> Result<Options, Failure> {
        let metadata = self.metadata.unwrap_or_else(|| "P2PHANDSHAKE".to_owned());
        let protocol = Protocol::parse(self.protocol.as_deref().unwrap_or_default())?;
        let mut options = Options::new(metadata, name).protocol(protocol);
        if let Some(nics) = self.nics {
            options = options.filters(&nics.join(","));
        }
        if let Some(port) = self.port {
            options = options.port(port);
        }
        if self.config.is_some() {
            let sources = LoadOptions { file: self.config, environment: &ProcessEnvironment };
            let config = EngineConfig::load(&sources);
            let config = config.map_err(|error| Failure::invalid("build", error.to_string()))?;
            options = options.config(config);
        }
        Ok(options)
    }
}

/// A list of names.
fn names(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("a sequence of names is expected"));
    }
    value.try_iter()?.map(|name| name?.extract()).collect()
}

#[pymethods]
impl Engine {
    /// Makes an engine; `name` is the address or name that peers reach this host by.
    ///
    /// By keyword: `metadata`, `port`, `protocol`, `nics`, `config` (a file). Raises BuildError.
    #[new]
    #[pyo3(signature = (name="127.0.0.1", **wishes))]
    fn new(py: Python<'_>, name: &str, wishes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = told(py, About::Build, Wishes::of(wishes)?.options(name))?;
        let home = told(py, About::Build, Home::new(py, &options))?;
        Ok(Self { home: Handle::new(py, home)? })
    }

    /// The name that others open: ``host:port`` where there is no metadata service.
    #[getter]
    fn name(&self) -> &str {
        self.home.engine().local_name()
    }

    /// The port that peers talk to.
    #[getter]
    fn port(&self) -> u16 {
        self.home.engine().rpc_port()
    }

    /// The transports, in order of preference.
    #[getter]
    fn transports(&self, py: Python<'_>) -> PyResult<Vec<&'static str>> {
        self.home.run(py, About::Anything, te_compat::Engine::transports)
    }

    /// Allocates `length` bytes of zeroed memory, 1 to 2^40, and registers them. It lives as long as the region and every view of it.
    #[pyo3(signature = (length, *, location="*".to_owned()))]
    fn allocate(&self, py: Python<'_>, length: u64, location: String) -> PyResult<Region> {
        Region::allocate(py, &self.home, length, location)
    }

    /// Registers memory: a buffer, an array, a tensor, or ``(address, length)``. What has an owner is
    /// kept until it is unregistered. Peers may read it, and write it unless its owner calls it read-only;
    /// with ``remote=False`` they may not touch it.
    ///
    /// Raises RegisterError, DeviceMemoryError, TypeError, ValueError (gaps).
    #[pyo3(signature = (buffer, *, location="*".to_owned(), remote=true))]
    fn register(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        location: String,
        remote: bool,
    ) -> PyResult<Region> {
        Region::register(py, &self.home, Memory::of(buffer)?, (location, remote))
    }

    /// Ends the registration of the memory that begins at `address`; see `Region.unregister`.
    fn unregister(&self, py: Python<'_>, address: u64) -> PyResult<()> {
        self.home.unregister(py, address, None)
    }

    /// Opens a peer's published memory by its name.
    ///
    /// Raises OpenError.
    fn open(&self, py: Python<'_>, name: String) -> PyResult<Segment> {
        Segment::open(py, &self.home, name)
    }

    /// Sends a notification to the engine of that name.
    ///
    /// Raises PeerError; `retryable` where the peer had no room.
    fn notify(&self, py: Python<'_>, peer: &str, name: String, message: String) -> PyResult<()> {
        let notify = Notify { name, msg: message };
        self.home.run(py, About::Message, |engine| engine.notify_by_name(peer, &notify))
    }

    /// Takes the notifications that have arrived, oldest first: (name, message).
    fn notifications(&self, py: Python<'_>) -> PyResult<Vec<(String, String)>> {
        let taken = self.home.run(py, About::Message, te_compat::Engine::take_notifies)?;
        Ok(taken.into_iter().map(|notify| (notify.name, notify.msg)).collect())
    }

    /// Asks the engine of that name whether it lives; gives the round-trip time in seconds.
    ///
    /// Raises PeerError, after 2 seconds at most.
    fn probe(&self, py: Python<'_>, peer: &str) -> PyResult<f64> {
        self.home
            .run(py, About::Message, |engine| engine.probe_by_name(peer))
            .map(|time| time.as_secs_f64())
    }

    /// The NICs of this machine and the memory that they are near to, as JSON.
    fn topology(&self, py: Python<'_>) -> PyResult<String> {
        self.home.run(py, About::Anything, te_compat::Engine::topology)
    }

    /// Bytes of local memory whose transfers have ended while a transport still holds them.
    #[getter]
    fn quarantined_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.home.run(py, About::Anything, te_compat::Engine::quarantined_bytes)
    }

    /// Counters since the engine was made.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.home.run(py, About::Anything, |engine| Ok(engine.inner()?.stats()))?;
        let counters = [
            ("submitted", stats.submitted),
            ("completed", stats.completed),
            ("failed", stats.failed),
            ("bytes", stats.bytes),
            ("retries", stats.retries),
            ("detours", stats.detours),
        ];
        let dict = PyDict::new(py);
        counters.iter().try_for_each(|(name, value)| dict.set_item(name, value))?;
        Ok(dict)
    }

    /// Ends the engine within `timeout` seconds, the configured ones where none is given: every transfer
    /// becomes final, every thread ends. Calling it again does nothing.
    ///
    /// Gives ``open_tasks``, ``joined`` and ``kept_bytes``; all is well with 0, True and 0.
    #[pyo3(signature = (timeout=None))]
    fn close<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyDict>> {
        let limit = self.home.engine().config().engine.shutdown_timeout;
        let limit = timeout.map_or(Ok(limit), seconds)?;
        let report = told(py, About::Anything, self.home.close(py, limit))?;
        let dict = PyDict::new(py);
        dict.set_item("open_tasks", report.open_tasks)?;
        dict.set_item("joined", report.joined)?;
        dict.set_item("kept_bytes", report.kept_bytes)?;
        Ok(dict)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py, None).map(drop)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.home.traverse(&visit)
    }

    fn __repr__(&self) -> String {
        format!("Engine({:?})", self.name())
    }
}
