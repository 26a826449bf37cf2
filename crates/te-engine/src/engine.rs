//! The engine as callers see it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use te_metadata::{
    HostPort, Incarnation, Notify, PeerServer, SegmentDescriptor, SegmentName, Standing,
    TcpEndpoint,
};
use te_segment::{
    Region, RegisterError, RegisterOptions, RemoteSegment, SegmentId, UnregisterError,
};
use te_sync::Mutex;
use te_topology::{CustomTopologyError, PriorityMatrix};

use crate::batch::Batch;
use crate::builder::EngineBuilder;
use crate::classic::Shared;
use crate::config::{ConfigWarning, EngineConfig};
use crate::data_path::{Closing, DataPath};
use crate::error::{BatchError, EngineError, FORKED, OpenError};
use crate::housekeeping::{Housekeeping, News};
use crate::id::BatchId;
use crate::inbox::Inbox;
use crate::process::Owner;
use crate::publish::Publisher;
use crate::rdma::RdmaAbsence;
use crate::registrar::Registrar;
use crate::registry::Registry;
use crate::stats::EngineStats;
use crate::status::{BatchStatus, TransferStatus};
use crate::topology::Topology;
use crate::watching::Watching;

/// A transfer engine. Shared between threads by reference or in an `Arc`; dropping it closes it.
pub struct TransferEngine {
    pub(crate) config: EngineConfig,
    pub(crate) shared: Shared,
    pub(crate) path: Arc<dyn DataPath>,
    pub(crate) registry: Registry,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) server: Option<PeerServer>,
    pub(crate) ticker: Mutex<Option<JoinHandle<()>>>,
    pub(crate) closed: AtomicBool,
    pub(crate) owner: Arc<Owner>,
    pub(crate) registrar: Arc<Registrar>,
    pub(crate) topology: Topology,
    pub(crate) absence: Option<RdmaAbsence>,
    pub(crate) watching: Watching,
}

/// What [`TransferEngine::sync_cache`] did (te-classic B45).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Descriptors that changed.
    pub updated: usize,
    /// Descriptors that did not.
    pub unchanged: usize,
    /// Peers or names that could not be reached; what was known of them stays.
    pub failed: usize,
}

/// What [`TransferEngine::close`] left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineCloseReport {
    /// Tasks that are not final although the time was up; 0 in a clean close.
    pub open_tasks: usize,
    /// Whether every thread of the engine has ended.
    pub joined: bool,
    /// Bytes of slices that a transport never gave back. Their memory is kept mapped and
    /// registered for good, on purpose: something may still write it.
    pub kept_bytes: u64,
}

impl TransferEngine {
    /// Begins to build an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The name others open: `host:port` in P2P mode.
    pub fn local_name(&self) -> &SegmentName {
        self.publisher.name()
    }

    /// The handshake port.
    pub fn rpc_port(&self) -> u16 {
        self.publisher.rpc().port_or(0)
    }

    /// Where peers reach the handshake port.
    pub fn local_address(&self) -> HostPort {
        self.publisher.rpc().clone()
    }

    /// Which run of this process's engine it is.
    pub fn incarnation(&self) -> Incarnation {
        self.publisher.incarnation()
    }

    /// The descriptor that others get. In a forked child, one without buffers.
    pub fn descriptor(&self) -> SegmentDescriptor {
        if !self.owner.is_here() {
            return SegmentDescriptor::tcp(
                self.local_name().as_str(),
                TcpEndpoint::default(),
                vec![],
            );
        }
        self.publisher.descriptor()
    }

    /// The configuration in force.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// What was wrong with the configuration's sources.
    pub fn warnings(&self) -> &[ConfigWarning] {
        self.config.warnings()
    }

    /// Which NICs may serve which memory, as Mooncake writes it: for each location the preferred
    /// NICs and the others. The machine is looked at when this is first called, or at the start
    /// where `topology.custom_file` is set. Printed, it is the JSON that such a file takes.
    pub fn topology(&self) -> PriorityMatrix {
        if self.owner.is_here() {
            return self.topology.matrix().clone();
        }
        // A thread of the parent may hold the one that was forked.
        Topology::new(&self.config.topology, &[]).matrix().clone()
    }

    /// Why the custom topology is not used. Where there is such a file and it is wrong or names NICs
    /// that are not here, RDMA is off: [`Self::topology`] has rows without NICs. What needs no NIC
    /// works on.
    pub fn topology_fault(&self) -> Option<&CustomTopologyError> {
        self.topology.fault()
    }

    /// Why RDMA is not among the [`Self::transports`]; `None` where it is. What needs no NIC works.
    pub fn rdma_absence(&self) -> Option<&RdmaAbsence> {
        self.absence.as_ref()
    }

    /// Counters since the engine was built.
    pub fn stats(&self) -> EngineStats {
        self.shared.counters.read()
    }

    // ---- memory

    /// Registers memory with every transport and publishes it (te-classic C20–C26). An exact
    /// duplicate with the same options is counted, and needs one unregistration more. Where another
    /// call is registering or unregistering the same range it waits for that, at most as long as
    /// an unregistration waits.
    ///
    /// # Errors
    /// [`RegisterError`]; nothing was registered.
    pub fn register(&self, region: &Region, options: RegisterOptions) -> Result<(), RegisterError> {
        self.register_batch(&[(region.clone(), options)])
    }

    /// Registers several regions, all or none; the set is checked before any transport is asked.
    ///
    /// # Errors
    /// [`RegisterError`]; nothing was registered.
    pub fn register_batch(
        &self,
        wanted: &[(Region, RegisterOptions)],
    ) -> Result<(), RegisterError> {
        self.available().map_err(|reason| RegisterError::Unavailable { reason })?;
        self.registry.register(wanted, &*self.shared.clock)?;
        self.registrar.publish();
        Ok(())
    }

    /// Unregisters the buffer that starts at `address`. Waits for transfers that use it, at most
    /// the configured time; incoming ones are ended.
    ///
    /// # Errors
    /// [`UnregisterError::NotRegistered`]; [`UnregisterError::Busy`], after which the buffer takes
    /// no new work and the call can be repeated.
    pub fn unregister(&self, address: u64) -> Result<(), UnregisterError> {
        self.unregister_batch(&[address])
    }

    /// Unregisters several buffers, past errors.
    ///
    /// # Errors
    /// The first [`UnregisterError`]; the others were unregistered all the same (J45).
    pub fn unregister_batch(&self, addresses: &[u64]) -> Result<(), UnregisterError> {
        if !self.owner.is_here() {
            return Err(UnregisterError::Unavailable { reason: FORKED });
        }
        let result = self.registry.unregister_all(addresses, &*self.shared.clock);
        self.registrar.publish();
        result
    }

    /// Whether a range shares a byte with a registered buffer (te-classic A42).
    pub fn overlaps(&self, address: u64, len: u64) -> bool {
        self.owner.is_here() && self.registry.segment().overlaps(address, len)
    }

    /// How what this engine publishes in a metadata service stands; `None` in P2P mode, where peers
    /// ask the engine itself, for one that publishes nothing, and after the end.
    pub fn publication(&self) -> Option<Standing> {
        if self.owner.is_here() { self.registrar.standing() } else { None }
    }

    /// Waits until everything that was registered is published, at most `timeout`; says whether it
    /// is. In a burst of registrations only the first one waits for that.
    pub fn flush_publication(&self, timeout: Duration) -> bool {
        self.owner.is_here() && self.registrar.flush(timeout)
    }

    // ---- segments

    /// Opens a segment: gives the number that requests name. The same name gives the same number
    /// for the life of the engine; the engine's own name gives [`SegmentId::LOCAL`].
    ///
    /// # Errors
    /// [`OpenError`] tells "not found", "malformed" and "unreachable" apart.
    pub fn open_segment(&self, name: &str) -> Result<SegmentId, OpenError> {
        if !self.owner.is_here() {
            return Err(OpenError::Forked);
        }
        if self.is_closed() {
            return Err(OpenError::Closed);
        }
        let id = self.shared.peers.open(&parse_name(name)?, self.config.peer.exchange_timeout)?;
        if id != SegmentId::LOCAL {
            self.watching.start(&self.shared.peers, &self.shared.workers);
        }
        Ok(id)
    }

    /// What is known of an open segment: its descriptor as of now.
    pub fn segment(&self, id: SegmentId) -> Option<Arc<RemoteSegment>> {
        if !self.owner.is_here() {
            return None;
        }
        self.shared.peers.current(id)
    }

    /// The transport that requests to a segment are given to now, by name: the best one that both
    /// sides have and that did not fail a moment ago. `None` where none reaches it, or it is not open.
    pub fn transport_to(&self, id: SegmentId) -> Option<&'static str> {
        self.path.choice(&self.segment(id)?)
    }

    /// The transports of this engine, in order of preference.
    pub fn transports(&self) -> Vec<&'static str> {
        self.path.names()
    }

    /// Ends the use of a segment. Its descriptor stays cached, as with the peer (A20).
    pub fn close_segment(&self, _id: SegmentId) {}

    /// Forgets what is known of a name; the metadata service is not touched (A22).
    ///
    /// # Errors
    /// [`OpenError::Name`].
    pub fn forget_segment(&self, name: &str) -> Result<(), OpenError> {
        if !self.owner.is_here() {
            return Err(OpenError::Forked);
        }
        self.shared.peers.forget(&parse_name(name)?);
        Ok(())
    }

    /// Fetches the descriptors of all open segments anew, or of the one named.
    pub fn sync_cache(&self, name: Option<&str>) -> SyncReport {
        let mut report = SyncReport::default();
        if !self.owner.is_here() {
            return report;
        }
        for (id, known) in self.shared.peers.known() {
            if name.is_some_and(|name| known.as_str() != name.trim_start_matches('/')) {
                continue;
            }
            let before = self.segment(id).map(|segment| segment.epoch());
            match self.shared.peers.fetch_now(id) {
                Some(fresh) if Some(fresh.epoch()) != before => report.updated += 1,
                Some(_) => report.unchanged += 1,
                None => report.failed += 1,
            }
        }
        report
    }

    // ---- batches

    /// Makes a batch for at most `capacity` requests.
    ///
    /// # Errors
    /// [`BatchError::TooLarge`], [`BatchError::TooMany`].
    pub fn allocate_batch(&self, capacity: usize) -> Result<BatchId, BatchError> {
        if !self.owner.is_here() {
            return Err(BatchError::Forked);
        }
        self.shared.batches.allocate(capacity)
    }

    /// State of one task, by its position in the batch. O(1). Whoever asks again and again lets the
    /// transport make progress, as [`TransferEngine::wait`] does.
    ///
    /// # Errors
    /// [`BatchError::Unknown`], [`BatchError::NoTask`].
    pub fn status(&self, batch: BatchId, index: usize) -> Result<TransferStatus, BatchError> {
        let found = self.find(batch)?;
        self.path.poll(&found);
        let (mut status, via) = found.task_status(index)?;
        status.transport = via.map(|via| self.path.name_of(via));
        Ok(status)
    }

    /// State of a batch. O(1). Whoever asks again and again lets the transport make progress, as
    /// [`TransferEngine::wait`] does.
    ///
    /// # Errors
    /// [`BatchError::Unknown`].
    pub fn batch_status(&self, batch: BatchId) -> Result<BatchStatus, BatchError> {
        let found = self.find(batch)?;
        self.path.poll(&found);
        Ok(found.status())
    }

    /// Bytes of local memory whose tasks have ended while a transport still holds them.
    pub fn quarantined_bytes(&self) -> u64 {
        if self.owner.is_here() { self.shared.quarantine.bytes() } else { 0 }
    }

    /// Waits until no local memory is in quarantine, at most `timeout`; says whether that was
    /// reached.
    pub fn wait_quiescent(&self, timeout: Duration) -> bool {
        self.owner.is_here() && self.shared.quarantine.wait_empty(timeout)
    }

    /// Frees a batch whose tasks are all final, polled or not.
    ///
    /// # Errors
    /// [`BatchError::Busy`], [`BatchError::Unknown`].
    pub fn free_batch(&self, batch: BatchId) -> Result<(), BatchError> {
        self.find(batch)?;
        self.shared.batches.free(batch)
    }

    /// Nobody will ask for the batch again: it is freed now, or when it is final. Nothing is called
    /// back.
    pub fn abandon_batch(&self, batch: BatchId) {
        if self.owner.is_here() {
            self.shared.batches.orphan(batch);
        }
    }

    // ---- messages

    /// Takes the notifications that arrived, oldest first.
    pub fn take_notifies(&self) -> Vec<Notify> {
        if !self.owner.is_here() {
            return Vec::new();
        }
        self.inbox.take()
    }

    /// Sends a notification to a segment's owner, which need not be open.
    ///
    /// # Errors
    /// [`EngineError::Open`] where the name leads nowhere, [`EngineError::Peer`] where the peer did
    /// not take it; [`EngineError::is_full`] where it had no room and says so.
    pub fn notify(&self, name: &str, notify: &Notify) -> Result<(), EngineError> {
        let address = self.rpc_address(name)?;
        Ok(self.shared.peers.directory().client().notify(&address, notify).map_err(Box::new)?)
    }

    /// Asks a segment's owner whether it lives; gives the round-trip time.
    ///
    /// # Errors
    /// As [`TransferEngine::notify`]; a peer that does not answer within `timeout` is
    /// [`EngineError::Peer`].
    pub fn probe(&self, name: &str, timeout: Duration) -> Result<Duration, EngineError> {
        let address = self.rpc_address(name)?;
        Ok(self.shared.peers.directory().client().probe(&address, timeout).map_err(Box::new)?)
    }

    fn rpc_address(&self, name: &str) -> Result<HostPort, OpenError> {
        if !self.owner.is_here() {
            return Err(OpenError::Forked);
        }
        if self.is_closed() {
            return Err(OpenError::Closed);
        }
        let name = parse_name(name)?;
        let found = self.shared.peers.directory().rpc_address(&name);
        found.map_err(|cause| OpenError::Resolve {
            name: name.as_str().into(),
            cause: Box::new(cause),
        })
    }

    // ---- end

    /// Closes the engine within `timeout`: refuses new work, ends every task and every question to
    /// a peer, joins every thread, removes what was published. Calling it again does nothing.
    pub fn close(&self, timeout: Duration) -> EngineCloseReport {
        if !self.owner.is_here() {
            return EngineCloseReport { open_tasks: 0, joined: false, kept_bytes: 0 };
        }
        let deadline = self.now() + timeout.min(FAR);
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.watching.close();
            self.registrar.close(timeout.min(self.config.metadata.call_timeout));
        }
        // Tasks first, so that they end as called back and not by the fault of their question.
        let Closing { mut joined, kept_bytes } = self.path.close(deadline);
        self.shared.peers.directory().client().interrupt();
        self.shared.alarm.close();
        if let Some(ticker) = self.ticker.lock().take() {
            // Foreign code that runs on the timer thread, such as a waker, may drop the engine.
            let here = ticker.thread().id() == std::thread::current().id();
            joined &= !here && ticker.join().is_ok();
        }
        joined &= self.shared.workers.close(deadline.saturating_duration_since(self.now()));
        if let Some(server) = &self.server {
            joined &= server.close(deadline.saturating_duration_since(self.now())).is_ok();
        }
        let open = self.shared.batches.all().iter().map(|batch| batch.open_tasks()).sum();
        EngineCloseReport { open_tasks: open, joined, kept_bytes }
    }

    pub(crate) fn find(&self, batch: BatchId) -> Result<Arc<Batch>, BatchError> {
        if !self.owner.is_here() {
            return Err(BatchError::Forked);
        }
        self.shared.batches.find(batch)
    }

    fn available(&self) -> Result<(), &'static str> {
        match (self.owner.is_here(), self.is_closed()) {
            (false, _) => Err(FORKED),
            (true, true) => Err("the engine is closed"),
            (true, false) => Ok(()),
        }
    }

    /// What a metadata service is to be told, where one is used and a transport may say something new.
    pub(crate) fn news(&self) -> Option<News> {
        let has_rdma = self.path.names().contains(&"rdma");
        let is_published = self.shared.peers.directory().metadata_store().is_some();
        (has_rdma && is_published).then(|| News::new(&self.publisher, &self.registrar))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    /// The end of an engine in a forked child: its threads are not here to be joined, and its locks
    /// may be held by them for ever, so what they own is left alone.
    fn abandon(&mut self) {
        std::mem::forget(self.server.take());
        std::mem::forget(self.ticker.get_mut().take());
        std::mem::forget(Arc::clone(&self.path));
        std::mem::forget(Arc::clone(&self.shared.workers));
        self.registry.abandon();
        std::mem::forget(Arc::clone(&self.registrar));
    }

    /// Does what is due now; only for engines without threads of their own.
    #[cfg(feature = "testing")]
    pub fn tick(&self) -> Option<Instant> {
        self.path.tick(self.now())
    }
}

/// Stands for "without limit" where a caller's duration does not fit the clock.
pub(crate) const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn parse_name(name: &str) -> Result<SegmentName, OpenError> {
    SegmentName::parse(name)
        .map_err(|error| OpenError::Name { name: name.into(), reason: error.to_string() })
}

impl Drop for TransferEngine {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            return self.abandon();
        }
        self.close(self.config.engine.shutdown_timeout);
    }
}

impl fmt::Debug for TransferEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferEngine({}, {:?})", self.local_name().as_str(), self.path)
    }
}

/// The timer thread's loop.
pub(crate) fn run_ticker(shared: &Shared, path: &dyn DataPath, mut duties: Housekeeping) {
    let clock = &shared.clock;
    shared.alarm.at(clock.now());
    while shared.alarm.wait(|| clock.now()) {
        let now = clock.now();
        // Foreign code that panics below, such as a transport, must not end the keeping of time.
        let round = AssertUnwindSafe(|| [path.tick(now), duties.tick(now, shared)]);
        let nexts = catch_unwind(round).unwrap_or([Some(now + PAUSE), None]);
        if let Some(next) = nexts.into_iter().flatten().min() {
            shared.alarm.at(next.max(now + STEP));
        }
    }
}

/// Deadlines are kept to this: a round looks at every batch, so there are not more of them.
const STEP: Duration = Duration::from_millis(1);

/// After a round that panicked, the next one.
const PAUSE: Duration = Duration::from_millis(100);
