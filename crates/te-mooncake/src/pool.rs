//! Memory to be registered, as the peer's binding hands it out (A140).
#![allow(unsafe_code, reason = "the peer's names lend the bytes as a slice; docs/memory-safety.md")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

/// Zeroed memory on page boundaries.
pub struct MemoryPool {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pool owns its bytes; which thread frees them makes no difference.
unsafe impl Send for MemoryPool {}
// SAFETY: behind a shared reference the bytes are only read, or written by whoever promised, in an
// unsafe call, that nobody refers to them meanwhile.
unsafe impl Sync for MemoryPool {}

impl MemoryPool {
    /// `size` bytes that begin on a page of 4096.
    ///
    /// # Panics
    /// For no bytes.
    pub fn new(size: usize) -> Self {
        Self::with_align(size, 4096)
    }

    /// `size` bytes that begin where `align` divides the address.
    ///
    /// # Panics
    /// For no bytes, or an alignment that is no power of two.
    pub fn with_align(size: usize, align: usize) -> Self {
        assert!(size > 0, "a memory pool has at least one byte");
        let layout = Layout::from_size_align(size, align);
        let layout = layout.unwrap_or_else(|_| panic!("no layout of {size} bytes at {align}"));
        // SAFETY: the layout is not of zero size, as was checked.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout }
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The first byte.
    pub fn as_void_ptr(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.layout.size()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The byte at an offset.
    ///
    /// # Panics
    /// Where the offset is not inside.
    pub fn offset(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len(), "offset {offset} is not inside {} bytes", self.len());
        // SAFETY: the offset is inside the allocation, as was checked.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The bytes. No transfer may write them while the slice lives: whoever submits one promises that.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the allocation has this many bytes, all of which were set, and lives as long as the
        // pool; that nothing writes them meanwhile is promised by the unsafe call that could.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len()) }
    }

    /// The bytes, to be changed. No transfer may touch them while the slice lives.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and the pool is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl fmt::Debug for MemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryPool({:p}+{})", self.start, self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn j77_a_pool_is_zeroed_and_on_pages() {
        // J77, A140.
        let mut pool = MemoryPool::new(8192);
        assert_eq!((pool.len(), pool.as_ptr().addr() % 4096, pool.is_empty()), (8192, 0, false));
        assert!(pool.as_slice().iter().all(|byte| *byte == 0));
        pool.as_mut_slice()[4096] = 7;
        assert_eq!(pool.as_slice()[pool.offset(4096).addr() - pool.as_ptr().addr()], 7);
        assert_eq!(MemoryPool::with_align(1, 1 << 16).as_void_ptr().addr() % (1 << 16), 0);
    }

    #[test]
    fn j77_what_is_outside_panics() {
        // J77, A140: an offset behind the end, no bytes, an alignment that is none.
        assert!(catch_unwind(|| MemoryPool::new(64).offset(64)).is_err());
        assert!(catch_unwind(|| MemoryPool::new(0)).is_err());
        assert!(catch_unwind(|| MemoryPool::with_align(64, 3)).is_err());
    }
}
