//! What this process offers to others: registered buffers, their generations and guards.
//!
//! ```text
//!   reserve ──▶ Reserved ──commit──▶ Open ──retire──▶ Closing ──last guard gone──▶ removed
//!                  └──── drop ────▶ removed            └── deadline ──▶ Closing, Busy
//! ```
//!
//! I1  Registered and reserved ranges never overlap.
//! I2  A guard is only given on an open buffer, for a range inside it and with its rights.
//! I3  A buffer is removed only when no guard is held; its id is never given again.
//! I4  Each registration is given back once: by an unregister, or by its reservation.
//! I5  A buffer is Reserved, or Closing with the outcome ahead, exactly while a call changes it;
//!     whoever wants the same range can wait for that.
//!
//! One lock guards the table and one each buffer's counts of guards and of calls that change it.
//! Where both are held the table comes first; nobody waits while holding the table.

mod buffer;
mod change;
mod table;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use te_metadata::BufferHandle;
use te_sync::RwLock;
use te_topology::MemoryLocation;

pub use self::buffer::{BufferGuard, BufferHold, LocalBuffer};
pub use self::change::{Reservation, Retiring};
use self::table::{Table, check_disjoint};
use crate::error::{AccessError, RegisterError, UnregisterError};
use crate::memory::Region;

/// What a peer may do with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemoteAccess {
    /// Nothing: the buffer serves local requests only, whatever the transport (te-classic C26, K3).
    None,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// What a peer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read the range.
    Read,
    /// To write the range.
    Write,
}

/// How a buffer is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterOptions {
    /// Where the memory is; `*` when unknown.
    pub location: MemoryLocation,
    /// What peers may do with it.
    pub remote: RemoteAccess,
}

impl Default for RegisterOptions {
    /// Location `*`, open for reading and writing.
    fn default() -> Self {
        Self { location: MemoryLocation::Any, remote: RemoteAccess::ReadWrite }
    }
}

/// The registered buffers of this process. Look-ups cost O(log n) in the number of buffers.
#[derive(Default)]
pub struct LocalSegment {
    table: RwLock<Table>,
}

impl LocalSegment {
    /// An empty segment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers one buffer where no transport has a say; see [`LocalSegment::reserve`].
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        &self,
        region: &Region,
        options: RegisterOptions,
    ) -> Result<Arc<LocalBuffer>, RegisterError> {
        let reservation = self.reserve(&[(region.clone(), options)])?;
        let buffer = Arc::clone(&reservation.buffers()[0]);
        reservation.commit();
        Ok(buffer)
    }

    /// Reserves ranges, all or none, before any transport is asked (te-classic C20–C23). An exact
    /// duplicate of an open buffer with the same options is counted, and needs one unregister more.
    ///
    /// # Errors
    /// [`RegisterError::Overlap`] with a registered buffer, one in progress or another of the same
    /// call; [`RegisterError::OptionsDiffer`] for a duplicate with other options;
    /// [`RegisterError::Changing`] for a duplicate of one in progress, which
    /// [`LocalSegment::wait_unchanged`] waits for; [`RegisterError::Closing`].
    pub fn reserve(
        &self,
        wanted: &[(Region, RegisterOptions)],
    ) -> Result<Reservation<'_>, RegisterError> {
        check_disjoint(wanted)?;
        let mut table = self.table.write();
        for (region, options) in wanted {
            table.check_free(region, options)?;
        }
        let mut fresh = BTreeSet::new();
        let buffers = wanted.iter().map(|(r, o)| table.place(r, o, &mut fresh)).collect();
        Ok(Reservation::new(self, buffers, fresh))
    }

    /// Waits until no call is registering or unregistering the buffer that starts at `address`, at
    /// most `patience`; says whether that was reached.
    pub fn wait_unchanged(&self, address: u64, patience: Duration) -> bool {
        let found = self.table.read().at(address).map(|entry| Arc::clone(&entry.buffer));
        found.is_none_or(|buffer| buffer.wait_unchanged(patience))
    }

    /// Finds the open buffer that wholly contains a range and has the right, and guards it.
    ///
    /// # Errors
    /// [`AccessError`]; checked in the order range, buffer, right, state.
    pub fn acquire(
        &self,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<BufferGuard, AccessError> {
        if len == 0 || address.checked_add(len).is_none() {
            return Err(AccessError::Invalid { address, len });
        }
        let outside = AccessError::NotRegistered { address, len };
        let Some(buffer) = self.find(address, len) else { return Err(outside) };
        if !buffer.allows(access) && !te_metadata::sabotage::is_off("remote-access") {
            return Err(AccessError::Forbidden { buffer: buffer.id() });
        }
        match buffer.region().range(address - buffer.region().address(), len) {
            Ok(range) => buffer.guard(range),
            Err(_) if te_metadata::sabotage::is_off("range-check") => {
                let whole = buffer.region().whole();
                buffer.guard(whole)
            }
            Err(_) => Err(outside),
        }
    }

    /// Guards a range of the buffer that a handle names; O(log n) in the number of buffers.
    ///
    /// # Errors
    /// [`AccessError`]; checked in the order handle, range, right, state.
    pub fn acquire_buffer(
        &self,
        handle: BufferHandle,
        offset: u64,
        len: u64,
        access: Access,
    ) -> Result<BufferGuard, AccessError> {
        let BufferHandle { slot, generation } = handle;
        let found = self.table.read().named(handle).cloned();
        let Some(buffer) = found else {
            return Err(AccessError::NoSuchBuffer { slot, generation });
        };
        let id = buffer.id();
        let range = buffer.region().range(offset, len).ok().filter(|range| !range.is_empty());
        let Some(range) = range else {
            return Err(AccessError::Outside { buffer: id, offset, len });
        };
        if !buffer.allows(access) && !te_metadata::sabotage::is_off("remote-access") {
            return Err(AccessError::Forbidden { buffer: id });
        }
        buffer.guard(range)
    }

    /// The registered buffer that wholly contains a range; it may be closing.
    pub fn find(&self, address: u64, len: u64) -> Option<Arc<LocalBuffer>> {
        self.table.read().containing(address, len).cloned()
    }

    /// Whether a range shares a byte with a registered buffer or one in progress; `false` for an
    /// empty range (te-classic A42).
    pub fn overlaps(&self, address: u64, len: u64) -> bool {
        let end = address.saturating_add(len);
        len > 0 && self.table.read().overlapping(address, end).is_some()
    }

    /// The open buffers in order of address, and a number that changes whenever that list does.
    /// A buffer that is being unregistered is not among them: peers should stop asking for it.
    pub fn snapshot(&self) -> (u64, Vec<Arc<LocalBuffer>>) {
        let table = self.table.read();
        (table.version(), table.open_buffers())
    }

    /// The number that [`LocalSegment::snapshot`] gives, without the list.
    pub fn version(&self) -> u64 {
        self.table.read().version()
    }

    /// Begins to unregister the buffer that starts at `address`: it takes no new guard.
    ///
    /// Gives `None` where the same range was registered more often and stays.
    ///
    /// # Errors
    /// [`UnregisterError::NotRegistered`].
    pub fn retire(&self, address: u64) -> Result<Option<Retiring<'_>>, UnregisterError> {
        let mut table = self.table.write();
        if table.registered(address).is_none() {
            return Err(UnregisterError::NotRegistered { address });
        }
        Ok(table.give_back(address).map(|buffer| Retiring::new(self, buffer)))
    }
}

impl fmt::Debug for LocalSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalSegment({} buffers)", self.table.read().len())
    }
}

#[cfg(test)]
mod tests;
