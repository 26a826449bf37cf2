//! A point in time, on both clocks.

use std::time::{Duration, Instant};

/// Now: `mono` decides what has expired, `unix_ms` is only ever shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) mono: Instant,
    /// Milliseconds since 1970.
    pub(crate) unix_ms: u64,
}

impl Moment {
    #[cfg(test)]
    pub(crate) fn after(self, time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { mono: self.mono + time, unix_ms: self.unix_ms.saturating_add(ms) }
    }

    /// How long from now until `then`; zero when it is over.
    pub(crate) fn until(self, then: Instant) -> Duration {
        then.saturating_duration_since(self.mono)
    }
}

/// A length of time in whole milliseconds, as it travels.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
