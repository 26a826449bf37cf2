//! The table behind the local segment: buffers by address, slots and their generations.
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
    pub(super) state: State,
    /// How often the same range was registered; the last unregister removes it (FB33).
    pub(super) registrations: u64,
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
    by_address: BTreeMap<u64, Entry>,
    /// The buffer in each slot.
    slots: Vec<Option<Arc<LocalBuffer>>>,
    next_slot: u32,
    free: Vec<BufferId>,
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
        self.by_address.get(&address)
    }

    /// Puts a checked range into the table, or counts it where it is there already.
    pub(super) fn place(
        &mut self,
        region: &Region,
        options: &RegisterOptions,
        fresh: &mut BTreeSet<u64>,
    ) -> Arc<LocalBuffer> {
        let address = region.address();
        if let Some(entry) = self.by_address.get_mut(&address) {
            entry.registrations += 1;
            return Arc::clone(&entry.buffer);
        }
        let buffer = Arc::new(LocalBuffer::new(self.next_id(), region.clone(), options.clone()));
        let entry = Entry { buffer: Arc::clone(&buffer), state: State::Reserved, registrations: 1 };
        self.by_address.insert(address, entry);
        self.fill_slot(&buffer);
        fresh.insert(address);
        buffer
    }

    /// Opens reserved entries.
    pub(super) fn open(&mut self, addresses: &BTreeSet<u64>) {
        for address in addresses {
            if let Some(entry) = self.by_address.get_mut(address) {
                entry.state = State::Open;
            }
        }
        self.version += u64::from(!addresses.is_empty());
    }

    /// Gives one registration of the buffer at `address` back. Where it was the last one the buffer
    /// is closing from now on, and `Some`; a buffer that is closing already is given again.
    pub(super) fn give_back(&mut self, address: u64) -> Option<Arc<LocalBuffer>> {
        let entry = self.by_address.get_mut(&address)?;
        entry.registrations = entry.registrations.saturating_sub(1);
        if entry.registrations > 0 {
            return None;
        }
        if entry.state == State::Open {
            self.version += 1;
        }
        entry.state = State::Closing;
        entry.buffer.begin_closing();
        Some(Arc::clone(&entry.buffer))
    }

    /// The buffer at `address`, unless it is only reserved.
    pub(super) fn registered(&self, address: u64) -> Option<&Arc<LocalBuffer>> {
        let entry = self.by_address.get(&address)?;
        (entry.state != State::Reserved).then_some(&entry.buffer)
    }

    /// The registered buffer that wholly contains a range.
    pub(super) fn containing(&self, address: u64, len: u64) -> Option<&Arc<LocalBuffer>> {
        let (_, entry) = self.by_address.range(..=address).next_back()?;
        let inside = entry.buffer.contains(address, len) || sabotage::is_off("range-check");
        (entry.state != State::Reserved && inside).then_some(&entry.buffer)
    }

    /// The registered buffer that a handle names.
    pub(super) fn named(&self, handle: BufferHandle) -> Option<&Arc<LocalBuffer>> {
        let buffer = self.slots.get(usize::try_from(handle.slot).ok()?)?.as_ref()?;
        let same =
            BufferHandle::from(buffer.id()) == handle || sabotage::is_off("generation-check");
        self.registered(buffer.region().address()).filter(|_| same)
    }

    /// The entry that shares a byte with `[address, end)`.
    pub(super) fn overlapping(&self, address: u64, end: u64) -> Option<&Entry> {
        let (_, entry) = self.by_address.range(..end).next_back()?;
        (entry.buffer.end() > address).then_some(entry)
    }

    /// Whether this very buffer is in the table, and not a successor at the same address.
    pub(super) fn holds(&self, buffer: &Arc<LocalBuffer>) -> bool {
        let found = self.by_address.get(&buffer.region().address());
        found.is_some_and(|entry| {
            Arc::ptr_eq(&entry.buffer, buffer) || sabotage::is_off("removal-identity")
        })
    }

    /// Removes this very buffer; `false` where it is gone already.
    pub(super) fn remove(&mut self, buffer: &Arc<LocalBuffer>) -> bool {
        if !self.holds(buffer) {
            return false;
        }
        let removed = self.by_address.remove(&buffer.region().address());
        self.version += u64::from(removed.is_some_and(|entry| entry.state == State::Open));
        if let Some(slot) = self.slots.get_mut(slot_index(buffer)) {
            *slot = None;
        }
        if buffer.id().generation() < u32::MAX {
            self.free.push(buffer.id());
        }
        true
    }

    pub(super) fn open_buffers(&self) -> Vec<Arc<LocalBuffer>> {
        let open = self.by_address.values().filter(|entry| entry.state == State::Open);
        open.map(|entry| Arc::clone(&entry.buffer)).collect()
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    fn fill_slot(&mut self, buffer: &Arc<LocalBuffer>) {
        let index = slot_index(buffer);
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        self.slots[index] = Some(Arc::clone(buffer));
    }

    fn next_id(&mut self) -> BufferId {
        match self.free.pop() {
            Some(old) => BufferId::new(old.slot(), old.generation() + 1),
            None => {
                self.next_slot += 1;
                BufferId::new(self.next_slot - 1, 1)
            }
        }
    }
}

fn slot_index(buffer: &LocalBuffer) -> usize {
    usize::try_from(buffer.id().slot()).unwrap_or(usize::MAX)
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
