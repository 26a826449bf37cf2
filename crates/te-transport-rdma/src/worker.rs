//! One worker for each NIC: it posts, polls and reports.
//!
//! ```text
//!   inbox ─▶ route ─▶ job ─▶ link (one peer NIC) ─▶ plan ─▶ post ─▶ queue pair
//!                                                                      │
//!   sink ◀─ ends ◀─ job done ◀─ work request done ◀─ completion queue ◀┘
//! ```
//!
//! The worker owns its links and what is posted; control threads hand it connections and take them
//! back through its inbox. While a link connects its jobs wait; when it breaks they end, and the
//! engine tries them again.
//!
//! I1  A job ends once, and only when no work request of it is posted any more.
//! I2  Work requests of a queue pair end in order: a completion says of all before it that they went
//!     well. The last of each chain is signaled.
//! I3  A link that has to end moves its queue pairs to ERR, waits until what was posted came back,
//!     and drops them; what does not come back in time is taken from the device by a reset. What
//!     even that does not give back is kept, unreported, and its memory with it, until a reset goes
//!     well or the device is gone.
//! I4  Routing, planning, posting and completing allocate nothing and take no lock once tables have
//!     their size.

mod complete;
mod drain;
mod ends;
mod inbox;
mod link;
mod place;
mod plan;
mod post;
mod probe;
mod queue;
mod route;
mod take;
mod whom;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slab::Slab;
use te_topology::{NicIndex, NicName};
use te_transport::{Clock, CompletionSink, Core, FaultClass, Phase, SliceFault, Step};
use te_verbs::{CompletionQueue, WorkCompletion, WorkStatus};

pub(crate) use self::ends::Admission;
pub(crate) use self::inbox::{Command, EndpointId, Inbox};
use self::link::{Job, Link};
pub(crate) use self::place::bind_near;
use self::plan::Plan;
use self::take::Kept;
pub(crate) use self::whom::Whom;
use crate::choose::{Chooser, Rails};
use crate::config::RdmaConfig;
use crate::control::Control;
use crate::endpoint::NicPath;
use crate::memory::MemoryReader;
use crate::nic::{NicSnapshot, Nics};
use crate::peer::{PeerView, PeerViews};
use crate::published::Reader;
use crate::sync::Mutex;

/// Completions that are polled at a time (E46).
const POLLED: usize = 64;
/// How often links with work are looked after.
const TICK: Duration = Duration::from_millis(50);
/// How long a wait for an event of the completion queue may be at most while work is out: a
/// completion that came between arming and waiting is seen by then where a provider loses it.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// What all workers have in common.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) config: RdmaConfig,
    pub(crate) nics: Arc<Nics>,
    pub(crate) control: Arc<Control>,
    pub(crate) admission: Arc<Admission>,
    /// Slices that closing ended.
    pub(crate) closed: Arc<AtomicU64>,
}

/// See the module.
pub(crate) struct Worker {
    nic: NicIndex,
    name: NicName,
    common: Common,
    sink: Arc<dyn CompletionSink>,
    clock: Arc<dyn Clock>,
    queue: Arc<dyn CompletionQueue>,
    /// Where control finds the queue.
    told_queue: Arc<Mutex<Arc<dyn CompletionQueue>>>,
    /// Work requests that the completion queue has room for.
    queue_room: usize,
    inbox: Arc<Inbox>,
    nics: Reader<NicSnapshot>,
    memory: MemoryReader,
    chooser: Chooser,
    rails: Rails,
    peers: PeerViews,
    /// The peer that was asked for last: slices of one come in rows.
    last: Option<Arc<PeerView>>,
    jobs: Slab<Job>,
    links: Slab<Link>,
    /// The link of each path that takes new jobs.
    by_path: HashMap<NicPath, usize>,
    /// Links that may post.
    active: VecDeque<usize>,
    plan: Box<Plan>,
    /// Work requests posted and not ended.
    posted: usize,
    /// Numbers work requests.
    next_request: u64,
    polled: Box<[WorkCompletion; POLLED]>,
    /// Completions at the front of `polled` that were taken while going to sleep.
    n_polled: usize,
    ends: VecDeque<te_transport::Completion>,
    look_at: Option<Instant>,
    /// Whether the completion queue failed.
    broken: bool,
    /// Whether a link could not post because the completion queue has no room.
    is_starved: bool,
    /// Whether peers are asked of which nothing is heard.
    probes: bool,
    /// Work requests that a queue pair has room for.
    lane_room: usize,
    /// Whether everything ends: no fence is asked for then.
    closing: bool,
    /// Whether our device is known to be gone.
    gone: bool,
    kept: Kept,
    /// Room for a list of links.
    slots: Vec<usize>,
}

/// What a worker is made of.
pub(crate) struct WorkerParts {
    pub(crate) nic: NicIndex,
    pub(crate) name: NicName,
    pub(crate) common: Common,
    pub(crate) sink: Arc<dyn CompletionSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) queue: Arc<Mutex<Arc<dyn CompletionQueue>>>,
    pub(crate) queue_room: usize,
    /// Work requests that a queue pair has room for.
    pub(crate) lane_room: usize,
    /// Ranges of a work request.
    pub(crate) max_ranges: u32,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) memory: MemoryReader,
    pub(crate) chooser: Chooser,
}

impl Worker {
    pub(crate) fn new(parts: WorkerParts) -> Self {
        let WorkerParts {
            nic,
            name,
            common,
            sink,
            clock,
            queue: told_queue,
            queue_room,
            inbox,
            ..
        } = parts;
        let queue = Arc::clone(&told_queue.lock());
        let empty =
            WorkCompletion { id: 0, status: WorkStatus::Success, queue_pair: 0, vendor_error: 0 };
        let (nics, rails) = (common.nics.reader(), Rails::new(&common.config.faults));
        let room = common.config.work.queue;
        let mut plan = Box::new(Plan::new(&common.config.connection));
        plan.limit_ranges(parts.max_ranges);
        Self {
            nic,
            name,
            sink,
            clock,
            queue,
            told_queue,
            queue_room,
            inbox,
            nics,
            memory: parts.memory,
            chooser: parts.chooser,
            rails,
            peers: PeerViews::default(),
            last: None,
            jobs: Slab::with_capacity(room),
            links: Slab::new(),
            by_path: HashMap::new(),
            active: VecDeque::with_capacity(64),
            plan,
            posted: 0,
            next_request: 1,
            polled: Box::new([empty; POLLED]),
            n_polled: 0,
            ends: VecDeque::with_capacity(room),
            look_at: None,
            broken: false,
            is_starved: false,
            probes: true,
            lane_room: parts.lane_room,
            closing: false,
            gone: false,
            kept: Kept::default(),
            slots: Vec::new(),
            common,
        }
    }

    fn on_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Open { id, peer, whom, queue_pairs, used } => {
                self.on_open(now, (id, peer, whom), (queue_pairs, used));
            }
            Command::Failed { peer, fault } => self.on_failed(now, &peer, fault),
            Command::Retire { id, fault } => {
                if let Some(slot) = self.link_of(id) {
                    self.retire(now, slot, &fault);
                }
            }
            Command::QueueFailed => self.break_queue(now, "a completion queue failed"),
            Command::Probe { idle } => self.probe(now, idle),
            Command::Cancel(tokens) => self.cancel(now, &tokens),
            Command::Fenced { id, is_confirmed } => {
                if let Some(slot) = self.link_of(id) {
                    self.on_fenced(slot, is_confirmed);
                }
            }
        }
    }

    fn link_of(&self, id: EndpointId) -> Option<usize> {
        self.links.iter().find(|(_, link)| link.id == Some(id)).map(|(slot, _)| slot)
    }

    /// Does something with every link that there is now; it may go meanwhile.
    fn each_link(&mut self, mut work: impl FnMut(&mut Self, usize)) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.extend(self.links.iter().map(|(slot, _)| slot));
        for slot in slots.drain(..) {
            work(self, slot);
        }
        self.slots = slots;
    }

    /// Takes slices while there is room for them.
    fn take_slices(&mut self, now: Instant) -> bool {
        let mut taken = false;
        while let Some(slice) = self.inbox.pop() {
            taken = true;
            self.route(now, slice);
        }
        taken
    }

    /// Posts on each link that may, in turn.
    fn post_all(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for _ in 0..self.active.len() {
            let Some(slot) = self.active.pop_front() else { break };
            moved |= self.post(now, slot);
        }
        moved
    }

    /// Tells the sink; gives how many slices ended.
    fn report(&mut self) -> u64 {
        let n = self.ends.len();
        if n > 0 {
            self.common.admission.on_ended(n);
            self.sink.complete_all(&mut self.ends);
        }
        self.common.admission.tell_room(&*self.sink);
        n as u64
    }
}

impl Core for Worker {
    fn step(&mut self, now: Instant) -> Step {
        let returns = self.nics.returns(self.nic);
        if self.nics.refresh() && self.nics.returns(self.nic) != returns {
            // What is held against the rails was the fault of our own port.
            self.rails.clear();
        }
        self.memory.refresh();
        let mut moved = self.poll(now);
        for command in self.inbox.take() {
            moved = true;
            self.on_command(now, command);
        }
        moved |= self.take_slices(now);
        moved |= self.post_all(now);
        self.look_after(now);
        let reported = self.report();
        Step { reported, moved: moved || reported > 0 }
    }

    fn is_eager(&self) -> bool {
        self.n_polled > 0 || self.inbox.is_filled()
    }

    fn expects(&self) -> bool {
        self.posted > 0
    }

    fn shares_core(&mut self) -> bool {
        false
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.look_at
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if timeout == Some(Duration::ZERO) {
            return;
        }
        if self.broken {
            return self.sleep(timeout);
        }
        // Whoever arms looks once more, or what came in between is slept through.
        if let Err(error) = self.queue.arm() {
            return self.break_queue(self.clock.now(), &error.to_string());
        }
        self.n_polled = self.queue.poll(&mut self.polled[..]).unwrap_or(0);
        if self.n_polled > 0 || self.inbox.is_filled() {
            return;
        }
        let longest = (self.posted > 0).then_some(LONGEST_WAIT);
        self.sleep([timeout, longest].into_iter().flatten().min());
    }

    fn finish(&mut self, now: Instant) {
        for command in self.inbox.take() {
            self.on_command(now, command);
        }
        self.take_slices(now);
        let why = SliceFault::new(FaultClass::Closed, Phase::Queue, "the transport is closing");
        self.end_everything(&why);
        let n = self.report();
        self.common.closed.fetch_add(n, Ordering::Relaxed);
    }
}

impl Worker {
    fn sleep(&mut self, limit: Option<Duration>) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let channel = self.queue.channel_fd();
        let mut fds = [
            PollFd::from_borrowed_fd(self.inbox.bell(), PollFlags::IN),
            PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN),
        ];
        let n = if self.broken { 1 } else { 2 };
        // An interrupted wait only looks too early.
        if poll(&mut fds[..n], limit.as_ref()).is_err() {
            return;
        }
        let (rang, came) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if rang {
            self.inbox.hush();
        }
        if came
            && n == 2
            && let Err(error) = self.queue.acknowledge()
        {
            self.break_queue(self.clock.now(), &error.to_string());
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The memory that a device may still touch has to stay (I3).
        if !self.jobs.is_empty() {
            tracing::error!(
                nic = self.name.as_str(),
                n = self.jobs.len(),
                "slices are left behind"
            );
            std::mem::forget(std::mem::take(&mut self.jobs));
            std::mem::forget(std::mem::take(&mut self.links));
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({}, {} jobs, {} posted)", self.name, self.jobs.len(), self.posted)
    }
}
