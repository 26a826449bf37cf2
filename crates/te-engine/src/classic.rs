//! The classic engine: for each peer the best transport that reaches it, pieces queued per peer, faults judged after a look
//! at the peer's fresh descriptor.
//!
//! ```text
//!   dispatch ──range known──▶ PeerQueue ──submit──▶ transport ──complete──▶ landed
//!      │                        ▲    ▲                             │ fault
//!      └─range unknown─▶ parked ┘    └── again ──── judged ◀───────┘
//!                          │                          │
//!                          └── refresh (te-control) ──┴── give up ──▶ task ends
//! ```
//!
//! I1  Every dispatched task reaches one final state, also through `close`.
//! I2  No lock is held while a transport, a peer or a waker is called.
//! I3  A burst of faults of one peer costs one refresh.

mod dispatching;
mod driving;
mod landing;
mod park;
mod paths;
mod queue;
mod turns;
mod ways;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use te_metadata::Notify;
use te_segment::{RemoteSegment, SegmentId};
use te_sync::{Mutex, MutexGuard, RwLock};
use te_transport::{Clock, Driven, FaultClass, Phase, SliceFault, Transport};

use crate::admission::Admission;
use crate::alarm::Alarm;
use crate::batch::{Batch, BatchTable, Inner, Overdue};
use crate::data_path::{Closing, DataPath};
use crate::fault_log::FaultLog;
use crate::peers::Peers;
use crate::quarantine::Quarantine;
use crate::retry::RetryPolicy;
use crate::slices::SliceTable;
use crate::stats::Counters;
use crate::status::{NotifyOutcome, TaskFault, TaskState};
use crate::task::{Landing, Task};
use crate::workers::Workers;
pub(crate) use landing::Sink;
use park::{Delayed, Parked};
pub(crate) use paths::{MAX_TRANSPORTS, Via, Vias};
use queue::{Fed, Gone, Item, PeerQueue};
pub(crate) use ways::Route;
#[cfg(test)]
pub(crate) use ways::Ways;

/// What the classic engine shares with the façade.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) batches: Arc<BatchTable>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) faults: Arc<FaultLog>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The dispatcher.
pub(crate) struct Classic {
    shared: Shared,
    /// In order of preference; at most [`MAX_TRANSPORTS`].
    transports: Arc<[Arc<dyn Transport>]>,
    policy: RetryPolicy,
    slices: SliceTable,
    /// By the number of the peer's segment.
    queues: RwLock<Vec<Option<Arc<PeerQueue>>>>,
    parked: Mutex<HashMap<SegmentId, Vec<Parked>>>,
    delayed: Mutex<Vec<Delayed>>,
    /// Descriptors to ask for at a later time, because the last answer failed a moment ago.
    asks: Mutex<Vec<(Instant, SegmentId, Instant)>>,
    /// How often tasks were told to end: whoever hands slices over looks whether that happened
    /// meanwhile.
    ends: AtomicU64,
}

/// Tasks of one batch that have become final together.
#[derive(Debug, Default)]
struct Sealed {
    tasks: u64,
    /// What they asked for.
    bytes: u64,
    completed: u64,
    /// Bytes of those that completed.
    moved: u64,
}

impl Sealed {
    fn count(&mut self, task: &Task, len: u64) {
        self.tasks += 1;
        self.bytes += len;
        if task.state() == TaskState::Completed {
            self.completed += 1;
            self.moved += task.bytes();
        }
    }
}

impl Classic {
    pub(crate) fn new(
        shared: Shared,
        transports: Vec<Arc<dyn Transport>>,
        policy: RetryPolicy,
    ) -> Arc<Self> {
        let peers = Arc::clone(&shared.peers);
        let classic = Arc::new(Self {
            shared,
            transports: transports.into(),
            policy,
            slices: SliceTable::default(),
            queues: RwLock::default(),
            parked: Mutex::default(),
            delayed: Mutex::default(),
            asks: Mutex::default(),
            ends: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&classic);
        peers.observe(Box::new(move |target, begun, fresh| {
            if let Some(classic) = weak.upgrade() {
                classic.unpark(target, begun, fresh);
            }
        }));
        classic
    }

    /// The queue of a peer, made on first use.
    fn queue(&self, peer: &Arc<RemoteSegment>) -> Option<Arc<PeerQueue>> {
        if let Some(queue) = self.known_queue(peer.id()) {
            return Some(queue);
        }
        if !self.reaches(peer, self.shared.clock.now()) {
            return None;
        }
        let place = usize::try_from(peer.id().as_u64()).ok()?;
        let mut queues = self.queues.write();
        if place >= queues.len() {
            queues.resize(place + 1, None);
        }
        let fresh = || Arc::new(PeerQueue::new(peer.id(), Arc::clone(&self.transports)));
        Some(Arc::clone(queues[place].get_or_insert_with(fresh)))
    }

    /// The queue of a peer, where there is one.
    fn known_queue(&self, target: SegmentId) -> Option<Arc<PeerQueue>> {
        let place = usize::try_from(target.as_u64()).ok()?;
        self.queues.read().get(place)?.clone()
    }

    fn pump(&self, queue: &PeerQueue) {
        let clock = &*self.shared.clock;
        let source = || self.shared.peers.current(queue.ways.id);
        let fed = queue.pump(&self.slices, clock, &self.ends, source);
        let Fed { orphans, stranded, ending } = fed;
        for (via, tokens) in ending.into_iter().filter(|(_, tokens)| !tokens.is_empty()) {
            // Told to end while they were on their way to the transport, which could not know them
            // when they were called back.
            self.transports[via.place()].cancel(&tokens);
        }
        for Item { batch, task, .. } in stranded {
            self.end_one(&batch, task, TaskState::Failed, unreached());
        }
        for (Item { batch, task, .. }, gone) in orphans {
            self.end_one(&batch, task, TaskState::Failed, orphaned(gone));
        }
        if let Some(limit) = self.policy.slice_timeout {
            self.shared.alarm.at(clock.now() + limit);
        }
    }

    /// Applies an event to a task and does what follows from it.
    fn apply(
        &self,
        batch: &Arc<Batch>,
        index: usize,
        event: impl FnOnce(&mut Inner) -> Landing,
    ) -> Landing {
        let mut inner = batch.lock();
        let len = inner.tasks[index].len();
        let landing = event(&mut inner);
        if landing != Landing::Final {
            inner.look_at(index);
            return landing;
        }
        let mut sealed = Sealed::default();
        self.note_end(&mut inner, index, len, &mut sealed);
        self.seal(batch, inner, &sealed);
        Landing::Final
    }

    /// A task of `len` bytes has become final.
    fn note_end(&self, inner: &mut Inner, index: usize, len: u64, sealed: &mut Sealed) {
        inner.tasks[index].number_fault(index);
        inner.note_final(index);
        let task = &inner.tasks[index];
        sealed.count(task, len);
        self.log(task.fault());
    }

    /// What follows when tasks of a batch have become final.
    fn seal(&self, batch: &Arc<Batch>, mut inner: MutexGuard<'_, Inner>, sealed: &Sealed) {
        if sealed.tasks == 0 {
            return;
        }
        let notifies = inner.take_due_notifies();
        let settled = inner.is_settled();
        drop(inner);
        let counters = &self.shared.counters;
        counters.completed.add(sealed.completed);
        counters.bytes.add(sealed.moved);
        counters.failed.add(sealed.tasks - sealed.completed);
        self.shared.admission.leave(sealed.tasks, sealed.bytes);
        if settled {
            self.conclude(batch, notifies);
        }
    }

    /// Every task of a batch is final: what was to be sent goes out, then the batch is final.
    fn conclude(&self, batch: &Arc<Batch>, notifies: Vec<(SegmentId, Notify)>) {
        if notifies.is_empty() {
            self.shared.announce(batch);
        }
        for (target, notify) in notifies {
            self.deliver(batch, target, notify);
        }
    }

    /// A transport does not give the slices of an ending task back: the task is final all the same,
    /// and its memory waits in quarantine.
    fn quarantine(&self, batch: &Arc<Batch>, index: usize) {
        let mut inner = batch.lock();
        let Some(work) = inner.tasks[index].give_up_waiting() else { return };
        let len = work.local.len();
        let held = self.shared.quarantine.admit(work);
        if !te_metadata::sabotage::is_off("quarantine") {
            self.slices.hold(batch, index, &held);
        }
        let mut sealed = Sealed::default();
        self.note_end(&mut inner, index, len, &mut sealed);
        self.seal(batch, inner, &sealed);
    }

    /// When the memory of a task that ends now goes to quarantine.
    fn patience(&self) -> Instant {
        self.shared.clock.now() + self.policy.quarantine_after
    }

    fn log(&self, fault: Option<&TaskFault>) {
        if let Some(fault) = fault {
            self.shared.alarm.at(self.shared.faults.note(self.shared.clock.now(), fault));
        }
    }

    /// Sends the notification that belongs to a batch, then the batch is final.
    pub(crate) fn deliver(&self, batch: &Arc<Batch>, target: SegmentId, notify: Notify) {
        let mut delivery = Delivery {
            shared: self.shared.clone(),
            batch: Arc::clone(batch),
            outcome: NotifyOutcome::Failed(
                "it was not sent: the engine is closing, or too busy".into(),
            ),
        };
        let job = Box::new(move || {
            delivery.outcome = delivery.shared.peers.notify(target, &notify);
        });
        // A job that is not taken is dropped, and tells so like any other.
        drop(self.shared.workers.run(job));
    }

    /// Ends one task; pieces that are with a transport are called back first.
    fn end_one(&self, batch: &Arc<Batch>, index: usize, state: TaskState, fault: SliceFault) {
        let patience = self.patience();
        let landing =
            self.apply(batch, index, |inner| inner.tasks[index].end(state, fault, patience));
        self.ends.fetch_add(1, Ordering::AcqRel);
        if landing == Landing::Open {
            self.shared.alarm.at(patience);
            self.call_back(batch, |task| task == index);
        }
    }

    fn call_back(&self, batch: &Arc<Batch>, wanted: impl FnMut(usize) -> bool) {
        let tokens = self.slices.tokens_of(batch, wanted);
        if !tokens.is_empty() {
            self.transports.iter().for_each(|transport| transport.cancel(&tokens));
        }
    }

    /// Ends tasks with a slice that takes too long; says when the next one may.
    fn end_slow(&self, now: Instant) -> Option<Instant> {
        let limit = self.policy.slice_timeout?;
        let (late, oldest) = self.slices.overdue(now.checked_sub(limit)?);
        for (batch, task) in late {
            self.end(&batch, &[task], TaskState::Timeout, "a slice of it takes too long");
        }
        Some(oldest? + limit)
    }
}

impl DataPath for Classic {
    fn reaches(&self, peer: &Arc<RemoteSegment>, now: Instant) -> bool {
        let Some(queue) = self.known_queue(peer.id()) else {
            return self.transports.iter().any(|transport| transport.reaches(peer));
        };
        let (reaches, wants_news) = queue.ways.reaches(peer, now);
        if wants_news {
            let (peers, id) = (Arc::clone(&self.shared.peers), peer.id());
            // Where too much waits already, it is asked at a later request.
            drop(self.shared.workers.run(Box::new(move || drop(peers.fetch_now(id)))));
        }
        reaches
    }

    fn dispatch(&self, batch: &Arc<Batch>, tasks: Range<usize>) {
        self.dispatch_runs(batch, tasks);
    }

    fn end(&self, batch: &Arc<Batch>, tasks: &[usize], state: TaskState, cause: &str) {
        let class = FaultClass::Cancelled;
        let patience = self.patience();
        let mut ended = false;
        let mut flying = HashSet::new();
        for &task in tasks {
            let fault = SliceFault::new(class, Phase::Queue, cause);
            match self.apply(batch, task, |inner| inner.tasks[task].end(state, fault, patience)) {
                Landing::Open => drop(flying.insert(task)),
                Landing::Final => ended = true,
                _ => {}
            }
        }
        self.ends.fetch_add(1, Ordering::AcqRel);
        if !flying.is_empty() {
            self.shared.alarm.at(patience);
            self.call_back(batch, |task| flying.contains(&task));
        }
        if ended || !flying.is_empty() {
            let queues: Vec<_> = self.queues.read().iter().flatten().cloned().collect();
            queues.iter().for_each(|queue| queue.purge(batch));
        }
    }

    fn tick(&self, now: Instant) -> Option<Instant> {
        let early = [self.release_delayed(now), self.ask_again(now), self.end_slow(now)];
        let mut next = early.into_iter().flatten().min();
        for batch in self.shared.batches.all() {
            let Overdue { late, stuck } = batch.overdue(now);
            if !late.is_empty() {
                self.end(&batch, &late, TaskState::Timeout, "the request's time is up");
            }
            stuck.into_iter().for_each(|task| self.quarantine(&batch, task));
            next = next.into_iter().chain(batch.deadline()).min();
        }
        next
    }

    fn drive(&self, batch: &Batch, until: Instant) -> Driven {
        self.drive_for(batch, until)
    }

    fn poll(&self, batch: &Batch) {
        self.poll_for(batch);
    }

    fn choice(&self, peer: &Arc<RemoteSegment>) -> Option<&'static str> {
        let via = match self.known_queue(peer.id()) {
            Some(queue) => queue.ways.choose(peer, self.shared.clock.now()),
            None => Vias::reaching(&self.transports, peer).first(),
        };
        via.map(|via| self.name_of(via))
    }

    fn name_of(&self, via: Via) -> &'static str {
        self.transports[via.place()].capabilities().name
    }

    fn names(&self) -> Vec<&'static str> {
        self.transports.iter().map(|transport| transport.capabilities().name).collect()
    }

    fn close(&self, deadline: Instant) -> Closing {
        let batches = self.shared.batches.all();
        for batch in batches.iter().filter(|_| !te_metadata::sabotage::is_off("close-settles")) {
            let tasks = batch.lock().tasks.len();
            let all: Vec<usize> = (0..tasks).collect();
            self.end(batch, &all, TaskState::Canceled, "the engine is closing");
        }
        let reports = self.transports.iter().map(|transport| transport.close(deadline));
        let joined = reports.fold(true, |joined, report| joined & report.joined);
        for batch in self.shared.batches.all() {
            let tasks = batch.lock().tasks.len();
            (0..tasks).for_each(|task| self.quarantine(&batch, task));
        }
        Closing { joined, kept_bytes: self.slices.bytes() }
    }
}

impl fmt::Debug for Classic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Classic({} slices in flight)", self.slices.len())
    }
}

impl Shared {
    /// Tells whoever waits for a batch, and frees it where nobody can.
    pub(crate) fn announce(&self, batch: &Batch) {
        batch.announce();
        if batch.is_abandoned() {
            drop(self.batches.free(batch.id()));
        }
    }
}

/// Positions in a batch as the queues have them.
fn run(tasks: Range<usize>) -> Range<u32> {
    let short = |task| u32::try_from(task).expect("a batch has fewer than 2^32 tasks");
    short(tasks.start)..short(tasks.end)
}

/// What ends a request that waited while what it was meant for went away.
fn orphaned(gone: Gone) -> SliceFault {
    let (class, cause) = match gone {
        Gone::Process => (
            FaultClass::Peer,
            "the peer is another process than the one that the request was meant for",
        ),
        Gone::Registration => (
            FaultClass::Refused,
            "the peer has taken back the buffer that the request was meant for",
        ),
    };
    SliceFault::new(class, Phase::Queue, cause)
}

/// What ends a request whose peer no transport reaches.
fn unreached() -> SliceFault {
    let cause = "no transport reaches the peer any more";
    SliceFault::new(FaultClass::Peer, Phase::Queue, cause)
}

/// A notification under way. However its job ends, the batch is told when this is dropped.
struct Delivery {
    shared: Shared,
    batch: Arc<Batch>,
    outcome: NotifyOutcome,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.outcome.cause().is_some() {
            self.shared.counters.notify_failures.add(1);
        }
        self.batch.note_sent(std::mem::replace(&mut self.outcome, NotifyOutcome::None));
        self.shared.announce(&self.batch);
    }
}

/// Longest pause of a piece before it is tried again; the timer thread keeps it.
const MAX_PAUSE: Duration = Duration::from_millis(100);
