//! How long a driver looks for events before it sleeps.
//!
//! Waking a thread on another core costs tens of microseconds, more than a small request takes. So
//! whoever waits for an answer that comes at once looks for it again and again; and stops doing so
//! where that was in vain several times in a row: on a long line, or where others need the core.
//!
//! ```text
//!              in vain x 4                        a sleep was shorter than the window
//!   spins ────────────────────▶ sleeps at once ──────────────────────────────▶ spins
//! ```
//!
//! I1  Without an event nobody spins longer than the window.
//! I2  Where spinning is in vain it stops: idle or on a long line it costs nothing.

use std::time::{Duration, Instant};

/// Windows in vain after which the next wait is a sleep.
const IN_VAIN: u32 = 4;
/// A look that took longer than this was interrupted by others who need the core.
const STOLEN: Duration = Duration::from_micros(200);

/// See the module.
#[derive(Debug)]
pub(crate) struct Spin {
    window: Duration,
    /// When something moved last.
    moved: Instant,
    /// When it was looked last.
    looked: Instant,
    state: State,
    in_vain: u32,
    /// Looks in the present row.
    looks: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is waited for.
    Active,
    /// Looks again and again.
    Spins,
    /// Sleeps until an event comes.
    Sleeps,
}

impl Spin {
    pub(crate) fn new(window: Duration, now: Instant) -> Self {
        Self { window, moved: now, looked: now, state: State::Active, in_vain: 0, looks: 0 }
    }

    /// A step was made; whether anything moved in it.
    pub(crate) fn on_step(&mut self, now: Instant, moved: bool) {
        if !moved {
            return;
        }
        if self.state != State::Active && now.saturating_duration_since(self.moved) < self.window {
            self.in_vain = 0;
        }
        self.state = State::Active;
        self.moved = now;
    }

    /// Whether the look that comes is the first one since something moved.
    pub(crate) fn is_first_look(&self) -> bool {
        self.looks == 1
    }

    /// Whether to look again; else sleep.
    pub(crate) fn goes_on(&mut self, now: Instant) -> bool {
        let stolen =
            self.state == State::Spins && now.saturating_duration_since(self.looked) > STOLEN;
        self.looked = now;
        if self.state == State::Sleeps || self.in_vain >= IN_VAIN {
            self.state = State::Sleeps;
            return false;
        }
        if stolen || now.saturating_duration_since(self.moved) >= self.window {
            self.in_vain += 1;
            self.state = State::Sleeps;
            return false;
        }
        self.looks = if self.state == State::Spins { self.looks.saturating_add(1) } else { 1 };
        self.state = State::Spins;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(50);

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn spin() -> (Spin, Instant) {
        let now = Instant::now();
        (Spin::new(WINDOW, now), now)
    }

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn it_looks_for_as_long_as_the_window_and_then_sleeps() {
        let (mut spin, start) = spin();
        assert!(spin.goes_on(start) && spin.goes_on(start + micros(49)));
        assert!(!spin.goes_on(start + micros(50)) && !spin.goes_on(start + micros(51)));
        spin.on_step(start + micros(52), false);
        assert!(!spin.goes_on(start + micros(53)), "nothing moved");
        spin.on_step(start + micros(900), true);
        assert!(spin.goes_on(start + micros(901)));
    }

    #[test]
    fn a_zero_window_never_spins() {
        let (_, start) = spin();
        let mut spin = Spin::new(Duration::ZERO, start);
        assert!(!spin.goes_on(start));
        spin.on_step(start + micros(1), true);
        assert!(!spin.goes_on(start + micros(1)));
    }

    #[test]
    fn windows_in_vain_end_the_spinning_until_an_event_would_have_been_met() {
        let (mut spin, mut now) = spin();
        for _ in 0..IN_VAIN {
            assert!(spin.goes_on(now));
            now += micros(100);
            assert!(!spin.goes_on(now));
            now += micros(1000);
            spin.on_step(now, true);
        }
        assert!(!spin.goes_on(now), "events come too late to be met");
        now += micros(1000);
        spin.on_step(now, true);
        assert!(!spin.goes_on(now));
        now += micros(20);
        spin.on_step(now, true);
        assert!(spin.goes_on(now), "this one would have been met");
    }

    #[test]
    fn a_look_that_others_interrupted_counts_as_in_vain() {
        let (mut spin, start) = spin();
        let mut now = start;
        for _ in 0..IN_VAIN {
            assert!(spin.goes_on(now));
            now += STOLEN + micros(1);
            assert!(!spin.goes_on(now));
            spin.on_step(now, true);
        }
        assert!(!spin.goes_on(now));
    }
}
