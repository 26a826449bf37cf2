//! The engine with the peer's binding's names (A130–A139).
#![allow(unsafe_code, reason = "calls take memory by address; docs/memory-safety.md")]

mod batches;
mod by_host;
mod memory;
mod segments;

use std::ffi::{CString, NulError};
use std::fmt;

use te_compat::{CallerMemory, Engine, Options, Protocol, enable_graceful_shutdown};

use crate::address::host_and_port;
use crate::error::{EngineError, refused};
use crate::types::{NicLoadStat, NotifyMsg};

/// How to make a [`TransferEngine`].
#[derive(Debug, Clone)]
pub struct TransferEngineOptions<'a> {
    /// The metadata service, or `P2PHANDSHAKE`.
    pub metadata_uri: &'a str,
    /// The name of the engine.
    pub local_server_name: &'a str,
    /// Has no effect, as with Mooncake: the name says it.
    pub ip_or_host_name: &'a str,
    /// Has no effect, as with Mooncake: the name says it.
    pub rpc_port: u64,
    /// Has no effect: the engine starts every transport that it has.
    pub auto_discover: bool,
}

impl<'a> TransferEngineOptions<'a> {
    /// An engine of this name behind this metadata service.
    pub fn new(metadata_uri: &'a str, local_server_name: &'a str) -> Self {
        Self {
            metadata_uri,
            local_server_name,
            ip_or_host_name: local_server_name,
            rpc_port: 0,
            auto_discover: false,
        }
    }

    /// Sets the field.
    #[must_use]
    pub fn ip_or_host_name(mut self, value: &'a str) -> Self {
        self.ip_or_host_name = value;
        self
    }

    /// Sets the field.
    #[must_use]
    pub fn rpc_port(mut self, value: u64) -> Self {
        self.rpc_port = value;
        self
    }

    /// Sets the field.
    #[must_use]
    pub fn auto_discover(mut self, value: bool) -> Self {
        self.auto_discover = value;
        self
    }
}

/// A transfer engine. All calls may come from any thread; dropping it ends it.
pub struct TransferEngine {
    pub(crate) engine: Engine,
}

impl TransferEngine {
    /// An engine of this name behind this metadata service; the port has no effect.
    ///
    /// # Errors
    /// [`EngineError::NullHandle`], [`EngineError::InvalidString`].
    pub fn new(
        metadata_uri: &str,
        local_server_name: &str,
        rpc_port: u64,
    ) -> Result<Self, EngineError> {
        let options = TransferEngineOptions::new(metadata_uri, local_server_name);
        Self::create(options.rpc_port(rpc_port))
    }

    /// An engine with these options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn create(options: TransferEngineOptions<'_>) -> Result<Self, EngineError> {
        let texts = [options.metadata_uri, options.local_server_name, options.ip_or_host_name];
        texts.into_iter().try_for_each(no_zero)?;
        Self::make(&Options::new(options.metadata_uri, options.local_server_name))
    }

    /// An engine made as Python's `initialize` does: `tcp` leaves RDMA out; any other protocol but
    /// `rdma` must be one of the engine's transports. The device has no effect; `MC_TE_FILTERS` has.
    ///
    /// # Errors
    /// As [`Self::new`]; [`EngineError::OperationFailed`] for a protocol that is not there.
    pub fn initialize(
        local_hostname: &str,
        metadata_server: &str,
        protocol: &str,
        _device_name: &str,
    ) -> Result<Self, EngineError> {
        let (host, port) = host_and_port(local_hostname);
        let options = TransferEngineOptions::new(metadata_server, local_hostname);
        let options = options.ip_or_host_name(host).rpc_port(port);
        if protocol.eq_ignore_ascii_case("rdma") {
            return Self::create(options.auto_discover(true));
        }
        [metadata_server, local_hostname, protocol].into_iter().try_for_each(no_zero)?;
        let plain = Options::new(options.metadata_uri, options.local_server_name);
        let read = Protocol::parse(protocol).map_err(|failure| refused(&failure))?;
        let engine = Self::make(&plain.protocol(read))?;
        engine.install_transport(&protocol.to_ascii_lowercase())?;
        Ok(engine)
    }

    fn make(options: &Options) -> Result<Self, EngineError> {
        // SAFETY: every call that takes an address is unsafe, and its caller promises just this.
        let memory = unsafe { CallerMemory::promise() };
        options.start_logging();
        let told = |failure: &te_compat::Failure| {
            te_compat::set_last_failure(failure);
            te_compat::complain(failure);
        };
        let made = Engine::new(options, memory).inspect_err(told);
        made.map(|engine| Self { engine }).map_err(|_| EngineError::NullHandle)
    }

    /// Looks at the machine's NICs.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] in a forked child.
    pub fn discover_topology(&self) -> Result<(), EngineError> {
        self.engine.topology().map(drop).map_err(|failure| refused(&failure))
    }

    /// `host:port` of the handshake port; in P2P mode peers open that.
    ///
    /// # Errors
    /// None today.
    pub fn local_ip_and_port(&self) -> Result<String, EngineError> {
        Ok(self.engine.local_ip_and_port())
    }

    /// Says whether the engine has this transport.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] of −1 where it has not.
    pub fn install_transport(&self, proto: &str) -> Result<(), EngineError> {
        no_zero(proto)?;
        let found = self.engine.install_transport(proto, None);
        found.map(drop).map_err(|failure| refused(&failure))
    }

    /// Does nothing, as with Mooncake.
    ///
    /// # Errors
    /// [`EngineError::InvalidString`].
    pub fn uninstall_transport(&self, proto: &str) -> Result<(), EngineError> {
        no_zero(proto)
    }

    /// Takes the notifications that arrived, oldest first.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] in a forked child.
    pub fn take_notifies(&self) -> Result<Vec<NotifyMsg>, EngineError> {
        let taken = self.engine.take_notifies().map_err(|failure| refused(&failure))?;
        Ok(taken.into_iter().map(|it| NotifyMsg { name: it.name, msg: it.msg }).collect())
    }

    /// Sends a notification to the owner of an open segment.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`].
    pub fn send_notify(&self, target_id: u64, notify: &NotifyMsg) -> Result<(), EngineError> {
        let sent = self.engine.notify(target_id, &plain_notify(notify)?);
        sent.map_err(|failure| refused(&failure))
    }

    /// The load of each NIC; an empty list, as with Mooncake's classic engine.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] in a forked child.
    pub fn nic_load_stats(&self) -> Result<Vec<NicLoadStat>, EngineError> {
        let loads = self.engine.nic_load().map_err(|failure| refused(&failure))?;
        let told = |load: te_compat::NicLoad| NicLoadStat {
            device_name: load.name,
            inflight_bytes: load.queued_bytes,
            ewma_bandwidth_bps: 0.0,
        };
        Ok(loads.into_iter().map(told).collect())
    }

    /// Closes the engine when the process is told to end.
    pub fn enable_graceful_shutdown(&self) {
        if let Err(failure) = enable_graceful_shutdown(&self.engine) {
            te_compat::set_last_failure(&failure);
        }
    }

    /// The local NICs and their topology, as text or as JSON.
    ///
    /// # Errors
    /// [`EngineError::OperationFailed`] in a forked child.
    pub fn show_links(&self, json: bool) -> Result<String, EngineError> {
        self.engine.links(json).map_err(|failure| refused(&failure))
    }

    /// The engine below, for what these names lack.
    pub fn compat(&self) -> &Engine {
        &self.engine
    }
}

impl fmt::Debug for TransferEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferEngine({})", self.engine.local_name())
    }
}

/// Mooncake takes no text with a zero byte.
pub(crate) fn no_zero(text: &str) -> Result<(), EngineError> {
    let refused = |text: &str| CString::new(text).map(drop).map_err(|error: NulError| error.into());
    if text.contains('\0') { refused(text) } else { Ok(()) }
}

pub(crate) fn plain_notify(notify: &NotifyMsg) -> Result<te_compat::Notify, EngineError> {
    no_zero(&notify.name)?;
    no_zero(&notify.msg)?;
    Ok(te_compat::Notify { name: notify.name.clone(), msg: notify.msg.clone() })
}
