//! What callers hand to the client driver, and how much of it one peer may have waiting.
//!
//! I1  Slices of one peer that wait, here or in its pool, never exceed the bound (J58), nor by more
//!     than one slice the bound on their bytes. In version 3 they wait until they are done.
//! I2  Whoever left slices behind is told once when there is room again.
//! I3  After [`Inbox::close`] nothing gets in.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use te_metadata::{HostPort, Incarnation};
use te_segment::{SegmentId, Slice, SliceToken};
use te_sync::Mutex;

use crate::pool::Job;

/// A peer's data port, and how it is spoken with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) address: HostPort,
    /// The run of the peer's process that version 3 is spoken with; `None` for versions 1 and 2.
    pub(crate) v3: Option<Incarnation>,
}

/// A message to the client driver.
#[derive(Debug)]
pub(crate) enum Command {
    /// Move these.
    Submit(Destination, Vec<Job>),
    /// The peer of these has no data port.
    Unreachable(Vec<Job>),
    /// Call these back.
    Cancel(Vec<SliceToken>),
    /// A name was looked up.
    Resolved(HostPort, io::Result<Vec<SocketAddr>>),
    /// Somebody may wait for room to this peer.
    Room(Destination),
}

/// So many slices, of so many bytes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) slices: usize,
    pub(crate) bytes: u64,
}

impl Load {
    /// Counts a slice in.
    pub(crate) fn add(&mut self, slice: &Slice) {
        self.slices += 1;
        self.bytes = self.bytes.saturating_add(slice.len());
    }

    /// Whether there is room for one more under a bound. One slice may be larger than that.
    pub(crate) fn is_below(self, bound: Self) -> bool {
        self.slices < bound.slices && self.bytes < bound.bytes
    }

    /// Counts others in.
    pub(crate) fn merge(&mut self, more: Self) {
        *self = self.plus(more);
    }

    fn plus(self, more: Self) -> Self {
        Self { slices: self.slices + more.slices, bytes: self.bytes.saturating_add(more.bytes) }
    }

    fn less(self, gone: Self) -> Self {
        Self {
            slices: self.slices.saturating_sub(gone.slices),
            bytes: self.bytes.saturating_sub(gone.bytes),
        }
    }

    fn half(self) -> Self {
        Self { slices: self.slices / 2, bytes: self.bytes / 2 }
    }
}

#[derive(Debug, Default)]
struct Admission {
    waiting: Load,
    /// Somebody hands slices over just now, and has all the room.
    reserved: bool,
    left_behind: Vec<SegmentId>,
}

#[derive(Debug, Default)]
struct State {
    commands: Vec<Command>,
    admissions: HashMap<Destination, Admission>,
    closed: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Set under the lock whenever a command is there, so that the driver can look without it.
    filled: AtomicBool,
    bound: Load,
}

impl Inbox {
    pub(crate) fn new(bound: Load) -> Self {
        Self { state: Mutex::default(), filled: AtomicBool::new(false), bound }
    }

    /// Takes all the room there is to a peer; `None` when the inbox is closed. Where there is any,
    /// [`Inbox::take_up`] must follow.
    pub(crate) fn reserve(&self, peer: &Destination, segment: SegmentId) -> Option<Load> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let admission = match state.admissions.get_mut(peer) {
            Some(known) => known,
            None => state.admissions.entry(peer.clone()).or_default(),
        };
        if admission.reserved || !admission.waiting.is_below(self.bound) {
            admission.leave_behind(segment);
            return Some(Load::default());
        }
        admission.reserved = true;
        Some(self.bound.less(admission.waiting))
    }

    /// Ends a reservation of which so much is used. Where `more` is set the caller may have more
    /// slices. Comes before the slices are pushed: the driver may be done with them at once.
    pub(crate) fn take_up(&self, peer: &Destination, used: Load, more: Option<SegmentId>) {
        let mut state = self.state.lock();
        let Some(admission) = state.admissions.get_mut(peer) else { return };
        admission.reserved = false;
        admission.waiting = admission.waiting.plus(used);
        more.into_iter().for_each(|segment| admission.leave_behind(segment));
        // Others may have been turned away, or the driver done with so much meanwhile that it tells
        // of nothing any more.
        if admission.waiting.is_below(self.bound) && !admission.left_behind.is_empty() {
            state.commands.push(Command::Room(peer.clone()));
            self.filled.store(true, Ordering::SeqCst);
        }
    }

    /// Hands a command over, or gives it back when the inbox is closed.
    pub(crate) fn push(&self, command: Command) -> Result<(), Command> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(command);
        }
        state.commands.push(command);
        // Pairs with the load in `is_filled`; the driver looks after it said that it sleeps.
        self.filled.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Whether commands wait.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    /// Takes every command.
    pub(crate) fn take(&self) -> Vec<Command> {
        if !self.is_filled() {
            return Vec::new();
        }
        let mut state = self.state.lock();
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut state.commands)
    }

    /// Slices of a peer wait no more. Gives those to be told of room.
    pub(crate) fn on_left_queue(&self, peer: &Destination, gone: Load) -> Vec<SegmentId> {
        let mut state = self.state.lock();
        let Some(admission) = state.admissions.get_mut(peer) else { return Vec::new() };
        admission.waiting = admission.waiting.less(gone);
        // Half empty, so that a busy caller is not woken for every single slice.
        let half = self.bound.half();
        if admission.waiting.slices > half.slices || admission.waiting.bytes > half.bytes {
            return Vec::new();
        }
        let told = std::mem::take(&mut admission.left_behind);
        if admission.waiting == Load::default() && !admission.reserved {
            state.admissions.remove(peer);
        }
        told
    }

    /// Lets nothing in any more and takes what is there.
    pub(crate) fn close(&self) -> Vec<Command> {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.commands)
    }
}

impl Admission {
    fn leave_behind(&mut self, segment: SegmentId) {
        if !self.left_behind.contains(&segment) {
            self.left_behind.push(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Destination {
        Destination { address: HostPort::new("peer", Some(1)).unwrap(), v3: None }
    }

    const ONE: SegmentId = SegmentId::from_u64(1);
    const TWO: SegmentId = SegmentId::from_u64(2);
    const BOUND: Load = Load { slices: 4, bytes: 100 };

    fn load(slices: usize, bytes: u64) -> Load {
        Load { slices, bytes }
    }

    /// J58: the bound holds over several callers, and each of those left out is told once.
    #[test]
    fn j58_waiting_slices_never_exceed_the_bound_and_room_is_told_once() {
        let inbox = Inbox::new(BOUND);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(BOUND));
        assert_eq!(inbox.reserve(&peer(), TWO), Some(load(0, 0)), "it is reserved");
        inbox.take_up(&peer(), load(4, 8), Some(ONE));
        assert_eq!(inbox.reserve(&peer(), TWO), Some(load(0, 0)));
        assert!(inbox.on_left_queue(&peer(), load(1, 2)).is_empty(), "three of four still wait");
        assert_eq!(inbox.on_left_queue(&peer(), load(1, 2)), [TWO, ONE]);
        assert!(inbox.on_left_queue(&peer(), load(1, 2)).is_empty());
        assert_eq!(inbox.reserve(&peer(), ONE), Some(load(3, 98)));
    }

    /// A few large slices fill the room as many small ones do; one may be larger than the bound.
    #[test]
    fn bytes_are_bounded_as_well_as_slices() {
        let inbox = Inbox::new(BOUND);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(BOUND));
        inbox.take_up(&peer(), load(2, 150), Some(ONE));
        assert_eq!(inbox.reserve(&peer(), TWO), Some(load(0, 0)));
        assert!(inbox.on_left_queue(&peer(), load(1, 50)).is_empty(), "100 bytes still wait");
        assert_eq!(inbox.on_left_queue(&peer(), load(1, 100)), [ONE, TWO]);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(BOUND));
    }

    #[test]
    fn a_reservation_given_back_while_somebody_was_turned_away_makes_the_driver_look() {
        let inbox = Inbox::new(BOUND);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(BOUND));
        assert_eq!(inbox.reserve(&peer(), ONE), Some(load(0, 0)));
        assert!(!inbox.is_filled());
        inbox.take_up(&peer(), load(0, 0), None);
        assert!(matches!(inbox.take()[..], [Command::Room(_)]));
        assert_eq!(inbox.on_left_queue(&peer(), load(0, 0)), [ONE]);
    }

    /// The driver may end slices while more are handed over: whoever used all the room that there was
    /// is told of what there is since.
    #[test]
    fn room_that_comes_during_a_reservation_is_told() {
        let inbox = Inbox::new(BOUND);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(BOUND));
        inbox.take_up(&peer(), load(3, 3), None);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(load(1, 97)));
        assert!(inbox.on_left_queue(&peer(), load(3, 3)).is_empty());
        inbox.take_up(&peer(), load(1, 1), Some(ONE));
        assert!(matches!(inbox.take()[..], [Command::Room(_)]));
        assert_eq!(inbox.on_left_queue(&peer(), load(0, 0)), [ONE]);
    }

    #[test]
    fn a_closed_inbox_takes_nothing() {
        let inbox = Inbox::new(BOUND);
        inbox.push(Command::Cancel(Vec::new())).unwrap();
        assert_eq!(inbox.close().len(), 1);
        assert!(inbox.push(Command::Cancel(Vec::new())).is_err());
        assert_eq!(inbox.reserve(&peer(), ONE), None);
    }
}
