//! Handles: a segment number and a buffer slot with its generation. Never pointers.

use std::fmt;

use te_metadata::BufferHandle;

/// A segment as this engine numbers it: 0 is the local segment, remote ones count up from 1 in the
/// order of their first opening (te-classic B40).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentId(u64);

impl SegmentId {
    /// The segment of this engine itself.
    pub const LOCAL: Self = Self(0);

    /// Takes a number that came out of [`SegmentId::as_u64`], for layers that speak integers.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment#{}", self.0)
    }
}

/// A registered buffer: its slot in the local segment and the generation of that slot, so that a
/// handle of a buffer that was unregistered never names its successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId {
    slot: u32,
    generation: u32,
}

impl BufferId {
    pub(crate) const fn new(slot: u32, generation: u32) -> Self {
        Self { slot, generation }
    }

    /// The slot in the local segment.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// How many buffers used this slot before, counted from 1.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl From<BufferId> for BufferHandle {
    fn from(id: BufferId) -> Self {
        Self { generation: id.generation, slot: id.slot }
    }
}

impl fmt::Debug for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer#{}.{}", self.slot, self.generation)
    }
}
