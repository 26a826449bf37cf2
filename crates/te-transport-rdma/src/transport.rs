//! `rdma`: the transport over verbs.

mod front;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use te_metadata::{AddressFamily, EndpointQuestion, PeerClient, PeerLimits, SegmentDescriptor};
use te_segment::{LocalBuffer, RemoteSegment, Slice, SlicePolicy, SliceToken};
use te_sync::RwLock;
use te_topology::NicName;
use te_transport::{
    Capabilities, CloseReport, Driven, Driver, SliceSource, StartError, Threads, Transport,
    TransportContext, TransportRegisterError, is_in_step,
};
use te_verbs::{Verbs, VerbsError};

use self::front::{Fronts, Touched, chooser};
use crate::config::RdmaConfig;
use crate::control::{Control, Handshakes, Parts, Way};
use crate::memory::MemoryTable;
use crate::nic::{Nic, Nics};
use crate::peer::PeerView;
use crate::publish::{self, TeFacts};
use crate::sync::Mutex;
use crate::worker::{Admission, Command, Common, Inbox, Worker, WorkerParts, bind_near};

/// The name in configuration, logs and descriptors.
const NAME: &str = "rdma";
/// How long dropping a transport that was not closed waits for its threads.
const DROP_PATIENCE: Duration = Duration::from_secs(5);
/// A request is cut into pieces of at most so many slices' bytes.
const MAX_PIECE: u64 = 16;

/// One-sided reads and writes over the NICs of this host.
pub struct Rdma {
    config: RdmaConfig,
    verbs: Arc<dyn Verbs>,
    handshakes: Arc<dyn Handshakes>,
    started: OnceLock<Started>,
}

struct Started {
    nics: Arc<Nics>,
    memory: Arc<MemoryTable>,
    control: Arc<Control>,
    /// By the index of the NIC; `None` for one that could not be opened.
    lanes: Vec<Option<Lane>>,
    /// The only one that was opened, where there is only one.
    single: Option<usize>,
    fronts: Fronts,
    admission: Arc<Admission>,
    threads: Arc<Threads>,
    closed: Arc<AtomicU64>,
    /// Shared by each `submit` for its time, so that closing comes before or after it. Only closing
    /// takes it alone; until then sharing it is an addition to a counter, and nobody waits.
    gate: RwLock<bool>,
}

/// A worker and the way to it.
struct Lane {
    inbox: Arc<Inbox>,
    driver: Arc<Driver<Worker>>,
}

/// Why the transport did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaStartError {
    /// The NICs cannot be used.
    #[error("no NIC can be used")]
    Nics(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A device gave no completion queue.
    #[error("a device gave no completion queue")]
    Device(#[source] VerbsError),
    /// The system gave no thread or descriptor.
    #[error("no thread or descriptor")]
    System(#[from] io::Error),
    /// It was started before.
    #[error("it was started already")]
    Again,
}

impl Rdma {
    /// A transport over a provider of verbs, not started yet. Peers are asked over TCP, within the
    /// limits that are set.
    pub fn new(config: RdmaConfig, verbs: Arc<dyn Verbs>) -> Self {
        let limits = PeerLimits {
            connect_timeout: config.connection.connect_limit,
            exchange_timeout: config.connection.answer_limit,
            ..PeerLimits::default()
        };
        let client = PeerClient::new(limits, AddressFamily::Any);
        Self::with_handshakes(config, verbs, Arc::new(client))
    }

    /// As [`Rdma::new`], for whoever carries handshakes to peers some other way.
    pub fn with_handshakes(
        config: RdmaConfig,
        verbs: Arc<dyn Verbs>,
        handshakes: Arc<dyn Handshakes>,
    ) -> Self {
        Self { config, verbs, handshakes, started: OnceLock::new() }
    }

    /// Says that memory which is about to be registered is part of a dma-buf: the buffer that begins
    /// at `address` has its bytes from `offset` on. For memory of accelerators that the kernel does
    /// not know by its address. Once for each registration, also for one that is refused; `false`
    /// before the transport has started.
    pub fn offer_dmabuf(&self, address: u64, file: OwnedFd, offset: u64) -> bool {
        let Some(started) = self.started.get() else { return false };
        started.memory.offer_dmabuf(address, file, offset);
        true
    }

    fn try_start(&self, context: TransportContext) -> Result<(), RdmaStartError> {
        if self.started.get().is_some() {
            return Err(RdmaStartError::Again);
        }
        let now = context.clock.now();
        let nics = Nics::open(&*self.verbs, &self.config, now)
            .map_err(|error| RdmaStartError::Nics(Box::new(error)))?;
        let nics = Arc::new(nics);
        let memory = Arc::new(MemoryTable::new(Arc::clone(&nics), self.config.memory.clone()));
        let mut ways = Vec::with_capacity(nics.len());
        for nic in nics.iter() {
            ways.push(way(nic, self.config.work.queue)?);
        }
        let threads = Arc::new(Threads::default());
        let parts = Parts {
            server: context.name.as_str().into(),
            incarnation: context.incarnation,
            config: self.config.clone(),
            nics: Arc::clone(&nics),
            memory: Arc::clone(&memory),
            handshakes: Arc::clone(&self.handshakes),
            clock: Arc::clone(&context.clock),
            ways: ways.clone(),
        };
        let control = Control::start(parts, &threads)?;
        let begun = Begun { context, nics, memory, control, threads };
        let started = self.started_with(begun, ways)?;
        self.started.set(started).map_err(|_| RdmaStartError::Again)
    }

    /// Starts the workers. Where one does not start, the others end with what is dropped.
    fn started_with(
        &self,
        begun: Begun,
        ways: Vec<Option<Way>>,
    ) -> Result<Started, RdmaStartError> {
        let Begun { context, nics, memory, control, threads } = begun;
        let admission = Arc::new(Admission::new(self.config.work.queue));
        let closed = Arc::new(AtomicU64::new(0));
        let common = Common {
            config: self.config.clone(),
            nics: Arc::clone(&nics),
            control: Arc::clone(&control),
            admission: Arc::clone(&admission),
            closed: Arc::clone(&closed),
        };
        #[expect(clippy::cast_possible_truncation, reason = "any part of a seed is one")]
        let seed = context.incarnation.as_u128() as u64;
        let fronts = Fronts::new(&self.config, &nics, &memory, seed);
        let mut started = Started {
            nics: Arc::clone(&nics),
            memory: Arc::clone(&memory),
            control,
            lanes: Vec::new(),
            single: None,
            fronts,
            admission,
            threads,
            closed,
            gate: RwLock::new(false),
        };
        for (nic, way) in nics.iter().zip(ways) {
            let lane = match (way, nic.limits()) {
                (Some(way), Some(limits)) => {
                    let core = Worker::new(WorkerParts {
                        nic: nic.index(),
                        name: nic.name().clone(),
                        common: common.clone(),
                        sink: Arc::clone(&context.sink),
                        clock: Arc::clone(&context.clock),
                        queue: way.completions,
                        queue_room: limits.completion_entries as usize,
                        lane_room: limits.capacity.send_requests as usize,
                        max_ranges: limits.capacity.ranges,
                        inbox: Arc::clone(&way.inbox),
                        memory: memory.reader(),
                        chooser: chooser(&self.config, &nics, nic.index().position() as u64),
                    });
                    Some(started.lane(
                        (core, nic.name().clone()),
                        way.inbox,
                        &context,
                        self.config.work.spin,
                    )?)
                }
                _ => None,
            };
            started.lanes.push(lane);
        }
        let mut opened = (0..started.lanes.len()).filter(|i| started.lanes[*i].is_some());
        let first = opened.next();
        started.single = first.filter(|_| opened.next().is_none());
        Ok(started)
    }
}

#[cfg(feature = "testing")]
impl Rdma {
    /// How many locks of this crate the calling thread has taken, to prove that moving bytes takes
    /// none.
    pub fn locks_taken() -> u64 {
        crate::sync::locks_taken()
    }

    /// Runs the worker of every NIC on the calling thread, each once.
    pub fn drive_each(&self, now: Instant) {
        let lanes = self.started.get().into_iter().flat_map(|started| &started.lanes);
        lanes.flatten().for_each(|lane| {
            lane.driver.drive(now);
        });
    }
}

/// What is there before the workers.
struct Begun {
    context: TransportContext,
    nics: Arc<Nics>,
    memory: Arc<MemoryTable>,
    control: Arc<Control>,
    threads: Arc<Threads>,
}

/// What the worker of a NIC is reached by; `None` for a NIC that could not be opened.
fn way(nic: &Nic, capacity: usize) -> Result<Option<Way>, RdmaStartError> {
    let Some((device, limits)) = nic.device().zip(nic.limits()) else { return Ok(None) };
    let completions =
        device.completion_queue(limits.completion_entries).map_err(RdmaStartError::Device)?;
    let completions = Arc::new(Mutex::new(completions));
    Ok(Some(Way { inbox: Arc::new(Inbox::new(capacity)?), completions }))
}

impl Started {
    fn lane(
        &self,
        (core, nic): (Worker, NicName),
        inbox: Arc<Inbox>,
        context: &TransportContext,
        spin: Duration,
    ) -> Result<Lane, RdmaStartError> {
        let bell = Arc::clone(&inbox);
        let waker = Box::new(move || bell.ring());
        let driver = Arc::new(Driver::new(core, waker, Arc::clone(&context.clock), spin));
        let runner = Arc::clone(&driver);
        let name = format!("te-rdma-{}", self.lanes.len());
        self.threads.spawn(&name, move || {
            bind_near(&nic);
            runner.run_thread();
        })?;
        Ok(Lane { inbox, driver })
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let closed = self.gate.read_recursive();
        if *closed {
            return 0;
        }
        if !self.admission.take() {
            self.turn_away(peer);
            return 0;
        }
        let (mut taken, mut has_place) = (0, true);
        let mut touched = Touched::default();
        let mut front = self.single.is_none().then(|| self.fronts.take());
        source.pour(&mut |slice| {
            let lane = match &mut front {
                Some(front) => front.choose(&slice),
                None => self.single,
            };
            touched.add(self.push(lane, slice));
            taken += 1;
            has_place = self.admission.take();
            has_place
        });
        if let Some(front) = front {
            self.fronts.give_back(front);
        }
        for lane in self.lanes.iter().enumerate().filter(|(i, _)| touched.has(*i)) {
            lane.1.iter().for_each(|lane| lane.driver.wake());
        }
        if has_place {
            self.admission.on_ended(1);
        } else {
            self.turn_away(peer);
        }
        taken
    }

    /// Somebody has more than there is room for.
    fn turn_away(&self, peer: &RemoteSegment) {
        if self.admission.leave_behind(peer.id())
            && let Some(lane) = self.lanes.iter().flatten().next()
        {
            lane.inbox.ring();
        }
    }

    /// Hands a slice to a worker; without a NIC to choose the first one ends it. There is a place for
    /// every slice that was admitted.
    fn push(&self, wanted: Option<usize>, slice: Slice) -> usize {
        let open = |i: &usize| self.lanes.get(*i).is_some_and(Option::is_some);
        let first = || (0..self.lanes.len()).find(open);
        let index = wanted.filter(open).or_else(first).unwrap_or(0);
        if let Some(Some(lane)) = self.lanes.get(index) {
            let full = lane.inbox.push(slice);
            debug_assert!(full.is_ok(), "an inbox has a place for every slice that is admitted");
        }
        index
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        *self.gate.write() = true;
        self.lanes.iter().flatten().for_each(|lane| lane.driver.stop());
        self.control.close();
        // Inside a step the thread to wait for is this one.
        let joined = !is_in_step() && self.threads.wait_until_none(deadline);
        CloseReport { settled: self.closed.load(Ordering::Relaxed), joined }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "the edge: nobody can hand in a clock")]
        let deadline = Instant::now() + DROP_PATIENCE;
        self.close(deadline);
    }
}

impl Transport for Rdma {
    fn capabilities(&self) -> Capabilities {
        let work = &self.config.work;
        let nics = self.started.get().map_or(1, |started| started.nics.len());
        let ways = u32::try_from(nics).unwrap_or(1) * self.config.connection.queue_pairs.max(1);
        let max_piece = work.slice.saturating_mul(MAX_PIECE).max(work.slice);
        Capabilities {
            name: NAME,
            slices: SlicePolicy { min_piece: work.slice.max(1), max_piece: max_piece.max(1), ways },
            needs_local_registration: true,
            can_cancel: true,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        self.try_start(context)
            .map_err(|error| StartError { transport: NAME, cause: Box::new(error) })
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        let Some(started) = self.started.get() else { return };
        let (nics, memory) = (started.nics.snapshot(), started.memory.view());
        let facts = TeFacts { fences: true, queue_pairs: self.config.connection.queue_pairs };
        publish::describe((&nics, self.config.matrix.as_ref()), &memory, facts, descriptor);
    }

    fn description_version(&self) -> u64 {
        self.started.get().map_or(0, |started| started.nics.version())
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        let Some(started) = self.started.get() else { return false };
        started.nics.snapshot().active().next().is_some() && PeerView::check(peer).is_ok()
    }

    fn awaits(&self, peer: &RemoteSegment) -> bool {
        self.started.get().is_some() && PeerView::is_awaited(peer)
    }

    fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        match self.started.get() {
            Some(started) => Ok(started.memory.register(buffer)?),
            None => Ok(()),
        }
    }

    fn deregister(&self, buffer: &Arc<LocalBuffer>) {
        if let Some(started) = self.started.get() {
            started.memory.deregister(buffer);
        }
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        self.started.get().map_or(0, |started| started.submit(peer, source))
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        for lane in self.started.get().iter().flat_map(|started| started.lanes.iter().flatten()) {
            lane.inbox.tell(Command::Cancel(tokens.to_vec()));
        }
    }

    fn endpoint(&self, question: EndpointQuestion) -> Option<EndpointQuestion> {
        match self.started.get() {
            Some(started) => {
                started.control.answer(question);
                None
            }
            None => Some(question),
        }
    }

    /// Runs the worker of the only NIC. With several NICs each has its thread.
    fn drive(&self, until: Instant) -> Driven {
        let Some(started) = self.started.get() else { return Driven::Busy };
        let lane = started.single.and_then(|index| started.lanes[index].as_ref());
        lane.map_or(Driven::Busy, |lane| lane.driver.drive(until))
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        let closed = CloseReport { settled: 0, joined: true };
        self.started.get().map_or(closed, |started| started.close(deadline))
    }
}

impl fmt::Debug for Rdma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nics = self.started.get().map(|started| &started.nics);
        f.debug_struct("Rdma").field("nics", &nics).finish_non_exhaustive()
    }
}
