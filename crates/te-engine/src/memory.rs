//! Memory that the engine allocates for its callers.

use te_segment::{AlignedBuffer, Allocation, AllocationError, Region, RegionError};

use crate::engine::TransferEngine;

/// Below this memory is not worth a file descriptor: what is gained by mapping it is little.
const SHAREABLE_FROM: usize = 64 << 10;

impl TransferEngine {
    /// Allocates zeroed memory that may be registered without `unsafe`. From 64 KiB on it is
    /// shareable, so that peers on this host copy straight into it, where the system has a file
    /// descriptor left for it. [`Self::allocate_as`] has the other kinds.
    ///
    /// # Errors
    /// [`RegionError`] for length 0, above 1 TiB, or without memory.
    pub fn allocate(&self, len: u64) -> Result<Region, RegionError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len >= SHAREABLE_FROM
            && let Ok(region) = self.allocate_as(Allocation::new(len).shareable())
        {
            return Ok(region);
        }
        AlignedBuffer::zeroed(len).map(Region::from)
    }

    /// Allocates zeroed memory of a kind: on a NUMA node, on huge pages, shareable or not.
    ///
    /// # Errors
    /// [`AllocationError`].
    pub fn allocate_as(&self, what: Allocation) -> Result<Region, AllocationError> {
        what.allocate().map(Region::from)
    }
}
