//! Slices that are with a transport, by token.
//!
//! I1  A token is given back at most once: a second completion, or one for an earlier slice in the
//!     same slot, finds another generation and is counted, not believed.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use te_segment::{RemoteSegment, SliceToken};

use crate::batch::Batch;
use crate::classic::{Via, Vias};
use crate::quarantine::Held;
use crate::task::Piece;

/// Whose piece a slice is.
#[derive(Debug, Clone)]
pub(crate) struct Flight {
    pub(crate) batch: Arc<Batch>,
    pub(crate) task: usize,
    pub(crate) piece: Piece,
    pub(crate) peer: Arc<RemoteSegment>,
    /// The transport that has it.
    pub(crate) via: Via,
    /// How many slices the peer had served when it left.
    pub(crate) served: u64,
    /// When it went to the transport.
    pub(crate) since: Instant,
    /// Memory in quarantine that this slice keeps alive.
    pub(crate) held: Option<Arc<Held>>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    flight: Option<Flight>,
}

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// The table of slices in flight.
#[derive(Debug, Default)]
pub(crate) struct SliceTable {
    slots: Mutex<Slots>,
}

impl SliceTable {
    pub(crate) fn insert(&self, flight: Flight) -> SliceToken {
        let mut table = self.slots.lock();
        let slot = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot { generation: 0, flight: None });
            u32::try_from(table.slots.len() - 1).expect("admission keeps slices below 2^32")
        });
        let place = &mut table.slots[slot as usize];
        place.generation = place.generation.wrapping_add(1);
        place.flight = Some(flight);
        SliceToken::new(slot, place.generation)
    }

    /// Takes a slice out; `None` for a token that is not in flight.
    pub(crate) fn take(&self, token: SliceToken) -> Option<Flight> {
        let mut table = self.slots.lock();
        let place = table.slots.get_mut(token.slot() as usize)?;
        if place.generation != token.generation()
            && !te_metadata::sabotage::is_off("slice-generation")
        {
            return None;
        }
        let flight = place.flight.take()?;
        table.free.push(token.slot());
        Some(flight)
    }

    /// Tokens in flight that belong to a batch and pass the filter on their task's index.
    pub(crate) fn tokens_of(
        &self,
        batch: &Arc<Batch>,
        mut wanted: impl FnMut(usize) -> bool,
    ) -> Vec<SliceToken> {
        let table = self.slots.lock();
        let numbered = (0u32..).zip(&table.slots);
        let ours = numbered.filter(|(_, slot)| {
            let flight = slot.flight.as_ref();
            flight.is_some_and(|f| Arc::ptr_eq(&f.batch, batch) && wanted(f.task))
        });
        ours.map(|(number, slot)| SliceToken::new(number, slot.generation)).collect()
    }

    /// Lets the slices of a task keep its memory alive until they are back.
    pub(crate) fn hold(&self, batch: &Arc<Batch>, task: usize, held: &Arc<Held>) {
        let mut table = self.slots.lock();
        let flights = table.slots.iter_mut().filter_map(|slot| slot.flight.as_mut());
        for flight in flights.filter(|f| f.task == task && Arc::ptr_eq(&f.batch, batch)) {
            flight.held = Some(Arc::clone(held));
        }
    }

    /// Bytes of the slices that are out.
    pub(crate) fn bytes(&self) -> u64 {
        let table = self.slots.lock();
        table
            .slots
            .iter()
            .filter_map(|slot| slot.flight.as_ref())
            .map(|flight| flight.piece.len)
            .sum()
    }

    /// Tasks with a slice that left at `before` or earlier, and when the oldest other slice left.
    pub(crate) fn overdue(&self, before: Instant) -> (Vec<(Arc<Batch>, usize)>, Option<Instant>) {
        let table = self.slots.lock();
        let flights = || table.slots.iter().filter_map(|slot| slot.flight.as_ref());
        let late = flights().filter(|flight| flight.since <= before);
        let tasks = late.map(|flight| (Arc::clone(&flight.batch), flight.task)).collect();
        (tasks, flights().map(|flight| flight.since).filter(|since| *since > before).min())
    }

    /// The transports that have slices.
    pub(crate) fn vias(&self) -> Vias {
        let table = self.slots.lock();
        table.slots.iter().filter_map(|slot| Some(slot.flight.as_ref()?.via)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        let table = self.slots.lock();
        table.slots.len() - table.free.len()
    }
}

impl Drop for SliceTable {
    /// What no transport gave back by now is kept for good: something may still write it.
    fn drop(&mut self) {
        if te_metadata::sabotage::is_off("close-keeps") {
            return;
        }
        let slots = self.slots.get_mut().slots.iter_mut();
        slots.filter_map(|slot| slot.flight.take()).for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    //! Generations, and what is left at the end.

    use te_segment::{AlignedBuffer, Region, RemoteRange};

    use super::*;
    use crate::TransferRequest;
    use crate::quarantine::Quarantine;
    use crate::task::Work;
    use crate::testing_support::{a_batch, a_peer, a_via};

    fn flight() -> Flight {
        let piece = Piece::new(0, 1);
        let since = te_transport::Clock::now(&te_transport::SystemClock);
        Flight {
            batch: a_batch(),
            task: 0,
            piece,
            peer: a_peer(1),
            via: a_via(),
            served: 0,
            since,
            held: None,
        }
    }

    #[test]
    fn a_token_is_taken_once_and_a_recycled_slot_refuses_the_old_one() {
        // style trap 3: a completion for a recycled slot must not be believed.
        let table = SliceTable::default();
        let first = table.insert(flight());
        assert!(table.take(first).is_some());
        assert!(table.take(first).is_none());
        let second = table.insert(flight());
        assert_eq!(first.slot(), second.slot());
        assert!(table.take(first).is_none());
        assert!(table.take(second).is_some());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn what_no_transport_gave_back_outlives_the_table() {
        // The truth issue, item 7: what is still quarantined at the end is kept on purpose.
        let ward = Arc::new(Quarantine::default());
        let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
        let peer = a_peer(1);
        let read = TransferRequest::read(region.whole(), peer.id(), 0x10000);
        let remote = RemoteRange::new(0x10000, 4096).unwrap();
        let held = ward.admit(Work::new(&read, &peer, remote, None, None));
        let table = SliceTable::default();
        let back = flight();
        let (of_back, token) = (Arc::downgrade(&back.batch), table.insert(back));
        let lost = flight();
        let of_lost = Arc::downgrade(&lost.batch);
        let batch = Arc::clone(&lost.batch);
        table.insert(lost);
        table.hold(&batch, 0, &held);
        drop((batch, held, read, region));
        drop(table.take(token));
        assert_eq!(table.bytes(), 1);
        drop(table);
        assert!(of_back.upgrade().is_none(), "what came back is free");
        assert!(of_lost.upgrade().is_some(), "the rest is kept");
        assert_eq!(ward.bytes(), 4096, "with its memory");
    }
}
