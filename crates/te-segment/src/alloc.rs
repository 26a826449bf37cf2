//! Memory that the engine allocates: where it lies, on which pages, and whether another process may
//! map it.

use std::fmt;
use std::io;
use std::os::fd::AsFd;

use te_topology::NumaNode;

use crate::error::RegionError;
use crate::memory::{Mapping, Source, check_len, page_size, sealed_file};

/// On which pages memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// What the system gives, usually 4 KiB.
    #[default]
    Usual,
    /// Huge pages wherever the kernel has them at hand, else small ones: fewer pages to pin and to
    /// translate, for which `process_vm_*` is nearly three times as fast at 1 MiB and TCP up to 1.7
    /// times. Private memory takes them as it is touched. Shareable memory takes them only together
    /// with [`Allocation::populated`], because most systems switch them off for files in memory;
    /// collecting them then costs about as much again as filling the memory.
    Transparent,
    /// Pages of 2 MiB from those that the administrator set apart, or an error. They are filled at
    /// once, and cannot be shareable.
    Huge2M,
    /// The same with pages of 1 GiB.
    Huge1G,
}

impl Pages {
    /// The logarithm of the size of pages that were set apart.
    fn reserved_log2(self) -> Option<u32> {
        match self {
            Self::Usual | Self::Transparent => None,
            Self::Huge2M => Some(21),
            Self::Huge1G => Some(30),
        }
    }
}

/// Why memory was not allocated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// Length 0, or above [`crate::Region::MAX_LEN`].
    #[error(transparent)]
    Length(RegionError),
    /// The system has no memory, or no address range, for this.
    #[error("no memory for a buffer of {len} bytes")]
    NoMemory {
        /// Bytes.
        len: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// Too few pages of that size are set apart (`/proc/sys/vm/nr_hugepages` for 2 MiB).
    #[error("too few huge pages of {page} bytes are set apart for a buffer of {len} bytes")]
    NoHugePages {
        /// Bytes of the buffer.
        len: u64,
        /// Bytes of a page.
        page: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// Pages that were set apart cannot be shared: whoever maps them could be ended by a touch when
    /// the owner gives them back. Ask for [`Pages::Transparent`].
    #[error("huge pages that were set apart cannot be shareable")]
    HugeShareable,
    /// The node is not there, or the process may not choose one (a container without that right).
    #[error("memory cannot be placed on NUMA node {node}")]
    Node {
        /// The node asked for.
        node: NumaNode,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// The file behind shareable memory could not be made; each takes one file descriptor.
    #[error("no file in memory for a shareable buffer of {len} bytes")]
    File {
        /// Bytes.
        len: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}

/// What memory to allocate. All of it is zero and page-aligned.
///
/// ```
/// use te_segment::{Allocation, Pages, Region};
///
/// let buffer = Allocation::new(4 << 20).pages(Pages::Transparent).shareable().allocate()?;
/// let region = Region::from(buffer);
/// assert!(region.shared().is_some());
/// # Ok::<(), te_segment::AllocationError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Allocation {
    len: usize,
    node: Option<NumaNode>,
    pages: Pages,
    populated: bool,
    shareable: bool,
}

impl Allocation {
    /// `len` bytes, 1 to 1 TiB: private, on usual pages, taken from the system as they are touched.
    pub fn new(len: usize) -> Self {
        Self { len, node: None, pages: Pages::Usual, populated: false, shareable: false }
    }

    /// Prefers a NUMA node. Where it is full, pages come from others; where there is no such node,
    /// or placing is not permitted, allocating fails and says so.
    pub fn on_node(mut self, node: NumaNode) -> Self {
        self.node = Some(node);
        self
    }

    /// On which pages.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Takes all pages now: no transfer waits for them, and a lack of memory is an error here.
    pub fn populated(mut self) -> Self {
        self.populated = true;
        self
    }

    /// Puts the memory into a sealed file, so that a peer on this host can map it and copy straight
    /// into it. Takes a file descriptor for as long as it lives; one large buffer cut by
    /// [`crate::Region::subregion`] takes one. A peer that got the file reaches the whole buffer,
    /// registered or not, until it lets go of that; the memory is free when both sides have. A
    /// process that is forked shares it with its parent.
    pub fn shareable(mut self) -> Self {
        self.shareable = true;
        self
    }

    /// Allocates it.
    ///
    /// # Errors
    /// [`AllocationError`]; nothing is kept then.
    pub fn allocate(self) -> Result<AlignedBuffer, AllocationError> {
        check_len(0, self.len as u64).map_err(AllocationError::Length)?;
        let mapping = self.map()?;
        if self.pages == Pages::Transparent {
            // Advice: a kernel without huge pages refuses it and gives small ones.
            let _ = mapping.advise_huge();
        }
        if let Some(node) = self.node {
            mapping.prefer_node(node).map_err(|cause| AllocationError::Node { node, cause })?;
        }
        if self.populated || self.pages.reserved_log2().is_some() {
            mapping.populate().map_err(|cause| self.no_memory(cause))?;
        }
        if self.populated && self.shareable && self.pages == Pages::Transparent {
            // The same: what cannot be collected into huge pages stays on small ones.
            let _ = mapping.collapse();
        }
        Ok(AlignedBuffer { mapping, len: self.len })
    }

    fn map(&self) -> Result<Mapping, AllocationError> {
        if let Some(log2) = self.pages.reserved_log2() {
            if self.shareable {
                return Err(AllocationError::HugeShareable);
            }
            let mapped = Mapping::new(self.len, 1 << log2, Source::Huge(log2), true);
            return mapped.map_err(|cause| self.no_memory(cause));
        }
        if !self.shareable {
            let mapped = Mapping::new(self.len, self.align(), Source::Private, true);
            return mapped.map_err(|cause| self.no_memory(cause));
        }
        let failed = |cause| AllocationError::File { len: self.len as u64, cause };
        let align = self.align();
        let file = sealed_file(self.len.next_multiple_of(align) as u64).map_err(failed)?;
        let mapped = Mapping::new(self.len, align, Source::File(file.as_fd()), true);
        let mut mapping = mapped.map_err(|cause| self.no_memory(cause))?;
        mapping.keep_file(file);
        Ok(mapping)
    }

    /// A huge page needs an address that its size divides, and all of its bytes. Buffers below one
    /// are not blown up to it.
    fn align(&self) -> usize {
        let huge = self.pages == Pages::Transparent && self.len >= HUGE_PAGE;
        if huge { HUGE_PAGE } else { page_size() }
    }

    fn no_memory(&self, cause: io::Error) -> AllocationError {
        let len = self.len as u64;
        match self.pages.reserved_log2() {
            Some(log2) => AllocationError::NoHugePages { len, page: 1 << log2, cause },
            None => AllocationError::NoMemory { len, cause },
        }
    }
}

/// Zeroed, page-aligned memory that the engine allocates and owns. Becomes a [`crate::Region`] without
/// `unsafe`.
pub struct AlignedBuffer {
    mapping: Mapping,
    len: usize,
}

impl AlignedBuffer {
    /// Allocates `len` bytes, all zero: private, taken from the system as they are touched.
    /// [`Allocation`] has the other kinds.
    ///
    /// # Errors
    /// [`RegionError::Empty`], [`RegionError::TooLong`], [`RegionError::NoMemory`].
    pub fn zeroed(len: usize) -> Result<Self, RegionError> {
        check_len(0, len as u64)?;
        let mapped = Mapping::new(len, page_size(), Source::Private, true);
        let mapping = mapped.map_err(|cause| RegionError::NoMemory { len: len as u64, cause })?;
        Ok(Self { mapping, len })
    }

    /// Bytes.
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// First byte.
    #[cfg(test)]
    pub(crate) fn start(&self) -> *mut u8 {
        self.mapping.ptr().as_ptr()
    }

    /// Its mapping, and how many bytes of it were asked for.
    pub(crate) fn into_parts(self) -> (Mapping, usize) {
        (self.mapping, self.len)
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({:p}+{})", self.mapping.ptr(), self.len)
    }
}

/// Bytes of a huge page that the kernel puts together by itself, on x86-64 and most others. Where
/// they are larger, the advice is followed less often and nothing else changes.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

#[cfg(test)]
mod tests;
