//! Since when nothing has moved on a connection, counting what the peer's kernel takes.
//!
//! The kernel tells how much was acknowledged, but of the time only when the last acknowledgement of
//! any kind came, and a peer that reads nothing acknowledges probes as well. So it is looked at
//! several times while nothing moves: bytes that came since the look before count as moved.

use std::time::{Duration, Instant};

use crate::io::Acked;

/// So often the kernel is asked in the time that nothing may move.
const LOOKS: u32 = 8;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    since: Instant,
    looked: Instant,
    acked: u64,
}

impl Progress {
    /// Everything stands still from now on.
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, looked: now, acked: 0 }
    }

    /// Something moved.
    pub(crate) fn moved(&mut self, now: Instant) {
        self.since = now;
    }

    /// When the last thing moved, as far as is known.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// When to look again, or to give up, where nothing may stand still for longer than `patience`.
    pub(crate) fn deadline(&self, patience: Duration) -> Instant {
        let look = self.since.max(self.looked) + patience / LOOKS;
        look.min(self.since + patience)
    }

    /// Takes in what the kernel tells; only higher numbers than before count.
    pub(crate) fn look(&mut self, now: Instant, acked: Option<Acked>) {
        self.looked = now;
        if let Some(acked) = acked.filter(|acked| acked.bytes > self.acked) {
            self.acked = acked.bytes;
            self.since = self.since.max(now.checked_sub(acked.ago).unwrap_or(now));
        }
    }

    /// Whether nothing has moved for `patience`.
    pub(crate) fn is_over(&self, now: Instant, patience: Duration) -> bool {
        now >= self.since + patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(8);

    /// FB04: a peer that reads nothing acknowledges probes, and is given up in time all the same.
    #[test]
    fn fb04_acknowledged_probes_are_no_progress() {
        let start = te_transport::Clock::now(&te_transport::SystemClock);
        let mut progress = Progress::new(start);
        let mut now = start;
        while !progress.is_over(now, PATIENCE) {
            now = progress.deadline(PATIENCE);
            // All was taken in the first moment; a probe was answered just now.
            progress.look(now, Some(Acked { bytes: 100, ago: Duration::ZERO }));
        }
        assert_eq!(now - start, PATIENCE + PATIENCE / LOOKS, "the first look found bytes");
    }

    #[test]
    fn whatever_the_kernel_took_counts_from_when_it_was_taken() {
        let start = te_transport::Clock::now(&te_transport::SystemClock);
        let second = Duration::from_secs(1);
        let mut progress = Progress::new(start);
        assert_eq!(progress.deadline(PATIENCE), start + second);
        progress.look(start + 3 * second, Some(Acked { bytes: 7, ago: second }));
        assert_eq!(progress.since(), start + 2 * second);
        progress.look(start + 9 * second, None);
        assert_eq!(progress.deadline(PATIENCE), start + 10 * second);
        assert!(!progress.is_over(start + 9 * second, PATIENCE));
        progress.moved(start + 9 * second);
        assert_eq!(progress.deadline(PATIENCE), start + 10 * second);
    }
}
