//! The step: takes a few pieces of one peer, guards them, copies them, lets go, reports.
//!
//! ```text
//!   lanes ─▶ round: same direction, at most ROUND bytes ─ enter ─ copy ─ leave ─▶ ends
//!     ▲                                                                  │
//!     └──────────── what is not done yet, at the front of its lane ◀─────┘
//! ```
//!
//! I1  Each job ends once: when all its bytes are copied, with a fault, called back, or at closing.
//! I2  No guard is held while the sink is called, and no lane is locked.
//! I3  A round is bounded, so lanes take turns and whoever unregisters waits for one round at most.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use te_metadata::BufferHandle;
use te_segment::SegmentId;
use te_transport::{Completion, CompletionSink, Core, FaultClass, Phase, SliceFault, Step};

use crate::copier::Copier;
use crate::job::{Job, Way, fault};
use crate::lane::{Inbox, Lane, Load, News};
use crate::target::Target;
use crate::vm;

/// Bytes of one round at most.
pub(crate) const ROUND: u64 = 4 << 20;

/// How long what a peer has taken back is kept at most, and about what an idle engine pays: one
/// wake-up in this time while it has memory of peers mapped.
const TIDY_PAUSE: Duration = Duration::from_secs(1);

/// A lane that has jobs.
struct Active<T> {
    lane: Arc<Lane<T>>,
    jobs: VecDeque<Job>,
}

/// Wakes whoever waits in [`Core::wait`].
pub(crate) type Bell = Arc<(te_sync::Mutex<bool>, te_sync::Condvar)>;

/// The core of both transports.
pub(crate) struct Haul<T> {
    inbox: Arc<Inbox<T>>,
    sink: Arc<dyn CompletionSink>,
    copier: Copier,
    bell: Bell,
    /// Slices that closing ended.
    closed: Arc<AtomicU64>,
    lanes: VecDeque<Active<T>>,
    /// Lanes of peers of whom something is kept that has to be looked after.
    tended: Vec<Weak<Lane<T>>>,
    /// When that is to be done next, where there is anything.
    tidy_at: Option<Instant>,
    news: News<T>,
    held: Vec<BufferHandle>,
    ends: VecDeque<Completion>,
    unfinished: Vec<Job>,
}

impl<T: Target> Haul<T> {
    pub(crate) fn new(
        inbox: Arc<Inbox<T>>,
        sink: Arc<dyn CompletionSink>,
        copier: Copier,
        bell: Bell,
        closed: Arc<AtomicU64>,
    ) -> Self {
        Self {
            inbox,
            sink,
            copier,
            bell,
            closed,
            lanes: VecDeque::new(),
            tended: Vec::new(),
            tidy_at: None,
            news: News::default(),
            held: Vec::new(),
            ends: VecDeque::new(),
            unfinished: Vec::new(),
        }
    }

    /// Takes what came in. Gives how many slices ended by that.
    fn look(&mut self) -> u64 {
        if !self.inbox.is_filled() {
            return 0;
        }
        let mut news = std::mem::take(&mut self.news);
        self.inbox.take(&mut news);
        for lane in news.lanes.drain(..) {
            self.lanes.push_back(Active { lane, jobs: VecDeque::new() });
        }
        for (mut job, fault) in news.strays.drain(..) {
            job.fail(fault);
            self.ends.push_back(job.into_end(false));
        }
        let mut reported = self.report(Vec::new());
        let cancelled: HashSet<_> = news.cancelled.drain(..).collect();
        self.news = news;
        if !cancelled.is_empty() {
            let why = fault(FaultClass::Cancelled, Phase::Queue, "called back");
            reported += self.end_jobs(&why, |job| cancelled.contains(&job.token()));
        }
        reported
    }

    /// Ends the jobs that are wanted, wherever they wait.
    fn end_jobs(&mut self, why: &SliceFault, wanted: impl Fn(&Job) -> bool) -> u64 {
        let mut rooms = Vec::new();
        for Active { lane, jobs } in &mut self.lanes {
            lane.refill(jobs);
            if !jobs.iter().any(&wanted) {
                continue;
            }
            let (gone, kept): (Vec<_>, Vec<_>) = jobs.drain(..).partition(&wanted);
            jobs.extend(kept);
            rooms.extend(lane.on_ended(gone.iter().collect()));
            for mut job in gone {
                job.fail(why.clone());
                self.ends.push_back(job.into_end(false));
            }
        }
        self.report(rooms)
    }

    /// One round of the lane whose turn it is.
    fn haul(&mut self, now: Instant) -> u64 {
        let Some(mut active) = self.lanes.pop_front() else { return 0 };
        if active.jobs.is_empty() {
            active.lane.refill(&mut active.jobs);
        }
        let ended = self.round(now, &mut active);
        if active.lane.target.wants_tidying() {
            self.tended.push(Arc::downgrade(&active.lane));
            self.tidy_at.get_or_insert(now + TIDY_PAUSE);
        }
        // Before the lane is told that they ended, which may let the next ones in.
        let rooms = active.lane.on_ended(ended);
        if !active.jobs.is_empty() || !active.lane.unlist(&mut active.jobs) {
            self.lanes.push_back(active);
        }
        self.report(rooms)
    }

    /// Copies what fits into a round; gives what ended.
    fn round(&mut self, now: Instant, active: &mut Active<T>) -> Load {
        let target = &active.lane.target;
        let (chosen, mut ended) = (choose(&mut active.jobs), Load::default());
        if chosen == 0 {
            return ended;
        }
        let jobs = &mut active.jobs.make_contiguous()[..chosen];
        let entered = target.enter(jobs, &mut self.held);
        let mut doubt = false;
        match entered {
            Ok(()) => self.copier.run(now, target.pid(), jobs),
            Err(_) => jobs.iter_mut().for_each(|job| job.set_way(Way::Waits)),
        }
        let left = target.leave(&mut self.held);
        if let Err(lost) = entered.as_ref().and(left.as_ref()) {
            // A piece that was copied while the peer left is not known to be there, or to be whole.
            doubt = entered.is_ok();
            target.on_lost(lost);
            jobs.iter_mut().for_each(|job| job.fail(lost.clone()));
        }
        for job in active.jobs.drain(..chosen) {
            if job.is_over() {
                ended.add(&job);
                self.ends.push_back(job.into_end(doubt));
            } else {
                self.unfinished.push(job);
            }
        }
        while let Some(job) = self.unfinished.pop() {
            active.jobs.push_front(job);
        }
        ended
    }

    /// Lets go of what is kept of peers and not needed any more.
    fn tidy(&mut self, now: Instant) {
        if self.tidy_at.is_none_or(|at| at > now) {
            return;
        }
        self.tended.retain(|lane| lane.upgrade().is_some_and(|lane| lane.target.tidy()));
        self.tidy_at = (!self.tended.is_empty()).then(|| now + TIDY_PAUSE);
    }

    /// Tells the sink; no lock and no guard is held.
    fn report(&mut self, rooms: Vec<SegmentId>) -> u64 {
        let n = self.ends.len() as u64;
        self.sink.complete_all(&mut self.ends);
        rooms.into_iter().for_each(|peer| self.sink.room(peer));
        n
    }
}

/// Takes pieces in hand from the front: of one direction, and no more than a round has room for.
/// Gives how many jobs have one.
fn choose(jobs: &mut VecDeque<Job>) -> usize {
    let Some(op) = jobs.front().map(Job::op) else { return 0 };
    let (mut room, mut chosen) = (ROUND, 0);
    for job in jobs.iter_mut().take(vm::MAX_RANGES) {
        // One that is compared afterwards is alone, so that its bytes are those of one moment.
        let alone = job.slice().checked;
        if job.op() != op || (alone && chosen > 0) || room == 0 {
            break;
        }
        room -= job.take_piece(room);
        chosen += 1;
        if alone {
            break;
        }
    }
    chosen
}

impl<T: Target> Core for Haul<T> {
    fn step(&mut self, now: Instant) -> Step {
        let mut reported = self.look();
        self.tidy(now);
        let moved = !self.lanes.is_empty() || reported > 0;
        reported += self.haul(now);
        Step { reported, moved }
    }

    fn is_eager(&self) -> bool {
        !self.lanes.is_empty() || self.inbox.is_filled()
    }

    fn expects(&self) -> bool {
        false
    }

    fn shares_core(&mut self) -> bool {
        false
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.tidy_at
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if timeout == Some(Duration::ZERO) || self.inbox.is_filled() {
            return;
        }
        let (rung, bell) = &*self.bell;
        let mut rung = rung.lock();
        if !*rung {
            match timeout {
                Some(timeout) => drop(bell.wait_for(&mut rung, timeout)),
                None => bell.wait(&mut rung),
            }
        }
        *rung = false;
    }

    fn finish(&mut self, _now: Instant) {
        self.inbox.close();
        self.look();
        let why = fault(FaultClass::Closed, Phase::Queue, "the transport is closing");
        let ended = self.end_jobs(&why, |_| true);
        self.closed.fetch_add(ended, Ordering::Relaxed);
        self.lanes.clear();
        self.tended.clear();
        self.tidy_at = None;
        self.copier.stop();
    }
}

#[cfg(test)]
mod tests;
