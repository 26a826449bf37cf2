//! One registered buffer and the guards on it.
//!
//! I1  A buffer that is closing gives no guard: whoever counts itself in and finds it closing takes
//!     itself out again.
//! I2  Whoever waits for the last guard is told: the one that lets go of it last takes the lock of
//!     those that wait before it tells them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use te_sync::{Condvar, Mutex};

use super::{Access, RegisterOptions, RemoteAccess};
use crate::error::AccessError;
use crate::id::BufferId;
use crate::memory::Region;
use crate::range::LocalRange;

/// Set in the count of guards once the buffer is closing.
const CLOSING: u64 = 1 << 63;

/// A registered buffer.
pub struct LocalBuffer {
    /// Guards held, and [`CLOSING`].
    held: AtomicU64,
    id: BufferId,
    region: Region,
    options: Arc<RegisterOptions>,
    /// Calls that are about to open or remove the buffer.
    changes: Mutex<u32>,
    /// Told when the last guard and when the last change is gone.
    idle: Condvar,
}

impl LocalBuffer {
    pub(super) fn new(id: BufferId, region: Region, options: Arc<RegisterOptions>) -> Self {
        let (held, changes) = (AtomicU64::new(0), Mutex::default());
        Self { held, id, region, options, changes, idle: Condvar::new() }
    }

    /// Its handle.
    pub fn id(&self) -> BufferId {
        self.id
    }

    /// Its memory.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// How it was registered.
    pub fn options(&self) -> &RegisterOptions {
        &self.options
    }

    /// Guards held now.
    pub fn in_flight(&self) -> u64 {
        self.held.load(Ordering::Acquire) & !CLOSING
    }

    /// Whether it is being unregistered: work on it should end soon.
    pub fn is_closing(&self) -> bool {
        self.held.load(Ordering::Acquire) & CLOSING != 0
    }

    /// Takes a guard on a part of the buffer for work of this process.
    ///
    /// # Errors
    /// [`AccessError::NotRegistered`] when the range is not inside the buffer,
    /// [`AccessError::Closed`] when the buffer is being unregistered.
    pub fn hold(self: &Arc<Self>, range: LocalRange) -> Result<BufferGuard, AccessError> {
        Arc::clone(self).guard(range)
    }

    /// As [`LocalBuffer::hold`], for whoever needs the buffer no more.
    pub(super) fn guard(self: Arc<Self>, range: LocalRange) -> Result<BufferGuard, AccessError> {
        let hold = self.keep(range.address(), range.len())?;
        Ok(BufferGuard { hold, range })
    }

    /// As [`LocalBuffer::hold`], for whoever remembers the range itself.
    ///
    /// # Errors
    /// As [`LocalBuffer::hold`].
    pub fn keep(self: Arc<Self>, address: u64, len: u64) -> Result<BufferHold, AccessError> {
        if !self.contains(address, len) {
            return Err(AccessError::NotRegistered { address, len });
        }
        let id = self.id;
        // Whoever closes the buffer sets the bit before it looks at the count.
        let before = self.held.fetch_add(1, Ordering::AcqRel);
        let hold = BufferHold(self);
        if before & CLOSING == 0 { Ok(hold) } else { Err(AccessError::Closed { buffer: id }) }
    }

    fn release(&self) {
        if self.held.fetch_sub(1, Ordering::AcqRel) == CLOSING | 1 {
            let _changes = self.changes.lock();
            self.idle.notify_all();
        }
    }

    /// Gives no guard from now on.
    pub(super) fn begin_closing(&self) {
        self.held.fetch_or(CLOSING, Ordering::AcqRel);
    }

    /// Waits until no guard is held on a closing buffer, at most `patience`; else tells how many
    /// still are.
    pub(super) fn wait_idle(&self, patience: Duration) -> Result<(), u64> {
        let is_busy = || self.in_flight() > 0 && !te_metadata::sabotage::is_off("unregister-waits");
        let mut changes = self.changes.lock();
        self.idle.wait_while_for(&mut changes, |_| is_busy(), patience);
        if is_busy() { Err(self.in_flight()) } else { Ok(()) }
    }

    /// Whether some call is about to open or remove the buffer.
    pub(super) fn is_changing(&self) -> bool {
        *self.changes.lock() > 0
    }

    /// Waits until no call changes the buffer, at most `patience`; says whether that was reached.
    pub(super) fn wait_unchanged(&self, patience: Duration) -> bool {
        let mut changes = self.changes.lock();
        self.idle.wait_while_for(&mut changes, |changes| *changes > 0, patience);
        *changes == 0
    }

    /// First address behind the buffer; a region never wraps.
    pub(super) fn end(&self) -> u64 {
        self.region.address() + self.region.len()
    }

    /// Whether a range is wholly inside.
    pub fn contains(&self, address: u64, len: u64) -> bool {
        address >= self.region.address()
            && address.checked_add(len).is_some_and(|end| end <= self.end())
    }

    pub(super) fn allows(&self, access: Access) -> bool {
        match access {
            Access::Read => self.options.remote >= RemoteAccess::Read,
            Access::Write => self.options.remote == RemoteAccess::ReadWrite,
        }
    }
}

impl fmt::Debug for LocalBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{:?}, {:?}]", self.id, self.region, self.options.remote)
    }
}

/// A call that is about to open or remove a buffer. Taken under the table's lock, and dropped after
/// the table has the outcome, so that whoever waits for it finds that.
#[derive(Debug)]
pub(super) struct Change(Arc<LocalBuffer>);

impl Change {
    pub(super) fn new(buffer: &Arc<LocalBuffer>) -> Self {
        *buffer.changes.lock() += 1;
        Self(Arc::clone(buffer))
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let mut changes = self.0.changes.lock();
        *changes -= 1;
        if *changes == 0 {
            self.0.idle.notify_all();
        }
    }
}

/// Keeps a buffer from being unregistered.
#[derive(Debug)]
pub struct BufferHold(Arc<LocalBuffer>);

impl BufferHold {
    /// The buffer.
    pub fn buffer(&self) -> &Arc<LocalBuffer> {
        &self.0
    }
}

impl Drop for BufferHold {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Keeps a buffer from being unregistered while bytes of it move.
#[derive(Debug)]
pub struct BufferGuard {
    hold: BufferHold,
    range: LocalRange,
}

impl BufferGuard {
    /// The guarded bytes.
    pub fn range(&self) -> &LocalRange {
        &self.range
    }

    /// The buffer.
    pub fn buffer(&self) -> &Arc<LocalBuffer> {
        &self.hold.0
    }

    /// Whether the owner wants the buffer back: stop at the next opportunity and drop the guard.
    pub fn is_revoked(&self) -> bool {
        self.hold.0.is_closing()
    }
}
