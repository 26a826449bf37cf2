//! When changes are published: the first at once, those that follow together.

use std::time::{Duration, Instant};

use super::TenancyTimes;

/// The rhythm of rounds.
#[derive(Debug)]
pub(super) struct Composing {
    pub(super) is_wanted: bool,
    pub(super) due: Option<Instant>,
    last: Option<Instant>,
    pause: Duration,
    rounds: u64,
    /// When the last change came.
    touched: Option<Instant>,
    /// So many changes are published at once, before pauses are made.
    at_once: u32,
}

/// Changes after a quiet time that are published one by one, each at once.
const AT_ONCE: u32 = 8;
/// A quiet time, in greatest pauses.
const QUIET: u32 = 4;

impl Composing {
    /// How often it was composed.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(super) fn new(times: &TenancyTimes) -> Self {
        let pause = times.pause_min;
        Self {
            is_wanted: false,
            due: None,
            last: None,
            pause,
            rounds: 0,
            touched: None,
            at_once: 0,
        }
    }

    pub(super) fn touch(&mut self, now: Instant, times: &TenancyTimes) {
        let touched = self.touched.replace(now);
        if touched.is_none_or(|at| now.saturating_duration_since(at) >= QUIET * times.pause_max) {
            self.at_once = AT_ONCE;
        }
        if std::mem::replace(&mut self.is_wanted, true) {
            return;
        }
        let next = match self.last.filter(|_| self.at_once == 0) {
            Some(last) => last + self.pause,
            None => now,
        };
        if next <= now {
            self.pause = times.pause_min;
        }
        self.at_once = self.at_once.saturating_sub(1);
        self.due = Some(next.max(now));
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.is_wanted && self.due.is_some_and(|due| due <= now)
    }

    /// The pause grows while changes come within it.
    pub(super) fn composed(&mut self, now: Instant, times: &TenancyTimes) {
        let was_waiting = self.last.is_some_and(|last| now.duration_since(last) < 2 * self.pause);
        self.pause =
            if was_waiting { (2 * self.pause).min(times.pause_max) } else { times.pause_min };
        (self.is_wanted, self.due, self.last) = (false, None, Some(now));
        self.rounds += 1;
    }
}
