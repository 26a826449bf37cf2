//! Failures of calls that answer with a mere number, in the log: at most one line a second (FB54).
//!
//! Requests that failed are told by the engine itself; these are the calls that came to no request.

use std::time::{Duration, Instant};

use te_sync::Mutex;

use crate::failure::Failure;

/// Least time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// What was told last.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    untold: u64,
}

impl State {
    /// Whether a line may be written now, and how many were not since the last one.
    fn allow(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + PAUSE) {
            self.untold += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl Complaints {
    /// Tells of a failure, if it is none of a request and a line is due.
    pub(crate) fn tell(&self, failure: &Failure) {
        // Of what the engine had it has told: whether the peer's memory was touched is known then.
        let facts = failure.facts();
        if facts.remote.is_none() || facts.phase == "memory" {
            self.say("a transfer did not begin", failure);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an edge: nothing but the log depends on it")]
    fn say(&self, what: &str, failure: &Failure) {
        let untold = self.state.lock().allow(Instant::now());
        if let Some(untold) = untold {
            tracing::warn!(untold, "{what}: {failure}");
        }
    }
}

static OF_ALL: Complaints = Complaints { state: Mutex::new(State { last: None, untold: 0 }) };

/// Logs a failure whose caller learns a mere number and is not expected to ask for more, such as that
/// of making an engine: at most one line a second in a process, with the count of what was left out.
pub fn complain(failure: &Failure) {
    OF_ALL.say("a call failed", failure);
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "any instant will do as a start")]
mod tests {
    use super::*;

    #[test]
    fn fb54_a_flood_is_a_line_a_second_with_a_count() {
        // FB54: 10 000 failures in half a second, and one later.
        let (start, mut state) = (Instant::now(), State::default());
        let at = |n: u32| start + Duration::from_micros(50) * n;
        assert_eq!((0..10_000).filter(|n| state.allow(at(*n)).is_some()).count(), 1);
        assert_eq!(state.allow(start + PAUSE), Some(9_999));
    }
}
