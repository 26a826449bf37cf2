//! One contiguous piece of a request, on its way through a transport.

use std::fmt;
use std::sync::Arc;

use crate::range::{LocalRange, RemoteRange};
use crate::remote::RemoteSegment;

/// Direction of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Remote memory to local memory.
    Read,
    /// Local memory to remote memory.
    Write,
}

/// Names a slice between the engine and a transport: a slot and its generation, so that a late
/// completion of an earlier slice in the same slot is recognised.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SliceToken {
    slot: u32,
    generation: u32,
}

impl SliceToken {
    /// A token; the engine makes them, transports only give them back.
    pub const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The slot.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// The generation of the slot.
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Both in one word, the slot in the low half; fits a verbs `wr_id`.
    pub const fn as_u64(self) -> u64 {
        ((self.generation as u64) << 32) | self.slot as u64
    }

    /// The token whose [`SliceToken::as_u64`] is `word`.
    pub const fn from_u64(word: u64) -> Self {
        let [s0, s1, s2, s3, g0, g1, g2, g3] = word.to_le_bytes();
        Self {
            slot: u32::from_le_bytes([s0, s1, s2, s3]),
            generation: u32::from_le_bytes([g0, g1, g2, g3]),
        }
    }
}

impl fmt::Debug for SliceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice#{}.{}", self.slot, self.generation)
    }
}

/// What a transport moves: one local range, one remote range of the same length, one peer.
#[derive(Debug, Clone)]
pub struct Slice {
    /// Given back in the completion.
    pub token: SliceToken,
    /// Direction.
    pub op: Opcode,
    /// Bytes of this process. Keeps the region alive.
    pub local: LocalRange,
    /// Bytes of the peer; as long as `local`.
    pub remote: RemoteRange,
    /// The peer as known when the slice was cut.
    pub peer: Arc<RemoteSegment>,
    /// How often this piece was tried before, from 0.
    pub attempt: u16,
    /// Whether the bytes are summed at the source and compared at the destination before the slice
    /// counts as done.
    pub checked: bool,
}

impl Slice {
    /// Bytes to move.
    pub fn len(&self) -> u64 {
        self.remote.len()
    }

    /// Whether there is nothing to move.
    pub fn is_empty(&self) -> bool {
        self.remote.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_trip_through_a_word() {
        for (slot, generation) in [(0, 0), (7, 1), (u32::MAX, 0), (0, u32::MAX), (1, u32::MAX)] {
            let token = SliceToken::new(slot, generation);
            assert_eq!(SliceToken::from_u64(token.as_u64()), token);
        }
        assert_eq!(SliceToken::new(7, 1).as_u64(), 0x1_0000_0007);
    }
}
