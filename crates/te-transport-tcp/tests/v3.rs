//! Version 3 between two transports in one process, and with something between them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::proxy::{Proxy, Verdict, Way};
use common::{Node, bytes_of, config, eventually, part_of, pattern, v3};
use te_metadata::Incarnation;
use te_segment::{LocalBuffer, Opcode, RegisterOptions, RemoteAccess, RemoteSegment, Slice};
use te_transport::{Completion, FaultClass, Phase, RemoteSide, SliceSource, Transport};
use te_transport_tcp::TcpConfig;

/// Takes any number of large slices at once.
fn roomy() -> TcpConfig {
    TcpConfig { max_queued_bytes_per_peer: 1 << 40, ..v3() }
}

fn pair() -> (Node, Node) {
    (Node::with(v3()), Node::with(v3()))
}

fn told(end: &Completion) -> (FaultClass, Phase, RemoteSide) {
    let fault = end.result.as_ref().unwrap_err();
    (fault.class, fault.phase, end.remote)
}

fn cause(end: &Completion) -> &str {
    &end.result.as_ref().unwrap_err().cause
}

/// Another snapshot of a peer, with a change to its descriptor.
fn changed(
    peer: &RemoteSegment,
    change: impl FnOnce(&mut te_metadata::SegmentDescriptor),
) -> Arc<RemoteSegment> {
    let mut descriptor = peer.descriptor().clone();
    change(&mut descriptor);
    common::segment_of(descriptor)
}

/// Unregisters as an engine does.
fn unregister(node: &Node, buffer: &Arc<LocalBuffer>) {
    let retiring = node.segment.retire(buffer.region().address()).unwrap().unwrap();
    node.transport.deregister(buffer);
    retiring.finish(Duration::from_secs(20)).unwrap();
}

#[test]
fn bytes_of_every_length_move_both_ways_over_one_connection() {
    let (a, b) = pair();
    const ROOM: usize = (3 << 20) + 64;
    let (source, target) = (a.register(ROOM), b.register(ROOM));
    let peer = b.as_peer();
    let lengths = [1, 2, 4095, 4096, 16_384, 16_385, 65_537, 1 << 20, (1 << 20) + 1, 3 << 20];
    for (round, len) in lengths.into_iter().enumerate() {
        for checked in [false, true] {
            let run = if checked { Node::run_checked } else { Node::run };
            let (from, to, at) = (13, 7, target.region().address() + 7);
            let bytes = pattern(round as u64, len);
            source.region().write_from(0, &vec![0x11; ROOM]).unwrap();
            target.region().write_from(0, &vec![0x22; ROOM]).unwrap();
            source.region().write_from(from, &bytes).unwrap();
            let local = source.region().range(from, len as u64).unwrap();
            let end = run(&a, Opcode::Write, local, at, &peer);
            assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled), "write {len}");
            assert!(part_of(target.region(), to, len) == bytes, "write {len}");
            assert_eq!(part_of(target.region(), 0, 7), [0x22; 7], "before a write of {len}");
            let behind = part_of(target.region(), to + len as u64, 16);
            assert_eq!(behind, [0x22; 16], "behind a write of {len}");
            let local = source.region().range(1, len as u64).unwrap();
            let end = run(&a, Opcode::Read, local, at, &peer);
            assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled), "read {len}");
            assert!(part_of(source.region(), 1, len) == bytes, "read {len}");
            assert_eq!(part_of(source.region(), 0, 1), [0x11], "before a read of {len}");
        }
    }
    let (ours, theirs) = (a.transport.stats(), b.transport.stats());
    assert_eq!((ours.connects, theirs.served_v3), (1, 4 * lengths.len() as u64));
}

/// What small requests cost: one connection, and many of them in each round trip.
#[test]
fn ten_thousand_small_requests_are_pipelined_on_one_connection() {
    const N: usize = 10_000;
    let (a, b) = pair();
    let last = Mutex::new(Way::Back);
    let turns = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&turns);
    let proxy = Proxy::new(b.port(), move |passing| {
        let mut last = last.lock().unwrap();
        if std::mem::replace(&mut *last, passing.way) != passing.way {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Verdict::Pass
    });
    let (source, target) = (a.register(N * 8), b.register(N * 8));
    let bytes = pattern(7, N * 8);
    source.region().write_from(0, &bytes).unwrap();
    let peer = b.as_peer_behind(proxy.address);
    for op in [Opcode::Write, Opcode::Read] {
        let slice = |i: usize| {
            let offset = (i * 8) as u64;
            let local = source.region().range(offset, 8).unwrap();
            a.slice(op, local, target.region().address() + offset, &peer)
        };
        for token in a.submit(&peer, (0..N).map(slice).collect()) {
            assert_eq!(a.ends.wait(token).result, Ok(()));
        }
        assert!(bytes_of(target.region()) == bytes && bytes_of(source.region()) == bytes);
        source.region().write_from(0, &bytes).unwrap();
    }
    assert!(a.ends.look(|state| state.twice.is_empty()));
    assert_eq!((proxy.connections(), a.transport.stats().connects), (1, 1));
    let turns = turns.load(Ordering::SeqCst);
    assert!(turns < N / 2, "{turns} turns for {} requests", 2 * N);
}

/// Gives slices, and before the one at `pause` waits until `arrived`.
struct Pausing<'a> {
    slices: std::vec::IntoIter<Slice>,
    pause: usize,
    arrived: &'a dyn Fn() -> bool,
}

impl SliceSource for Pausing<'_> {
    fn next_slice(&mut self) -> Option<Slice> {
        if self.slices.len() == self.pause {
            eventually("the first bytes are there", self.arrived);
        }
        self.slices.next()
    }
}

/// The peer works on the first of many requests while the last are not handed over yet.
#[test]
fn the_first_of_many_leave_before_the_last_are_made() {
    const N: usize = 128;
    let (a, b) = pair();
    let (source, target) = (a.register(N * 8), b.register(N * 8));
    let bytes = pattern(3, N * 8);
    source.region().write_from(0, &bytes).unwrap();
    let peer = b.as_peer();
    // Once with the connection to be made, once with it there.
    for round in 0..2 {
        target.region().write_from(0, &vec![0; N * 8]).unwrap();
        let slice = |i: usize| {
            let offset = (i * 8) as u64;
            let local = source.region().range(offset, 8).unwrap();
            a.slice(Opcode::Write, local, target.region().address() + offset, &peer)
        };
        let slices: Vec<Slice> = (0..N).map(slice).collect();
        let tokens: Vec<_> = slices.iter().map(|slice| slice.token).collect();
        let arrived = || part_of(target.region(), 0, 8) == bytes[..8];
        let slices = slices.into_iter();
        let mut pausing = Pausing { slices, pause: N / 2, arrived: &arrived };
        assert_eq!(a.transport.submit(&peer, &mut pausing), N, "round {round}");
        for token in tokens {
            assert_eq!(a.ends.wait(token).result, Ok(()));
        }
        assert!(bytes_of(target.region()) == bytes);
    }
    assert!(a.ends.look(|state| state.twice.is_empty()));
}

/// J54, J112, K16: what is refused is refused by name, and costs nobody else anything.
#[test]
fn j54_j112_k16_refusals_leave_the_connection_and_the_bytes_alone() {
    let (a, b) = pair();
    let (source, target) = (a.register(8192), b.register(4096));
    source.region().write_from(0, &[1; 8192]).unwrap();
    let hidden = b.register(4096);
    unregister(&b, &hidden);
    let options = RegisterOptions { remote: RemoteAccess::Read, ..RegisterOptions::default() };
    let shown = b.segment.register(hidden.region(), options).unwrap();
    let peer = b.as_peer();
    let (at, read_only) = (target.region().address(), shown.region().address());
    for _ in 0..20 {
        let cases = [
            (Opcode::Write, at + 4000, 97, "no such buffer"),
            (Opcode::Read, at + 4000, 97, "no such buffer"),
            (Opcode::Write, 4096, 8192, "no such buffer"),
            (Opcode::Write, read_only, 8, "not with this right"),
        ];
        for (op, address, len, why) in cases {
            let end = a.run(op, source.region().range(0, len).unwrap(), address, &peer);
            assert_eq!(told(&end), (FaultClass::Refused, Phase::Status, RemoteSide::Settled));
            assert!(cause(&end).contains(why), "{op:?} {len}: {}", cause(&end));
        }
        let end = a.run(Opcode::Read, source.region().range(0, 8).unwrap(), read_only, &peer);
        assert_eq!(end.result, Ok(()));
    }
    assert!(bytes_of(target.region()).iter().all(|byte| *byte == 0));
    assert!(bytes_of(shown.region()).iter().all(|byte| *byte == 0));
    assert_eq!((a.transport.stats().connects, a.transport.stats().refused), (1, 80));
}

/// K16: memory that was registered again under the same address is another buffer, and a process
/// that came after is another peer.
#[test]
fn k16_stale_snapshots_reach_neither_a_new_buffer_nor_a_new_process() {
    let (a, b) = pair();
    let source = a.register(4096);
    source.region().write_from(0, &[1; 4096]).unwrap();
    let target = b.register(4096);
    let stale = b.as_peer();
    let at = target.region().address();
    unregister(&b, &target);
    let again = b.segment.register(target.region(), RegisterOptions::default()).unwrap();
    assert_eq!(again.region().address(), at);
    let end = a.run(Opcode::Write, source.region().whole(), at, &stale);
    assert_eq!(told(&end), (FaultClass::Refused, Phase::Status, RemoteSide::Settled));
    let fresh = b.as_peer();
    let other = changed(&fresh, |d| {
        d.te.as_mut().unwrap().incarnation = Incarnation::random();
    });
    let end = a.run(Opcode::Write, source.region().whole(), at, &other);
    assert_eq!(told(&end), (FaultClass::Peer, Phase::Handshake, RemoteSide::Untouched));
    assert!(cause(&end).contains("another run"), "{}", cause(&end));
    assert!(bytes_of(again.region()).iter().all(|byte| *byte == 0));
    let end = a.run(Opcode::Write, source.region().whole(), at, &fresh);
    assert_eq!(end.result, Ok(()));
    assert!(bytes_of(again.region()).iter().all(|byte| *byte == 1));
}

/// A peer that does not speak version 3 says so by its answer; with what it publishes now the
/// request goes out.
#[test]
fn a_peer_without_version_3_is_found_out_and_spoken_with_as_it_says() {
    let (a, b) = (Node::with(v3()), Node::with(config()));
    let (source, target) = (a.register(4096), b.register(4096));
    let at = target.region().address();
    let honest = b.as_peer();
    let lying = changed(&honest, |d| {
        let te = d.te.as_mut().unwrap();
        te.transports.insert("tcp".into(), serde_json::json!({"v3": 1}));
    });
    let end = a.run(Opcode::Write, source.region().whole(), at, &lying);
    assert_eq!(told(&end), (FaultClass::Peer, Phase::Handshake, RemoteSide::Untouched));
    assert_eq!(cause(&end), "the peer does not speak version 3");
    let end = a.run(Opcode::Write, source.region().whole(), at, &honest);
    assert_eq!(end.result, Ok(()));
    assert_eq!((b.transport.stats().served, b.transport.stats().served_v3), (1, 0));
}

#[test]
fn an_initiator_without_version_3_speaks_the_other_ones() {
    for max_version in [1, 2] {
        let (a, b) = (Node::with(TcpConfig { max_version, ..v3() }), Node::with(v3()));
        let (source, target) = (a.register(4096), b.register(4096));
        let at = target.region().address();
        for checked in [false, true] {
            let run = if checked { Node::run_checked } else { Node::run };
            let end = run(&a, Opcode::Write, source.region().whole(), at, &b.as_peer());
            assert_eq!(end.result, Ok(()), "version {max_version}");
            let end = run(&a, Opcode::Read, source.region().whole(), at, &b.as_peer());
            assert_eq!(end.result, Ok(()), "version {max_version}");
        }
        assert_eq!(b.transport.stats().served_v3, 0);
    }
}

/// J46: a cancel in the middle of a large write is confirmed in bounded time, and from the
/// confirmation on no byte of the target changes: not by what was on its way, which a slow path keeps
/// there for a while. The next request on the connection comes behind all of it.
#[test]
fn j46_after_a_confirmed_cancel_the_target_does_not_change() {
    const LEN: usize = 256 << 20;
    let (a, b) = pair();
    let (source, target, spare) = (a.register(LEN), b.register(LEN), b.register(8));
    source.region().write_from(0, &vec![0xaa; LEN]).unwrap();
    let slow = Proxy::new(b.port(), |passing| {
        if passing.way == Way::Out {
            std::thread::sleep(Duration::from_millis(2));
        }
        Verdict::Pass
    });
    let peer = b.as_peer_behind(slow.address);
    // Bytes land in order, so this is quick enough to see them in motion.
    let landed = || {
        let blocks = (0..LEN as u64).step_by(16 << 10);
        blocks.take_while(|at| part_of(target.region(), *at, 1) == [0xaa]).count()
    };
    let slice = a.slice(Opcode::Write, source.region().whole(), target.region().address(), &peer);
    let token = a.submit(&peer, vec![slice])[0];
    eventually("bytes arrive", || landed() > 64);
    a.transport.cancel(&[token]);
    let begun = Instant::now();
    let end = a.ends.wait(token);
    let confirmed = landed();
    assert_eq!(end.result.as_ref().unwrap_err().class, FaultClass::Cancelled);
    assert_eq!(end.remote, RemoteSide::Settled);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let local = source.region().range(0, 8).unwrap();
    let end = a.run(Opcode::Write, local, spare.region().address(), &peer);
    assert_eq!(end.result, Ok(()));
    assert_eq!(landed(), confirmed, "blocks changed after the confirmation");
    assert!(confirmed < LEN / (16 << 10), "it was not called back in the middle");
    let stats = a.transport.stats();
    assert_eq!((stats.connects, stats.cancels_confirmed), (1, 1));
    assert!(a.ends.look(|state| state.twice.is_empty()));
}

/// Peer fault 4: a buffer that is unregistered in the middle of a write ends that write and what was
/// asked of it later, and nothing else.
#[test]
fn fault04_an_unregistered_buffer_ends_its_writes_and_leaves_the_connection() {
    const LEN: usize = 64 << 20;
    let (a, b) = (Node::with(roomy()), Node::with(roomy()));
    let (source, target, other) = (a.register(LEN), b.register(LEN), b.register(LEN));
    source.region().write_from(0, &vec![0xaa; LEN]).unwrap();
    let peer = b.as_peer();
    let to = |buffer: &Arc<LocalBuffer>| {
        a.slice(Opcode::Write, source.region().whole(), buffer.region().address(), &peer)
    };
    let slices = vec![to(&target), to(&target), to(&other), to(&target)];
    let tokens = a.submit(&peer, slices);
    eventually("bytes arrive", || part_of(target.region(), 1 << 20, 1) == [0xaa]);
    unregister(&b, &target);
    let before = bytes_of(target.region());
    let ends: Vec<_> = tokens.iter().map(|token| a.ends.wait(*token)).collect();
    for index in [1, 3] {
        assert_eq!(ends[index].result.as_ref().unwrap_err().class, FaultClass::Refused);
        assert_eq!(ends[index].remote, RemoteSide::Settled);
    }
    assert_eq!(ends[2].result, Ok(()));
    assert!(bytes_of(target.region()) == before, "bytes changed after the unregister");
    assert_eq!(a.transport.stats().connects, 1);
}

/// Peer fault 3: the connection goes away in the middle of a write, while bytes are on their
/// way. The write ends as settled, because a fence was answered, and from then on no byte changes.
#[test]
fn fault03_a_fence_settles_a_write_whose_connection_is_lost() {
    const LEN: usize = 64 << 20;
    let (a, b) = pair();
    let (source, target) = (a.register(LEN), b.register(LEN));
    source.region().write_from(0, &vec![0xaa; LEN]).unwrap();
    let proxy = Proxy::new(b.port(), |passing| {
        let far = passing.before > 4 << 20;
        let strand = passing.connection == 0 && passing.way == Way::Out && far;
        if strand { Verdict::Strand(16 << 20) } else { Verdict::Pass }
    });
    let peer = b.as_peer_behind(proxy.address);
    let end = a.run(Opcode::Write, source.region().whole(), target.region().address(), &peer);
    let settled = bytes_of(target.region());
    assert_eq!(end.result.as_ref().unwrap_err().class, FaultClass::Rail);
    assert_eq!(end.remote, RemoteSide::Settled);
    eventually("what was stranded is delivered or lost", || {
        proxy.delivering.load(Ordering::SeqCst) == 0
    });
    eventually("the old connection is gone", || b.transport.stats().inbound_open == 1);
    assert!(bytes_of(target.region()) == settled, "bytes changed behind the fence");
    assert_eq!((a.transport.stats().fences, b.transport.stats().fenced), (1, 1));
    let end = a.run(Opcode::Write, source.region().whole(), target.region().address(), &peer);
    assert_eq!(end.result, Ok(()));
    assert_eq!(proxy.connections(), 2, "the fence's connection serves the next request");
}

/// Where nobody answers the fence, the write ends in doubt, in bounded time.
#[test]
fn without_an_answer_to_the_fence_a_write_ends_in_doubt() {
    let a = Node::with(TcpConfig { fence_timeout: Duration::from_millis(300), ..v3() });
    let b = Node::with(v3());
    let (source, target) = (a.register(32 << 20), b.register(32 << 20));
    let proxy = Proxy::new(b.port(), |passing| {
        let fine = passing.connection == 0 && passing.before < 4 << 20;
        if fine { Verdict::Pass } else { Verdict::Cut }
    });
    let peer = b.as_peer_behind(proxy.address);
    let begun = Instant::now();
    let end = a.run(Opcode::Write, source.region().whole(), target.region().address(), &peer);
    assert_eq!(end.result.as_ref().unwrap_err().class, FaultClass::Rail);
    assert_eq!(end.remote, RemoteSide::InDoubt);
    assert!(begun.elapsed() > Duration::from_millis(300));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(proxy.connections() > 1, "it was tried");
    assert_eq!(a.transport.stats().fences, 0);
}

/// Peer fault 11: a read goes again where its connection went away, and nobody is told.
#[test]
fn fault11_a_read_goes_again_on_a_fresh_connection() {
    let (a, b) = pair();
    let (source, target) = (a.register(8 << 20), b.register(8 << 20));
    let bytes = pattern(3, 8 << 20);
    target.region().write_from(0, &bytes).unwrap();
    let proxy = Proxy::new(b.port(), |passing| {
        let far = passing.connection == 0 && passing.way == Way::Back && passing.before > 1 << 20;
        if far { Verdict::Cut } else { Verdict::Pass }
    });
    let peer = b.as_peer_behind(proxy.address);
    let end = a.run(Opcode::Read, source.region().whole(), target.region().address(), &peer);
    assert_eq!(end.result, Ok(()));
    assert!(bytes_of(source.region()) == bytes);
    assert_eq!((proxy.connections(), a.transport.stats().stale_retries), (2, 1));
}

/// A proxy that changes one bit of each request's payload, at a place that moves.
fn flipping(port: u16, way: Way, (first, stride, head): (u64, u64, u64)) -> Proxy {
    let next = AtomicU64::new(0);
    Proxy::new(port, move |passing| {
        if passing.way != way {
            return Verdict::Pass;
        }
        let end = passing.before + passing.bytes.len() as u64;
        loop {
            let n = next.load(Ordering::SeqCst);
            let at = first + n * stride + head + n * 613 % 60_000;
            if at >= end {
                return Verdict::Pass;
            }
            if let Some(byte) = at.checked_sub(passing.before) {
                passing.bytes[usize::try_from(byte).unwrap()] ^= 0x10;
            }
            next.store(n + 1, Ordering::SeqCst);
        }
    })
}

const FLIPPED: u64 = 64 << 10;

/// The item 8: one flipped bit fails a checked request, 100 of 100, with the named fault; and
/// would pass unnoticed otherwise.
#[test]
fn one_flipped_bit_fails_a_checked_write_a_hundred_times_of_a_hundred() {
    let (a, b) = pair();
    let (source, target) = (a.register(64 << 10), b.register(64 << 10));
    let at = target.region().address();
    let proxy = flipping(b.port(), Way::Out, (128, 56 + 16 + FLIPPED + 24, 72));
    let peer = b.as_peer_behind(proxy.address);
    for round in 0..100 {
        let end = a.run_checked(Opcode::Write, source.region().whole(), at, &peer);
        let told = told(&end);
        assert_eq!(told, (FaultClass::Corrupt, Phase::Status, RemoteSide::Settled), "{round}");
        assert!(bytes_of(target.region()) != bytes_of(source.region()));
    }
    assert_eq!((proxy.connections(), a.transport.stats().corrupt), (1, 100));
    let proxy = flipping(b.port(), Way::Out, (128, 56 + 16 + FLIPPED, 72));
    let peer = b.as_peer_behind(proxy.address);
    let end = a.run(Opcode::Write, source.region().whole(), at, &peer);
    assert_eq!(end.result, Ok(()), "nobody asked for a check");
    assert!(bytes_of(target.region()) != bytes_of(source.region()));
}

#[test]
fn one_flipped_bit_fails_a_checked_read_a_hundred_times_of_a_hundred() {
    let (a, b) = pair();
    let (source, target) = (a.register(64 << 10), b.register(64 << 10));
    let at = target.region().address();
    let proxy = flipping(b.port(), Way::Back, (64, 16 + FLIPPED + 40, 16));
    let peer = b.as_peer_behind(proxy.address);
    for round in 0..100 {
        let end = a.run_checked(Opcode::Read, source.region().whole(), at, &peer);
        let told = told(&end);
        assert_eq!(told, (FaultClass::Corrupt, Phase::Status, RemoteSide::Settled), "{round}");
    }
    assert_eq!((proxy.connections(), a.transport.stats().corrupt), (1, 100));
}

/// Towards a peer without checksums the bytes are read back.
#[test]
fn one_flipped_bit_is_found_by_reading_back_where_the_peer_knows_no_sums() {
    for (op, way) in [(Opcode::Write, Way::Out), (Opcode::Read, Way::Back)] {
        let (a, b) = (Node::with(config()), Node::with(config()));
        let (source, target) = (a.register(64 << 10), b.register(64 << 10));
        // Out: header, payload, header of the check. Back: status and payload, twice.
        let layout = match op {
            Opcode::Write => (0, 24 + FLIPPED + 24, 24),
            Opcode::Read => (0, 2 * (8 + FLIPPED), 8),
        };
        let proxy = flipping(b.port(), way, layout);
        let peer = b.as_peer_behind(proxy.address);
        let at = target.region().address();
        for _ in 0..20 {
            let end = a.run_checked(op, source.region().whole(), at, &peer);
            assert_eq!(told(&end), (FaultClass::Corrupt, Phase::Status, RemoteSide::Settled));
        }
        assert_eq!((proxy.connections(), a.transport.stats().corrupt), (1, 20), "{op:?}");
    }
}

/// A peer that closes says goodbye: what is in flight ends at once, and settled.
#[test]
fn a_peer_that_closes_settles_what_is_in_flight() {
    const LEN: usize = 64 << 20;
    let (a, b) = pair();
    let (source, target) = (a.register(LEN), b.register(LEN));
    source.region().write_from(0, &vec![0xaa; LEN]).unwrap();
    let peer = b.as_peer();
    let slice =
        |_| a.slice(Opcode::Write, source.region().whole(), target.region().address(), &peer);
    let tokens = a.submit(&peer, (0..8).map(slice).collect::<Vec<Slice>>());
    eventually("bytes arrive", || part_of(target.region(), 1 << 20, 1) == [0xaa]);
    b.transport.close(Instant::now() + Duration::from_secs(10));
    let before = bytes_of(target.region());
    for token in tokens {
        let end = a.ends.wait(token);
        if let Err(fault) = end.result {
            assert!(fault.class.is_retryable(), "{fault}");
        }
    }
    assert!(bytes_of(target.region()) == before);
    assert_eq!(
        b.segment.retire(target.region().address()).unwrap().unwrap().buffer().in_flight(),
        0
    );
}

/// IPv4 loopback and a data host by address reach the same session machinery as the rest.
#[test]
fn many_peers_have_a_session_each() {
    let a = Node::with(v3());
    let peers: Vec<Node> = (0..5).map(|_| Node::with(v3())).collect();
    let source = a.register(4096);
    let mut tokens = Vec::new();
    for node in &peers {
        let target = node.register(4096);
        let peer = node.as_peer_behind(SocketAddr::from(([127, 0, 0, 1], node.port())));
        let at = target.region().address();
        let slice = |_| a.slice(Opcode::Write, source.region().whole(), at, &peer);
        tokens.extend(a.submit(&peer, (0..100).map(slice).collect()));
    }
    for token in tokens {
        assert_eq!(a.ends.wait(token).result, Ok(()));
    }
    assert_eq!(a.transport.stats().connects, 5);
    assert!(peers.iter().all(|node| node.transport.stats().served_v3 == 100));
}
