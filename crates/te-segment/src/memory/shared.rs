//! Regions that two processes of one host have in common: the file that the owner lends, and the
//! region that a peer makes of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};

use super::{Inner, Mapping, Owner, Region, Source, page_size};
use crate::alloc::HUGE_PAGE;

/// The file behind a shareable region, and where in it the region lies.
#[derive(Debug, Clone, Copy)]
pub struct SharedMemory<'a> {
    file: BorrowedFd<'a>,
    offset: u64,
}

impl<'a> SharedMemory<'a> {
    /// The file. It is sealed: its length never changes. It holds the whole allocation that the
    /// region is a part of.
    pub fn file(&self) -> BorrowedFd<'a> {
        self.file
    }

    /// First byte of the region in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Why the file of another process was not mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// It is no file in memory, or may become shorter: a touch behind its new end would end this
    /// process.
    #[error("not a file in memory that is sealed against becoming shorter")]
    NotSealed,
    /// It is empty or longer than [`Region::MAX_LEN`].
    #[error("a file of {len} bytes is empty or too long to map")]
    Length {
        /// Bytes of the file.
        len: u64,
    },
    /// The system refused, as where a file without the right to write is to be written.
    #[error("a file of {len} bytes cannot be mapped")]
    Refused {
        /// Bytes of the file.
        len: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// The file cannot be looked at.
    #[error("a file that a peer lent cannot be looked at")]
    Unreadable(#[source] io::Error),
}

impl Region {
    /// The file that a peer on this host may map instead of being copied to, for memory of
    /// [`crate::Allocation::shareable`] and its parts; `None` for all other.
    pub fn shared(&self) -> Option<SharedMemory<'_>> {
        let Owner::Engine { mapping } = &self.inner.owner else { return None };
        let file = mapping.file()?.as_fd();
        let offset = self.address() - mapping.ptr().as_ptr().addr() as u64;
        Some(SharedMemory { file, offset })
    }

    /// Maps a file that another process lent, whole. Nothing that process does later takes the
    /// memory away or makes it unreadable; it may change the bytes at any time. Writing into a
    /// region that is not `writable` is an error.
    ///
    /// # Errors
    /// [`MapError`] for what could end this process when touched, and where the kernel refuses.
    pub fn map_shared(file: BorrowedFd<'_>, writable: bool) -> Result<Self, MapError> {
        if !cannot_shrink(file) {
            return Err(MapError::NotSealed);
        }
        let found = rustix::fs::fstat(file).map_err(|cause| MapError::Unreadable(cause.into()))?;
        let bytes = u64::try_from(found.st_size).unwrap_or(0);
        let Some(len) =
            usize::try_from(bytes).ok().filter(|_| (1..=Self::MAX_LEN).contains(&bytes))
        else {
            return Err(MapError::Length { len: bytes });
        };
        // Bytes behind the last page of a file cannot be touched: nothing is rounded up beyond it.
        let huge = len.is_multiple_of(HUGE_PAGE);
        let align = if huge { HUGE_PAGE } else { page_size() };
        let mapped = Mapping::new(len, align, Source::File(file), writable);
        let mapping = mapped.map_err(|cause| MapError::Refused { len: bytes, cause })?;
        let ptr = mapping.ptr();
        let owner = Owner::Engine { mapping: Arc::new(mapping) };
        Ok(Self { inner: Arc::new(Inner { ptr, len, owner }) })
    }
}

/// A new file in memory of `len` bytes, all zero, that keeps that length for ever.
pub(crate) fn sealed_file(len: u64) -> io::Result<OwnedFd> {
    let file = memory_file()?;
    rustix::fs::ftruncate(&file, len)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Hardened systems refuse a file that might be made executable; kernels before 6.3 do not know the
/// flag that says that this one never is.
fn memory_file() -> io::Result<OwnedFd> {
    let usual = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(c"te-buffer", usual | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => Ok(rustix::fs::memfd_create(c"te-buffer", usual)?),
        other => Ok(other?),
    }
}

/// Whether a file lies in ordinary memory and is sealed against becoming shorter: then no touch of a
/// mapping of it can end this process. A file of pages that were set apart is not such a one: its
/// owner may give pages back under us, and there may be no others.
fn cannot_shrink(file: BorrowedFd<'_>) -> bool {
    let sealed =
        rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    sealed && rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

#[cfg(test)]
mod tests;
