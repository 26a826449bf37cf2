//! Memory shared with other processes by descriptor: words that anybody who has the descriptor may
//! change at any time.
//!
//! I1  Memory that another process handed over is mapped only where it can neither shrink nor grow
//!     and lies in memory, so that no access to it ends this process.
//! I2  Nothing but whole words is read or written, each as an atomic; every value is possible.
#![allow(unsafe_code, reason = "maps memory that other processes change; docs/memory-safety.md")]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use te_metadata::sabotage;

/// Why memory of another process is not mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The descriptor could not be asked, or not be mapped.
    #[error("the shared memory cannot be mapped")]
    System(#[from] io::Error),
    /// It is no memory of the kind that cannot fail under us.
    #[error("what was passed is no sealed memory")]
    Kind,
    /// It could still shrink or grow.
    #[error("the shared memory is not sealed")]
    Unsealed,
    /// It is of another size than agreed.
    #[error("the shared memory has {found} bytes and not {expected}")]
    Size {
        /// What it has.
        found: u64,
        /// What was agreed.
        expected: u64,
    },
}

impl From<rustix::io::Errno> for SealError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// Mapped memory as words.
#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone and is reached through atomics only; which thread
// does that makes no difference.
unsafe impl Send for Mapping {}
// SAFETY: as above: shared access is atomic access.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: impl AsFd, bytes: usize, rights: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, fd, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { start, words: bytes / size_of::<AtomicU64>() })
    }

    fn word(&self, index: usize) -> Option<&AtomicU64> {
        if index >= self.words {
            return None;
        }
        // SAFETY: the index is below the number of words of the mapping.
        let word = unsafe { self.start.add(index) };
        // SAFETY: mappings begin on a page, so the word is aligned; it stays mapped as long as
        // `self`, which the reference borrows; any bytes are a valid atomic, and others change them
        // by atomic accesses or by writes of the kernel.
        Some(unsafe { word.as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = self.words * size_of::<AtomicU64>();
        // SAFETY: the address and length are those of the mapping made in `new`, unmapped only
        // here; references to its words borrow `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be unmapped");
    }
}

/// Words that we may write.
#[derive(Debug)]
pub(crate) struct Words(Mapping);

impl Words {
    /// New memory of `bytes`, a multiple of the page size, all zero, that can neither shrink nor
    /// grow. With `only_ours`, whoever gets the descriptor can map it for reading only.
    pub(crate) fn create(name: &str, bytes: usize, only_ours: bool) -> io::Result<(OwnedFd, Self)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        let words = Self(Mapping::new(&fd, bytes, ProtFlags::READ | ProtFlags::WRITE)?);
        let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        if only_ours {
            seals |= SealFlags::FUTURE_WRITE;
        }
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok((fd, words))
    }

    /// Maps memory of exactly `bytes` that another process made, for reading and writing.
    pub(crate) fn open(fd: &OwnedFd, bytes: usize) -> Result<Self, SealError> {
        check(fd, bytes)?;
        Ok(Self(Mapping::new(fd, bytes, ProtFlags::READ | ProtFlags::WRITE)?))
    }

    /// A word; `None` outside.
    pub(crate) fn word(&self, index: usize) -> Option<&AtomicU64> {
        self.0.word(index)
    }
}

/// Words that only their owner writes.
#[derive(Debug)]
pub(crate) struct ReadWords(Mapping);

impl ReadWords {
    /// Maps memory of exactly `bytes` that another process made, for reading.
    pub(crate) fn open(fd: &OwnedFd, bytes: usize) -> Result<Self, SealError> {
        check(fd, bytes)?;
        Ok(Self(Mapping::new(fd, bytes, ProtFlags::READ)?))
    }

    /// What a word is now; `None` outside.
    pub(crate) fn load(&self, index: usize, order: Ordering) -> Option<u64> {
        self.0.word(index).map(|word| word.load(order))
    }
}

/// Whether memory of another process may be mapped (I1). Files of other kinds may be cut off under
/// us or hang, and huge pages that were set apart may be missing: a touch would be a signal then.
fn check(fd: &OwnedFd, bytes: usize) -> Result<(), SealError> {
    if sabotage::is_off("seal-check") {
        return Ok(());
    }
    const TMPFS: u64 = 0x0102_1994;
    let kind = rustix::fs::fstatfs(fd)?.f_type;
    if u64::try_from(kind).ok() != Some(TMPFS) {
        return Err(SealError::Kind);
    }
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| SealError::Kind)?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
        return Err(SealError::Unsealed);
    }
    let found = u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0);
    let expected = bytes as u64;
    if found == expected { Ok(()) } else { Err(SealError::Size { found, expected }) }
}

/// Who is at the other end of a Unix socket, as this process's namespaces name it: process id and
/// user id. The process id is 0 where it has none here, which the safe call of rustix has no room
/// for.
pub(crate) fn credentials(socket: &OwnedFd) -> io::Result<(i32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: `found` is a plain struct of integers on this stack, `len` its size; both are written
    // by the kernel during the call only.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    if asked == 0 { Ok((found.pid, found.uid)) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn both_sides_see_the_same_words_and_nothing_outside() {
        let (fd, ours) = Words::create("te-test", PAGE, false).unwrap();
        let theirs = Words::open(&fd, PAGE).unwrap();
        ours.word(3).unwrap().store(7, Ordering::SeqCst);
        assert_eq!(theirs.word(3).unwrap().load(Ordering::SeqCst), 7);
        assert!(theirs.word(511).is_some() && theirs.word(512).is_none());
        assert!(ours.word(usize::MAX).is_none());
    }

    #[test]
    fn what_only_the_owner_writes_cannot_be_mapped_for_writing() {
        let (fd, ours) = Words::create("te-test", PAGE, true).unwrap();
        ours.word(0).unwrap().store(9, Ordering::SeqCst);
        assert_eq!(ReadWords::open(&fd, PAGE).unwrap().load(0, Ordering::SeqCst), Some(9));
        assert!(matches!(Words::open(&fd, PAGE), Err(SealError::System(_))));
    }

    #[test]
    fn memory_that_could_change_its_size_or_is_none_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("te-test", flags).unwrap();
        rustix::fs::ftruncate(&fd, PAGE as u64).unwrap();
        assert!(matches!(Words::open(&fd, PAGE), Err(SealError::Unsealed)));
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        assert!(matches!(ReadWords::open(&fd, PAGE), Err(SealError::Unsealed)));
        rustix::fs::fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
        assert!(Words::open(&fd, PAGE).is_ok());
        let size = Words::open(&fd, 2 * PAGE).unwrap_err();
        assert!(matches!(size, SealError::Size { found: 4096, expected: 8192 }), "{size}");
        let (read, _write) = io::pipe().unwrap();
        let read = OwnedFd::from(read);
        assert!(matches!(Words::open(&read, PAGE), Err(SealError::Kind)));
        let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        assert!(Words::open(&file, PAGE).is_err());
    }
}
