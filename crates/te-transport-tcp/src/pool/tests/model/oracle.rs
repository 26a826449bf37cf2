//! What a pool may do and must do, read off the whole history each time.
//!
//! Nothing is kept but the history and the two queues. A lane's state, its pause and the round are
//! found by looking back, so that no update can be forgotten.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::{FIRST_PAUSE, MAX_PAUSE, Pool, ROUND};

/// What happened to a lane, or to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    Asked(usize),
    Greeted(usize, usize),
    Used(usize),
    Proven(usize),
    Room(usize, usize),
    Started(usize),
    Finished(usize),
    /// An attempt failed, or a third connection in a row was lost unused.
    Refused(usize),
    LostUnused(usize),
    Lost(usize),
    GivenUp(usize),
    /// With it the last open lane went.
    AllGone,
    /// What waited was failed, or the round's time was up.
    RoundOver,
    /// The pool was asked while nothing waited.
    Idle,
}

use Past::{
    AllGone, Asked, Finished, GivenUp, Greeted, Idle, Lost, LostUnused, Proven, Refused, Room,
    RoundOver, Started, Used,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Paused(Instant),
    Connecting,
    Open,
}

pub(super) struct Oracle {
    lanes: usize,
    pub(super) now: Instant,
    past: Vec<(Instant, Past)>,
    pub(super) waiting: VecDeque<u32>,
    pub(super) again: VecDeque<u32>,
    pub(super) fence: bool,
    /// What must be failed by the next order.
    owed: Option<Vec<u32>>,
}

impl Oracle {
    pub(super) fn new(lanes: usize, now: Instant) -> Self {
        let (waiting, again) = (VecDeque::new(), VecDeque::new());
        Self { lanes, now, past: Vec::new(), waiting, again, fence: false, owed: None }
    }

    pub(super) fn note(&mut self, past: Past) {
        self.past.push((self.now, past));
    }

    pub(super) fn on_lost(&mut self, lane: usize) {
        self.note(Lost(lane));
        if self.all().all(|lane| !self.is_open(lane)) {
            self.note(AllGone);
        }
    }

    pub(super) fn on_greeted_lost(&mut self, lane: usize) {
        if self.is_used(lane) {
            return self.on_lost(lane);
        }
        if self.lost_unused(lane) == 2 {
            self.on_refused(lane)
        } else {
            self.note(LostUnused(lane))
        }
    }

    pub(super) fn on_refused(&mut self, lane: usize) {
        self.note(Refused(lane));
        let over = self.round_began().is_some_and(|began| began + ROUND <= self.now);
        let nobody = self.all().all(|lane| !self.is_open(lane));
        if nobody && (over || self.all().all(|lane| self.failed_in_round(lane))) {
            self.owed = Some(self.again.drain(..).chain(self.waiting.drain(..)).collect());
            self.note(RoundOver);
        } else if over {
            self.note(RoundOver);
        }
    }

    /// A lane may be opened only for work that no open lane takes, or for its fence, after its pause, one at a time.
    pub(super) fn check_connect(&mut self, lane: usize) {
        assert_eq!(self.owed, None, "the failure is told first");
        assert_eq!(self.connecting(), None, "one at a time (I2)");
        assert!(self.has_work(), "nothing waits (I2)");
        assert_eq!(self.startable(), None, "an open lane takes it (I2)");
        let best = self.openable().into_iter().map(|other| self.rank(other)).min();
        assert!(self.openable().contains(&lane), "lane {lane} is {:?}", self.state(lane));
        assert_eq!(Some(self.rank(lane)), best, "another lane comes first");
        self.note(Asked(lane));
    }

    /// A job may start only on a lane with room, and only the one whose turn it is.
    pub(super) fn check_start(&mut self, lane: usize, n: u32) {
        assert_eq!(self.owed, None, "the failure is told first");
        assert!(self.has_room(lane), "lane {lane} has no room");
        assert_eq!(self.startable(), Some(n), "it is not its turn (I1)");
        if self.again.front() == Some(&n) {
            assert!(self.is_fresh(lane), "it goes again only on a fresh connection (I1)");
        }
        self.take(n);
        self.note(Started(lane));
    }

    pub(super) fn check_fail(&mut self, numbers: &[u32]) {
        let owed = self.owed.take();
        assert_eq!(owed.as_deref(), Some(numbers), "failed without need (I4)");
    }

    /// The pool wants nothing: rightly, and it knows when that will change.
    pub(super) fn check_rest(&mut self, pool: &Pool) {
        assert_eq!(self.owed, None, "a failure is not told");
        assert_eq!(self.startable(), None, "a job could start");
        let idle = !self.has_work() || self.connecting().is_some();
        assert!(idle || self.openable().is_empty(), "a lane could be opened");
        let pauses = self.all().filter_map(|lane| match self.state(lane) {
            State::Paused(until) => Some(until),
            _ => None,
        });
        assert_eq!(pool.deadline(), pauses.min().filter(|_| !idle));
        assert_eq!(pool.has_work(), self.has_work());
        if self.connecting().is_none() && !self.has_work() {
            self.note(Idle);
        }
        assert_eq!(pool.round_ends(), self.round_began().map(|began| began + ROUND));
    }

    /// Takes a job out that waits.
    pub(super) fn take(&mut self, n: u32) -> Vec<u32> {
        let waited = self.again.contains(&n) || self.waiting.contains(&n);
        self.again.retain(|other| *other != n);
        self.waiting.retain(|other| *other != n);
        waited.then_some(n).into_iter().collect()
    }

    pub(super) fn all_waiting(&self) -> Vec<u32> {
        let owed = self.owed.iter().flatten();
        owed.chain(&self.again).chain(&self.waiting).copied().collect()
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.all_waiting().is_empty()
    }

    pub(super) fn has_work(&self) -> bool {
        self.fence || self.has_jobs()
    }

    pub(super) fn connecting(&self) -> Option<usize> {
        self.all().find(|lane| self.state(*lane) == State::Connecting)
    }

    pub(super) fn is_open(&self, lane: usize) -> bool {
        self.state(lane) == State::Open
    }

    /// Whether a request was on the present connection.
    pub(super) fn is_used(&self, lane: usize) -> bool {
        self.since_open(lane).any(|past| past == Used(lane))
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.lanes
    }

    /// The history backwards.
    fn back(&self) -> impl Iterator<Item = Past> {
        self.past.iter().rev().map(|(_, past)| *past)
    }

    fn since_open(&self, lane: usize) -> impl Iterator<Item = Past> {
        self.back().take_while(move |past| !matches!(past, Greeted(l, _) if *l == lane))
    }

    fn state(&self, lane: usize) -> State {
        for (index, (at, past)) in self.past.iter().enumerate().rev() {
            match *past {
                AllGone if self.was_paused(lane, index) => return State::Closed,
                Asked(l) if l == lane => return State::Connecting,
                Greeted(l, _) if l == lane => return State::Open,
                Lost(l) | GivenUp(l) if l == lane => return State::Closed,
                Refused(l) | LostUnused(l) if l == lane => {
                    let until = *at + self.pause_after(lane, index);
                    return if until > self.now { State::Paused(until) } else { State::Closed };
                }
                _ => {}
            }
        }
        State::Closed
    }

    /// Whether the last that happened to a lane before `index` was a failure.
    fn was_paused(&self, lane: usize, index: usize) -> bool {
        let mut before = self.past[..index].iter().rev().map(|(_, past)| *past);
        let last = before.find(|past| {
            matches!(*past, Asked(l) | Greeted(l, _) | Lost(l) | GivenUp(l) | Refused(l)
                | LostUnused(l) if l == lane)
        });
        matches!(last, Some(Refused(_) | LostUnused(_)))
    }

    /// The pause after a failure: twice as long as the one before, since a request was answered.
    fn pause_after(&self, lane: usize, index: usize) -> Duration {
        let before = failures(lane, &self.past[..index]);
        (0..before).fold(FIRST_PAUSE, |pause, _| (pause * 2).min(MAX_PAUSE))
    }

    /// Connections in a row that were lost unused, since the last that counted as a failed attempt.
    fn lost_unused(&self, lane: usize) -> usize {
        let mut streak = 0;
        for (index, (_, past)) in self.past.iter().enumerate().rev() {
            match *past {
                LostUnused(l) if l == lane => streak += 1,
                Proven(l) if l == lane => break,
                // A failed attempt in between does not break the row; the third loss does.
                Refused(l) if l == lane && self.was_open(lane, index) => break,
                _ => {}
            }
        }
        streak
    }

    fn was_open(&self, lane: usize, index: usize) -> bool {
        let mut before = self.past[..index].iter().rev().map(|(_, past)| *past);
        let last = before.find(|past| matches!(*past, Asked(l) | Greeted(l, _) if l == lane));
        matches!(last, Some(Greeted(..)))
    }

    fn failed_in_round(&self, lane: usize) -> bool {
        let ends = |past| matches!(past, Proven(_) | AllGone | RoundOver | Idle | GivenUp(_));
        self.back().take_while(|past| !ends(*past)).any(|past| past == Refused(lane))
    }

    /// When the first attempt of the present round was begun.
    fn round_began(&self) -> Option<Instant> {
        let ends = |past| matches!(past, Used(_) | Idle | AllGone | RoundOver | GivenUp(_));
        let round = self.past.iter().rev().take_while(|(_, past)| !ends(*past));
        round.filter(|(_, past)| matches!(past, Asked(_))).last().map(|(at, _)| *at)
    }

    fn load(&self, lane: usize) -> usize {
        let on = self.since_open(lane).filter(|past| *past == Started(lane)).count();
        on - self.since_open(lane).filter(|past| *past == Finished(lane)).count()
    }

    fn has_room(&self, lane: usize) -> bool {
        let told = self.back().find_map(|past| match past {
            Room(l, room) | Greeted(l, room) if l == lane => Some(room),
            _ => None,
        });
        self.is_open(lane) && self.load(lane) < told.unwrap_or(0)
    }

    fn is_fresh(&self, lane: usize) -> bool {
        self.is_open(lane) && !self.since_open(lane).any(|past| past == Finished(lane))
    }

    /// The job whose turn it is, where a lane takes it.
    fn startable(&self) -> Option<u32> {
        let fresh = self.all().any(|lane| self.has_room(lane) && self.is_fresh(lane));
        let any = self.all().any(|lane| self.has_room(lane));
        let again = self.again.front().filter(|_| fresh);
        again.or_else(|| self.waiting.front().filter(|_| any)).copied()
    }

    /// Lanes that may be opened; an idle one is given up only for a job that goes again, and only
    /// where no other is left.
    fn openable(&self) -> Vec<usize> {
        let closed = self.all().filter(|l| self.state(*l) == State::Closed);
        // A fence needs its own lane, which is the first here.
        let closed: Vec<_> =
            closed.filter(|lane| self.has_jobs() || (self.fence && *lane == 0)).collect();
        if !closed.is_empty() || self.again.is_empty() {
            return closed;
        }
        self.all().filter(|lane| self.is_open(*lane) && self.load(*lane) == 0).collect()
    }

    /// The lane that owes a fence, then never tried before tried, then fewest failures.
    fn rank(&self, lane: usize) -> (bool, bool, usize) {
        let fence = self.fence && lane == 0 && !self.is_open(lane);
        let tried = self.past.iter().any(|(_, past)| *past == Asked(lane));
        (!fence, tried, failures(lane, &self.past))
    }
}

/// Failures of a lane since a request was answered on it.
fn failures(lane: usize, past: &[(Instant, Past)]) -> usize {
    let back = past.iter().rev().map(|(_, past)| *past);
    let bad = back.take_while(|past| *past != Proven(lane));
    bad.filter(|past| matches!(past, Refused(l) | LostUnused(l) if *l == lane)).count()
}
