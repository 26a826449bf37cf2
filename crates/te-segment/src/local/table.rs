//! The table behind the local segment: buffers by address, slots and their generations.
//!
//! Addresses lead to slots and slots to buffers, so that the tree that every look-up walks is small.
//!
//! I1  Entries never overlap, so the entry below an address is the only one that can hold it.
//! I2  A slot's generation only rises; a slot that has used them all up is not used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use te_metadata::{BufferHandle, sabotage};

use super::RegisterOptions;
use super::buffer::LocalBuffer;
use crate::error::RegisterError;
use crate::id::BufferId;
use crate::memory::Region;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Reserved,
    Open,
    Closing,
}

pub(super) struct Entry {
    pub(super) buffer: Arc<LocalBuffer>,
    /// First address behind it.
    end: u64,
    /// How often the same range was registered; the last unregister removes it (FB33).
    registrations: u32,
    pub(super) state: State,
}

impl Entry {
    /// Why an exact duplicate of a buffer that is not open cannot be had now.
    fn unsettled(&self) -> RegisterError {
        let (address, len) = (self.buffer.region().address(), self.buffer.region().len());
        if self.buffer.is_changing() {
            return RegisterError::Changing { address, len };
        }
        RegisterError::Closing { address, len, in_flight: self.buffer.in_flight() }
    }
}

#[derive(Default)]
pub(super) struct Table {
    /// The slot of the entry that starts there.
    by_address: BTreeMap<u64, u32>,
    slots: Vec<Option<Entry>>,
    free: Vec<BufferId>,
    /// The options of the last buffer: most buffers have the same, and share them.
    options: Option<Arc<RegisterOptions>>,
    version: u64,
}

impl Table {
    /// Refuses a range that may not be registered now.
    pub(super) fn check_free(
        &self,
        region: &Region,
        options: &RegisterOptions,
    ) -> Result<(), RegisterError> {
        let (address, len) = (region.address(), region.len());
        let found = self.overlapping(address, address + len);
        let Some(entry) = found.filter(|_| !sabotage::is_off("overlap-check")) else {
            return Ok(());
        };
        let held = entry.buffer.region();
        let same = held.address() == address && held.len() == len;
        if !same {
            return Err(overlap(region, held.address()));
        }
        if entry.state != State::Open {
            return Err(entry.unsettled());
        }
        if entry.buffer.options() != options {
            return Err(RegisterError::OptionsDiffer { address, len });
        }
        Ok(())
    }

    /// The entry that starts at `address`, whatever its state.
    pub(super) fn at(&self, address: u64) -> Option<&Entry> {
        self.in_slot(*self.by_address.get(&address)?)
    }

    fn at_mut(&mut self, address: u64) -> Option<&mut Entry> {
        let slot = *self.by_address.get(&address)?;
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    fn in_slot(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// All entries, in order of address.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.by_address.values().filter_map(|slot| self.in_slot(*slot))
    }

    /// Puts a checked range into the table, or counts it where it is there already.
    pub(super) fn place(
        &mut self,
        region: &Region,
        options: &RegisterOptions,
        fresh: &mut BTreeSet<u64>,
    ) -> Arc<LocalBuffer> {
        let address = region.address();
        if let Some(entry) = self.at_mut(address) {
            entry.registrations = entry.registrations.saturating_add(1);
            return Arc::clone(&entry.buffer);
        }
        let (id, options) = (self.next_id(), self.share(options));
        let buffer = Arc::new(LocalBuffer::new(id, region.clone(), options));
        self.slots[id.slot() as usize] = Some(Entry {
            buffer: Arc::clone(&buffer),
            end: buffer.end(),
            registrations: 1,
            state: State::Reserved,
        });
        self.by_address.insert(address, id.slot());
        fresh.insert(address);
        buffer
    }

    /// Opens reserved entries.
    pub(super) fn open(&mut self, addresses: &BTreeSet<u64>) {
        for address in addresses {
            if let Some(entry) = self.at_mut(*address) {
                entry.state = State::Open;
            }
        }
        self.version += u64::from(!addresses.is_empty());
    }

    /// Gives one registration of the buffer at `address` back. Where it was the last one the buffer
    /// is closing from now on, and `Some`; a buffer that is closing already is given again.
    pub(super) fn give_back(&mut self, address: u64) -> Option<Arc<LocalBuffer>> {
        let entry = self.at_mut(address)?;
        entry.registrations = entry.registrations.saturating_sub(1);
        if entry.registrations > 0 {
            return None;
        }
        let was_open = std::mem::replace(&mut entry.state, State::Closing) == State::Open;
        entry.buffer.begin_closing();
        let buffer = Arc::clone(&entry.buffer);
        self.version += u64::from(was_open);
        Some(buffer)
    }

    /// The buffer at `address`, unless it is only reserved.
    pub(super) fn registered(&self, address: u64) -> Option<&Arc<LocalBuffer>> {
        let entry = self.at(address)?;
        (entry.state != State::Reserved).then_some(&entry.buffer)
    }

    /// The registered buffer that wholly contains a range.
    pub(super) fn containing(&self, address: u64, len: u64) -> Option<&Arc<LocalBuffer>> {
        let (_, slot) = self.by_address.range(..=address).next_back()?;
        let entry = self.in_slot(*slot)?;
        // The entry starts at or below the address.
        let inside = address.checked_add(len).is_some_and(|end| end <= entry.end)
            || sabotage::is_off("range-check");
        (entry.state != State::Reserved && inside).then_some(&entry.buffer)
    }

    /// The registered buffer that a handle names.
    pub(super) fn named(&self, handle: BufferHandle) -> Option<&Arc<LocalBuffer>> {
        let entry = self.in_slot(handle.slot)?;
        let same =
            BufferHandle::from(entry.buffer.id()) == handle || sabotage::is_off("generation-check");
        (same && entry.state != State::Reserved).then_some(&entry.buffer)
    }

    /// The entry that shares a byte with `[address, end)`.
    pub(super) fn overlapping(&self, address: u64, end: u64) -> Option<&Entry> {
        let (_, slot) = self.by_address.range(..end).next_back()?;
        self.in_slot(*slot).filter(|entry| entry.end > address)
    }

    /// Whether this very buffer is in the table, and not a successor at the same address.
    pub(super) fn holds(&self, buffer: &Arc<LocalBuffer>) -> bool {
        let found = self.at(buffer.region().address());
        found.is_some_and(|entry| {
            Arc::ptr_eq(&entry.buffer, buffer) || sabotage::is_off("removal-identity")
        })
    }

    /// Removes this very buffer; `false` where it is gone already.
    pub(super) fn remove(&mut self, buffer: &Arc<LocalBuffer>) -> bool {
        if !self.holds(buffer) {
            return false;
        }
        let slot = self.by_address.remove(&buffer.region().address());
        let removed = slot.and_then(|slot| self.slots.get_mut(slot as usize)?.take());
        self.version += u64::from(removed.is_some_and(|entry| entry.state == State::Open));
        if buffer.id().generation() < u32::MAX {
            self.free.push(buffer.id());
        }
        true
    }

    pub(super) fn open_buffers(&self) -> Vec<Arc<LocalBuffer>> {
        let open = self.entries().filter(|entry| entry.state == State::Open);
        open.map(|entry| Arc::clone(&entry.buffer)).collect()
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// A handle that was never given, with a slot for its entry.
    fn next_id(&mut self) -> BufferId {
        match self.free.pop() {
            Some(old) => BufferId::new(old.slot(), old.generation() + 1),
            None => {
                self.slots.push(None);
                let slot = u32::try_from(self.slots.len() - 1);
                BufferId::new(slot.expect("memory ends before 2^32 buffers"), 1)
            }
        }
    }

    fn share(&mut self, options: &RegisterOptions) -> Arc<RegisterOptions> {
        match &self.options {
            Some(same) if **same == *options => Arc::clone(same),
            _ => Arc::clone(self.options.insert(Arc::new(options.clone()))),
        }
    }
}

/// Refuses a list whose ranges overlap one another, in any order.
pub(super) fn check_disjoint(wanted: &[(Region, RegisterOptions)]) -> Result<(), RegisterError> {
    let mut sorted: Vec<&Region> = wanted.iter().map(|(region, _)| region).collect();
    sorted.sort_by_key(|region| region.address());
    for pair in sorted.windows(2) {
        if pair[0].address() + pair[0].len() > pair[1].address() {
            return Err(overlap(pair[1], pair[0].address()));
        }
    }
    Ok(())
}

fn overlap(region: &Region, other: u64) -> RegisterError {
    RegisterError::Overlap { address: region.address(), len: region.len(), other }
}
