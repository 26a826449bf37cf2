//! The one door between a caller's memory and the engine.
//!
//! Nothing here forms a `&[u8]` over registered memory: a peer may write it at any time. Copies go
//! through raw pointers for memory the engine allocated, and through `process_vm_*` on our own
//! process for memory a caller owns, because that may be unmapped under us and a system call then
//! answers `EFAULT` where a plain load would end the process.
//!
//! I1  A region is not null, not empty, does not wrap, and was mapped when it was made.
//! I2  Engine-allocated memory, and that which a peer lent, lives until the last clone of its region
//!     is dropped.
#![allow(unsafe_code, reason = "the door between raw memory and the engine; docs/memory-safety.md")]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) use self::mapping::{Mapping, Source, page_size};
pub use self::mark::ForkMark;
pub(crate) use self::shared::sealed_file;
pub use self::shared::{MapError, SharedMemory};
use crate::alloc::AlignedBuffer;
use crate::copy::{Caching, stream};
use crate::error::{CopyError, RangeError, RegionError};
use crate::range::{LocalRange, check};

mod mapping;
mod mark;
mod shared;

#[derive(Clone)]
enum Owner {
    Engine {
        mapping: Arc<Mapping>,
    },
    Caller,
    /// Treated as memory of a caller; the mapping stays so that its addresses stay taken.
    #[cfg(any(test, feature = "testing"))]
    Vanishing {
        _mapping: Arc<Mapping>,
    },
}

impl Owner {
    /// Whether the memory is readable for as long as the region lives.
    fn is_engine(&self) -> bool {
        matches!(self, Self::Engine { .. })
    }

    /// Whether it is writable as well. What a peer lent to be read is not.
    fn is_writable(&self) -> bool {
        matches!(self, Self::Engine { mapping } if mapping.is_writable())
    }
}

struct Inner {
    ptr: NonNull<u8>,
    len: usize,
    owner: Owner,
}

// SAFETY: the pointer is only handed to system calls and raw copies; which thread does that makes
// no difference, and no reference to the memory exists.
unsafe impl Send for Inner {}
// SAFETY: as above; concurrent writers change bytes, never the pointer or the length.
unsafe impl Sync for Inner {}

/// Memory that may be registered and used in requests. A cheap handle: clones name the same bytes.
#[derive(Clone)]
pub struct Region {
    inner: Arc<Inner>,
}

impl Region {
    /// The longest region, bytes: 1 TiB.
    pub const MAX_LEN: u64 = 1 << 40;

    /// Names memory that the caller owns.
    ///
    /// # Errors
    /// [`RegionError`] for a null, empty, wrapping, too long, unmapped or unreadable range.
    ///
    /// # Safety
    /// From now until the last clone and part of the region is dropped, and every transfer that uses it has
    /// reached a final state, no Rust reference to these bytes may exist while a transfer may run
    /// on them. The caller may unmap them: transfers then fail. It must not let other memory, for
    /// which this promise was not given, appear at the same addresses before it unregistered.
    pub unsafe fn from_raw_parts(ptr: *mut u8, len: usize) -> Result<Self, RegionError> {
        let ptr = NonNull::new(ptr).ok_or(RegionError::Null)?;
        let address = ptr.as_ptr().addr() as u64;
        check_len(address, len as u64)?;
        check_mapped(address, len)?;
        Ok(Self { inner: Arc::new(Inner { ptr, len, owner: Owner::Caller }) })
    }

    /// First address in this process.
    pub fn address(&self) -> u64 {
        self.inner.ptr.as_ptr().addr() as u64
    }

    /// Bytes.
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty (I1)")]
    pub fn len(&self) -> u64 {
        self.inner.len as u64
    }

    /// A part of the region.
    ///
    /// # Errors
    /// [`RangeError`] where the part is not inside the region.
    pub fn range(&self, offset: u64, len: u64) -> Result<LocalRange, RangeError> {
        LocalRange::new(self, offset, len)
    }

    /// The whole region as a range.
    pub fn whole(&self) -> LocalRange {
        LocalRange::new(self, 0, self.len()).expect("a region contains itself")
    }

    /// A part of the region as a region of its own, to be registered apart from the rest. It keeps
    /// engine memory alive just as the whole does.
    ///
    /// # Errors
    /// [`RegionError::Empty`] for no bytes, [`RegionError::Outside`] for a part that is not inside.
    pub fn subregion(&self, offset: u64, len: u64) -> Result<Self, RegionError> {
        check(offset, len, self.len())?;
        if len == 0 {
            return Err(RegionError::Empty { address: self.address() + offset });
        }
        let Span { ptr, len } = self.span(offset, len);
        Ok(Self { inner: Arc::new(Inner { ptr, len, owner: self.inner.owner.clone() }) })
    }

    /// Whether the engine allocated it, or mapped it of a peer: then it cannot vanish, and is copied
    /// without a system call.
    pub fn is_engine_memory(&self) -> bool {
        self.inner.owner.is_engine()
    }

    /// Whether two handles name the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.inner.ptr == other.inner.ptr && self.inner.len == other.inner.len
    }

    /// Copies bytes out of the region. Bytes that a transfer writes meanwhile come as they are at
    /// that moment.
    ///
    /// # Errors
    /// [`CopyError`] outside the region, or where the memory is gone.
    pub fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), CopyError> {
        let span = self.checked_span(offset, out.len())?;
        if !self.inner.owner.is_engine() {
            return foreign_copy(Direction::Out, span, out.as_mut_ptr());
        }
        // SAFETY: `span` lies inside the engine's own mapping, which lives as long as `self`; `out`
        // is a distinct Rust slice of the same length.
        unsafe { std::ptr::copy_nonoverlapping(span.ptr(), out.as_mut_ptr(), span.len()) };
        Ok(())
    }

    /// Has the processor fetch a part into its cache; what is not inside is left out. Costs nothing
    /// where the memory is gone.
    pub fn prefetch(&self, offset: u64, len: u64) {
        let len = len.min(self.len().saturating_sub(offset));
        if len > 0 {
            prefetch(self.span(offset, len));
        }
    }

    /// Copies bytes into the region.
    ///
    /// # Errors
    /// [`CopyError`] outside the region, or where the memory is gone or read-only.
    pub fn write_from(&self, offset: u64, bytes: &[u8]) -> Result<(), CopyError> {
        let span = self.checked_span(offset, bytes.len())?;
        if !self.inner.owner.is_writable() {
            return foreign_copy(Direction::In, span, bytes.as_ptr().cast_mut());
        }
        // SAFETY: as in `read_into`, the other way round, and the memory is writable.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), span.ptr(), span.len()) };
        Ok(())
    }

    fn checked_span(&self, offset: u64, len: usize) -> Result<Span, RangeError> {
        check(offset, len as u64, self.len())?;
        Ok(self.span(offset, len as u64))
    }

    /// Pointer and length of a part that was checked before.
    pub(crate) fn span(&self, offset: u64, len: u64) -> Span {
        debug_assert!(check(offset, len, self.len()).is_ok(), "callers check the range");
        let offset = usize::try_from(offset).expect("a checked offset fits the address space");
        let len = usize::try_from(len).expect("a checked length fits the address space");
        // SAFETY: the offset was checked against the region's length, so it stays inside it or one
        // past its end.
        Span { ptr: unsafe { self.inner.ptr.add(offset) }, len }
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(span: Span) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for at in (0..span.len()).step_by(64) {
        let line = span.ptr().wrapping_add(at).cast_const().cast::<i8>();
        // SAFETY: a hint reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_span: Span) {}

impl From<AlignedBuffer> for Region {
    fn from(buffer: AlignedBuffer) -> Self {
        let (mapping, len) = buffer.into_parts();
        let ptr = mapping.ptr();
        let owner = Owner::Engine { mapping: Arc::new(mapping) };
        Self { inner: Arc::new(Inner { ptr, len, owner }) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = if self.inner.owner.is_engine() { "engine" } else { "caller" };
        write!(f, "Region({:#x}+{}, {owner})", self.address(), self.len())
    }
}

/// Pointer and length for system calls. Whoever uses the pointer keeps the region it came from
/// alive, and never makes a reference of it.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a span is an address; using it is the unsafe act, not moving it.
unsafe impl Send for Span {}

impl Span {
    /// First byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it names no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the two share a byte.
    fn overlaps(&self, other: Self) -> bool {
        let (ours, theirs) = (self.ptr().addr(), other.ptr().addr());
        ours < theirs.wrapping_add(other.len) && theirs < ours.wrapping_add(self.len)
    }

    /// What is left behind the first `n` bytes; empty when `n` is the length or more.
    #[must_use]
    pub fn after(&self, n: usize) -> Self {
        let n = n.min(self.len);
        // SAFETY: `n` is at most the length, so the pointer stays inside or one past the end.
        Self { ptr: unsafe { self.ptr.add(n) }, len: self.len - n }
    }

    /// The first `n` bytes, or all when there are fewer.
    #[must_use]
    pub fn first(&self, n: usize) -> Self {
        Self { ptr: self.ptr, len: self.len.min(n) }
    }
}

pub(crate) fn check_len(address: u64, len: u64) -> Result<(), RegionError> {
    if len == 0 {
        return Err(RegionError::Empty { address });
    }
    if address.checked_add(len).is_none() {
        return Err(RegionError::Wraps { address, len });
    }
    if len > Region::MAX_LEN {
        return Err(RegionError::TooLong { address, len, max: Region::MAX_LEN });
    }
    Ok(())
}

/// Asks the kernel whether every page of the range is mapped and its ends can be read.
fn check_mapped(address: u64, len: usize) -> Result<(), RegionError> {
    let unmapped = |cause| RegionError::Unmapped { address, len: len as u64, cause };
    let start = address & !(page_size() as u64 - 1);
    let whole = usize::try_from(address - start).expect("below a page") + len;
    let first = std::ptr::without_provenance_mut::<libc::c_void>(
        usize::try_from(start).expect("an address fits"),
    );
    // SAFETY: MS_ASYNC does nothing but walk the mappings of the range; it reads and writes no
    // byte, and answers ENOMEM where something is not mapped.
    if unsafe { libc::msync(first, whole, libc::MS_ASYNC) } != 0 {
        return Err(unmapped(io::Error::last_os_error()));
    }
    let mut byte = 0u8;
    for at in [address, address + len as u64 - 1] {
        let at = std::ptr::without_provenance_mut(usize::try_from(at).expect("an address fits"));
        let ptr = NonNull::new(at).ok_or(RegionError::Null)?;
        match foreign_copy(Direction::Out, Span { ptr, len: 1 }, &raw mut byte) {
            Ok(()) => {}
            Err(CopyError::Fault { cause, .. }) => return Err(unmapped(cause)),
            Err(CopyError::Range(_)) => unreachable!("foreign_copy checks no range"),
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Direction {
    In,
    Out,
}

fn fault(at: Span, cause: io::Error) -> CopyError {
    CopyError::Fault { address: at.ptr().addr() as u64, cause }
}

/// Copies between two ranges of the same length, which may overlap.
pub(crate) fn copy_between(
    from: &LocalRange,
    to: &LocalRange,
    caching: Caching,
) -> Result<(), CopyError> {
    let (offset, len, within) = (0, to.len(), from.len());
    if len != within {
        return Err(RangeError { offset, len, within }.into());
    }
    let (source, target) = (from.span(), to.span());
    let plain = from.region().inner.owner.is_engine() && to.region().inner.owner.is_writable();
    match plain {
        false => kernel_copy(source, target, to.region().inner.owner.is_writable()),
        true => {
            plain_copy(source, target, caching);
            Ok(())
        }
    }
}

/// Copies between ranges of engine memory, alive and writable for the call.
fn plain_copy(from: Span, to: Span, caching: Caching) {
    let (source, target, len) = (from.ptr().cast_const(), to.ptr(), from.len());
    if from.overlaps(to) {
        // SAFETY: both lie inside mappings that the callers' regions keep, and may overlap.
        unsafe { std::ptr::copy(source, target, len) };
    } else if caching == Caching::Bypass {
        // SAFETY: the same, and they do not overlap.
        unsafe { stream::copy(source, target, len) };
    } else {
        // SAFETY: the same.
        unsafe { std::ptr::copy_nonoverlapping(source, target, len) };
    }
}

/// Copies where a caller may have unmapped either side; `writable` says that `to` cannot be gone.
fn kernel_copy(from: Span, to: Span, writable: bool) -> Result<(), CopyError> {
    if from.overlaps(to) {
        return overlapping_copy(from, to);
    }
    if writable {
        // The fault, if any, is that of the source.
        return foreign_copy(Direction::Out, from, to.ptr());
    }
    foreign_copy(Direction::In, to, from.ptr())
}

/// The kernel copies forwards and by pages, so overlapping ranges go through a buffer in between,
/// piece by piece from the end that is not overwritten first.
fn overlapping_copy(from: Span, to: Span) -> Result<(), CopyError> {
    let mut bounce = [0u8; BOUNCE];
    let backwards = to.ptr() > from.ptr();
    let pieces = from.len().div_ceil(BOUNCE);
    for n in 0..pieces {
        let at = BOUNCE * if backwards { pieces - 1 - n } else { n };
        let (source, target) = (from.after(at).first(BOUNCE), to.after(at).first(BOUNCE));
        foreign_copy(Direction::Out, source, bounce.as_mut_ptr())?;
        foreign_copy(Direction::In, target, bounce.as_mut_ptr())?;
    }
    Ok(())
}

/// Bytes of a piece that is copied through a buffer on the stack.
const BOUNCE: usize = 16 << 10;

/// Copies between `span`, which may be unmapped at any time, and `span.len()` bytes at `ours`, which
/// the kernel finds gone as well if they are.
fn foreign_copy(direction: Direction, span: Span, ours: *mut u8) -> Result<(), CopyError> {
    let mut done = 0;
    while done < span.len() {
        let rest = span.after(done);
        let here = ours.wrapping_add(done);
        let local = libc::iovec { iov_base: here.cast(), iov_len: rest.len() };
        let remote = libc::iovec { iov_base: rest.ptr().cast(), iov_len: rest.len() };
        let pid = std::process::id().cast_signed();
        let moved = match direction {
            // SAFETY: both iovecs live on this stack; what they name is only touched by the kernel,
            // which answers EFAULT where it is not mapped, and no reference to it exists but that
            // of the caller of `read_into` or `write_from`, who lent it for the call.
            Direction::Out => unsafe {
                libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0)
            },
            // SAFETY: as above.
            Direction::In => unsafe {
                libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0)
            },
        };
        match usize::try_from(moved) {
            // No bytes and no error cannot happen for a length above 0; it must not loop for ever.
            Ok(0) => return Err(fault(rest, io::ErrorKind::UnexpectedEof.into())),
            Ok(n) => done += n,
            Err(_) => return Err(fault(rest, io::Error::last_os_error())),
        }
    }
    Ok(())
}

#[cfg(any(test, feature = "testing"))]
mod vanishing;

#[cfg(any(test, feature = "testing"))]
pub use vanishing::VanishingMemory;

#[cfg(test)]
mod tests;
