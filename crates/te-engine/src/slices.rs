//! Slices that are with a transport, by token.
//!
//! I1  A token is given back at most once: a second completion, or one for an earlier slice in the
//!     same slot, finds another generation and is counted, not believed.

use std::sync::Arc;
use std::time::Instant;

use te_segment::{RemoteSegment, SliceToken};
use te_sync::{Mutex, MutexGuard};

use crate::batch::Batch;
use crate::classic::{MAX_TRANSPORTS, Route, Via, Vias};
use crate::quarantine::Held;
use crate::task::Piece;

/// Whose piece a slice is. There may be a million of them.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) batch: Arc<Batch>,
    pub(crate) route: Arc<Route>,
    /// When it went to the transport.
    pub(crate) since: Instant,
    pub(crate) piece: Piece,
    /// Memory in quarantine that this slice keeps alive.
    pub(crate) held: Option<Arc<Held>>,
    pub(crate) task: u32,
    /// Its place in the order in which slices left for the peer; it wraps.
    pub(crate) order: u32,
}

impl Flight {
    /// The peer that it went to.
    pub(crate) fn peer(&self) -> &Arc<RemoteSegment> {
        &self.route.peer
    }

    /// The transport that has it.
    pub(crate) fn via(&self) -> Via {
        self.route.via
    }

    /// The position of its task in the batch.
    pub(crate) fn index(&self) -> usize {
        self.task as usize
    }
}

#[derive(Debug, Default)]
struct Slot {
    flight: Option<Flight>,
    generation: u32,
    /// The next free slot, where this one is free; [`NONE`] for the last.
    next_free: u32,
}

const NONE: u32 = u32::MAX;

/// Slots of one allocation; the table grows by so many and moves none.
const CHUNK: usize = 256;

#[derive(Debug)]
struct Slots {
    chunks: Vec<Box<[Slot]>>,
    first_free: u32,
    /// Slices with each transport.
    on_way: [u32; MAX_TRANSPORTS],
}

impl Default for Slots {
    fn default() -> Self {
        Self { chunks: Vec::new(), first_free: NONE, on_way: [0; MAX_TRANSPORTS] }
    }
}

impl Slots {
    fn slot(&mut self, number: u32) -> Option<&mut Slot> {
        let number = number as usize;
        self.chunks.get_mut(number / CHUNK)?.get_mut(number % CHUNK)
    }

    fn grow(&mut self) {
        let first = self.chunks.len() * CHUNK;
        let mut chunk: Vec<Slot> = (0..CHUNK).map(|_| Slot::default()).collect();
        for (place, slot) in chunk.iter_mut().enumerate().rev() {
            slot.next_free = self.first_free;
            let number = u32::try_from(first + place);
            self.first_free = number.expect("admission keeps slices below 2^32");
        }
        self.chunks.push(chunk.into_boxed_slice());
    }

    fn numbered(&mut self) -> impl Iterator<Item = (u32, &mut Slot)> {
        (0u32..).zip(self.chunks.iter_mut().flatten())
    }

    fn flights(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.chunks.iter_mut().flatten().filter_map(|slot| slot.flight.as_mut())
    }
}

/// The table of slices in flight.
#[derive(Debug, Default)]
pub(crate) struct SliceTable {
    slots: Mutex<Slots>,
}

/// The table, held for several slices in a row. Who has a batch locked too locked that first.
pub(crate) struct OpenTable<'a>(MutexGuard<'a, Slots>);

impl OpenTable<'_> {
    pub(crate) fn insert(&mut self, flight: Flight) -> SliceToken {
        let table = &mut *self.0;
        if table.first_free == NONE {
            table.grow();
        }
        table.on_way[flight.via().place()] += 1;
        let number = table.first_free;
        let slot = table.slot(number).expect("a free slot is one of the table");
        slot.generation = slot.generation.wrapping_add(1);
        slot.flight = Some(flight);
        let (token, next) = (SliceToken::new(number, slot.generation), slot.next_free);
        table.first_free = next;
        token
    }

    /// Takes a slice out; `None` for a token that is not in flight.
    pub(crate) fn take(&mut self, token: SliceToken) -> Option<Flight> {
        let table = &mut *self.0;
        let first_free = table.first_free;
        let slot = table.slot(token.slot())?;
        if slot.generation != token.generation()
            && !te_metadata::sabotage::is_off("slice-generation")
        {
            return None;
        }
        let flight = slot.flight.take()?;
        slot.next_free = first_free;
        table.first_free = token.slot();
        table.on_way[flight.via().place()] -= 1;
        Some(flight)
    }
}

impl SliceTable {
    pub(crate) fn open(&self) -> OpenTable<'_> {
        OpenTable(self.slots.lock())
    }

    /// Tokens in flight that belong to a batch and pass the filter on their task's index.
    pub(crate) fn tokens_of(
        &self,
        batch: &Arc<Batch>,
        mut wanted: impl FnMut(usize) -> bool,
    ) -> Vec<SliceToken> {
        let mut table = self.slots.lock();
        let ours = table.numbered().filter(|(_, slot)| {
            let flight = slot.flight.as_ref();
            flight.is_some_and(|f| Arc::ptr_eq(&f.batch, batch) && wanted(f.index()))
        });
        ours.map(|(number, slot)| SliceToken::new(number, slot.generation)).collect()
    }

    /// What went by a route at `since` or later and is in flight.
    pub(crate) fn gone_since(
        &self,
        route: &Arc<Route>,
        since: Instant,
    ) -> Vec<(Arc<Batch>, usize, SliceToken)> {
        let mut table = self.slots.lock();
        let recent = table.numbered().filter_map(|(number, slot)| {
            let flight = slot.flight.as_ref()?;
            let is_it = Arc::ptr_eq(&flight.route, route) && flight.since >= since;
            let token = SliceToken::new(number, slot.generation);
            is_it.then(|| (Arc::clone(&flight.batch), flight.index(), token))
        });
        recent.collect()
    }

    /// Lets the slices of a task keep its memory alive until they are back.
    pub(crate) fn hold(&self, batch: &Arc<Batch>, task: usize, held: &Arc<Held>) {
        let mut table = self.slots.lock();
        let ours = |f: &&mut Flight| f.index() == task && Arc::ptr_eq(&f.batch, batch);
        for flight in table.flights().filter(ours) {
            flight.held = Some(Arc::clone(held));
        }
    }

    /// Bytes of the slices that are out.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots.lock().flights().map(|flight| flight.piece.len).sum()
    }

    /// Tasks with a slice that left at `before` or earlier, and when the oldest other slice left.
    pub(crate) fn overdue(&self, before: Instant) -> (Vec<(Arc<Batch>, usize)>, Option<Instant>) {
        let mut table = self.slots.lock();
        let (mut late, mut oldest) = (Vec::new(), None);
        for flight in table.flights() {
            if flight.since <= before {
                late.push((Arc::clone(&flight.batch), flight.index()));
            } else {
                oldest = oldest.into_iter().chain([flight.since]).min();
            }
        }
        (late, oldest)
    }

    /// The transports that have slices.
    pub(crate) fn vias(&self) -> Vias {
        let on_way = self.slots.lock().on_way;
        Via::all().filter(|via| on_way[via.place()] > 0).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.lock().on_way.iter().map(|count| *count as usize).sum()
    }
}

impl Drop for SliceTable {
    /// What no transport gave back by now is kept for good: something may still write it.
    fn drop(&mut self) {
        if te_metadata::sabotage::is_off("close-keeps") {
            return;
        }
        let slots = self.slots.get_mut().chunks.iter_mut().flatten();
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
    use crate::testing_support::{a_batch, a_peer, a_route};

    fn flight() -> Flight {
        let since = te_transport::Clock::now(&te_transport::SystemClock);
        let (piece, route) = (Piece::new(0, 1), a_route());
        Flight { batch: a_batch(), route, since, piece, held: None, task: 0, order: 0 }
    }

    #[test]
    fn a_flight_and_a_task_take_no_more_than_is_promised() {
        // The issue of speed: at most 256 bytes for a request in flight beside its credit.
        let (slot, task) = (size_of::<Slot>(), size_of::<crate::task::Task>());
        assert!(slot + task <= 256, "{slot} + {task}");
    }

    #[test]
    fn a_table_that_grows_gives_every_slot_once() {
        let table = SliceTable::default();
        let tokens: Vec<_> = (0..3 * CHUNK).map(|_| table.open().insert(flight())).collect();
        let slots: std::collections::BTreeSet<_> = tokens.iter().map(|t| t.slot()).collect();
        assert_eq!((slots.len(), table.len()), (tokens.len(), tokens.len()));
        assert!(tokens.iter().all(|token| table.open().take(*token).is_some()));
        assert!(tokens.iter().all(|token| table.open().take(*token).is_none()));
        let again = table.open().insert(flight()).slot() as usize;
        assert!(again < 3 * CHUNK, "free slots come first");
    }

    #[test]
    fn a_token_is_taken_once_and_a_recycled_slot_refuses_the_old_one() {
        // style trap 3: a completion for a recycled slot must not be believed.
        let table = SliceTable::default();
        let first = table.open().insert(flight());
        assert!(table.open().take(first).is_some());
        assert!(table.open().take(first).is_none());
        let second = table.open().insert(flight());
        assert_eq!(first.slot(), second.slot());
        assert!(table.open().take(first).is_none());
        assert!(table.open().take(second).is_some());
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
        let (of_back, token) = (Arc::downgrade(&back.batch), table.open().insert(back));
        let lost = flight();
        let of_lost = Arc::downgrade(&lost.batch);
        let batch = Arc::clone(&lost.batch);
        table.open().insert(lost);
        table.hold(&batch, 0, &held);
        drop((batch, held, read, region));
        drop(table.open().take(token));
        assert_eq!(table.bytes(), 1);
        drop(table);
        assert!(of_back.upgrade().is_none(), "what came back is free");
        assert!(of_lost.upgrade().is_some(), "the rest is kept");
        assert_eq!(ward.bytes(), 4096, "with its memory");
    }
}
