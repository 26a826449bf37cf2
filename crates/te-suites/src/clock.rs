//! The clock of the kit: tests are drivers, so that they read it and wait, always with a bound.
#![expect(
    clippy::disallowed_methods,
    reason = "suites drive real processes; every wait goes through here and has a deadline"
)]

use std::time::{Duration, Instant};

/// The time now.
pub fn now() -> Instant {
    Instant::now()
}

/// Lets `time` pass. Only for the pace of an attack, never to hope that something has happened;
/// for that there is [`wait_until`].
pub fn pace(time: Duration) {
    std::thread::sleep(time);
}

/// Asks `probe` until it gives a value, and returns how long that took with it.
///
/// # Panics
/// When `limit` has passed; the text names `what`.
#[track_caller]
pub fn wait_until<T>(limit: Duration, what: &str, probe: impl FnMut() -> Option<T>) -> T {
    match wait_for(limit, probe) {
        Some(value) => value,
        None => panic!("{what}: not within {limit:?}"),
    }
}

/// Like [`wait_until`], with `None` when the time is over.
pub fn wait_for<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let start = now();
    loop {
        if let Some(value) = probe() {
            return Some(value);
        }
        if start.elapsed() >= limit {
            return None;
        }
        pace(Duration::from_millis(2));
    }
}
