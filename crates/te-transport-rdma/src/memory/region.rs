//! Making and releasing regions.

use std::os::fd::BorrowedFd;

use te_verbs::MemoryRegion;

/// Where the bytes of a buffer are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// In ordinary memory, or in one that the kernel knows by its address.
    Memory,
    /// In a dma-buf, from `offset` on.
    DmaBuf { file: BorrowedFd<'a>, offset: u64 },
}

/// A region on one NIC.
pub(super) type Made = Box<dyn MemoryRegion>;
