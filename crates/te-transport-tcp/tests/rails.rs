//! Several addresses at each end: bytes are dealt out by weight, and what cannot be used is not.
//!
//! Every address of 127.0.0.0/8 is one of this host, so each serves as a NIC here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use common::{Node, PATIENCE, pattern, v3};
use te_metadata::{ListenAddress, NicAddress};
use te_segment::{LocalBuffer, Opcode, RemoteSegment};
use te_transport_tcp::{RailStats, TcpConfig};

const PIECE: usize = 128 << 10;
const LEN: usize = 128 * PIECE;

fn addresses(texts: &[&str]) -> Vec<NicAddress> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn node(texts: &[&str], max_version: u8) -> Node {
    Node::with(TcpConfig {
        listen: ListenAddress::Any,
        local_addresses: addresses(texts),
        first_rail_pause: Duration::from_millis(50),
        max_version,
        ..v3()
    })
}

/// Moves all of a buffer there and back in pieces, and compares.
fn there_and_back(a: &Node, b: &Node, peer: &Arc<RemoteSegment>, seed: u64) {
    let (source, target) = (a.register(LEN), b.register(LEN));
    let peer = &republished(b, peer);
    let bytes = pattern(seed, LEN);
    source.region().write_from(0, &bytes).unwrap();
    for op in [Opcode::Write, Opcode::Read] {
        let slices = (0..LEN / PIECE).map(|at| slice(a, op, (&source, &target), at, peer));
        for token in a.submit(peer, slices.collect()) {
            assert_eq!(a.ends.wait(token).result, Ok(()));
        }
        let mut landed = vec![0; LEN];
        let region = if op == Opcode::Write { target.region() } else { source.region() };
        region.read_into(0, &mut landed).unwrap();
        assert!(landed == bytes, "{op:?}");
        source.region().write_from(0, &vec![0; LEN]).unwrap();
    }
    for (node, buffer) in [(a, &source), (b, &target)] {
        let gone = node.segment.retire(buffer.region().address()).unwrap().unwrap();
        gone.finish(PATIENCE).unwrap();
    }
}

/// The peer as before, with the buffers that it has now.
fn republished(b: &Node, peer: &Arc<RemoteSegment>) -> Arc<RemoteSegment> {
    let now = b.as_peer();
    let mut descriptor = now.descriptor().clone();
    descriptor.te = descriptor.te.map(|mut te| {
        te.transports = peer.descriptor().te.as_ref().unwrap().transports.clone();
        te
    });
    common::segment_of(descriptor)
}

fn slice(
    a: &Node,
    op: Opcode,
    (source, target): (&LocalBuffer, &LocalBuffer),
    at: usize,
    peer: &Arc<RemoteSegment>,
) -> te_segment::Slice {
    let offset = (at * PIECE) as u64;
    let local = source.region().range(offset, PIECE as u64).unwrap();
    a.slice(op, local, target.region().address() + offset, peer)
}

fn rail(a: &Node, local: Option<&str>, peer: Option<&str>) -> RailStats {
    let ip = |text: Option<&str>| text.map(|text| text.parse::<IpAddr>().unwrap());
    let (local, peer) = (ip(local), ip(peer));
    let found = a.transport.rails().into_iter().find(|r| (r.local, r.peer) == (local, peer));
    found.unwrap_or_else(|| panic!("no rail {local:?} to {peer:?}: {:?}", a.transport.rails()))
}

#[track_caller]
fn assert_share(part: u64, whole: usize, percent: u64) {
    let wanted = whole as u64 * percent / 100;
    let off = part.abs_diff(wanted);
    assert!(off <= whole as u64 / 5, "{part} bytes of {whole}, not {percent} %");
}

/// A list published by a peer is used, and what carries the bytes is counted.
#[test]
fn bytes_are_dealt_out_over_the_addresses_of_both_ends() {
    let a = node(&["127.0.1.1", "127.0.2.1"], 3);
    let b = node(&["127.0.1.2", "127.0.2.2"], 3);
    there_and_back(&a, &b, &b.as_peer(), 1);
    there_and_back(&a, &b, &b.as_peer(), 2);
    let first = rail(&a, Some("127.0.1.1"), Some("127.0.1.2"));
    let second = rail(&a, Some("127.0.2.1"), Some("127.0.2.2"));
    for rail in [first, second] {
        assert_share(rail.bytes_written, 2 * LEN, 50);
        assert_share(rail.bytes_read, 2 * LEN, 50);
        assert_eq!(rail.pauses, 0);
    }
    assert_eq!(first.bytes_written + second.bytes_written, 2 * LEN as u64);
    assert_eq!(a.transport.stats().bytes_written, 2 * LEN as u64);
}

/// One end without a list uses the peer's; weights count.
#[test]
fn weights_decide_how_much_each_address_carries() {
    let a = node(&[], 3);
    let b = node(&["127.0.1.2", "127.0.2.2*3"], 3);
    there_and_back(&a, &b, &b.as_peer(), 3);
    assert_share(rail(&a, None, Some("127.0.1.2")).bytes_written, LEN, 25);
    assert_share(rail(&a, None, Some("127.0.2.2")).bytes_written, LEN, 75);
}

/// An address that this host does not have any more costs a pause of its rail, and no request.
#[test]
fn an_address_that_is_not_here_carries_nothing() {
    let a = node(&["127.0.1.1", "192.0.2.77"], 3);
    let b = node(&[], 3);
    there_and_back(&a, &b, &b.as_peer(), 4);
    assert_eq!(rail(&a, Some("127.0.1.1"), None).bytes_written, LEN as u64);
    let gone = rail(&a, Some("192.0.2.77"), None);
    assert_eq!((gone.bytes_written, gone.connects), (0, 0));
    assert!(gone.pauses >= 1, "{gone:?}");
}

/// Addresses where the peer does not listen: whatever a peer publishes, its data port is tried too.
#[test]
fn addresses_that_lead_nowhere_leave_the_data_port() {
    let a = node(&[], 3);
    let b =
        Node::with(TcpConfig { local_addresses: addresses(&["127.0.9.1", "127.0.9.2"]), ..v3() });
    there_and_back(&a, &b, &b.as_peer(), 5);
    assert_eq!(rail(&a, None, None).bytes_written, LEN as u64);
}

/// Versions 1 and 2 are bound to the addresses as well.
#[test]
fn earlier_versions_use_every_address_of_this_host() {
    let a = node(&["127.0.1.1", "127.0.2.1"], 2);
    let b = node(&[], 2);
    there_and_back(&a, &b, &b.as_peer(), 6);
    let written = ["127.0.1.1", "127.0.2.1"].map(|ip| rail(&a, Some(ip), None).bytes_written);
    assert_eq!(written.iter().sum::<u64>(), LEN as u64);
    assert!(written.iter().all(|bytes| *bytes > 0), "{written:?}");
}

/// An address of the peer where another process listens: its answer costs nothing but a pause.
#[test]
fn an_address_where_somebody_else_is_carries_nothing() {
    let a = node(&[], 3);
    let b = Node::with(TcpConfig { local_addresses: addresses(&["127.0.9.3"]), ..v3() });
    let at = ListenAddress::Ip("127.0.9.3".parse().unwrap());
    let port = te_metadata::PortChoice::Exact(b.port());
    let other = Node::with(TcpConfig { listen: at, port, ..v3() });
    assert_eq!(other.port(), b.port());
    there_and_back(&a, &b, &b.as_peer(), 7);
    assert_eq!(rail(&a, None, None).bytes_written, LEN as u64);
    assert_eq!(rail(&a, None, Some("127.0.9.3")).bytes_written, 0);
}
