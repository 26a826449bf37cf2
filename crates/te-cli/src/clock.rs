//! The one place of this program that reads a clock.

use std::time::{Duration, Instant};

/// A running measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "a program is the edge where time is read")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Rests until so much time has passed since the start.
    #[expect(clippy::disallowed_methods, reason = "resting is what it is asked for")]
    pub(crate) fn rest(self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.elapsed()));
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
