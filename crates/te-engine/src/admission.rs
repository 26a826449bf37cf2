//! How much may be outstanding at once: by count and by bytes.
//!
//! I1  The sums never exceed the limits, except that one call alone is let in whatever its size.
//! I2  Whoever asked to wait is let in, or told so when its patience ends.

use std::time::Duration;

use te_sync::{Condvar, Mutex};

/// The limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Requests.
    pub(crate) requests: u64,
    /// Bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
struct Used {
    requests: u64,
    bytes: u64,
}

/// The gate in front of the data path.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: Limits,
    used: Mutex<Used>,
    freed: Condvar,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, used: Mutex::default(), freed: Condvar::new() }
    }

    /// Lets `requests` with `bytes` in, waiting at most `patience`. Gives the number outstanding
    /// where there was no room.
    pub(crate) fn enter(&self, requests: u64, bytes: u64, patience: Duration) -> Result<(), u64> {
        let fits = |used: &Used| {
            used.requests == 0
                || te_metadata::sabotage::is_off("admission")
                || (used.requests + requests <= self.limits.requests
                    && used.bytes.saturating_add(bytes) <= self.limits.bytes)
        };
        let mut used = self.used.lock();
        if !fits(&used) {
            self.freed.wait_while_for(&mut used, |used| !fits(used), patience);
        }
        if !fits(&used) {
            return Err(used.requests);
        }
        used.requests += requests;
        used.bytes = used.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Requests that reached their end.
    pub(crate) fn leave(&self, requests: u64, bytes: u64) {
        let mut used = self.used.lock();
        used.requests -= requests;
        used.bytes = used.bytes.saturating_sub(bytes);
        self.freed.notify_all();
    }

    #[cfg(test)]
    fn outstanding(&self) -> u64 {
        self.used.lock().requests
    }
}

#[cfg(test)]
mod tests {
    //! Limits and waiting.

    use super::*;

    const LIMITS: Limits = Limits { requests: 10, bytes: 1000 };

    #[test]
    fn j66_without_waiting_a_full_gate_answers_at_once() {
        // J64, J66 as changed: only a caller that asked for no wait gets "full".
        let gate = Admission::new(LIMITS);
        gate.enter(10, 10, Duration::ZERO).unwrap();
        assert_eq!(gate.enter(1, 1, Duration::ZERO), Err(10));
        gate.leave(1, 1);
        gate.enter(1, 991, Duration::ZERO).unwrap();
        assert_eq!(gate.enter(0, 1, Duration::ZERO), Err(10));
    }

    #[test]
    fn one_call_alone_may_exceed_the_limits() {
        let gate = Admission::new(LIMITS);
        gate.enter(50, 1 << 40, Duration::ZERO).unwrap();
        assert_eq!(gate.enter(1, 1, Duration::from_millis(1)), Err(50));
        gate.leave(50, 1 << 40);
        gate.enter(1, 1, Duration::ZERO).unwrap();
    }

    #[test]
    fn j65_a_waiting_caller_is_let_in_when_room_appears() {
        let gate = Admission::new(LIMITS);
        gate.enter(10, 10, Duration::ZERO).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| gate.enter(3, 3, Duration::from_secs(20)));
            gate.leave(2, 2);
            gate.leave(2, 2);
            waiter.join().unwrap().unwrap();
        });
        assert_eq!(gate.outstanding(), 9);
    }
}
