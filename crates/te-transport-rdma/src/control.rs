//! Makes connections and ends them, away from the listener and from the workers.
//!
//! ```text
//!   worker ── want ──▶ active threads ── handshake ──▶ peer        ┐
//!   peer ── question ─▶ passive threads ── answer                  ├─▶ table ── Open, Retire ──▶ worker
//!   time, devices ────▶ timer thread, device thread                ┘
//! ```
//!
//! Threads of both pools may wait: for a peer's answer, for the kernel that resolves an address. They
//! hold no lock then. Active and passive ones are apart, so that two hosts that connect to each other
//! never wait for each other's threads. A NIC that comes back has a thread for as long, because memory is
//! registered on it first, which may take long.
//!
//! I1  A worker that wants a connection is told of one, or of the failure.
//! I2  What a peer says changes nothing but the connection that it speaks of.

mod active;
mod pairs;
mod passive;
mod pool;
mod refusals;
mod table;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use te_metadata::{
    EndpointMessage, EndpointQuestion, HostPort, Incarnation, PeerClient, PeerError, QpNumber,
};
use te_sync::Condvar;
use te_topology::NicIndex;
use te_transport::{Clock, FaultClass, Phase, SliceFault, Threads};
use te_verbs::{CompletionQueue, VerbsError};

use self::pool::Pool;
use self::refusals::{Refusals, Told};
pub(crate) use self::table::Wish;
use self::table::{Entry, Leaving, Table};
use crate::config::RdmaConfig;
use crate::endpoint::{HandshakeError, NicPath};
use crate::memory::MemoryTable;
use crate::nic::{Nic, NicChange, NicLink, Nics};
use crate::sync::Mutex;
use crate::worker::{Command, EndpointId, Inbox, Whom};

/// Carries handshakes to peers.
pub trait Handshakes: fmt::Debug + Send + Sync {
    /// Sends a question and waits for its answer; a refusal is an answer.
    ///
    /// # Errors
    /// The peer was not reached, or said what is no answer.
    fn ask(&self, to: &HostPort, question: &EndpointMessage) -> Result<EndpointMessage, PeerError>;

    /// Calls off what is asked now, and whatever is asked later.
    fn interrupt(&self);
}

impl Handshakes for PeerClient {
    fn ask(&self, to: &HostPort, question: &EndpointMessage) -> Result<EndpointMessage, PeerError> {
        self.handshake(to, question)
    }

    fn interrupt(&self) {
        Self::interrupt(self);
    }
}

/// See the module.
pub(crate) struct Control {
    /// Our segment's name.
    server: Box<str>,
    /// Which process this is.
    incarnation: Incarnation,
    config: RdmaConfig,
    nics: Arc<Nics>,
    memory: Arc<MemoryTable>,
    handshakes: Arc<dyn Handshakes>,
    clock: Arc<dyn Clock>,
    /// By the index of the NIC; `None` for one that could not be opened.
    ways: Vec<Option<Way>>,
    table: Mutex<Table>,
    /// What peers were refused, until it is told.
    refusals: Mutex<Refusals>,
    /// Told when a connection has moved.
    moved: Condvar,
    active: Arc<Pool>,
    passive: Arc<Pool>,
    /// Wakes the thread that watches time.
    bell: Inbox,
    /// Wakes the thread that watches devices.
    device_bell: Inbox,
    threads: Arc<Threads>,
}

/// What leads to the worker of a NIC.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) inbox: Arc<Inbox>,
    /// The queue that new connections report to. The worker replaces one that failed.
    pub(crate) completions: Arc<Mutex<Arc<dyn CompletionQueue>>>,
}

/// What the control of connections is made of.
pub(crate) struct Parts {
    pub(crate) server: Box<str>,
    pub(crate) incarnation: Incarnation,
    pub(crate) config: RdmaConfig,
    pub(crate) nics: Arc<Nics>,
    pub(crate) memory: Arc<MemoryTable>,
    pub(crate) handshakes: Arc<dyn Handshakes>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ways: Vec<Option<Way>>,
}

/// Queue pairs of a connection that a peer may have.
const MAX_QUEUE_PAIRS: usize = 64;
/// How long we wait at most for a peer's ready-ack when we have something to send to it.
const ACK_PATIENCE: Duration = Duration::from_secs(1);
/// How long somebody waits for queue pairs that another thread moves, which takes the kernel about a
/// second where it has to look for the peer.
const MOVE_LIMIT: Duration = Duration::from_secs(5);

impl Control {
    /// Starts the threads that watch; others come when there is work.
    ///
    /// # Errors
    /// The system gives no thread or descriptor.
    pub(crate) fn start(parts: Parts, threads: &Arc<Threads>) -> std::io::Result<Arc<Self>> {
        let Parts { server, incarnation, config, nics, memory, handshakes, clock, ways } = parts;
        let settings = &config.connection;
        let table = Mutex::new(Table::new(nics.iter().map(Nic::limits), settings));
        let active = Pool::new("te-rdma-connect", settings.threads, threads);
        let passive = Pool::new("te-rdma-accept", settings.threads, threads);
        let (moved, bell) = (Condvar::new(), Inbox::new(1)?);
        let device_bell = Inbox::new(1)?;
        let control = Arc::new(Self {
            server,
            incarnation,
            config,
            nics,
            memory,
            handshakes,
            clock,
            ways,
            table,
            refusals: Mutex::new(Refusals::default()),
            moved,
            active,
            passive,
            bell,
            device_bell,
            threads: Arc::clone(threads),
        });
        let watching = Arc::clone(&control);
        threads.spawn("te-rdma-timers", move || watching.watch())?;
        let watching = Arc::clone(&control);
        threads.spawn("te-rdma-devices", move || watching.watch_devices())?;
        Ok(control)
    }

    /// A worker wants a connection.
    pub(crate) fn want(self: &Arc<Self>, wish: Wish) {
        let now = self.clock.now();
        {
            let mut table = self.table.lock();
            if let Some(entry) = table.entry(wish.nic, &wish.peer) {
                // One that is not ready yet is told of when it is; where the peer's ready-ack does
                // not come, another takes its place.
                if entry.machine.is_sendable() {
                    self.announce(wish.nic, &wish.peer, entry);
                } else if entry.machine.half_open_until().is_some() {
                    let wait = (self.config.connection.ready_ack_limit / 4).min(ACK_PATIENCE);
                    table.retry_at(now + wait, Wish { takes_over: true, ..wish });
                    drop(table);
                    self.bell.ring();
                }
                return;
            }
            if table.pauses.pauses(now, wish.peer.server()) {
                drop(table);
                let server = wish.peer.server().into();
                return self.give_up(&wish, &HandshakeError::Paused { server });
            }
        }
        self.connect(wish);
    }

    fn connect(self: &Arc<Self>, wish: Wish) {
        let (control, job) = (Arc::clone(self), wish.clone());
        if !self.active.run(wish.peer.server(), move || control.run_active(job)) {
            self.give_up(&wish, &HandshakeError::TimedOut);
        }
    }

    /// A peer wants a connection, or says something of one.
    pub(crate) fn answer(self: &Arc<Self>, question: EndpointQuestion) {
        let control = Arc::clone(self);
        let until = self.clock.now() + self.config.connection.serve_limit;
        let path = NicPath::parse(&question.request().local_nic_path);
        // Where it is not taken the question is dropped, which refuses it.
        self.passive.run(path.as_ref().map_or("", NicPath::server), move || {
            if control.clock.now() >= until {
                // Whoever asked has gone.
                return;
            }
            let answer = control.run_passive(question.request(), until);
            if answer.is_refusal() {
                control.note_refusal(question.request(), &answer);
            }
            question.answer(answer);
        });
    }

    /// A peer that is refused asks again at once, so that one line tells of many refusals.
    fn note_refusal(&self, question: &EndpointMessage, answer: &EndpointMessage) {
        let path = NicPath::parse(&question.local_nic_path);
        let server = path.as_ref().map_or("", NicPath::server);
        let now = self.clock.now();
        if self.refusals.lock().note(now, server, &answer.reply_msg) {
            self.bell.ring();
        }
    }

    /// A worker ends a connection, which it found broken.
    pub(crate) fn on_broken(&self, nic: NicIndex, peer: &NicPath, id: EndpointId) {
        let gone = self.table.lock().remove(nic, peer, id);
        gone.iter().for_each(|leaving| self.stop(leaving));
    }

    /// Asks a peer of our own kind to touch its memory no more by a connection.
    pub(crate) fn fence(self: &Arc<Self>, wish: Wish, id: EndpointId, ours: Vec<QpNumber>) {
        let (control, nic) = (Arc::clone(self), wish.nic);
        let server: Box<str> = wish.peer.server().into();
        let taken = self.active.run(&server, move || {
            let is_confirmed = control.run_fence(&wish, ours);
            control.tell(wish.nic, Command::Fenced { id, is_confirmed });
        });
        if !taken {
            self.tell(nic, Command::Fenced { id, is_confirmed: false });
        }
    }

    /// Something became of a NIC.
    pub(crate) fn on_change(&self, nic: NicIndex, change: &NicChange) {
        if change.is_of_the_completion_queue() {
            // A worker need not find that by itself: some providers poll a dead queue as an empty one.
            self.tell(nic, Command::QueueFailed);
        }
        let (why, number) = match change {
            NicChange::Activated | NicChange::CompletionQueueFailed => return,
            NicChange::Deactivated(fault) => (format!("the NIC is inactive: {fault}"), None),
            NicChange::Moved => ("the NIC has another address".to_owned(), None),
            NicChange::QueuePairFatal { number } => {
                (format!("queue pair {number} failed"), Some(*number))
            }
        };
        let is_of = |entry: &Entry| {
            number.is_none_or(|number| entry.queue_pairs.iter().any(|qp| qp.number() == number))
        };
        let gone = self.table.lock().drain(nic, is_of);
        let fault = SliceFault::new(FaultClass::Rail, Phase::Payload, why);
        gone.into_iter().for_each(|leaving| self.end(leaving, &fault));
        // A worker may have found it, and the NIC has a time at which it is looked at again.
        self.device_bell.ring();
    }

    /// Ends everything; workers end what they have by themselves.
    pub(crate) fn close(&self) {
        // First, so that whoever is turned away by the pools knows why.
        let gone = self.table.lock().close();
        self.active.stop();
        self.passive.stop();
        self.handshakes.interrupt();
        self.moved.notify_all();
        self.bell.ring();
        self.device_bell.ring();
        gone.iter().for_each(|leaving| self.stop(leaving));
        self.refusals.lock().take_all().iter().for_each(Told::tell);
    }

    /// Ends the queue pairs of a connection that was taken out of the table, which is not locked
    /// meanwhile.
    fn stop(&self, leaving: &Leaving) {
        if let Err(error) = self.try_stop(leaving) {
            tracing::debug!(peer = %leaving.peer, %error, "a queue pair could not be ended");
        }
    }

    fn try_stop(&self, leaving: &Leaving) -> Result<(), VerbsError> {
        let stopped = leaving.stop();
        let is_over = match &stopped {
            Ok(()) => true,
            // What a device has that is gone passes nothing.
            Err(error) => matches!(error.errno, Some(libc::EIO | libc::ENODEV)),
        };
        if is_over {
            self.table.lock().left(leaving.entry.id);
        }
        self.moved.notify_all();
        stopped
    }

    /// Ends a connection that was taken out of the table.
    fn end(&self, leaving: Leaving, why: &SliceFault) {
        self.stop(&leaving);
        self.tell_end(leaving, why);
    }

    /// Tells the worker that a connection has ended.
    fn tell_end(&self, leaving: Leaving, why: &SliceFault) {
        let Leaving { nic, peer, entry } = leaving;
        if entry.machine.is_sendable() {
            self.tell(nic, Command::Retire { id: entry.id, fault: why.clone() });
        } else {
            // Somebody may wait for it.
            self.tell(nic, Command::Failed { peer, fault: why.clone() });
        }
    }

    /// Ends connections that one to `next` takes the place of. Who is making one of them learns of it,
    /// and who waits for one to the same peer waits for the next.
    fn give_way(&self, gone: Vec<Leaving>, next: &NicPath) {
        let why = "the connection gave way to others";
        let fault = SliceFault::new(FaultClass::Rail, Phase::Handshake, why);
        for leaving in gone {
            let machine = &leaving.entry.machine;
            let is_told = machine.is_connected() && leaving.peer != *next;
            self.stop(&leaving);
            if is_told {
                self.tell_end(leaving, &fault);
            }
        }
    }

    /// Tells the worker that a connection may be used. The table is locked, so that what ends it is
    /// told later.
    fn announce(&self, nic: NicIndex, peer: &NicPath, entry: &Entry) {
        self.tell(
            nic,
            Command::Open {
                id: entry.id,
                peer: peer.clone(),
                whom: Whom { rpc: entry.rpc.clone(), process: entry.machine.process() },
                queue_pairs: entry.queue_pairs.clone(),
                used: entry.used.clone(),
            },
        );
    }

    fn tell(&self, nic: NicIndex, command: Command) {
        if let Some(Some(way)) = self.ways.get(nic.position()) {
            way.inbox.tell(command);
        }
    }

    fn give_up(&self, wish: &Wish, error: &HandshakeError) {
        if self.table.lock().closed {
            // What waits ends because of that.
            return;
        }
        self.tell(wish.nic, Command::Failed { peer: wish.peer.clone(), fault: error.fault() });
    }

    /// Our NIC as it is now.
    fn nic(&self, index: NicIndex) -> Result<(&Nic, NicLink), HandshakeError> {
        let snapshot = self.nics.snapshot();
        let nic = self.nics.nic(index);
        let found = nic.and_then(|nic| Some((nic, *snapshot.link(index)?)));
        found.ok_or_else(|| HandshakeError::Inactive {
            nic: nic.map_or("?", |nic| nic.name().as_str()).into(),
        })
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Control({})", self.server)
    }
}
