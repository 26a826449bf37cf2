//! Waiting on a word, and the clock for it.
#![expect(clippy::disallowed_methods, reason = "a lock that waits until a moment reads the clock")]

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use rustix::thread::futex::{self, Flags, Timespec};

/// Waits while the word has this value, at most until `deadline`. Also ends without a reason; the caller
/// looks again. `false` where the time is up.
pub(crate) fn wait(word: &AtomicU32, value: u32, deadline: Option<Instant>) -> bool {
    let timeout = match deadline {
        None => None,
        Some(deadline) => match left(deadline) {
            Some(left) => Some(timespec(left)),
            None => return false,
        },
    };
    // Changed already, interrupted, time up: the caller finds out.
    let _ = futex::wait(word, Flags::PRIVATE, value, timeout.as_ref());
    deadline.is_none_or(|deadline| left(deadline).is_some())
}

/// Wakes at most this many that wait on the word.
pub(crate) fn wake(word: &AtomicU32, count: u32) {
    // It fails for words that are not there, and this one is.
    let _ = futex::wake(word, Flags::PRIVATE, count);
}

/// All that wait.
pub(crate) const ALL: u32 = i32::MAX.cast_unsigned();

/// The moment that comes after this time; `None` where no clock will show it.
pub(crate) fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}

fn left(deadline: Instant) -> Option<Duration> {
    deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

fn timespec(time: Duration) -> Timespec {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }
}
