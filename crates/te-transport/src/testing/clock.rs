//! Time that passes only when somebody says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::{Clock, SystemClock};

/// A clock that stands still until it is advanced, and never goes back.
///
/// ```
/// use std::time::Duration;
/// use te_transport::{Clock as _, testing::VirtualClock};
///
/// let clock = VirtualClock::new();
/// let begin = clock.now();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now() - begin, Duration::from_secs(3600));
/// ```
#[derive(Debug)]
pub struct VirtualClock {
    begin: Instant,
    /// Nanoseconds since `begin`; a number that nothing else depends on, so relaxed access will do.
    passed: AtomicU64,
}

impl VirtualClock {
    /// A clock whose first instant is the machine's present; only differences mean something.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { begin: SystemClock.now(), passed: AtomicU64::new(0) })
    }

    /// Time since the clock was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.passed.load(Ordering::Relaxed))
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.passed.fetch_add(nanos(by), Ordering::Relaxed);
    }

    /// Lets time pass until `at`; does nothing where that is past.
    pub fn advance_to(&self, at: Instant) {
        self.passed.fetch_max(nanos(at.saturating_duration_since(self.begin)), Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.begin + self.elapsed()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
