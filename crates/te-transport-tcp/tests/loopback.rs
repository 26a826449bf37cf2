//! Bytes between two transports in one process.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{List, Node, PATIENCE, Recorder, bytes_of, config, eventually, part_of, pattern};
use te_metadata::ListenAddress;
use te_segment::{Opcode, RemoteSegment, SegmentId};
use te_transport::{Completion, CompletionSink, FaultClass, RemoteSide, Transport};
use te_transport_tcp::TcpConfig;

/// J49: one write of 4,096,000 bytes; then write and read give equal bytes, twice in a row.
#[test]
fn j49_a_large_write_lands_and_reads_back_twice() {
    let (a, b) = (Node::new(), Node::new());
    const LEN: usize = 4_096_000;
    let (source, target) = (a.register(LEN), b.register(LEN));
    let peer = b.as_peer();
    for round in 0..2 {
        let bytes = pattern(round, LEN);
        source.region().write_from(0, &bytes).unwrap();
        let end = a.run(Opcode::Write, source.region().whole(), target.region().address(), &peer);
        assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
        assert!(bytes_of(target.region()) == bytes, "round {round}: other bytes at the target");
        source.region().write_from(0, &vec![0; LEN]).unwrap();
        let end = a.run(Opcode::Read, source.region().whole(), target.region().address(), &peer);
        assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
        assert!(bytes_of(source.region()) == bytes, "round {round}: other bytes read back");
    }
    assert_eq!(a.transport.stats().connects, 1, "one connection serves one request after another");
    // The last byte of a read may arrive before the server counts it.
    eventually("all four are counted", || b.transport.stats().served == 4);
}

/// Panics every other time, when it has taken note.
struct Panicking(Arc<Recorder>, AtomicU64);

impl CompletionSink for Panicking {
    fn complete(&self, completion: Completion) {
        self.0.complete(completion);
        self.panic_at_times();
    }

    fn room(&self, peer: SegmentId) {
        self.0.room(peer);
        self.panic_at_times();
    }
}

impl Panicking {
    fn panic_at_times(&self) {
        if self.1.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            std::panic::resume_unwind(Box::new("a waker that panics"));
        }
    }
}

/// A receiver of completions that panics loses no other completion, and the transport goes on,
/// whoever drives it.
#[test]
fn a_panic_where_completions_go_costs_nobody_else_anything() {
    for config in [config(), common::v3()] {
        let wrap = |ends| -> Arc<dyn CompletionSink> { Arc::new(Panicking(ends, 0.into())) };
        let a = Node::with_sink(TcpConfig { max_queued_per_peer: 4, ..config.clone() }, wrap);
        let b = Node::with(config);
        let (source, target) = (a.register(64), b.register(64));
        let (peer, at) = (b.as_peer(), target.region().address());
        let slice = |_| a.slice(Opcode::Write, source.region().whole(), at, &peer);
        for token in a.submit(&peer, (0..50).map(slice).collect()) {
            assert_eq!(a.ends.wait(token).result, Ok(()));
        }
        for _ in 0..4 {
            let end = a.run_driving(Opcode::Read, source.region().whole(), at, &peer);
            assert_eq!(end.result, Ok(()));
        }
        assert!(a.ends.look(|state| state.twice.is_empty()));
    }
}

/// FB14: every length at odd offsets, both ways, with the bytes around untouched.
#[test]
fn fb14_every_length_at_odd_offsets() {
    let (a, b) = (Node::new(), Node::new());
    const MIB: usize = 1 << 20;
    const ROOM: usize = MIB + 64;
    let (source, target) = (a.register(ROOM), b.register(ROOM));
    let peer = b.as_peer();
    let lengths = [
        1,
        2,
        7,
        8,
        63,
        64,
        511,
        512,
        513,
        4095,
        4096,
        4097,
        65_535,
        65_536,
        65_537,
        MIB - 1,
        MIB,
        MIB + 1,
    ];
    for (round, len) in lengths.into_iter().enumerate() {
        for driving in [false, true] {
            let run = if driving { Node::run_driving } else { Node::run };
            let (from, to) = (13u64, 7u64);
            let bytes = pattern(round as u64, len);
            source.region().write_from(0, &vec![0x11; ROOM]).unwrap();
            target.region().write_from(0, &vec![0x22; ROOM]).unwrap();
            source.region().write_from(from, &bytes).unwrap();
            let local = source.region().range(from, len as u64).unwrap();
            let at = target.region().address() + to;
            assert_eq!(run(&a, Opcode::Write, local, at, &peer).result, Ok(()), "write {len}");
            assert!(part_of(target.region(), to, len) == bytes, "write {len}");
            assert_eq!(part_of(target.region(), 0, 7), [0x22; 7], "before a write of {len}");
            let behind = part_of(target.region(), to + len as u64, 16);
            assert_eq!(behind, [0x22; 16], "behind a write of {len}");

            let local = source.region().range(1, len as u64).unwrap();
            assert_eq!(run(&a, Opcode::Read, local, at, &peer).result, Ok(()), "read {len}");
            assert!(part_of(source.region(), 1, len) == bytes, "read {len}");
            assert_eq!(part_of(source.region(), 0, 1), [0x11], "before a read of {len}");
        }
    }
}

/// FB05, J51, F45: on COMPLETED every byte is at the target, seen at once by another thread that is
/// told over a side channel; 300 rounds of 2.4 MB, default and tiny socket buffers.
#[test]
fn fb05_j51_a_completed_write_is_wholly_visible_at_once() {
    const LEN: usize = 2_400_000;
    for socket_buffer in [None, Some(8192)] {
        let rounds = if socket_buffer.is_none() { 300 } else { 30 };
        let config = TcpConfig { socket_buffer, ..config() };
        let (a, b) = (Node::with(config.clone()), Node::with(config));
        let (source, target) = (a.register(LEN), b.register(LEN));
        let (region, peer) = (target.region().clone(), b.as_peer());
        let (ready, told) = mpsc::channel::<u8>();
        let (done, checked) = mpsc::channel();
        let checker = std::thread::spawn(move || {
            for stamp in told {
                let torn = bytes_of(&region).iter().filter(|byte| **byte != stamp).count();
                done.send(torn).unwrap();
            }
        });
        for round in 0..rounds {
            let stamp = u8::try_from(round % 251).unwrap() + 1;
            source.region().write_from(0, &vec![stamp; LEN]).unwrap();
            let run = if round % 2 == 0 { Node::run } else { Node::run_driving };
            let at = target.region().address();
            let end = run(&a, Opcode::Write, source.region().whole(), at, &peer);
            assert_eq!(end.result, Ok(()));
            ready.send(stamp).unwrap();
            let torn = checked.recv().unwrap();
            assert_eq!(torn, 0, "round {round}: {torn} old bytes, buffers {socket_buffer:?}");
        }
        drop(ready);
        checker.join().unwrap();
    }
}

/// J52, J54, peer fault 10: refused requests of either kind leave the connection usable, and cost
/// no new one between two of ours.
#[test]
fn j52_j54_fault10_refusals_leave_the_connection_usable() {
    let (a, b) = (Node::new(), Node::new());
    let (source, target) = (a.register(4096), b.register(4096));
    let peer = b.as_peer();
    let at = target.region().address();
    for round in 0..20 {
        for op in [Opcode::Write, Opcode::Read] {
            let end = a.run(op, source.region().whole(), at + 1, &peer);
            assert_eq!(end.result.unwrap_err().class, FaultClass::Refused);
            assert_eq!(end.remote, RemoteSide::Settled);
            let end = a.run(op, source.region().whole(), at, &peer);
            assert_eq!(end.result, Ok(()), "round {round}");
        }
    }
    assert_eq!(a.transport.stats().connects, 1);
    assert_eq!((a.transport.stats().refused, b.transport.stats().refusals), (40, 40));
}

/// A large refused write costs its own connection, and nothing else.
#[test]
fn fault10_large_refused_writes_fail_fast_and_good_requests_go_on() {
    let (a, b) = (Node::new(), Node::new());
    let (source, target) = (a.register(64 << 20), b.register(4096));
    let peer = b.as_peer();
    for _ in 0..10 {
        let begun = Instant::now();
        let end = a.run(Opcode::Write, source.region().whole(), 4096, &peer);
        assert_eq!(end.result.unwrap_err().class, FaultClass::Refused);
        let local = source.region().range(0, 4096).unwrap();
        let end = a.run(Opcode::Write, local, target.region().address(), &peer);
        assert_eq!(end.result, Ok(()));
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}

/// J55, peer fault 5: everything works in protocol version 1 as well, over one connection, and a
/// write that is told as done is done.
#[test]
fn j55_fault05_version_1_moves_and_proves_the_same_bytes() {
    let v1 = TcpConfig { max_version: 1, ..config() };
    let (a, b) = (Node::with(v1), Node::new());
    let peer = b.as_peer();
    for len in [1, 7, 8, 4096, 1_000_001] {
        let (source, target) = (a.register(len), b.register(len));
        let bytes = pattern(len as u64, len);
        source.region().write_from(0, &bytes).unwrap();
        let at = target.region().address();
        let end = a.run(Opcode::Write, source.region().whole(), at, &peer);
        assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
        assert!(bytes_of(target.region()) == bytes, "{len}");
        source.region().write_from(0, &vec![0; len]).unwrap();
        let end = a.run(Opcode::Read, source.region().whole(), at, &peer);
        assert_eq!(end.result, Ok(()));
        assert!(bytes_of(source.region()) == bytes, "{len}");
    }
    assert_eq!(a.transport.stats().connects, 1);
    let source = a.register(64);
    let end = a.run(Opcode::Write, source.region().whole(), 4096, &peer);
    assert_eq!(end.result.unwrap_err().class, FaultClass::Rail);
    assert_eq!(end.remote, RemoteSide::InDoubt);
}

/// FB11, peer fault 12, J58, J64: any number of slices, in a queue of four, over four lanes.
#[test]
fn fault12_j64_any_number_of_slices_passes_a_short_queue() {
    let a = Node::with(TcpConfig { max_queued_per_peer: 4, ..config() });
    let b = Node::new();
    const N: usize = 5000;
    let (source, target) = (a.register(N * 8), b.register(N * 8));
    let bytes = pattern(7, N * 8);
    source.region().write_from(0, &bytes).unwrap();
    let peer = b.as_peer();
    let slice = |i: usize| {
        let offset = (i * 8) as u64;
        let local = source.region().range(offset, 8).unwrap();
        a.slice(Opcode::Write, local, target.region().address() + offset, &peer)
    };
    let tokens = a.submit(&peer, (0..N).map(slice).collect());
    for token in tokens {
        assert_eq!(a.ends.wait(token).result, Ok(()));
    }
    assert!(bytes_of(target.region()) == bytes);
    assert!(a.ends.look(|state| state.twice.is_empty() && state.rooms > 100));
    assert!(a.transport.stats().connects <= 4);
}

/// FB01: sequential requests share connections instead of using up local ports.
#[test]
fn fb01_five_thousand_requests_use_a_handful_of_connections() {
    let (a, b) = (Node::new(), Node::new());
    let (source, target) = (a.register(4096), b.register(4096));
    let peer = b.as_peer();
    for _ in 0..5000 {
        let at = target.region().address();
        assert_eq!(a.run_driving(Opcode::Write, source.region().whole(), at, &peer).result, Ok(()));
    }
    assert_eq!(a.transport.stats().connects, 1);
    let many = (0..5000)
        .map(|_| a.slice(Opcode::Write, source.region().whole(), target.region().address(), &peer));
    for token in a.submit(&peer, many.collect()) {
        assert_eq!(a.ends.wait(token).result, Ok(()));
    }
    assert!(a.transport.stats().connects <= 4);
}

/// F1: IPv6 and IPv4 on one port.
#[test]
fn ipv6_loopback_moves_bytes() {
    let any = TcpConfig { listen: ListenAddress::Any, ..config() };
    let (a, b) = (Node::new(), Node::with(any));
    let (source, target) = (a.register(100_000), b.register(100_000));
    for (seed, ip) in [(1, Ipv6Addr::LOCALHOST.into()), (2, Ipv4Addr::LOCALHOST.into())] {
        if let Err(error) = TcpListener::bind(SocketAddr::new(ip, 0)) {
            println!("skipped {ip}: this machine has no such address ({error})");
            continue;
        }
        let peer = b.as_peer_at(ip);
        let bytes = pattern(seed, 100_000);
        source.region().write_from(0, &bytes).unwrap();
        let at = target.region().address();
        assert_eq!(a.run(Opcode::Write, source.region().whole(), at, &peer).result, Ok(()));
        assert!(bytes_of(target.region()) == bytes, "{ip}");
    }
}

/// FB09: many transports that start at once get ports of their own, bound and connectable.
#[test]
fn fb09_fifty_transports_start_at_once_on_ports_of_their_own() {
    let starts: Vec<_> = (0..50).map(|_| std::thread::spawn(Node::new)).collect();
    let nodes: Vec<Node> = starts.into_iter().map(|start| start.join().unwrap()).collect();
    let ports: HashSet<u16> = nodes.iter().map(Node::port).collect();
    assert_eq!(ports.len(), 50);
    for port in ports {
        assert!((15_000..=17_000).contains(&port));
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}

/// J51, J67: requests of many threads, each driving, both ways at once, while one end closes.
#[test]
fn j67_many_threads_and_a_shutdown_end_each_slice_once() {
    for _ in 0..10 {
        let (a, b) = (Arc::new(Node::new()), Node::new());
        let target = b.register(1 << 16);
        let peer = b.as_peer();
        let at = target.region().address();
        let closed = Arc::new(AtomicBool::new(false));
        let workers: Vec<_> = (0..4u64)
            .map(|worker| {
                let (a, peer, closed) = (Arc::clone(&a), Arc::clone(&peer), Arc::clone(&closed));
                std::thread::spawn(move || work(&a, &peer, (at, worker), &closed))
            })
            .collect();
        eventually("they are at work", || a.transport.stats().bytes_written > 1 << 20);
        let report = a.transport.close(Instant::now() + PATIENCE);
        assert!(report.joined);
        closed.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(a.ends.look(|state| state.twice.is_empty()));
    }
}

/// Submits until the transport is closed and waits for what it submitted. While another thread
/// hands slices over there is no room.
fn work(a: &Node, peer: &Arc<RemoteSegment>, (at, worker): (u64, u64), closed: &AtomicBool) {
    let source = a.register(1 << 16);
    while !closed.load(Ordering::Relaxed) {
        let op = if worker.is_multiple_of(2) { Opcode::Write } else { Opcode::Read };
        let slices = (0..8).map(|_| a.slice(op, source.region().whole(), at, peer));
        let mut list = List(slices.collect());
        let tokens: Vec<_> = list.0.iter().map(|slice| slice.token).collect();
        let taken = a.transport.submit(peer, &mut list);
        for token in &tokens[..taken] {
            drop(a.drive_to_end(*token));
        }
    }
}

/// A caller that drives makes progress on its own and leaves nothing behind: what it left
/// unfinished goes on without it.
#[test]
fn a_caller_that_stops_driving_leaves_its_work_to_the_thread() {
    let (a, b) = (Node::new(), Node::new());
    let (source, target) = (a.register(32 << 20), b.register(32 << 20));
    let peer = b.as_peer();
    for _ in 0..20 {
        let at = target.region().address();
        let slice = a.slice(Opcode::Write, source.region().whole(), at, &peer);
        let token = a.submit(&peer, vec![slice])[0];
        let until = Instant::now() + Duration::from_millis(1);
        while Instant::now() < until {
            a.transport.drive(until);
        }
        assert_eq!(a.ends.wait(token).result, Ok(()));
    }
}
