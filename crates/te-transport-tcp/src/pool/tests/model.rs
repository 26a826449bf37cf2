//! The pool under arbitrary histories, against [`Oracle`].
//!
//! Every order is held against what the history allows, and a pool that wants nothing against what
//! the history demands. What is on a lane is this file's affair, as it is the client's: each job is
//! at one place.

mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use oracle::{Oracle, Past};

/// The most lanes that are tried.
const LANES: usize = 4;

#[derive(Debug, Clone)]
enum Event {
    /// Jobs come in.
    Push(u32),
    /// The pool is asked so often, or until it wants nothing.
    Poll(u32),
    /// The attempt under way succeeds: with a hello, or as in versions 1 and 2.
    Greeted(usize),
    Connected,
    /// It fails.
    Refused,
    /// A request is on a lane's connection; the peer answers one.
    Used(usize),
    Proven(usize),
    /// A job ends.
    Finished(usize),
    /// A connection goes away; each job on it ends, goes again or goes back to the front.
    Lost(usize, u32),
    /// The peer allows so many.
    Room(usize, usize),
    Cancel(u32),
    Fence(bool),
    /// All that waits is called back, so that the attempt under way is given up.
    GivenUp,
    Later(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let lane = 0..LANES;
    prop_oneof![
        3 => (1u32..4).prop_map(Event::Push),
        6 => (1u32..8).prop_map(Event::Poll),
        3 => (1usize..4).prop_map(Event::Greeted),
        2 => Just(Event::Connected),
        3 => Just(Event::Refused),
        3 => lane.clone().prop_map(Event::Used),
        1 => lane.clone().prop_map(Event::Proven),
        4 => (0usize..16).prop_map(Event::Finished),
        3 => (lane.clone(), any::<u32>()).prop_map(|(lane, fates)| Event::Lost(lane, fates)),
        1 => (lane, 0usize..4).prop_map(|(lane, room)| Event::Room(lane, room)),
        1 => (0u32..40).prop_map(Event::Cancel),
        1 => any::<bool>().prop_map(Event::Fence),
        1 => Just(Event::GivenUp),
        2 => prop_oneof![0u64..60, Just(5_000)].prop_map(Event::Later),
    ]
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    OnALane,
    Cancelled,
    Unreachable,
}

struct Model {
    bench: Bench,
    oracle: Oracle,
    /// What the client keeps: jobs on lanes.
    on_lanes: Vec<(usize, Job)>,
    ended: BTreeMap<u32, End>,
}

/// Repeats a step, at most so often, while it finds something to do.
fn while_some(most: u32, mut step: impl FnMut() -> bool) {
    for _ in 0..most {
        if !step() {
            return;
        }
    }
}

fn number(job: &Job) -> u32 {
    job.slice.token.slot()
}

impl Model {
    fn new(lanes: usize) -> Self {
        let bench = bench(lanes);
        let oracle = Oracle::new(lanes, bench.now);
        Self { bench, oracle, on_lanes: Vec::new(), ended: BTreeMap::new() }
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Push(n) => self.push(n),
            Event::Poll(n) => while_some(n, || self.poll()),
            Event::Greeted(room) => self.greeted(room),
            Event::Connected => self.connected(),
            Event::Refused => self.refused(),
            Event::Used(lane) => self.used(lane),
            Event::Proven(lane) => self.proven(lane),
            Event::Finished(pick) => self.finished(pick),
            Event::Lost(lane, fates) => self.lost(lane, fates),
            Event::Room(lane, room) => self.room(lane, room),
            Event::Cancel(n) => self.cancel(n),
            Event::Fence(wanted) => {
                self.oracle.fence = wanted;
                self.bench.pool.want_fence(0, wanted);
            }
            Event::GivenUp => self.given_up(),
            Event::Later(ms) => self.later(Duration::from_millis(ms)),
        }
    }

    /// Whether there is such a lane, with a connection.
    fn is_open(&self, lane: usize) -> bool {
        self.oracle.is_open(lane)
    }

    fn push(&mut self, n: u32) {
        self.oracle.waiting.extend(self.bench.next..self.bench.next + n);
        self.bench.push(n);
    }

    /// One question to the pool; whether it wanted something.
    fn poll(&mut self) -> bool {
        let Some(order) = self.bench.pool.poll(self.bench.now) else {
            self.oracle.check_rest(&self.bench.pool);
            return false;
        };
        match order {
            Order::Connect(lane) => self.oracle.check_connect(lane),
            Order::Start(lane, job) => {
                self.oracle.check_start(lane, number(&job));
                self.on_lanes.push((lane, job));
            }
            Order::Fail(jobs, _) => {
                let numbers: Vec<u32> = jobs.iter().map(number).collect();
                self.oracle.check_fail(&numbers);
                numbers.into_iter().for_each(|n| self.end(n, End::Unreachable));
            }
        }
        true
    }

    fn end(&mut self, n: u32, end: End) {
        let before = self.ended.insert(n, end);
        assert_eq!(before, None, "job {n} ended twice");
    }

    fn greeted(&mut self, room: usize) {
        let Some(lane) = self.oracle.connecting() else { return };
        self.bench.pool.on_greeted(lane, room);
        self.oracle.note(Past::Greeted(lane, room));
    }

    fn connected(&mut self) {
        let Some(lane) = self.oracle.connecting() else { return };
        self.bench.pool.on_connected(self.bench.now, lane, 1);
        self.oracle.note(Past::Greeted(lane, 1));
        self.oracle.note(Past::Used(lane));
        self.oracle.note(Past::Proven(lane));
    }

    fn refused(&mut self) {
        let Some(lane) = self.oracle.connecting() else { return };
        self.bench.fail(lane);
        self.oracle.on_refused(lane);
    }

    fn used(&mut self, lane: usize) {
        if self.on_lanes.iter().any(|(on, _)| *on == lane) {
            self.bench.pool.on_used(lane);
            self.oracle.note(Past::Used(lane));
        }
    }

    fn proven(&mut self, lane: usize) {
        if self.is_open(lane) && self.oracle.is_used(lane) {
            self.bench.pool.on_proven(self.bench.now, lane);
            self.oracle.note(Past::Proven(lane));
        }
    }

    fn finished(&mut self, pick: usize) {
        if self.on_lanes.is_empty() {
            return;
        }
        let pick = pick % self.on_lanes.len();
        self.used(self.on_lanes[pick].0);
        let (lane, job) = self.on_lanes.remove(pick);
        self.bench.pool.on_finished(lane, true);
        self.oracle.note(Past::Finished(lane));
        self.end(number(&job), End::OnALane);
    }

    /// As the client does it: first the jobs leave the connection, then it is gone.
    fn lost(&mut self, lane: usize, mut fates: u32) {
        if !self.is_open(lane) {
            return;
        }
        let greeted = fates.is_multiple_of(2);
        let (gone, left): (Vec<_>, Vec<_>) =
            self.on_lanes.drain(..).partition(|(on, _)| *on == lane);
        self.on_lanes = left;
        for (_, job) in gone.into_iter().rev() {
            fates /= 2;
            self.leave(job, fates % 3);
        }
        if greeted {
            let fault = SliceFault::new(FaultClass::Peer, Phase::Handshake, "lost unused");
            self.bench.pool.on_greeted_lost(self.bench.now, lane, fault);
            self.oracle.on_greeted_lost(lane);
        } else {
            self.bench.pool.on_finished(lane, false);
            self.oracle.on_lost(lane);
        }
    }

    fn leave(&mut self, job: Job, fate: u32) {
        let n = number(&job);
        match fate {
            0 => self.end(n, End::OnALane),
            1 => {
                self.bench.pool.push_again(job.again());
                self.oracle.again.push_back(n);
            }
            _ => {
                self.bench.pool.push_front(job);
                self.oracle.waiting.push_front(n);
            }
        }
    }

    fn room(&mut self, lane: usize, room: usize) {
        if self.is_open(lane) {
            self.bench.pool.on_room(lane, room);
            self.oracle.note(Past::Room(lane, room));
        }
    }

    fn cancel(&mut self, n: u32) {
        let gone = self.bench.pool.cancel(&[SliceToken::new(n, 1)].into());
        let gone: Vec<u32> = gone.iter().map(number).collect();
        assert_eq!(gone, self.oracle.take(n), "what waits can be called back, and nothing else");
        gone.into_iter().for_each(|n| self.end(n, End::Cancelled));
    }

    fn given_up(&mut self) {
        let Some(lane) = self.oracle.connecting() else { return };
        self.apply(&Event::Fence(false));
        self.oracle.all_waiting().into_iter().for_each(|n| self.cancel(n));
        assert!(!self.bench.pool.has_work());
        self.bench.pool.on_given_up(lane);
        self.oracle.note(Past::GivenUp(lane));
    }

    fn later(&mut self, time: Duration) {
        self.bench.later(time);
        self.oracle.now = self.bench.now;
    }

    /// Lets something happen that must, in the weather given; false where nothing is left.
    fn go_on(&mut self, mut weather: impl FnMut(&mut Self)) -> bool {
        while self.poll() {}
        if self.oracle.connecting().is_some() {
            weather(self);
        } else if !self.on_lanes.is_empty() {
            self.finished(0);
        } else if let Some(at) = self.bench.pool.deadline() {
            self.later(at - self.bench.now);
        } else {
            assert!(!self.oracle.has_jobs(), "jobs wait, and nothing will ever happen");
            return false;
        }
        true
    }

    /// Goes on until nothing is left, within so many steps; every job has ended then, once.
    fn settle(&mut self, steps: usize, mut weather: impl FnMut(&mut Self)) {
        self.apply(&Event::Fence(false));
        let lanes = (0..LANES).filter(|lane| self.is_open(*lane)).collect::<Vec<_>>();
        lanes.into_iter().for_each(|lane| self.room(lane, 1));
        let taken = (0..=steps).take_while(|_| self.go_on(&mut weather)).count();
        assert!(taken <= steps, "not done after {steps} steps");
        let ended: BTreeSet<u32> = self.ended.keys().copied().collect();
        assert_eq!(ended, (0..self.bench.next).collect(), "every job has ended");
    }
}

fn after((lanes, events): &(usize, Vec<Event>)) -> Model {
    let mut model = Model::new(*lanes);
    events.iter().for_each(|event| model.apply(event));
    model
}

/// A number of lanes and what happens to them.
fn history() -> impl Strategy<Value = (usize, Vec<Event>)> {
    (1..=LANES, prop::collection::vec(event(), 1..160))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// J58, J64, J65, J67: lanes stay within their number and their room, at most one connects, jobs
    /// start in order, and each job is at one place and ends in one way; none starves once attempts
    /// succeed.
    #[test]
    fn j58_j67_each_job_ends_once_whatever_happens(history in history()) {
        let mut model = after(&history);
        let jobs = usize::try_from(model.bench.next).unwrap();
        model.settle(4 * jobs + 8 * LANES, Model::connected);
    }

    /// I4: where nobody can be reached any more, what waits is told so once every lane was tried,
    /// which takes no longer than the longest pause.
    #[test]
    fn what_waits_for_a_dead_peer_is_failed_once_every_lane_was_tried(history in history()) {
        let mut model = after(&history);
        (0..LANES).for_each(|lane| model.lost(lane, 1));
        let begun = model.bench.now;
        model.settle(10 * LANES, Model::refused);
        prop_assert!(model.bench.now - begun <= MAX_PAUSE, "{:?}", model.bench.now - begun);
    }

    /// I4: what waits for a peer that only ever says hello is failed, once connection after connection
    /// was lost on every lane.
    #[test]
    fn what_waits_for_a_peer_that_only_greets_is_failed(history in history()) {
        let mut model = after(&history);
        (0..LANES).for_each(|lane| model.lost(lane, 1));
        let begun = model.bench.now;
        model.settle(20 * LANES, |model| {
            let lane = model.oracle.connecting().expect("an attempt is under way");
            model.greeted(1);
            model.lost(lane, 0);
        });
        prop_assert!(model.bench.now - begun <= 3 * MAX_PAUSE, "{:?}", model.bench.now - begun);
    }

    /// What is drained is what waited, each job once; the pool can be forgotten once pauses are over.
    #[test]
    fn draining_leaves_nothing(history in history()) {
        let mut model = after(&history);
        let drained: Vec<u32> = model.bench.pool.drain().iter().map(number).collect();
        prop_assert_eq!(drained, model.oracle.all_waiting());
        model.bench.pool.want_fence(0, false);
        prop_assert!(!model.bench.pool.has_work());
        let closed = (0..LANES).all(|lane| !model.is_open(lane));
        let quiet = closed && model.oracle.connecting().is_none();
        prop_assert_eq!(model.bench.pool.is_forgettable(model.bench.now + MAX_PAUSE), quiet);
    }
}
