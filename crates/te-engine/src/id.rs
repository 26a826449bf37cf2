//! Handles of batches: a slot and its generation, checked on every use.

use std::fmt;

/// A batch. Never a pointer: a stale handle is an error, not a crash (K13).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchId {
    slot: u32,
    generation: u32,
}

impl BatchId {
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// Takes a number that came out of [`BatchId::as_u64`], for layers that speak integers.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are taken apart")]
    pub const fn from_u64(number: u64) -> Self {
        Self { slot: number as u32, generation: (number >> 32) as u32 }
    }

    /// Both halves in one number; never 0 and never `u64::MAX`.
    pub const fn as_u64(self) -> u64 {
        ((self.generation as u64) << 32) | self.slot as u64
    }

    pub(crate) const fn slot(self) -> u32 {
        self.slot
    }

    pub(crate) const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch#{}.{}", self.slot, self.generation)
    }
}
