//! Servers that are not connected to for a while, because that failed a moment ago (E58).
//!
//! I1  Asking does not prolong a pause; another failure does.
//! I2  Pauses of different servers do not touch each other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Debug)]
pub(crate) struct ConnectPauses {
    /// `None` for no pauses.
    length: Option<Duration>,
    until: HashMap<Box<str>, Instant>,
}

impl ConnectPauses {
    pub(crate) fn new(length: Option<Duration>) -> Self {
        Self { length, until: HashMap::new() }
    }

    /// Connecting failed.
    pub(crate) fn on_failure(&mut self, now: Instant, server: &str) {
        if let Some(length) = self.length {
            self.until.insert(server.into(), now + length);
        }
    }

    /// Whether it is too early for another try. A pause that is over is forgotten.
    pub(crate) fn pauses(&mut self, now: Instant, server: &str) -> bool {
        match self.until.get(server) {
            Some(until) if now < *until => true,
            Some(_) => {
                self.until.remove(server);
                false
            }
            None => false,
        }
    }

    /// Forgets the pauses that are over.
    pub(crate) fn prune(&mut self, now: Instant) {
        self.until.retain(|_, until| now < *until);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "any instant will do")]

    use super::*;

    const LENGTH: Duration = Duration::from_millis(100);

    /// J90.
    #[test]
    fn j90_a_pause_ends_by_itself_and_only_a_failure_prolongs_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pauses = ConnectPauses::new(Some(LENGTH));
        assert!(!pauses.pauses(start, "a"), "nobody knows it");
        pauses.on_failure(start, "a");
        assert!(pauses.pauses(at(99), "a") && !pauses.pauses(at(99), "b"));
        assert!(!pauses.pauses(at(100), "a"), "the end is inclusive");
        assert!(pauses.until.is_empty(), "what is over is forgotten");
        pauses.on_failure(at(100), "a");
        pauses.on_failure(at(150), "a");
        assert!(pauses.pauses(at(249), "a"));
        pauses.on_failure(at(151), "b");
        pauses.prune(at(250));
        assert!(!pauses.pauses(at(250), "a") && pauses.pauses(at(250), "b"));
        let mut off = ConnectPauses::new(None);
        off.on_failure(start, "a");
        assert!(!off.pauses(start, "a"));
    }
}
