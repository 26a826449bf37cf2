//! One record that is to stand in the store.

use std::sync::Arc;
use std::time::Instant;

use crate::{Record, Revision};

/// A record and how it stands.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: String,
    pub(super) value: Arc<[u8]>,
    pub(super) stand: Stand,
    /// When to look again.
    pub(super) look_at: Instant,
    /// Whether a record of ours may stand there.
    pub(super) may_be_ours: bool,
    pub(super) was_held: bool,
    /// Whether it was told that the key is another's.
    pub(super) is_told: bool,
}

/// How a record stands.
#[derive(Debug)]
pub(super) enum Stand {
    /// It is to be put, over that version if another's stands.
    Wanted { over: Option<Revision> },
    /// It stands, in this version.
    Held(Revision),
    /// The record of another stands there, who may be dead.
    Contested(Record),
    /// The other is alive.
    Lost,
}

impl Slot {
    pub(super) fn new(now: Instant, key: String) -> Self {
        Self {
            key,
            value: Arc::default(),
            stand: Stand::Wanted { over: None },
            look_at: now,
            may_be_ours: false,
            was_held: false,
            is_told: false,
        }
    }

    /// When to look whether it still stands, or still is another's.
    pub(super) fn next_look(&self) -> Option<Instant> {
        matches!(self.stand, Stand::Held(_) | Stand::Lost).then_some(self.look_at)
    }
}
