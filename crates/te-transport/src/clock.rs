//! Time as an argument: whoever needs `now` is given a clock, so that a simulator can own it.

use std::fmt;
use std::time::Instant;

/// Where monotonic time comes from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Instant;
}

/// The machine's monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everything else is given"
    )]
    fn now(&self) -> Instant {
        Instant::now()
    }
}
