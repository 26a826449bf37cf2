//! The clock of the peer link.

use std::time::{Duration, Instant};

/// The present. The only place of this crate that reads the clock.
#[expect(clippy::disallowed_methods, reason = "the drivers of the peer link need a clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// An end of time for a blocking exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    start: Instant,
    total: Duration,
}

impl Deadline {
    pub(crate) fn after(total: Duration) -> Self {
        Self { start: now(), total }
    }

    /// What is left; `None` when the time is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.total.checked_sub(self.elapsed()).filter(|left| !left.is_zero())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}
