//! From a configuration to a running engine: everything that can fail at start fails here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use te_metadata::{
    AddressFamily, BoundPeerServer, Directory, HostPort, Incarnation, KeySpace, ListenAddress,
    MetadataStore, OpenStoreError, ParseStoreUriError, PeerClient, PeerLimits, PortChoice,
    PortRange, SegmentName, StoreUri,
};
use te_segment::LocalSegment;
use te_sync::Mutex;
use te_transport::{Clock, SystemClock, Transport, TransportContext};

use crate::address;
use crate::admission::{Admission, Limits};
use crate::alarm::Alarm;
use crate::batch::BatchTable;
use crate::classic::{Classic, Shared, Sink};
use crate::config::EngineConfig;
use crate::data_path::DataPath;
use crate::engine::{TransferEngine, run_ticker};
use crate::equipment::{Equipment, Plan};
use crate::error::BuildError;
use crate::fault_log::FaultLog;
use crate::housekeeping::Housekeeping;
use crate::inbox::{Inbox, Service};
use crate::peers::Peers;
use crate::process::Owner;
use crate::publish::Publisher;
use crate::quarantine::Quarantine;
use crate::registrar::Registrar;
use crate::registry::Registry;
use crate::retry::RetryPolicy;
use crate::stats::Counters;
use crate::watching::Watching;
use crate::workers::Workers;

/// Builds a [`TransferEngine`]; see [`TransferEngine::builder`].
pub struct EngineBuilder {
    config: EngineConfig,
    metadata: String,
    store: Option<Arc<dyn MetadataStore>>,
    name: String,
    port: Option<u16>,
    transports: Vec<Arc<dyn Transport>>,
    only: Vec<String>,
    clock: Arc<dyn Clock>,
    threads: bool,
    is_named_by_address: bool,
    is_published: bool,
    #[cfg(feature = "rdma")]
    verbs: Option<Arc<dyn te_verbs::Verbs>>,
}

impl Default for EngineBuilder {
    /// P2P on 127.0.0.1 with the transports that are compiled in.
    fn default() -> Self {
        Self {
            config: EngineConfig::default(),
            metadata: "P2PHANDSHAKE".into(),
            store: None,
            name: "127.0.0.1".into(),
            port: None,
            transports: Vec::new(),
            only: Vec::new(),
            clock: Arc::new(SystemClock),
            threads: true,
            is_named_by_address: false,
            is_published: true,
            #[cfg(feature = "rdma")]
            verbs: None,
        }
    }
}

impl EngineBuilder {
    /// The configuration; the default one reads neither file nor environment.
    #[must_use]
    pub fn config(mut self, config: EngineConfig) -> Self {
        self.config = config;
        self
    }

    /// The metadata connection string (te-classic B1): `P2PHANDSHAKE` in any case, or where a
    /// metadata service is, as [`te_metadata::StoreUri`] has it. How it is reached says section
    /// `metadata` of the configuration.
    #[must_use]
    pub fn metadata(mut self, text: impl Into<String>) -> Self {
        self.metadata = text.into();
        self
    }

    /// Uses a store in place of the connection string.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn MetadataStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// The local name. In P2P mode its host is what peers connect to, and the segment's name
    /// becomes `host:port`; a port that is written in it does not count, as with the peer (A5), unless legacy
    /// port binding is configured. With a store it is the segment's name, whatever it looks like; peers
    /// connect to the setting `peer.advertise_address`, else to the name where it is an address, else to
    /// the address of the interface with the default route.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With a store, too, the segment's name becomes `host:port`, so that engines of one host have
    /// names of their own.
    #[must_use]
    pub fn named_by_address(mut self) -> Self {
        self.is_named_by_address = true;
        self
    }

    /// Puts no records into a store, so that nobody finds this engine: for one that only opens the
    /// segments of others.
    #[must_use]
    pub fn unpublished(mut self) -> Self {
        self.is_published = false;
        self
    }

    /// Takes exactly this handshake port, so that a restarted engine keeps its P2P name.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds a transport of the caller's own, less preferred than those added before. With one or
    /// more of these, none that is compiled in is used.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transports.push(transport);
        self
    }

    /// Uses the transports of these names only, in this order of preference; counts more than the
    /// setting `engine.transports`. Towards a peer that none of them reaches, requests are refused.
    #[must_use]
    pub fn only<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.only = names.into_iter().map(Into::into).collect();
        self
    }

    /// Uses this provider of RDMA devices in place of the system's library.
    #[cfg(all(feature = "rdma", feature = "testing"))]
    #[must_use]
    pub fn verbs(mut self, verbs: Arc<dyn te_verbs::Verbs>) -> Self {
        self.verbs = Some(verbs);
        self
    }

    /// Builds an engine that starts no thread and opens no port: time is the caller's clock, and
    /// [`TransferEngine::tick`] does what is due.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without_threads(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self.threads = false;
        self
    }

    /// Opens the ports, starts the transports, publishes the engine.
    ///
    /// # Errors
    /// [`BuildError`]; nothing of the engine runs then.
    pub fn build(self) -> Result<TransferEngine, BuildError> {
        for warning in self.config.warnings() {
            tracing::warn!("{warning}");
        }
        let store = self.open_store()?;
        let is_p2p = store.is_none();
        let host = self.host(is_p2p)?;
        let bound = if self.threads { Some(self.bind(&host)?) } else { None };
        let port = bound.as_ref().map_or_else(|| self.port.unwrap_or(1), BoundPeerServer::port);
        let rpc = host.with_port(port);
        let by_address = is_p2p || self.is_named_by_address;
        let text = if by_address { rpc.to_string() } else { self.name.clone() };
        let name = SegmentName::parse(&text).map_err(|error| self.bad_name(&error))?;
        let equipment = Equipment::gather(&self.plan())?;
        self.assemble(bound, (name, rpc), equipment, store)
    }

    /// The metadata store; none where names are addresses of peers. A store that was given counts
    /// more than the connection string.
    fn open_store(&self) -> Result<Option<Arc<dyn MetadataStore>>, BuildError> {
        if self.store.is_some() {
            return Ok(self.store.clone());
        }
        if self.metadata.trim().eq_ignore_ascii_case("P2PHANDSHAKE") {
            return Ok(None);
        }
        let options = self.config.metadata.to_store_options();
        let opened = StoreUri::parse(&self.metadata)
            .map_err(OpenStoreError::from)
            .and_then(|uri| te_metadata::open_store(&uri, &options));
        opened.map(Some).map_err(|cause| self.bad_metadata(cause))
    }

    fn bad_metadata(&self, cause: OpenStoreError) -> BuildError {
        let text = self.metadata.clone();
        let available = te_metadata::available_stores();
        match cause {
            OpenStoreError::Uri(ParseStoreUriError::UnknownScheme { .. })
            | OpenStoreError::NotBuilt { .. } => BuildError::UnknownScheme { text, available },
            cause => BuildError::Metadata(Box::new(cause)),
        }
    }

    fn bad_name(&self, reason: &dyn fmt::Display) -> BuildError {
        BuildError::LocalName { name: self.name.clone(), reason: reason.to_string() }
    }

    /// The address that peers connect to, with the port to bind if one is fixed.
    fn host(&self, is_p2p: bool) -> Result<HostPort, BuildError> {
        let written = HostPort::parse(&self.name);
        if !is_p2p {
            let address = address::advertised(&self.name, &self.config.peer)?;
            let port = self.fixed_port(written.ok().as_ref());
            return HostPort::new(&address.to_string(), port).map_err(|e| self.bad_name(&e));
        }
        let written = written.map_err(|error| self.bad_name(&error))?;
        if matches!(written.host(), "0.0.0.0" | "::") {
            return Err(self.bad_name(&"peers cannot connect to an unspecified address"));
        }
        let port = self.fixed_port(Some(&written));
        if let (None, Some(ignored)) = (port, written.port()) {
            tracing::info!(port = ignored, "in P2P mode the port of the local name does not count");
        }
        HostPort::new(written.host(), port).map_err(|error| self.bad_name(&error))
    }

    /// The handshake port, where it is not to be picked: the one asked for, or with legacy port
    /// binding that of the name.
    fn fixed_port(&self, written: Option<&HostPort>) -> Option<u16> {
        let peer = &self.config.peer;
        let named = || written.map_or(peer.handshake_port, |it| it.port_or(peer.handshake_port));
        self.port.or_else(|| peer.legacy_port_binding.then(named))
    }

    fn limits(&self) -> PeerLimits {
        let peer = &self.config.peer;
        PeerLimits {
            max_frame: peer.max_frame_bytes as usize,
            connect_timeout: peer.connect_timeout,
            exchange_timeout: peer.exchange_timeout,
            serve_timeout: peer.serve_timeout,
            max_connections: peer.max_connections as usize,
            max_connections_per_peer: peer.max_connections_per_host as usize,
            backlog: peer.listen_backlog,
            ..PeerLimits::default()
        }
    }

    fn port_range(&self) -> PortRange {
        let peer = &self.config.peer;
        // The configuration keeps the range's rule, so the default is never needed.
        PortRange::new(peer.port_min.into(), peer.port_max.into()).unwrap_or_default()
    }

    fn bind(&self, host: &HostPort) -> Result<BoundPeerServer, BuildError> {
        let choice = match host.port() {
            Some(port) => PortChoice::Exact(port),
            None => PortChoice::Range(self.port_range()),
        };
        BoundPeerServer::bind(&ListenAddress::Any, choice, self.limits())
            .map_err(|cause| BuildError::Listen { cause: Box::new(cause) })
    }

    fn plan(&self) -> Plan<'_> {
        Plan {
            settings: &self.config,
            given: &self.transports,
            only: &self.only,
            #[cfg(feature = "tcp")]
            ports: self.port_range(),
            #[cfg(feature = "rdma")]
            client: self.client(),
            #[cfg(feature = "rdma")]
            verbs: self.verbs.clone(),
        }
    }

    fn client(&self) -> PeerClient {
        let family = if self.config.peer.ipv6 { AddressFamily::V6 } else { AddressFamily::Any };
        PeerClient::new(self.limits(), family)
    }

    fn directory(&self, store: Option<Arc<dyn MetadataStore>>) -> Directory {
        let client = self.client();
        let cluster = Some(self.config.metadata.cluster_id.as_str()).filter(|id| !id.is_empty());
        match store {
            Some(store) => Directory::store(store, KeySpace::new(cluster), client),
            None => Directory::p2p(client),
        }
    }

    fn shared(
        &self,
        publisher: &Arc<Publisher>,
        inbox: &Arc<Inbox>,
        (counters, directory): (Arc<Counters>, Directory),
    ) -> Shared {
        let clock = Arc::clone(&self.clock);
        let peers = Peers::new(
            directory,
            Arc::clone(publisher),
            (Arc::clone(&clock), Arc::clone(inbox)),
            self.config.metadata.cache,
        );
        let engine = &self.config.engine;
        let limits = Limits { requests: engine.max_requests.into(), bytes: engine.max_bytes };
        Shared {
            batches: Arc::new(BatchTable::default()),
            peers: Arc::new(peers),
            workers: Arc::new(if self.threads { Workers::threads() } else { Workers::Inline }),
            admission: Arc::new(Admission::new(limits)),
            alarm: Arc::new(Alarm::default()),
            quarantine: Arc::new(Quarantine::default()),
            faults: Arc::new(FaultLog::default()),
            counters,
            clock,
        }
    }

    fn assemble(
        self,
        bound: Option<BoundPeerServer>,
        (name, rpc): (SegmentName, HostPort),
        mut equipment: Equipment,
        store: Option<Arc<dyn MetadataStore>>,
    ) -> Result<TransferEngine, BuildError> {
        let segment = Arc::new(LocalSegment::new());
        let sink = Arc::new(Sink::default());
        let context = TransportContext {
            name: name.clone(),
            segment: Arc::clone(&segment),
            sink: Arc::clone(&sink) as _,
            incarnation: Incarnation::random(),
            clock: Arc::clone(&self.clock),
        };
        equipment.start(&self.plan(), &context)?;
        let Equipment { transports, topology, absence } = equipment;
        let (incarnation, ours) = (context.incarnation, Arc::clone(&segment));
        let publisher = Publisher::new(name, rpc, incarnation, ours, transports.clone());
        let publisher = Arc::new(publisher);
        let counters = Arc::new(Counters::default());
        let capacity = self.config.engine.notify_queue as usize;
        let inbox = Arc::new(Inbox::new(capacity, Arc::clone(&counters)));
        let directory = self.directory(store);
        let shared = self.shared(&publisher, &inbox, (counters, directory));
        let retries = u16::try_from(self.config.engine.retry_count).unwrap_or(u16::MAX - 1);
        let policy = RetryPolicy {
            max_attempts: retries + 1,
            slice_timeout: self.config.engine.slice_timeout,
            quarantine_after: self.config.engine.quarantine_after,
        };
        let path = Classic::new(shared.clone(), transports.clone(), policy);
        sink.report_to(&path);
        let registry = Registry::new(segment, transports, self.config.engine.unregister_timeout);
        let directory = shared.peers.directory().clone();
        let is_published = self.is_published;
        let registrar = Registrar::new(directory, Arc::clone(&publisher), &self.config.metadata);
        // From here on dropping `engine` closes whatever was started.
        let mut engine = TransferEngine {
            config: self.config,
            shared,
            path: Arc::clone(&path) as Arc<dyn DataPath>,
            registry,
            publisher,
            inbox,
            server: None,
            ticker: Mutex::default(),
            closed: AtomicBool::new(false),
            owner: Arc::new(Owner::present()),
            registrar: Arc::new(registrar),
            topology,
            absence,
            watching: Watching::default(),
        };
        engine.serve(bound)?;
        let threads = engine.server.is_some();
        if is_published {
            engine.registrar.open(&engine.config.metadata, threads)?;
        }
        Ok(engine)
    }
}

impl TransferEngine {
    /// Starts the threads that answer peers and keep deadlines.
    fn serve(&mut self, bound: Option<BoundPeerServer>) -> Result<(), BuildError> {
        let Some(bound) = bound else { return Ok(()) };
        let (publisher, inbox) = (Arc::clone(&self.publisher), Arc::clone(&self.inbox));
        let transports = self.publisher.transports().to_vec();
        let service = Service { publisher, inbox, title: self.registrar.title(), transports };
        let server = bound
            .start(Arc::new(service))
            .map_err(|cause| BuildError::Listen { cause: Box::new(cause) })?;
        self.server = Some(server);
        let (shared, path) = (self.shared.clone(), Arc::clone(&self.path));
        let news = self.news();
        let duties = Housekeeping::new(&self.config, news);
        let ticker = std::thread::Builder::new()
            .name("te-timer".into())
            .spawn(move || run_ticker(&shared, &*path, duties))
            .map_err(BuildError::Thread)?;
        *self.ticker.lock() = Some(ticker);
        Ok(())
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineBuilder({:?}, metadata {:?})", self.name, self.metadata)
    }
}
