//! An engine as Mooncake's calls see it: numbers for segments and batches, addresses for memory.
//!
//! All calls may come from any thread. In a process that was forked from the one that made the
//! engine each of them fails at once, before it takes a lock (FB52).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use te_engine::{
    AlignedBuffer, EngineCloseReport, EngineConfig, HostPort, Region, SegmentId, TransferEngine,
};
use te_segment::ForkMark;
use te_sync::{Mutex, RwLock};

use crate::code::Code;
use crate::complaints::Complaints;
use crate::door::CallerMemory;
use crate::failure::{Failure, chain};
use crate::managed::Pool;
use crate::options::Options;
use crate::regions::Regions;
use crate::started::Started;

/// A transfer engine. Clones are handles of one engine; it ends with the last of them, or by
/// [`Engine::close`].
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

/// What all handles share.
pub(crate) struct Core {
    pub(crate) engine: TransferEngine,
    home: Home,
    pub(crate) regions: Regions,
    /// Segments of the calls that name a host, by that name (A156).
    pub(crate) hosts: RwLock<HashMap<Box<str>, SegmentId>>,
    pub(crate) started: Started,
    pub(crate) pool: Mutex<Pool>,
    pub(crate) complaints: Complaints,
    /// How many NICs this host has; looked up when a transfer fails for the first time.
    pub(crate) nics: OnceLock<usize>,
}

/// The process that made the engine.
#[derive(Debug)]
struct Home {
    mark: Option<ForkMark>,
    process: u32,
}

impl Home {
    fn is_here(&self) -> bool {
        match &self.mark {
            Some(mark) => mark.is_here(),
            None => self.process == std::process::id(),
        }
    }
}

impl Engine {
    /// Makes an engine: opens its ports, starts its transports, publishes it (A4, A101).
    ///
    /// # Errors
    /// [`Failure`] of phase `build`; nothing of the engine runs then.
    pub fn new(options: &Options, memory: CallerMemory) -> Result<Self, Failure> {
        Self::over(options.builder()?.build()?, memory)
    }

    /// The calls of this crate over an engine that was built otherwise.
    ///
    /// # Errors
    /// [`Code::Memory`].
    pub fn over(engine: TransferEngine, memory: CallerMemory) -> Result<Self, Failure> {
        let nothing = Region::from(AlignedBuffer::zeroed(1)?);
        let core = Core {
            engine,
            home: Home { mark: ForkMark::new().ok(), process: std::process::id() },
            regions: Regions::new(memory, nothing),
            hosts: RwLock::default(),
            started: Started::default(),
            pool: Mutex::default(),
            complaints: Complaints::default(),
            nics: OnceLock::new(),
        };
        Ok(Self { core: Arc::new(core) })
    }

    /// The engine below, for what this crate does not wrap.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn inner(&self) -> Result<&TransferEngine, Failure> {
        if self.core.home.is_here() { Ok(&self.core.engine) } else { Err(Failure::forked()) }
    }

    /// Whether this is the process that made the engine.
    pub fn is_here(&self) -> bool {
        self.core.home.is_here()
    }

    /// The name that others open: `host:port` in P2P mode.
    pub fn local_name(&self) -> &str {
        self.core.engine.local_name().as_str()
    }

    /// `host:port` of the handshake port; an IPv6 host stands in brackets (A17).
    pub fn local_ip_and_port(&self) -> String {
        self.core.engine.local_address().to_string()
    }

    /// The handshake port (A18).
    pub fn rpc_port(&self) -> u16 {
        self.core.engine.rpc_port()
    }

    /// Where peers reach the handshake port.
    pub fn local_address(&self) -> HostPort {
        self.core.engine.local_address()
    }

    /// The configuration in force.
    pub fn config(&self) -> &EngineConfig {
        self.core.engine.config()
    }

    /// The transports, in order of preference.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn transports(&self) -> Result<Vec<&'static str>, Failure> {
        Ok(self.inner()?.transports())
    }

    /// Whether no transport but TCP can reach another host (A39).
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn is_tcp_only(&self) -> Result<bool, Failure> {
        let names = self.transports()?;
        Ok(names.iter().all(|name| ["local", "shm", "tcp"].contains(name)))
    }

    /// Asks for a transport by name (A14, A16): the engine started all that it has, so this says
    /// whether that is one of them. A priority matrix is checked and does not change the choice of
    /// NICs; a file for `MC_CUSTOM_TOPO_JSON` does.
    ///
    /// # Errors
    /// [`Code::NotSupportedTransport`] with the reason; [`Code::Malformed`] for a matrix that is none.
    pub fn install_transport(
        &self,
        name: &str,
        matrix: Option<&str>,
    ) -> Result<&'static str, Failure> {
        let engine = self.inner()?;
        if let Some(text) = matrix.filter(|text| !text.trim().is_empty()) {
            te_engine::PriorityMatrix::parse(text)
                .map_err(|error| Failure::new(Code::Malformed, "build", chain(&error)))?;
        }
        let names = engine.transports();
        let found = names.iter().find(|known| **known == name).copied();
        found.ok_or_else(|| {
            let absence = engine.rdma_absence().filter(|_| name == "rdma");
            let why = absence.map(|why| format!(": {}", chain(why))).unwrap_or_default();
            let cause = format!("no transport {name:?}; there are: {}{why}", names.join(", "));
            Failure::new(Code::NotSupportedTransport, "build", cause)
        })
    }

    /// Bytes of local memory whose transfers have ended while a transport still holds them.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn quarantined_bytes(&self) -> Result<u64, Failure> {
        Ok(self.inner()?.quarantined_bytes())
    }

    /// Waits until no local memory is in quarantine; says whether that was reached in time.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn wait_quiescent(&self, timeout: Duration) -> Result<bool, Failure> {
        Ok(self.inner()?.wait_quiescent(timeout))
    }

    /// Ends the engine within `timeout`: every task becomes final, every thread ends, what was
    /// published is removed. Handles stay valid, and their calls fail. Calling it again does nothing.
    ///
    /// # Errors
    /// [`Failure::forked`].
    pub fn close(&self, timeout: Duration) -> Result<EngineCloseReport, Failure> {
        Ok(self.inner()?.close(timeout))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.local_name())
    }
}
