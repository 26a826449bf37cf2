//! One lane of a pool: its connection, and what is on it.

use std::time::Instant;

use te_segment::RailIndex;

/// See the picture of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Connecting,
    Open { fresh: bool, load: usize, room: usize },
    Paused { until: Instant },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    pub(super) state: State,
    /// The rail that it belongs to.
    pub(super) home: RailIndex,
    /// Whether it is one more on its rail, of use for many bytes only.
    pub(super) spare: bool,
    /// The rail that its connection is on: another one while its own cannot be used.
    pub(super) rail: RailIndex,
    /// When its last attempt to connect began.
    pub(super) began: Option<Instant>,
    /// Payload of what is on it.
    pub(super) bytes: u64,
    /// The most of that; one slice may be larger.
    pub(super) window: u64,
    /// Whether a connection is wanted though nothing waits, so that it carries a fence.
    pub(super) fence: bool,
    /// Whether it was ever asked to connect.
    pub(super) tried: bool,
    pub(super) failures: u32,
    pub(super) failed_in_round: bool,
    /// Whether a request was on the present connection.
    pub(super) used: bool,
    /// Connections in a row that were lost unused.
    pub(super) unused: u32,
}

impl Lane {
    pub(super) fn new(home: RailIndex) -> Self {
        Self {
            state: State::Empty,
            home,
            spare: false,
            rail: home,
            began: None,
            bytes: 0,
            window: 0,
            fence: false,
            tried: false,
            failures: 0,
            failed_in_round: false,
            used: false,
            unused: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    pub(super) fn is_at_home(&self) -> bool {
        self.rail == self.home
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Open { load: 0, .. })
    }

    /// Whether one more slice of so many bytes fits.
    pub(super) fn fits(&self, len: u64) -> bool {
        let room = matches!(self.state, State::Open { load, room, .. } if load < room);
        room && (self.bytes == 0 || self.bytes.saturating_add(len) <= self.window)
    }
}
