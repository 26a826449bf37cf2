//! What this process offers to others: registered buffers, their generations and guards.
//!
//! ```text
//!   reserve ──▶ Reserved ──commit──▶ Open ──retire──▶ Closing ──last guard gone──▶ removed
//!                  └──── drop ────▶ removed            └── deadline ──▶ Closing, Busy
//! ```
//!
//! I1  Committed and reserved ranges never overlap.
//! I2  A guard is only given on an open buffer, for a range inside it and with its rights.
//! I3  A buffer is removed only when no guard is held; its id is never given again.
//!
//! One lock guards the table; guards count on atomics of their buffer and take no lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use te_topology::MemoryLocation;

use crate::error::{AccessError, RegisterError, UnregisterError};
use crate::id::BufferId;
use crate::memory::Region;
use crate::range::LocalRange;

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

#[derive(Debug, Default)]
struct Use {
    held: u64,
    closing: bool,
}

/// A registered buffer.
pub struct LocalBuffer {
    id: BufferId,
    region: Region,
    options: RegisterOptions,
    usage: Mutex<Use>,
    idle: Condvar,
}

impl LocalBuffer {
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
    /// [`AccessError`] when the buffer is closing or the range is not inside it.
    pub fn hold(self: &Arc<Self>, range: LocalRange) -> Result<BufferGuard, AccessError> {
        let mut usage = self.usage.lock();
        if usage.closing {
            return Err(AccessError::Closed { buffer: self.id });
        }
        usage.held += 1;
        drop(usage);
        Ok(BufferGuard { buffer: Arc::clone(self), range })
    }

    fn end(&self) -> u64 {
        self.region.address() + self.region.len()
    }

    fn allows(&self, access: Access) -> bool {
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

struct Entry {
    buffer: Arc<LocalBuffer>,
    committed: bool,
    /// How often the same range was registered; the last unregister removes it (FB33).
    registrations: u32,
}

#[derive(Default)]
struct Table {
    by_address: BTreeMap<u64, Entry>,
    next_slot: u32,
    free: Vec<BufferId>,
    version: u64,
}

impl Table {
    fn next_id(&mut self) -> BufferId {
        match self.free.pop() {
            Some(old) => BufferId::new(old.slot(), old.generation() + 1),
            None => {
                self.next_slot += 1;
                BufferId::new(self.next_slot - 1, 1)
            }
        }
    }

    /// The entry that shares a byte with `[address, end)`.
    fn overlapping(&self, address: u64, end: u64) -> Option<&Entry> {
        let (_, entry) = self.by_address.range(..end).next_back()?;
        (entry.buffer.end() > address).then_some(entry)
    }

    /// Removes this very buffer, and not a successor at the same address.
    fn remove(&mut self, buffer: &Arc<LocalBuffer>) {
        let address = buffer.region.address();
        let Some(entry) = self.by_address.get(&address) else { return };
        if !Arc::ptr_eq(&entry.buffer, buffer) {
            return;
        }
        self.version += u64::from(entry.committed);
        self.by_address.remove(&address);
        if buffer.id.generation() < u32::MAX {
            self.free.push(buffer.id);
        }
    }
}

/// The registered buffers of this process.
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
    /// call; [`RegisterError::OptionsDiffer`] for a duplicate with other options.
    pub fn reserve(
        &self,
        wanted: &[(Region, RegisterOptions)],
    ) -> Result<Reservation<'_>, RegisterError> {
        check_disjoint(wanted)?;
        let mut table = self.table.write();
        for (region, options) in wanted {
            check_free(&table, region, options)?;
        }
        let mut fresh = BTreeSet::new();
        let buffers = wanted.iter().map(|(r, o)| place(&mut table, r, o, &mut fresh)).collect();
        Ok(Reservation { segment: self, buffers, fresh, committed: false })
    }

    /// Finds the open buffer that wholly contains a range and has the right, and guards it.
    ///
    /// # Errors
    /// [`AccessError`]; checked in the order range, buffer, state, right.
    pub fn acquire(
        &self,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<BufferGuard, AccessError> {
        if len == 0 || address.checked_add(len).is_none() {
            return Err(AccessError::Invalid { address, len });
        }
        let buffer = self.find(address, len).ok_or(AccessError::NotRegistered { address, len })?;
        if !buffer.allows(access) && !te_metadata::sabotage::is_off("remote-access") {
            return Err(AccessError::Forbidden { buffer: buffer.id });
        }
        let range = buffer
            .region
            .range(address - buffer.region.address(), len)
            .map_err(|_| AccessError::NotRegistered { address, len })?;
        buffer.hold(range)
    }

    /// The committed buffer that wholly contains a range.
    pub fn find(&self, address: u64, len: u64) -> Option<Arc<LocalBuffer>> {
        let table = self.table.read();
        let (_, entry) = table.by_address.range(..=address).next_back()?;
        let inside = address.checked_add(len).is_some_and(|end| end <= entry.buffer.end());
        (entry.committed && inside).then(|| Arc::clone(&entry.buffer))
    }

    /// Whether a range shares a byte with a registered buffer or one in progress; `false` for an
    /// empty range (te-classic A42).
    pub fn overlaps(&self, address: u64, len: u64) -> bool {
        let end = address.saturating_add(len);
        len > 0 && self.table.read().overlapping(address, end).is_some()
    }

    /// The committed buffers in order of address, and a number that changes whenever that list
    /// does.
    pub fn snapshot(&self) -> (u64, Vec<Arc<LocalBuffer>>) {
        let table = self.table.read();
        let open = table.by_address.values().filter(|e| e.committed);
        (table.version, open.map(|e| Arc::clone(&e.buffer)).collect())
    }

    /// Begins to unregister the buffer that starts at `address`: it takes no new guard.
    ///
    /// Gives `None` where the same range was registered more often and stays.
    ///
    /// # Errors
    /// [`UnregisterError::NotRegistered`].
    pub fn retire(&self, address: u64) -> Result<Option<Retiring<'_>>, UnregisterError> {
        let mut table = self.table.write();
        let entry = table
            .by_address
            .get_mut(&address)
            .filter(|e| e.committed)
            .ok_or(UnregisterError::NotRegistered { address })?;
        if entry.registrations > 1 {
            entry.registrations -= 1;
            return Ok(None);
        }
        entry.buffer.usage.lock().closing = true;
        Ok(Some(Retiring { segment: self, buffer: Arc::clone(&entry.buffer) }))
    }
}

impl fmt::Debug for LocalSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalSegment({} buffers)", self.table.read().by_address.len())
    }
}

/// Ranges that are taken but not open yet. Dropped without [`Reservation::commit`] it gives them
/// back, so that a retry can succeed (J44).
#[derive(Debug)]
pub struct Reservation<'a> {
    segment: &'a LocalSegment,
    buffers: Vec<Arc<LocalBuffer>>,
    /// Addresses that this reservation put into the table.
    fresh: BTreeSet<u64>,
    committed: bool,
}

impl Reservation<'_> {
    /// The buffers, in the order asked for.
    pub fn buffers(&self) -> &[Arc<LocalBuffer>] {
        &self.buffers
    }

    /// Those that are new, not duplicates of an open buffer: transports must be asked about them.
    pub fn fresh(&self) -> impl Iterator<Item = &Arc<LocalBuffer>> {
        self.buffers.iter().filter(|b| self.fresh.contains(&b.region.address()))
    }

    /// Opens the buffers.
    pub fn commit(mut self) {
        let mut table = self.segment.table.write();
        for address in &self.fresh {
            if let Some(entry) = table.by_address.get_mut(address) {
                entry.committed = true;
            }
        }
        table.version += u64::from(!self.fresh.is_empty());
        self.committed = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let mut table = self.segment.table.write();
        for buffer in &self.buffers {
            let address = buffer.region.address();
            if self.fresh.contains(&address) {
                table.remove(buffer);
            } else if let Some(entry) = table.by_address.get_mut(&address) {
                entry.registrations -= 1;
            }
        }
    }
}

/// A buffer on its way out: no new guard, waiting for the last one.
#[derive(Debug)]
pub struct Retiring<'a> {
    segment: &'a LocalSegment,
    buffer: Arc<LocalBuffer>,
}

impl Retiring<'_> {
    /// The buffer.
    pub fn buffer(&self) -> &Arc<LocalBuffer> {
        &self.buffer
    }

    /// Waits until no guard is held, at most `patience`, and removes the buffer.
    ///
    /// # Errors
    /// [`UnregisterError::Busy`]: the buffer stays, closed to new work; call
    /// [`LocalSegment::retire`] again.
    pub fn finish(self, patience: Duration) -> Result<(), UnregisterError> {
        let mut usage = self.buffer.usage.lock();
        let busy = |u: &mut Use| u.held > 0 && !te_metadata::sabotage::is_off("unregister-waits");
        self.buffer.idle.wait_while_for(&mut usage, busy, patience);
        let address = self.buffer.region.address();
        if busy(&mut usage) {
            return Err(UnregisterError::Busy { address, in_flight: usage.held });
        }
        drop(usage);
        self.segment.table.write().remove(&self.buffer);
        Ok(())
    }
}

fn check_disjoint(wanted: &[(Region, RegisterOptions)]) -> Result<(), RegisterError> {
    let mut sorted: Vec<&Region> = wanted.iter().map(|(region, _)| region).collect();
    sorted.sort_by_key(|region| region.address());
    for pair in sorted.windows(2) {
        if pair[0].address() + pair[0].len() > pair[1].address() {
            return Err(overlap(pair[1], pair[0].address()));
        }
    }
    Ok(())
}

fn check_free(
    table: &Table,
    region: &Region,
    options: &RegisterOptions,
) -> Result<(), RegisterError> {
    let (address, len) = (region.address(), region.len());
    let Some(entry) = table.overlapping(address, address + len) else { return Ok(()) };
    let same = entry.buffer.region.address() == address && entry.buffer.region.len() == len;
    if !same || !entry.committed || entry.buffer.is_closing() {
        return Err(overlap(region, entry.buffer.region.address()));
    }
    if entry.buffer.options != *options {
        return Err(RegisterError::OptionsDiffer { address, len });
    }
    Ok(())
}

/// Puts a checked range into the table, or counts it where it is there already.
fn place(
    table: &mut Table,
    region: &Region,
    options: &RegisterOptions,
    fresh: &mut BTreeSet<u64>,
) -> Arc<LocalBuffer> {
    let address = region.address();
    if let Some(entry) = table.by_address.get_mut(&address) {
        entry.registrations += 1;
        return Arc::clone(&entry.buffer);
    }
    let buffer = Arc::new(LocalBuffer {
        id: table.next_id(),
        region: region.clone(),
        options: options.clone(),
        usage: Mutex::default(),
        idle: Condvar::new(),
    });
    let entry = Entry { buffer: Arc::clone(&buffer), committed: false, registrations: 1 };
    table.by_address.insert(address, entry);
    fresh.insert(address);
    buffer
}

fn overlap(region: &Region, other: u64) -> RegisterError {
    RegisterError::Overlap { address: region.address(), len: region.len(), other }
}

#[cfg(test)]
mod tests;
