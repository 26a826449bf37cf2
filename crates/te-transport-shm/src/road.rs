//! What both transports have in common: taking slices, calling back, driving, closing.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use te_segment::{SegmentId, SlicePolicy, SliceToken};
use te_sync::{Condvar, Mutex, RwLock};
use te_transport::{
    CloseReport, Driven, Driver, SliceFault, SliceSource, Threads, TransportContext, is_in_step,
};

use crate::config::ShmConfig;
use crate::copier::Copier;
use crate::haul::{Bell, Haul};
use crate::job::Job;
use crate::lane::{Inbox, Lane, Load};
use crate::target::Target;

/// How requests are cut: a round moves what it can of a slice, so none need be small.
pub(crate) const POLICY: SlicePolicy =
    SlicePolicy { min_piece: 64 << 20, max_piece: 64 << 20, ways: 1 };
/// How long dropping a transport that was not closed waits for its threads.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// Where slices of a peer go.
pub(crate) enum Entry<'a, T> {
    /// Into its lane.
    Lane(&'a Arc<Lane<T>>),
    /// Nowhere: each ends with this fault.
    Closed(SliceFault),
}

/// The driver and what leads to it.
pub(crate) struct Road<T: Target> {
    common: Arc<Common<T>>,
    threads: Arc<Threads>,
    closed: Arc<AtomicU64>,
    bound: usize,
}

struct Common<T: Target> {
    inbox: Arc<Inbox<T>>,
    driver: Driver<Haul<T>>,
    /// Shared by each `submit` for its time, so that closing comes before or after it.
    gate: RwLock<Gate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

impl<T: Target> Road<T> {
    /// Starts the driver's thread.
    pub(crate) fn start(
        thread: &str,
        config: &ShmConfig,
        context: TransportContext,
    ) -> io::Result<Self> {
        let (threads, closed) = (Arc::new(Threads::default()), Arc::new(AtomicU64::new(0)));
        let inbox = Arc::new(Inbox::new());
        let bell: Bell = Arc::new((Mutex::new(false), Condvar::new()));
        let copier = Copier::new(config.parallel, &threads);
        let core = Haul::new(
            Arc::clone(&inbox),
            context.sink,
            copier,
            Arc::clone(&bell),
            Arc::clone(&closed),
        );
        let waker = Box::new(move || {
            *bell.0.lock() = true;
            bell.1.notify_one();
        });
        let driver = Driver::new(core, waker, context.clock, Duration::ZERO);
        let common = Arc::new(Common { inbox, driver, gate: RwLock::new(Gate::Open) });
        let runner = Arc::clone(&common);
        threads.spawn(thread, move || runner.driver.run_thread())?;
        Ok(Self { common, threads, closed, bound: config.max_queued_per_peer.max(1) })
    }

    /// Counted until closing waits for them.
    pub(crate) fn threads(&self) -> &Arc<Threads> {
        &self.threads
    }

    /// Takes slices until the source is empty or there is no room.
    pub(crate) fn submit(
        &self,
        entry: Entry<'_, T>,
        peer: SegmentId,
        source: &mut dyn SliceSource,
    ) -> usize {
        let gate = self.common.gate.read_recursive();
        if *gate == Gate::Closed {
            return 0;
        }
        match entry {
            Entry::Lane(lane) => self.hand_over(lane, peer, source),
            Entry::Closed(fault) => self.turn_away(&fault, source),
        }
    }

    fn hand_over(
        &self,
        lane: &Arc<Lane<T>>,
        peer: SegmentId,
        source: &mut dyn SliceSource,
    ) -> usize {
        let Some((room, mut jobs)) = lane.reserve(peer) else { return 0 };
        // The source belongs to the engine, so nothing of ours is locked while it is asked.
        let mut taken = Load::default();
        source.pour(&mut |slice| {
            let job = Job::new(slice);
            taken.add(&job);
            jobs.push_back(job);
            taken.is_below(room)
        });
        let more = (!taken.is_below(room)).then_some(peer);
        if lane.push((jobs, taken), more) {
            self.common.inbox.add(|news| news.lanes.push(Arc::clone(lane)));
            self.common.driver.wake();
        }
        taken.slices
    }

    fn turn_away(&self, fault: &SliceFault, source: &mut dyn SliceSource) -> usize {
        let slices = std::iter::from_fn(|| source.next_slice()).take(self.bound);
        let strays: Vec<_> = slices.map(|slice| (Job::new(slice), fault.clone())).collect();
        let taken = strays.len();
        self.common.inbox.add(|news| news.strays.extend(strays));
        self.common.driver.wake();
        taken
    }

    pub(crate) fn cancel(&self, tokens: &[SliceToken]) {
        self.common.inbox.add(|news| news.cancelled.extend_from_slice(tokens));
        self.common.driver.wake();
    }

    pub(crate) fn drive(&self, until: Instant) -> Driven {
        self.common.driver.drive(until)
    }

    /// Settles every slice and waits for the threads.
    pub(crate) fn close(&self, deadline: Instant) -> CloseReport {
        self.shut();
        // Inside a step the thread to wait for is this one.
        let joined = !is_in_step() && self.threads.wait_until_none(deadline);
        CloseReport { settled: self.closed.load(Ordering::Relaxed), joined }
    }

    /// Takes nothing any more, and tells the driver to settle what is there.
    pub(crate) fn shut(&self) {
        *self.common.gate.write() = Gate::Closed;
        self.common.driver.stop();
    }
}

impl<T: Target> Drop for Road<T> {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "the edge: nobody can hand in a clock")]
        let deadline = Instant::now() + DROP_PATIENCE;
        self.close(deadline);
    }
}

impl<T: Target> fmt::Debug for Road<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Road({:?})", self.common.inbox)
    }
}
