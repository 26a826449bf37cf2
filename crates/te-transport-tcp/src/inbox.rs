//! What callers hand to the client driver, and how much of it one peer may have waiting.
//!
//! I1  Slices of one peer that wait, here or in its pool, never exceed the bound (J58).
//! I2  Whoever left slices behind is told once when there is room again.
//! I3  After [`Inbox::close`] nothing gets in.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use te_metadata::{HostPort, Incarnation};
use te_segment::{SegmentId, SliceToken};

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

#[derive(Debug, Default)]
struct Admission {
    waiting: usize,
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
    bound: usize,
}

impl Inbox {
    pub(crate) fn new(bound: usize) -> Self {
        Self { state: Mutex::default(), filled: AtomicBool::new(false), bound }
    }

    /// Takes all the room there is to a peer; `None` when the inbox is closed. What is not used
    /// must go back with [`Inbox::give_back`].
    pub(crate) fn reserve(&self, peer: &Destination, segment: SegmentId) -> Option<usize> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let admission = match state.admissions.get_mut(peer) {
            Some(known) => known,
            None => state.admissions.entry(peer.clone()).or_default(),
        };
        let room = self.bound - admission.waiting;
        admission.waiting = self.bound;
        if room == 0 && !admission.left_behind.contains(&segment) {
            admission.left_behind.push(segment);
        }
        Some(room)
    }

    /// Gives back what was not used of a reservation, and notes whether the caller may have more
    /// slices. Comes before the slices are pushed: the driver may be done with them at once.
    pub(crate) fn give_back(&self, peer: &Destination, unused: usize, segment: SegmentId) {
        let mut state = self.state.lock();
        let Some(admission) = state.admissions.get_mut(peer) else { return };
        admission.waiting -= unused;
        if unused == 0 && !admission.left_behind.contains(&segment) {
            admission.left_behind.push(segment);
        }
        if unused > 0 && !admission.left_behind.is_empty() {
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

    /// `n` slices of a peer wait no more. Gives those to be told of room.
    pub(crate) fn on_left_queue(&self, peer: &Destination, n: usize) -> Vec<SegmentId> {
        let mut state = self.state.lock();
        let Some(admission) = state.admissions.get_mut(peer) else { return Vec::new() };
        admission.waiting -= n;
        // Half empty, so that a busy caller is not woken for every single slice.
        if admission.waiting > self.bound / 2 {
            return Vec::new();
        }
        let told = std::mem::take(&mut admission.left_behind);
        if admission.waiting == 0 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Destination {
        Destination { address: HostPort::new("peer", Some(1)).unwrap(), v3: None }
    }

    const ONE: SegmentId = SegmentId::from_u64(1);

    /// J58: the bound holds over several callers, and each of those left out is told once.
    #[test]
    fn j58_waiting_slices_never_exceed_the_bound_and_room_is_told_once() {
        let inbox = Inbox::new(4);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(4));
        assert_eq!(inbox.reserve(&peer(), SegmentId::from_u64(2)), Some(0));
        inbox.give_back(&peer(), 0, ONE);
        assert!(inbox.on_left_queue(&peer(), 1).is_empty(), "three of four still wait");
        assert_eq!(inbox.on_left_queue(&peer(), 1), [SegmentId::from_u64(2), ONE]);
        assert!(inbox.on_left_queue(&peer(), 1).is_empty());
        assert_eq!(inbox.reserve(&peer(), ONE), Some(3));
    }

    #[test]
    fn a_reservation_given_back_while_somebody_was_turned_away_makes_the_driver_look() {
        let inbox = Inbox::new(4);
        assert_eq!(inbox.reserve(&peer(), ONE), Some(4));
        assert_eq!(inbox.reserve(&peer(), ONE), Some(0));
        assert!(!inbox.is_filled());
        inbox.give_back(&peer(), 4, ONE);
        assert!(matches!(inbox.take()[..], [Command::Room(_)]));
        assert_eq!(inbox.on_left_queue(&peer(), 0), [ONE]);
    }

    #[test]
    fn a_closed_inbox_takes_nothing() {
        let inbox = Inbox::new(4);
        inbox.push(Command::Cancel(Vec::new())).unwrap();
        assert_eq!(inbox.close().len(), 1);
        assert!(inbox.push(Command::Cancel(Vec::new())).is_err());
        assert_eq!(inbox.reserve(&peer(), ONE), None);
    }
}
