//! Which connection to one peer takes which slice, without sockets.
//!
//! ```text
//!               work waits, nobody connects            connected
//!   Empty ──────────────────────────────▶ Connecting ─────────────▶ Open(load, room)
//!     ▲ ▲                                      │ failed                │ lost, spoiled
//!     │ └── Paused(until) ◀────────────────────┘                       │
//!     └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A lane carries as many slices at a time as its connection has room for: one in versions 1 and 2,
//! the peer's credit and a number of bytes in version 3. Which rail it belongs to and which lane gets
//! what is in `rails`.
//!
//! I1  Slices start in the order they came. A slice that goes again because its kept connection
//!     had died goes first, and only on a fresh connection.
//! I2  A lane is opened only while work waits that no open lane takes, for a fence, or for a rail that
//!     has a share of what is under way, one at a time.
//! I3  Only a failed attempt to connect pauses a lane, and only that lane: a refused request or a
//!     lost connection costs no pause (peer faults 9, 10). A connection of version 3 that went away
//!     before a request was on it counts as a failed attempt.
//! I4  What waits is failed only when no lane is usable and every lane was tried in this round, or
//!     the round has lasted as long as one attempt may, or connection after connection was lost
//!     unused.

mod job;
mod lane;
mod rails;

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use te_segment::SliceToken;
use te_transport::SliceFault;

use crate::config::TcpConfig;

pub(crate) use job::{Job, Place};
use lane::{Lane, State};
use rails::Rails;

/// So many connections in a row may be lost unused before what waits is failed.
const UNUSED: u32 = 3;

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

/// The lanes to one peer and what waits for them.
#[derive(Debug)]
pub(crate) struct Pool {
    lanes: Vec<Lane>,
    rails: Rails,
    queue: VecDeque<Job>,
    again: VecDeque<Job>,
    round_began: Option<Instant>,
    failed: Option<(Vec<Job>, SliceFault)>,
    first_pause: Duration,
    max_pause: Duration,
    round: Duration,
}

impl Pool {
    /// Lanes that carry one slice at a time, or as many as the peer allows, on one rail.
    #[cfg(test)]
    pub(crate) fn new(lanes: usize, config: &TcpConfig) -> Self {
        Self::over(&[1], lanes, false, config)
    }

    /// Lanes over rails of these weights. Where it is `striped` jobs are dealt out by weight and
    /// size; else lanes take them as they come free.
    pub(crate) fn over(weights: &[u32], lanes: usize, striped: bool, config: &TcpConfig) -> Self {
        Self::on(Rails::new(weights, striped, config), lanes, config)
    }

    fn on(rails: Rails, lanes: usize, config: &TcpConfig) -> Self {
        Self {
            lanes: rails.lanes(lanes),
            rails,
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

    /// Puts a job back to the front: nothing of it was sent.
    pub(crate) fn push_front(&mut self, job: Job) {
        self.queue.push_front(job);
    }

    /// Whether a lane wants a connection though nothing waits, so that it carries a fence.
    pub(crate) fn want_fence(&mut self, lane: usize, wanted: bool) {
        self.lanes[lane].fence = wanted;
    }

    /// No lane owes a fence any more.
    pub(crate) fn forget_fences(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.fence = false);
    }

    /// The next thing to do now.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Order> {
        if let Some((jobs, fault)) = self.failed.take() {
            return Some(Order::Fail(jobs, fault));
        }
        self.end_pauses(now);
        self.start(now).or_else(|| self.connect(now))
    }

    /// A lane is connected; `room` slices may be on it at a time.
    pub(crate) fn on_connected(&mut self, now: Instant, lane: usize, room: usize) {
        self.on_greeted(lane, room);
        self.on_used(lane);
        self.on_proven(now, lane);
    }

    /// A lane's hello was answered well. What its failures were is not forgotten: see
    /// [`Pool::on_proven`].
    pub(crate) fn on_greeted(&mut self, lane: usize, room: usize) {
        let state = State::Open { fresh: true, load: 0, room };
        self.lanes[lane] = Lane { state, used: false, bytes: 0, ..self.lanes[lane] };
    }

    /// A request is on a lane's connection.
    pub(crate) fn on_used(&mut self, lane: usize) {
        self.round_began = None;
        self.lanes[lane].used = true;
    }

    /// The peer has answered a request on a lane: the lane is good. Gives whether its rail is open
    /// again by that.
    pub(crate) fn on_proven(&mut self, now: Instant, lane: usize) -> bool {
        self.lanes[lane].failures = 0;
        self.lanes[lane].unused = 0;
        self.forget_round();
        self.on_rail_success(now, lane)
    }

    /// When the attempts of the present round must have come to something.
    pub(crate) fn round_ends(&self) -> Option<Instant> {
        Some(self.round_began? + self.round)
    }

    /// So many slices may be on a lane from now on.
    pub(crate) fn on_room(&mut self, lane: usize, now: usize) {
        if let State::Open { room, .. } = &mut self.lanes[lane].state {
            *room = now;
        }
    }

    /// An attempt to open a lane failed.
    pub(crate) fn on_connect_failed(&mut self, now: Instant, lane: usize, fault: SliceFault) {
        let pause = self.pause(self.lanes[lane].failures);
        let entry = &mut self.lanes[lane];
        entry.state = State::Paused { until: now + pause };
        entry.failures = entry.failures.saturating_add(1);
        entry.failed_in_round = true;
        let all_tried = self.lanes.iter().all(|lane| lane.failed_in_round || lane.spare)
            && !self.is_other_rail_worth_it(lane);
        let over = self.round_began.is_some_and(|began| now >= began + self.round);
        if !self.is_usable() && (all_tried || over) {
            let mut jobs: Vec<_> = self.again.drain(..).collect();
            jobs.extend(self.queue.drain(..));
            self.failed = Some((jobs, fault));
            self.end_round();
        } else if over {
            self.end_round();
        }
    }

    /// A lane finished a job; `keep` says whether its connection is still good.
    pub(crate) fn on_finished(&mut self, lane: usize, keep: bool) {
        if !keep {
            return self.on_lost(lane);
        }
        if let State::Open { fresh, load, .. } = &mut self.lanes[lane].state {
            *fresh = false;
            *load = load.saturating_sub(1);
        }
    }

    /// A lane's connection is gone, and what was on it as well.
    pub(crate) fn on_lost(&mut self, lane: usize) {
        self.lanes[lane].state = State::Empty;
        self.on_usable_lost();
    }

    /// An attempt is given up because nothing waits any more. It has not failed, and it ends no pause.
    pub(crate) fn on_given_up(&mut self, lane: usize) {
        self.lanes[lane].state = State::Empty;
        self.end_round();
    }

    /// A lane's connection is gone that was greeted. Where no request was ever on it, the next
    /// attempt waits as after a failed one, and after some of them what waits is failed.
    pub(crate) fn on_greeted_lost(&mut self, now: Instant, lane: usize, fault: SliceFault) {
        let entry = &mut self.lanes[lane];
        if entry.used || !matches!(entry.state, State::Open { .. }) {
            return self.on_lost(lane);
        }
        entry.unused += 1;
        if entry.unused >= UNUSED {
            entry.unused = 0;
            return self.on_connect_failed(now, lane, fault);
        }
        entry.failures = entry.failures.saturating_add(1);
        let pause = self.pause(self.lanes[lane].failures - 1);
        self.lanes[lane].state = State::Paused { until: now + pause };
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
        if self.lanes.iter().any(|lane| lane.state == State::Connecting) {
            return None;
        }
        let probe = self.probe_due();
        if !self.has_work() {
            return probe;
        }
        let untils = self.lanes.iter().filter_map(|lane| match lane.state {
            State::Paused { until } => Some(until),
            _ => None,
        });
        untils.chain(probe).min()
    }

    /// Whether jobs wait, or a fence.
    pub(crate) fn has_work(&self) -> bool {
        let fence = self.lanes.iter().any(|lane| lane.fence);
        fence || !self.queue.is_empty() || !self.again.is_empty() || self.failed.is_some()
    }

    /// Whether an attempt to connect is still of use: something waits for it, or it is one that
    /// nothing has to wait for.
    pub(crate) fn needs_attempt(&self) -> bool {
        self.has_work() || self.is_usable()
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
        self.lanes.iter().any(Lane::is_open)
    }

    fn pause(&self, failures: u32) -> Duration {
        (self.first_pause * (1 << failures.min(10))).min(self.max_pause)
    }

    /// Lanes count as tried and failed within one round only.
    fn end_round(&mut self) {
        self.forget_round();
        self.round_began = None;
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
        self.end_round();
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

    fn start(&mut self, now: Instant) -> Option<Order> {
        if self.is_striped() {
            return self.start_striped(now);
        }
        let roomy = |wanted: bool| move |lane: &Lane| matches!(lane.state, State::Open { fresh, load, room } if fresh == wanted && load < room);
        let fresh = self.lanes.iter().position(roomy(true));
        if let Some(lane) = fresh
            && let Some(job) = self.again.pop_front()
        {
            return Some(self.occupy(lane, job));
        }
        let lane = self.lanes.iter().position(roomy(false)).or(fresh)?;
        let job = self.queue.pop_front()?;
        Some(self.occupy(lane, job))
    }

    fn occupy(&mut self, lane: usize, job: Job) -> Order {
        if let State::Open { load, .. } = &mut self.lanes[lane].state {
            *load += 1;
        }
        Order::Start(lane, job)
    }

    fn connect(&mut self, now: Instant) -> Option<Order> {
        if self.lanes.iter().any(|lane| lane.state == State::Connecting) {
            return None;
        }
        if !self.has_work() {
            self.end_round();
            if !self.wants_more_lanes(now) {
                return None;
            }
        }
        let lane = self.next_to_open(now)?;
        self.round_began.get_or_insert(now);
        let entry = &mut self.lanes[lane];
        *entry = Lane { state: State::Connecting, began: Some(now), tried: true, ..*entry };
        Some(Order::Connect(lane))
    }
}

#[cfg(test)]
mod tests;
