//! Caller-owned memory that goes away while it is registered, for tests.

use super::{AlignedBuffer, Owner, Region};
use crate::error::RegionError;

/// Memory behind a caller-owned [`Region`] that becomes unreadable and unwritable when told, as if
/// the caller had unmapped it. Its addresses stay reserved, so nothing else can appear there.
#[derive(Debug)]
pub struct VanishingMemory {
    buffer: AlignedBuffer,
    region: Region,
}

impl VanishingMemory {
    /// Takes the memory.
    ///
    /// # Errors
    /// As [`Region::from_raw_parts`].
    pub fn new(buffer: AlignedBuffer) -> Result<Self, RegionError> {
        // SAFETY: nobody but this value knows the buffer, and it makes no reference to its bytes.
        // That a clone of the region outlives the buffer is what a caller may do: copies then fail.
        let region = unsafe { Region::from_raw_parts(buffer.ptr.as_ptr(), buffer.len) }?;
        debug_assert!(matches!(region.inner.owner, Owner::Caller), "copies must tolerate EFAULT");
        Ok(Self { buffer, region })
    }

    /// The memory as a region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// From now on every access fails.
    pub fn vanish(&self) {
        let (start, len) = (self.buffer.ptr.as_ptr().cast(), self.buffer.len);
        // SAFETY: takes the rights off pages of this value's own mapping, to which no reference
        // exists; whoever copies goes through system calls that answer EFAULT.
        let failed = unsafe { libc::mprotect(start, len, libc::PROT_NONE) } != 0;
        assert!(!failed, "the pages of a mapping can always be closed");
    }
}
