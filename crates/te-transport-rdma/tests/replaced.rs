//! A name of a peer that another process takes while the old one still runs, as in a rolling update
//! behind a store: slices go to the process that they are for, or nowhere.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

#[path = "common/bench.rs"]
mod bench;
mod common;

use std::sync::Arc;
use std::time::Duration;

use bench::{LEN, class};
use common::{Host, Hub, PATIENCE, add_nic, bytes, config, until};
use te_metadata::{HostPort, Incarnation, SegmentName, TeObject};
use te_segment::{LocalBuffer, Opcode, RemoteSegment, SegmentId, Slice};
use te_transport::{FaultClass, RemoteSide};
use te_verbs::{Fake, FakeNic};

/// A process that serves the name "b" with a NIC of the same name as the others.
struct Server {
    host: Host,
    nic: FakeNic,
    target: Arc<LocalBuffer>,
    rpc: &'static str,
    epoch: u64,
}

impl Server {
    fn new(fake: &Fake, hub: &Arc<Hub>, (rpc, last): (&'static str, u8), is_te: bool) -> Self {
        let nic = add_nic(fake, rpc, "rxe1", last);
        let mut host = Host::on(fake.host(rpc), hub, "b", config());
        host.is_te = is_te;
        hub.add(rpc, &host.rdma);
        let target = host.offer(LEN, last);
        Self { host, nic, target, rpc, epoch: last.into() }
    }

    fn remote(&self) -> Arc<RemoteSegment> {
        self.remote_as(self.host.incarnation)
    }

    fn remote_as(&self, incarnation: Incarnation) -> Arc<RemoteSegment> {
        let name = SegmentName::parse("b").unwrap();
        let rpc = HostPort::new(self.rpc, Some(1)).unwrap();
        let mut descriptor = self.host.descriptor();
        if let Some(te) = &mut descriptor.te {
            *te = TeObject { incarnation, ..te.clone() };
        }
        Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, self.epoch))
    }
}

/// A process, and two that have the same name one after the other.
struct Update {
    fake: Fake,
    hub: Arc<Hub>,
    a: Host,
    local: Arc<LocalBuffer>,
    old: Server,
    new: Server,
}

impl Update {
    fn new(is_te: bool) -> Self {
        let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
        add_nic(&fake, "a", "rxe0", 1);
        let a = Host::new(&fake, &hub, "a", config());
        let local = a.offer(LEN, 1);
        let old = Server::new(&fake, &hub, ("b-old", 2), is_te);
        let new = Server::new(&fake, &hub, ("b-new", 3), is_te);
        Self { fake, hub, a, local, old, new }
    }

    fn write(&self, server: &Server) -> Slice {
        let address = server.target.region().address();
        self.a.slice(Opcode::Write, &self.local, &server.remote(), address)
    }

    /// Questions so far that are no fences.
    fn handshakes(&self) -> usize {
        let log = self.hub.log.lock().unwrap();
        log.iter().filter(|(question, _)| !question.payload.contains("fence")).count()
    }
}

#[test]
fn slices_for_the_new_process_are_not_sent_to_the_old_one() {
    for is_te in [true, false] {
        let update = Update::new(is_te);
        assert_eq!(update.a.run(&update.write(&update.old)).result, Ok(()));
        assert_eq!(update.a.run(&update.write(&update.new)).result, Ok(()), "of our kind: {is_te}");
        assert_eq!(bytes(&update.new.target), [1; LEN]);
        // Somebody who knows the old one still does not break the way to the new one.
        let handshakes = update.handshakes();
        let end = update.a.run(&update.write(&update.old));
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
        assert_eq!(update.a.run(&update.write(&update.new)).result, Ok(()));
        assert_eq!(update.handshakes(), handshakes);
    }
}

/// The fence of what the old process may have is answered by nobody else.
#[test]
fn a_write_in_doubt_is_settled_by_the_process_that_it_went_to() {
    let update = Update::new(true);
    assert_eq!(update.a.run(&update.write(&update.old)).result, Ok(()));
    assert!(update.old.nic.queue_pairs() > 0);
    update.fake.hold_traffic();
    let held = update.write(&update.old);
    update.a.submit(&held);
    update.a.pump();
    let late = update.write(&update.new);
    update.a.submit(&late);
    let end = update.a.end(&held);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Settled));
    until("the old process to end it", || update.old.nic.queue_pairs() == 0);
    update.fake.release();
    assert_eq!(update.a.end(&late).result, Ok(()));
}

/// Where the old process cannot be asked, nobody says that its memory is settled.
#[test]
fn a_write_in_doubt_stays_so_where_only_the_new_process_answers() {
    let update = Update::new(true);
    assert_eq!(update.a.run(&update.write(&update.old)).result, Ok(()));
    update.fake.hold_traffic();
    let held = update.write(&update.old);
    update.a.submit(&held);
    update.a.pump();
    update.hub.remove("b-old");
    update.a.submit(&update.write(&update.new));
    let end = update.a.end(&held);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::InDoubt));
}

/// A connection to the old process that is being made when the new one is wanted is not taken for
/// one to that.
#[test]
fn a_connection_that_comes_late_is_for_whom_it_was_made() {
    for is_te in [true, false] {
        let update = Update::new(is_te);
        update.fake.hold_routes(true);
        let first = update.write(&update.old);
        update.a.submit(&first);
        assert!(update.fake.wait_for_routing(1, PATIENCE));
        let second = update.write(&update.new);
        update.a.submit(&second);
        let end = update.a.end(&first);
        assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
        update.fake.hold_routes(false);
        assert_eq!(update.a.end(&second).result, Ok(()), "of our kind: {is_te}");
        assert_eq!(bytes(&update.new.target), [1; LEN]);
        assert_eq!(bytes(&update.old.target), [2; LEN]);
    }
}

/// The old process may have made the connection; who of our kind asked has said which it is.
#[test]
fn a_connection_that_the_old_process_made_is_not_one_to_the_new_one() {
    let update = Update::new(true);
    let own = update.a.offer(LEN, 0);
    let remote = update.a.remote();
    let old = &update.old;
    let back = old.host.slice(Opcode::Write, &old.target, &remote, own.region().address());
    assert_eq!(old.host.run(&back).result, Ok(()));
    assert_eq!(update.a.run(&update.write(&update.new)).result, Ok(()));
    assert_eq!(bytes(&update.new.target), [1; LEN]);
    assert_eq!(bytes(&update.old.target), [2; LEN]);
}

/// A descriptor that is older than the process at its address has the keys of another one.
#[test]
fn a_process_that_is_not_the_one_of_the_descriptor_is_sent_nothing() {
    let update = Update::new(true);
    let stale = update.new.remote_as(Incarnation::random());
    let address = update.new.target.region().address();
    let slice = update.a.slice(Opcode::Write, &update.local, &stale, address);
    let end = update.a.run(&slice);
    assert_eq!((class(&end), end.remote), (Some(FaultClass::Rail), RemoteSide::Untouched));
    assert_eq!(bytes(&update.new.target), [3; LEN]);
    update.a.run_until_done(|| update.write(&update.new), Duration::from_secs(10));
    assert_eq!(bytes(&update.new.target), [1; LEN]);
}
