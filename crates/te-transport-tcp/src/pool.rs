//! Which connection to one peer takes which slice, without sockets.
//!
//! ```text
//!               work waits, nobody connects            connected
//!   Empty ──────────────────────────────▶ Connecting ─────────────▶ Idle ◀──▶ Busy
//!     ▲ ▲                                      │ failed              │ lost     │ lost, spoiled
//!     │ └── Paused(until) ◀────────────────────┘                     │          │
//!     └──────────────────────────────────────────────────────────────┴──────────┘
//! ```
//!
//! I1  Slices start in the order they came. A slice that goes again because its kept connection
//!     had died goes first, and only on a fresh connection.
//! I2  A lane is opened only while work waits that no idle lane takes, one at a time.
//! I3  Only a failed attempt to connect pauses a lane, and only that lane: a refused request or a
//!     lost connection costs no pause (peer faults 9, 10).
//! I4  What waits is failed only when no lane is usable and every lane was tried in this round, or
//!     the round has lasted as long as one attempt may.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use te_segment::{Opcode, Slice, SliceToken};
use te_transport::{RemoteSide, SliceFault};

use crate::config::TcpConfig;
use crate::frame::Version;

/// A slice on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slice: Slice,
    pub(crate) version: Version,
    /// Whether bytes of it were sent before, on a kept connection that then turned out dead.
    pub(crate) retried: bool,
}

impl Job {
    /// What is known of the peer's memory while nothing of the current try was sent.
    pub(crate) fn remote_so_far(&self) -> RemoteSide {
        match (self.retried, self.slice.op) {
            (true, Opcode::Write) => RemoteSide::InDoubt,
            (true, Opcode::Read) => RemoteSide::Settled,
            (false, _) => RemoteSide::Untouched,
        }
    }
}

/// What the pool wants done.
#[derive(Debug)]
pub(crate) enum Order {
    /// Open this lane.
    Connect(usize),
    /// Put this job on this lane.
    Start(usize, Job),
    /// The peer cannot be reached: fail these.
    Fail(Vec<Job>, SliceFault),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Connecting,
    Idle { fresh: bool },
    Busy,
    Paused { until: Instant },
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    state: State,
    /// Whether it was ever asked to connect.
    tried: bool,
    failures: u32,
    failed_in_round: bool,
}

/// The lanes to one peer and what waits for them.
#[derive(Debug)]
pub(crate) struct Pool {
    lanes: Vec<Lane>,
    queue: VecDeque<Job>,
    again: VecDeque<Job>,
    round_began: Option<Instant>,
    failed: Option<(Vec<Job>, SliceFault)>,
    first_pause: Duration,
    max_pause: Duration,
    round: Duration,
}

impl Pool {
    pub(crate) fn new(config: &TcpConfig) -> Self {
        let lane = Lane { state: State::Empty, tried: false, failures: 0, failed_in_round: false };
        Self {
            lanes: vec![lane; config.lanes_per_peer],
            queue: VecDeque::new(),
            again: VecDeque::new(),
            round_began: None,
            failed: None,
            first_pause: config.first_pause,
            max_pause: config.max_pause,
            round: config.connect_timeout,
        }
    }

    /// Queues a job. The caller bounds the queue.
    pub(crate) fn push(&mut self, job: Job) {
        self.queue.push_back(job);
    }

    /// Takes back a job that needs a fresh connection, because its kept one had died.
    pub(crate) fn push_again(&mut self, job: Job) {
        self.again.push_back(job);
    }

    /// The next thing to do now.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Order> {
        if let Some((jobs, fault)) = self.failed.take() {
            return Some(Order::Fail(jobs, fault));
        }
        self.end_pauses(now);
        self.start().or_else(|| self.connect(now))
    }

    /// A lane is connected.
    pub(crate) fn on_connected(&mut self, lane: usize) {
        self.round_began = None;
        let entry = &mut self.lanes[lane];
        *entry = Lane { state: State::Idle { fresh: true }, failures: 0, ..*entry };
        self.forget_round();
    }

    /// An attempt to open a lane failed.
    pub(crate) fn on_connect_failed(&mut self, now: Instant, lane: usize, fault: SliceFault) {
        let pause = self.pause(self.lanes[lane].failures);
        let entry = &mut self.lanes[lane];
        entry.state = State::Paused { until: now + pause };
        entry.failures = entry.failures.saturating_add(1);
        entry.failed_in_round = true;
        let all_tried = self.lanes.iter().all(|lane| lane.failed_in_round);
        let over = self.round_began.is_some_and(|began| now >= began + self.round);
        if !self.is_usable() && (all_tried || over) {
            let mut jobs: Vec<_> = self.again.drain(..).collect();
            jobs.extend(self.queue.drain(..));
            self.failed = Some((jobs, fault));
            self.forget_round();
            self.round_began = None;
        }
    }

    /// A lane finished its job; `keep` says whether its connection is still good.
    pub(crate) fn on_finished(&mut self, lane: usize, keep: bool) {
        let state = if keep { State::Idle { fresh: false } } else { State::Empty };
        self.lanes[lane].state = state;
        if !keep {
            self.on_usable_lost();
        }
    }

    /// A lane's connection is gone while it was idle.
    pub(crate) fn on_idle_lost(&mut self, lane: usize) {
        self.on_finished(lane, false);
    }

    /// Takes out the waiting jobs that are named.
    pub(crate) fn cancel(&mut self, tokens: &HashSet<SliceToken>) -> Vec<Job> {
        let mut out = Vec::new();
        for queue in [&mut self.again, &mut self.queue] {
            if queue.iter().any(|job| tokens.contains(&job.slice.token)) {
                let (gone, kept) =
                    queue.drain(..).partition::<Vec<_>, _>(|j| tokens.contains(&j.slice.token));
                out.extend(gone);
                queue.extend(kept);
            }
        }
        out
    }

    /// Takes out everything that waits.
    pub(crate) fn drain(&mut self) -> Vec<Job> {
        let failed = self.failed.take().map(|(jobs, _)| jobs).unwrap_or_default();
        failed.into_iter().chain(self.again.drain(..)).chain(self.queue.drain(..)).collect()
    }

    /// When [`Pool::poll`] may have something new without anything else happening.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if !self.has_work() || self.lanes.iter().any(|lane| lane.state == State::Connecting) {
            return None;
        }
        let untils = self.lanes.iter().filter_map(|lane| match lane.state {
            State::Paused { until } => Some(until),
            _ => None,
        });
        untils.min()
    }

    /// Whether jobs wait.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.again.is_empty() || self.failed.is_some()
    }

    /// Whether nothing waits, nothing is open and no pause has to be remembered.
    pub(crate) fn is_forgettable(&self, now: Instant) -> bool {
        let past = |state| match state {
            State::Empty => true,
            State::Paused { until } => until <= now,
            _ => false,
        };
        !self.has_work() && self.lanes.iter().all(|lane| past(lane.state))
    }

    fn is_usable(&self) -> bool {
        self.lanes.iter().any(|lane| matches!(lane.state, State::Idle { .. } | State::Busy))
    }

    fn pause(&self, failures: u32) -> Duration {
        (self.first_pause * (1 << failures.min(10))).min(self.max_pause)
    }

    fn forget_round(&mut self) {
        for lane in &mut self.lanes {
            lane.failed_in_round = false;
        }
    }

    /// When the last usable lane goes, the pauses of its siblings end: a fresh round starts at
    /// once (F34).
    fn on_usable_lost(&mut self) {
        if self.is_usable() {
            return;
        }
        self.forget_round();
        for lane in &mut self.lanes {
            if matches!(lane.state, State::Paused { .. }) {
                lane.state = State::Empty;
            }
        }
    }

    fn end_pauses(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            if matches!(lane.state, State::Paused { until } if until <= now) {
                lane.state = State::Empty;
            }
        }
    }

    fn start(&mut self) -> Option<Order> {
        let fresh = self.lanes.iter().position(|l| l.state == State::Idle { fresh: true });
        if let Some(lane) = fresh
            && let Some(job) = self.again.pop_front()
        {
            return Some(self.occupy(lane, job));
        }
        let kept = self.lanes.iter().position(|l| l.state == State::Idle { fresh: false });
        let lane = kept.or(fresh)?;
        let job = self.queue.pop_front()?;
        Some(self.occupy(lane, job))
    }

    fn occupy(&mut self, lane: usize, job: Job) -> Order {
        self.lanes[lane].state = State::Busy;
        Order::Start(lane, job)
    }

    fn connect(&mut self, now: Instant) -> Option<Order> {
        if self.lanes.iter().any(|lane| lane.state == State::Connecting) {
            return None;
        }
        if !self.has_work() {
            self.round_began = None;
            return None;
        }
        let lane = self.next_to_open()?;
        self.round_began.get_or_insert(now);
        let entry = &mut self.lanes[lane];
        *entry = Lane { state: State::Connecting, tried: true, ..*entry };
        Some(Order::Connect(lane))
    }

    /// Never-tried lanes first, then those that failed least. For the sake of a job that needs a
    /// fresh connection an idle lane is given up where no other is left.
    fn next_to_open(&self) -> Option<usize> {
        let open = |lane: &Lane| match lane.state {
            State::Empty => true,
            State::Idle { .. } => !self.again.is_empty(),
            _ => false,
        };
        let candidates = self.lanes.iter().enumerate().filter(|(_, lane)| open(lane));
        let rank = |lane: &Lane| (lane.state != State::Empty, lane.tried, lane.failures);
        candidates.min_by_key(|(_, lane)| rank(lane)).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests;
