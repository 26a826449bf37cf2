//! One registered buffer and the guards on it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Access, RegisterOptions, RemoteAccess};
use crate::error::AccessError;
use crate::id::BufferId;
use crate::memory::Region;
use crate::range::LocalRange;

#[derive(Debug, Default)]
struct Use {
    held: u64,
    closing: bool,
    /// Calls that are about to open or remove the buffer.
    changes: u64,
}

/// A registered buffer.
pub struct LocalBuffer {
    id: BufferId,
    region: Region,
    options: RegisterOptions,
    usage: Mutex<Use>,
    /// Told when the last guard and when the last change is gone.
    idle: Condvar,
}

impl LocalBuffer {
    pub(super) fn new(id: BufferId, region: Region, options: RegisterOptions) -> Self {
        Self { id, region, options, usage: Mutex::default(), idle: Condvar::new() }
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
        self.usage.lock().held
    }

    /// Whether it is being unregistered: work on it should end soon.
    pub fn is_closing(&self) -> bool {
        self.usage.lock().closing
    }

    /// Takes a guard on a part of the buffer for work of this process.
    ///
    /// # Errors
    /// [`AccessError::NotRegistered`] when the range is not inside the buffer,
    /// [`AccessError::Closed`] when the buffer is being unregistered.
    pub fn hold(self: &Arc<Self>, range: LocalRange) -> Result<BufferGuard, AccessError> {
        if !self.contains(range.address(), range.len()) {
            let (address, len) = (range.address(), range.len());
            return Err(AccessError::NotRegistered { address, len });
        }
        let mut usage = self.usage.lock();
        if usage.closing {
            return Err(AccessError::Closed { buffer: self.id });
        }
        usage.held += 1;
        drop(usage);
        Ok(BufferGuard { buffer: Arc::clone(self), range })
    }

    /// Gives no guard from now on.
    pub(super) fn begin_closing(&self) {
        self.usage.lock().closing = true;
    }

    /// Waits until no guard is held, at most `patience`; else tells how many still are.
    pub(super) fn wait_idle(&self, patience: Duration) -> Result<(), u64> {
        let mut usage = self.usage.lock();
        let busy = |u: &mut Use| u.held > 0 && !te_metadata::sabotage::is_off("unregister-waits");
        self.idle.wait_while_for(&mut usage, busy, patience);
        if busy(&mut usage) { Err(usage.held) } else { Ok(()) }
    }

    /// Whether some call is about to open or remove the buffer.
    pub(super) fn is_changing(&self) -> bool {
        self.usage.lock().changes > 0
    }

    /// Waits until no call changes the buffer, at most `patience`; says whether that was reached.
    pub(super) fn wait_unchanged(&self, patience: Duration) -> bool {
        let mut usage = self.usage.lock();
        self.idle.wait_while_for(&mut usage, |usage| usage.changes > 0, patience);
        usage.changes == 0
    }

    /// First address behind the buffer; a region never wraps.
    pub(super) fn end(&self) -> u64 {
        self.region.address() + self.region.len()
    }

    pub(super) fn contains(&self, address: u64, len: u64) -> bool {
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
        buffer.usage.lock().changes += 1;
        Self(Arc::clone(buffer))
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let mut usage = self.0.usage.lock();
        usage.changes -= 1;
        if usage.changes == 0 {
            self.0.idle.notify_all();
        }
    }
}

/// Keeps a buffer from being unregistered while bytes of it move.
#[derive(Debug)]
pub struct BufferGuard {
    buffer: Arc<LocalBuffer>,
    range: LocalRange,
}

impl BufferGuard {
    /// The guarded bytes.
    pub fn range(&self) -> &LocalRange {
        &self.range
    }

    /// The buffer.
    pub fn buffer(&self) -> &Arc<LocalBuffer> {
        &self.buffer
    }

    /// Whether the owner wants the buffer back: stop at the next opportunity and drop the guard.
    pub fn is_revoked(&self) -> bool {
        self.buffer.is_closing()
    }
}

impl Drop for BufferGuard {
    fn drop(&mut self) {
        let mut usage = self.buffer.usage.lock();
        usage.held -= 1;
        if usage.held == 0 {
            self.buffer.idle.notify_all();
        }
    }
}
