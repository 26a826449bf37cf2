//! Address ranges that the engine maps: private memory, memory behind a sealed file of its own, and
//! the sealed file of another process.
//!
//! ```text
//!   base            ptr               ptr + mapped
//!    │ not accessible │ the memory       │ not accessible │
//!    └──────────────── reserved ─────────────────────────┘
//! ```
//!
//! I1  From `ptr` on, `mapped` bytes stay readable until the mapping is dropped, and writable where
//!     `writable` says so. A file behind them can never become shorter: its seals forbid it.
//! I2  The mapping owns all of `reserved`; nobody else maps or unmaps there.
#![allow(unsafe_code, reason = "maps and unmaps engine memory; docs/memory-safety.md")]

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use te_topology::NumaNode;

/// An address range of this process, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    reserved: usize,
    ptr: NonNull<u8>,
    mapped: usize,
    writable: bool,
    file: Option<OwnedFd>,
}

/// What a mapping shows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// Zeroed pages of this process alone.
    Private,
    /// Zeroed pages of a size of their own, from those that the administrator set apart; the
    /// logarithm of that size.
    Huge(u32),
    /// A file, from its start.
    File(BorrowedFd<'a>),
}

impl Mapping {
    /// Maps `len` bytes, rounded up to `align`, at an address that `align`, a power of two of at
    /// least a page, divides.
    pub(crate) fn new(
        len: usize,
        align: usize,
        source: Source<'_>,
        writable: bool,
    ) -> io::Result<Self> {
        let too_long = || io::Error::from(io::ErrorKind::OutOfMemory);
        let mapped = len.checked_next_multiple_of(align).ok_or_else(too_long)?;
        let reserved = if align > page_size() { mapped.checked_add(align) } else { Some(mapped) };
        let reserved = reserved.ok_or_else(too_long)?;
        let mut mapping = Self::reserve(reserved)?;
        // SAFETY: the padding is below `align`, by which the reservation is longer than `mapped`.
        mapping.ptr = unsafe { mapping.base.add(mapping.base.as_ptr().align_offset(align)) };
        mapping.mapped = mapped;
        mapping.fill(source, writable)?;
        Ok(mapping)
    }

    /// Takes addresses that nothing can be read from yet.
    fn reserve(reserved: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a mapping at an address of the kernel's choice touches no existing memory.
        let raw =
            unsafe { libc::mmap(std::ptr::null_mut(), reserved, libc::PROT_NONE, flags, -1, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(raw.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, reserved, ptr: base, mapped: 0, writable: false, file: None })
    }

    fn fill(&mut self, source: Source<'_>, writable: bool) -> io::Result<()> {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let (flags, fd) = match source {
            Source::Private => (private | libc::MAP_NORESERVE, -1),
            // Without MAP_NORESERVE the pages are set apart now, so that no touch can fail.
            Source::Huge(log2) => {
                let size = log2.cast_signed() << libc::MAP_HUGE_SHIFT;
                (private | libc::MAP_HUGETLB | size, -1)
            }
            Source::File(fd) => (libc::MAP_SHARED | libc::MAP_FIXED, fd.as_raw_fd()),
        };
        let write = if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: `ptr` and `mapped` lie inside the range that `reserve` took for this value, which
        // nobody has used yet, so nothing is replaced but that reservation.
        let raw =
            unsafe { libc::mmap(self.start(), self.mapped, libc::PROT_READ | write, flags, fd, 0) };
        if raw == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        self.writable = writable;
        Ok(())
    }

    /// First byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Whether the bytes may be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The file that others may map, where there is one.
    pub(crate) fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// Keeps the file that this mapping shows, for others to map.
    pub(crate) fn keep_file(&mut self, file: OwnedFd) {
        self.file = Some(file);
    }

    /// Asks for huge pages, from the next touch of each on.
    pub(crate) fn advise_huge(&self) -> io::Result<()> {
        self.advise(libc::MADV_HUGEPAGE)
    }

    /// Moves what is there into huge pages, now.
    pub(crate) fn collapse(&self) -> io::Result<()> {
        self.advise(libc::MADV_COLLAPSE)
    }

    /// Shows forked children zeros in place of these bytes.
    pub(super) fn wipe_on_fork(&self) -> io::Result<()> {
        self.advise(libc::MADV_WIPEONFORK)
    }

    /// Sets the first byte of a writable mapping.
    pub(super) fn set_first(&self, byte: u8) {
        assert!(self.writable && self.mapped > 0, "there is no byte to write");
        // SAFETY: the byte is mapped and writable (I1), and nobody has a reference to it.
        unsafe { self.ptr.write_volatile(byte) };
    }

    /// The first byte.
    pub(super) fn first(&self) -> u8 {
        assert!(self.mapped > 0, "there is no byte to read");
        // SAFETY: the byte is mapped (I1), and nobody has a reference to it.
        unsafe { self.ptr.read_volatile() }
    }

    /// Gives every page its memory.
    pub(crate) fn populate(&self) -> io::Result<()> {
        match self.advise(libc::MADV_POPULATE_WRITE) {
            // Kernels before 5.14 do not know the advice.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                self.touch();
                Ok(())
            }
            other => other,
        }
    }

    fn touch(&self) {
        for offset in (0..self.mapped).step_by(page_size()) {
            // SAFETY: the offset is below `mapped`.
            let byte = unsafe { self.ptr.add(offset) };
            // SAFETY: the byte is mapped and writable (I1), and the memory was not handed out yet.
            unsafe { byte.write_volatile(0) };
        }
    }

    fn advise(&self, advice: c_int) -> io::Result<()> {
        // SAFETY: these advices change which pages lie behind the range, never its bytes in this
        // process.
        answer(unsafe { libc::madvise(self.start(), self.mapped, advice) })
    }

    /// Prefers a node for pages that are not there yet.
    pub(crate) fn prefer_node(&self, node: NumaNode) -> io::Result<()> {
        let mut mask = [0u64; MAX_NODES / 64];
        let number = usize::try_from(node.number()).unwrap_or(usize::MAX);
        let word = mask.get_mut(number / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word = 1 << (number % 64);
        // SAFETY: mbind reads MAX_NODES bits of `mask`; its count includes one bit more than it
        // reads. It changes where future pages come from, and no byte.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start(),
                self.mapped,
                libc::MPOL_PREFERRED,
                mask.as_ptr(),
                MAX_NODES + 1,
                0,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn start(&self) -> *mut libc::c_void {
        self.ptr.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole reservation is this value's (I2), and whoever used it held this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.reserved) };
    }
}

// SAFETY: the mapping belongs to this value alone and is reached through `Region`'s copies only;
// moving the owner to another thread moves nothing.
unsafe impl Send for Mapping {}
// SAFETY: shared access offers no reference to the bytes, only copies that tolerate concurrent
// change (see `Region::read_into`).
unsafe impl Sync for Mapping {}

fn answer(status: c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of a page, a power of two.
pub(crate) fn page_size() -> usize {
    // SAFETY: asks for a number that the system fixes at boot.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

/// The kernel's own limit on the numbers of NUMA nodes.
const MAX_NODES: usize = 1024;
