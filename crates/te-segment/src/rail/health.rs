//! Whether one rail may be used now.
//!
//! ```text
//!            fault                cool-down over
//!   Open ────────────▶ Paused ────────────────────▶ Probing
//!    ▲                   ▲        one slice           │
//!    └────── success ────┼────────────────────────────┤
//!                        └────────── fault ───────────┘
//! ```
//!
//! I1  A pause has an end, and nothing prolongs it. A fault of what began before the pause says
//!     nothing new.
//! I2  A probe that nobody reports on ends by itself, and another one may be made.

use std::time::{Duration, Instant};

/// How long rails pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailPauses {
    /// The first pause, and how long a probe may go without a report.
    pub first: Duration,
    /// The longest pause. Each is twice as long as the one before, until the rail was good for as
    /// long as it had paused.
    pub longest: Duration,
}

/// What is known of a rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RailState {
    /// It is used.
    Open,
    /// It is not used until then, unless no other rail is left.
    Paused {
        /// When a probe may be made.
        until: Instant,
    },
    /// One slice is to show whether it works again.
    Probing {
        /// When another probe may be made if nobody has reported on this one.
        until: Instant,
    },
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct RailHealth {
    state: RailState,
    /// When this state began; `None` for a rail that never paused.
    since: Option<Instant>,
    /// Whether the probe's slice was given out.
    given: bool,
    /// The last pause; zero when none is remembered.
    pause: Duration,
}

impl RailHealth {
    pub(super) const NEW: Self =
        Self { state: RailState::Open, since: None, given: false, pause: Duration::ZERO };

    pub(super) fn state(&self) -> RailState {
        self.state
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == RailState::Open
    }

    /// When something may be tried on a rail that is not open.
    pub(super) fn until(&self) -> Option<Instant> {
        match self.state {
            RailState::Open => None,
            RailState::Paused { until } | RailState::Probing { until } => Some(until),
        }
    }

    /// Begins a probe where the time for one has come.
    pub(super) fn begin_probe(&mut self, now: Instant) -> bool {
        let due = self.until().is_some_and(|until| until <= now);
        if due {
            let until = now + self.pause;
            self.enter(now, RailState::Probing { until });
        }
        due
    }

    /// Whether a slice is to go there as a probe; from then on no other one is.
    pub(super) fn take_probe(&mut self, now: Instant) -> bool {
        let waits =
            |health: &Self| matches!(health.state, RailState::Probing { .. }) && !health.given;
        let taken = self.begin_probe(now) || waits(self);
        self.given |= taken;
        taken
    }

    /// Whether [`RailHealth::take_probe`] would.
    pub(super) fn wants_probe(&self, now: Instant) -> bool {
        match self.state {
            RailState::Open => false,
            RailState::Paused { until } => until <= now,
            RailState::Probing { until } => !self.given || until <= now,
        }
    }

    /// Something that began then has failed by the rail's fault. Whether it paused the rail.
    pub(super) fn on_fault(&mut self, now: Instant, began: Instant, pauses: RailPauses) -> bool {
        if self.is_stale(began) || matches!(self.state, RailState::Paused { .. }) {
            return false;
        }
        let good = match self.state {
            RailState::Open => {
                self.since.is_none_or(|since| now.saturating_duration_since(since) >= self.pause)
            }
            _ => false,
        };
        let doubled = if good { Duration::ZERO } else { self.pause.saturating_mul(2) };
        self.pause = doubled.max(pauses.first).min(pauses.longest);
        self.enter(now, RailState::Paused { until: now + self.pause });
        true
    }

    /// Something that began then went well. Whether it opened the rail.
    pub(super) fn on_success(&mut self, now: Instant, began: Instant) -> bool {
        let opens = !self.is_open() && !self.is_stale(began);
        if opens {
            self.enter(now, RailState::Open);
        }
        opens
    }

    fn enter(&mut self, now: Instant, state: RailState) {
        self.state = state;
        self.since = Some(now);
        self.given = false;
    }

    fn is_stale(&self, began: Instant) -> bool {
        self.since.is_some_and(|since| began < since)
    }
}
