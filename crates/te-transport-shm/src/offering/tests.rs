//! Buffers that others hold, with initiators that live, hang up and die.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use te_metadata::{BufferHandle, Incarnation};
use te_segment::{AlignedBuffer, LocalSegment, Region, RegisterOptions, UnregisterError};

use super::*;
use crate::server::{Guest, guest_of};
use crate::sleeper::Sleeper;
use crate::table::{Holds, PeerTable};

const ME: Incarnation = Incarnation::from_u128(5);

struct Owner {
    segment: LocalSegment,
    offering: Offering,
}

impl Owner {
    fn new() -> Self {
        let offering = Offering::new(GuardTable::create(ME).unwrap());
        Self { segment: LocalSegment::new(), offering }
    }

    fn buffer(&self, remote: RemoteAccess) -> Arc<LocalBuffer> {
        let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
        let options = RegisterOptions { remote, ..RegisterOptions::default() };
        let buffer = self.segment.register(&region, options).unwrap();
        self.offering.open(&buffer);
        buffer
    }

    /// A process that sleeps, as a guest, and its page of holds.
    fn guest(&self) -> (Sleeper, Arc<Guest>, Holds, OwnedFd) {
        let child = Sleeper::new();
        let (guest, fd, socket) = guest_of(child.pid(), ME);
        let (guest, holds) = (Arc::new(guest), Holds::open(&fd).unwrap());
        self.offering.add_guest(Arc::clone(&guest));
        (child, guest, holds, socket)
    }

    fn unregister(&self, buffer: &LocalBuffer) -> Result<(), UnregisterError> {
        let retiring = self.segment.retire(buffer.region().address())?.unwrap();
        self.offering.close(retiring.buffer().id());
        retiring.finish(Duration::ZERO)
    }
}

#[test]
fn a_buffer_that_nobody_holds_is_free_at_once() {
    let owner = Owner::new();
    for remote in [RemoteAccess::None, RemoteAccess::Read, RemoteAccess::ReadWrite] {
        let buffer = owner.buffer(remote);
        owner.unregister(&buffer).unwrap();
    }
    assert_eq!(owner.offering.settle(), 0);
}

#[test]
fn a_buffer_that_is_held_is_busy_until_the_holder_lets_go() {
    let owner = Owner::new();
    let (buffer, other) = (owner.buffer(RemoteAccess::Read), owner.buffer(RemoteAccess::Read));
    let (_child, guest, holds, _socket) = owner.guest();
    holds.put(7, buffer.id().into()).unwrap();
    owner.unregister(&other).unwrap();
    let busy = owner.unregister(&buffer).unwrap_err();
    assert!(matches!(busy, UnregisterError::Busy { in_flight: 1, .. }), "{busy}");
    assert_eq!(owner.offering.settle(), 1);
    let peer = PeerTable::open(owner.offering.table().fd(), ME).unwrap();
    assert!(peer.check(buffer.id().into(), te_segment::Access::Read).is_err(), "it is closed");
    holds.clear(8);
    assert_eq!(owner.offering.settle(), 0);
    owner.unregister(&buffer).unwrap();
    assert!(!guest.is_dead());
}

#[test]
fn a_dead_holder_holds_nothing() {
    let owner = Owner::new();
    let buffer = owner.buffer(RemoteAccess::ReadWrite);
    let (mut child, guest, holds, _socket) = owner.guest();
    holds.put(0, buffer.id().into()).unwrap();
    owner.unregister(&buffer).unwrap_err();
    child.end();
    assert!(guest.is_dead());
    assert_eq!(owner.offering.settle(), 0);
    owner.unregister(&buffer).unwrap();
}

#[test]
fn one_that_hung_up_counts_while_it_lives_and_holds() {
    let owner = Owner::new();
    let buffer = owner.buffer(RemoteAccess::ReadWrite);
    let (_child, _guest, holds, socket) = owner.guest();
    holds.put(0, buffer.id().into()).unwrap();
    drop(socket);
    owner.offering.remove_guests(Guest::is_gone);
    owner.unregister(&buffer).unwrap_err();
    holds.clear(1);
    owner.offering.remove_guests(Guest::is_gone);
    assert!(owner.offering.guests().is_empty());
    assert_eq!(owner.offering.settle(), 0);
}

#[test]
fn what_is_held_at_the_end_is_kept_for_good() {
    let owner = Owner::new();
    let (held, free) = (owner.buffer(RemoteAccess::Read), owner.buffer(RemoteAccess::Read));
    let (_child, _guest, holds, _socket) = owner.guest();
    holds.put(0, held.id().into()).unwrap();
    owner.offering.shut();
    assert_eq!(owner.offering.settle(), 1);
    owner.offering.keep_for_good();
    assert_eq!((held.in_flight(), free.in_flight()), (1, 0));
    let late = owner.buffer(RemoteAccess::Read);
    assert_eq!(late.in_flight(), 0, "nothing is offered after the end");
}

#[test]
fn a_page_full_of_nonsense_delays_nobody_and_ends_nothing() {
    // A hostile initiator that holds everything for ever: the owner is told Busy, in no time.
    let owner = Owner::new();
    let buffer = owner.buffer(RemoteAccess::ReadWrite);
    let (mut child, _guest, holds, _socket) = owner.guest();
    for index in 0..crate::table::HOLDS {
        holds
            .put(index, BufferHandle { generation: 77, slot: u32::try_from(index).unwrap() })
            .unwrap();
    }
    let begun = now();
    owner.unregister(&buffer).unwrap_err();
    assert!(now() - begun < Duration::from_secs(5));
    child.end();
    assert_eq!(owner.offering.settle(), 0);
}

#[expect(clippy::disallowed_methods, reason = "tests are drivers")]
fn now() -> Instant {
    Instant::now()
}
