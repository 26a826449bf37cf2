//! Memory that two engines have in common: what an owner lends of its buffers, and what an
//! initiator has mapped of a peer's.
//!
//! ```text
//!   Unknown ── the owner lends ──▶ Mapped ──┐ its generation ended, or room was needed
//!      │                                    ├──▶ Unknown
//!      └────── it does not, or we cannot ─▶ Refused ──┘
//! ```
//!
//! I1  Nothing is mapped that a touch of could end this process; see [`Region::map_shared`].
//! I2  What is kept for a peer is bounded: buffers, files and bytes. What was longest unused goes.
//! I3  A region in use keeps its mapping, also where it is not kept here any more.
//! I4  A file that was lent for several buffers is mapped once.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use te_metadata::BufferHandle;
use te_segment::{LocalBuffer, MapError, Region, RegionError, RemoteAccess};

pub(crate) use self::ask::{Ask, Borrower, Reply};

mod ask;

/// What an owner lends for one of its buffers.
#[derive(Debug)]
pub(crate) struct Loan {
    /// The memory, whole: more than the buffer where that is a part of an allocation.
    pub(crate) file: OwnedFd,
    /// Where in it the buffer begins.
    pub(crate) offset: u64,
    /// Bytes of the buffer.
    pub(crate) len: u64,
    /// Whether the buffer may be written.
    pub(crate) writable: bool,
}

impl Loan {
    /// What may be lent of a buffer: nothing where its memory is no file, or where peers have no
    /// right to it. A buffer that may only be read is lent by a descriptor that can only read.
    pub(crate) fn of(buffer: &LocalBuffer) -> Option<Self> {
        let (region, remote) = (buffer.region(), buffer.options().remote);
        let shared = region.shared()?;
        let (offset, len) = (shared.offset(), region.len());
        let file = match remote {
            RemoteAccess::None => return None,
            RemoteAccess::Read => reading(shared.file())?,
            RemoteAccess::ReadWrite => shared.file().try_clone_to_owned().ok()?,
        };
        Some(Self { file, offset, len, writable: remote == RemoteAccess::ReadWrite })
    }
}

/// The same file, opened anew. A process of the same user could open it for writing again: this
/// keeps from mistakes, not from malice.
fn reading(file: impl AsFd) -> Option<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Why a loan was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoanError {
    /// It cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The buffer is said to lie where the file has no bytes.
    #[error("the buffer does not lie in the file that was lent for it")]
    Outside(#[source] RegionError),
    /// Mapping it would take more than one peer may have.
    #[error("a file of {len} bytes is more than may be mapped of one peer")]
    TooLong {
        /// Bytes of the file.
        len: u64,
    },
}

/// How much may be kept of one peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowLimits {
    /// Buffers that are known, mapped or refused; a few hundred bytes each.
    pub(crate) buffers: usize,
    /// Files; a mapping each, of which Linux allows a process 65 530.
    pub(crate) files: usize,
    /// Bytes of all files: addresses, not memory.
    pub(crate) bytes: u64,
}

impl Default for WindowLimits {
    fn default() -> Self {
        Self { buffers: 65_536, files: 256, bytes: Region::MAX_LEN }
    }
}

/// What is known of a peer's buffer.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// It is mapped: the bytes of the buffer, and whether they may be written.
    Mapped(&'a Region, bool),
    /// It is not lent, or cannot be mapped.
    Refused,
    /// Nobody asked for it yet, or it was forgotten.
    Unknown,
}

/// What is mapped of one peer.
#[derive(Debug)]
pub(crate) struct Windows {
    limits: WindowLimits,
    /// By slot and generation, which a peer may choose as it likes.
    buffers: BTreeMap<(u32, u32), Kept>,
    files: HashMap<FileKey, Mapped>,
    bytes: u64,
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    /// `None` where it was refused.
    window: Option<(Region, FileKey)>,
    /// The number of its last use.
    used: u64,
}

#[derive(Debug)]
struct Mapped {
    whole: Region,
    buffers: usize,
}

/// A file, by what the kernel says of it, and whether it is mapped to be written. While it is mapped
/// no other file gets its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileKey {
    device: u64,
    inode: u64,
    writable: bool,
}

impl Windows {
    /// Nothing is mapped yet.
    pub(crate) fn new(limits: WindowLimits) -> Self {
        Self { limits, buffers: BTreeMap::new(), files: HashMap::new(), bytes: 0, uses: 0 }
    }

    /// What is known of a buffer.
    pub(crate) fn find(&mut self, buffer: BufferHandle) -> Found<'_> {
        self.uses += 1;
        match self.buffers.get_mut(&key_of(buffer)) {
            None => Found::Unknown,
            Some(kept) => {
                kept.used = self.uses;
                match &kept.window {
                    Some((region, key)) => Found::Mapped(region, key.writable),
                    None => Found::Refused,
                }
            }
        }
    }

    /// Maps what a peer lent for a buffer. Its numbers may be anything.
    ///
    /// # Errors
    /// [`LoanError`]; the buffer counts as refused then.
    pub(crate) fn insert(&mut self, buffer: BufferHandle, loan: Loan) -> Result<(), LoanError> {
        self.forget(buffer);
        match self.take(&loan) {
            Ok(window) => {
                self.keep(buffer, Some(window));
                Ok(())
            }
            Err(error) => {
                self.refuse(buffer);
                Err(error)
            }
        }
    }

    /// The buffer is not lent: it is not asked for again in this generation.
    pub(crate) fn refuse(&mut self, buffer: BufferHandle) {
        self.forget(buffer);
        self.keep(buffer, None);
    }

    /// Forgets what is not wanted any more, such as buffers of generations that have ended.
    pub(crate) fn retain(&mut self, wanted: impl Fn(BufferHandle) -> bool) {
        let known = self.buffers.keys().map(|key| handle_of(*key));
        let gone: Vec<_> = known.filter(|buffer| !wanted(*buffer)).collect();
        gone.into_iter().for_each(|buffer| self.forget(buffer));
    }

    /// Whether something is known of a buffer.
    pub(crate) fn knows(&self, buffer: BufferHandle) -> bool {
        self.buffers.contains_key(&key_of(buffer))
    }

    /// Buffers that are known.
    pub(crate) fn len(&self) -> usize {
        self.buffers.len()
    }

    fn keep(&mut self, buffer: BufferHandle, window: Option<(Region, FileKey)>) {
        if let Some((_, key)) = &window
            && let Some(file) = self.files.get_mut(key)
        {
            file.buffers += 1;
        }
        self.uses += 1;
        self.buffers.insert(key_of(buffer), Kept { window, used: self.uses });
        self.make_room(|windows| windows.buffers.len() <= windows.limits.buffers);
    }

    /// The part of the file that is the buffer. The file is mapped where it is not yet.
    fn take(&mut self, loan: &Loan) -> Result<(Region, FileKey), LoanError> {
        let found = rustix::fs::fstat(&loan.file);
        let found = found.map_err(|cause| MapError::Unreadable(cause.into()))?;
        let key = FileKey { device: found.st_dev, inode: found.st_ino, writable: loan.writable };
        let whole = match self.files.get(&key) {
            Some(known) => known.whole.clone(),
            None => self.map(key, loan)?,
        };
        match whole.subregion(loan.offset, loan.len) {
            Ok(part) => Ok((part, key)),
            Err(error) => {
                self.drop_unused(key);
                Err(LoanError::Outside(error))
            }
        }
    }

    fn map(&mut self, key: FileKey, loan: &Loan) -> Result<Region, LoanError> {
        let whole = Region::map_shared(loan.file.as_fd(), loan.writable)?;
        let len = whole.len();
        if len > self.limits.bytes {
            return Err(LoanError::TooLong { len });
        }
        self.make_room(|windows| {
            let fits = windows.limits.bytes - len;
            windows.files.len() < windows.limits.files && windows.bytes <= fits
        });
        self.bytes += len;
        self.files.insert(key, Mapped { whole: whole.clone(), buffers: 0 });
        Ok(whole)
    }

    /// Forgets buffers, the longest unused first, an eighth of them at once, until it is enough.
    fn make_room(&mut self, enough: impl Fn(&Self) -> bool) {
        while !enough(self) && !self.buffers.is_empty() {
            let mut all: Vec<_> =
                self.buffers.iter().map(|(key, kept)| (kept.used, handle_of(*key))).collect();
            all.sort_unstable_by_key(|(used, _)| *used);
            let n = all.len().div_ceil(8);
            all.into_iter().take(n).for_each(|(_, buffer)| self.forget(buffer));
        }
    }

    fn forget(&mut self, buffer: BufferHandle) {
        let Some(Kept { window: Some((_, key)), .. }) = self.buffers.remove(&key_of(buffer)) else {
            return;
        };
        if let Some(file) = self.files.get_mut(&key) {
            file.buffers -= 1;
        }
        self.drop_unused(key);
    }

    fn drop_unused(&mut self, key: FileKey) {
        if self.files.get(&key).is_some_and(|file| file.buffers == 0)
            && let Some(gone) = self.files.remove(&key)
        {
            self.bytes -= gone.whole.len();
        }
    }
}

fn key_of(buffer: BufferHandle) -> (u32, u32) {
    (buffer.slot, buffer.generation)
}

fn handle_of((slot, generation): (u32, u32)) -> BufferHandle {
    BufferHandle { slot, generation }
}

#[cfg(test)]
mod tests;
