//! Memory that goes away while it is registered, for tests.

use std::sync::Arc;

use super::{AlignedBuffer, Inner, Mapping, Owner, Region};

/// Memory that becomes unreadable and unwritable when told, as if the caller who owns it had
/// unmapped it. Its addresses stay reserved while a region names them, so nothing else can appear
/// there.
#[derive(Debug)]
pub struct VanishingMemory {
    mapping: Arc<Mapping>,
    len: usize,
    region: Region,
}

impl VanishingMemory {
    /// Takes the memory.
    pub fn new(buffer: AlignedBuffer) -> Self {
        let (mapping, len) = buffer.into_parts();
        let (ptr, mapping) = (mapping.ptr(), Arc::new(mapping));
        let owner = Owner::Vanishing { _mapping: Arc::clone(&mapping) };
        Self { mapping, len, region: Region { inner: Arc::new(Inner { ptr, len, owner }) } }
    }

    /// The memory as a region, used as memory of a caller is.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// From now on every access fails.
    pub fn vanish(&self) {
        let (start, len) = (self.mapping.ptr().as_ptr().cast(), self.len);
        // SAFETY: takes the rights off pages of this value's own mapping, to which no reference
        // exists; whoever copies goes through system calls that answer EFAULT.
        let failed = unsafe { libc::mprotect(start, len, libc::PROT_NONE) } != 0;
        assert!(!failed, "the pages of a mapping can always be closed");
    }
}
