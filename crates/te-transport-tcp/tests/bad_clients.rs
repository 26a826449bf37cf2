//! What peers can do to the data port, and what must come of it: nothing for anybody else.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]
#![allow(unsafe_code, reason = "one test takes memory away")]

mod common;

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::fake::{OK, READ, REFUSED, V2, WRITE, ask, header, raw, read_body, read_rest};
use common::{Node, config, eventually, part_of, pattern};
use proptest::prelude::*;
use socket2::SockRef;
use te_segment::{Region, RegisterOptions, RemoteAccess};
use te_transport::Transport;
use te_transport_tcp::TcpConfig;

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A good request on a connection of its own.
fn good_request(b: &Node, address: u64) {
    let mut stream = raw(b.port());
    let request = [header(V2 | WRITE, address, 4), b"good".to_vec()].concat();
    assert_eq!(ask(&mut stream, &request, 8).unwrap(), OK);
}

/// Peer fault 33: a connection with an unknown opcode is closed; nothing is served.
#[test]
fn fault33_an_unknown_opcode_is_closed_unserved() {
    let b = Node::new();
    let target = b.register(64);
    let at = target.region().address();
    for opcode in [2, 3, 0x7f, 0x82, 0xff] {
        let mut stream = raw(b.port());
        stream.write_all(&header(opcode, at, 8)).unwrap();
        assert!(read_rest(&mut stream).is_empty(), "opcode {opcode:#x}");
    }
    assert_eq!(b.transport.stats().bad_opcodes, 5);
    good_request(&b, at);
}

/// FB32, J50, peer fault 23: ranges that are not open are refused on a connection that goes on;
/// memory around stays as it was.
#[test]
fn fb32_j50_fault23_what_is_not_open_is_refused_and_stays_unharmed() {
    let b = Node::new();
    // One mapping: a canary, a buffer, a buffer that touches it, another canary.
    let memory = b.register(1).region().clone();
    let canary = Region::from(te_segment::AlignedBuffer::zeroed(4 * 4096).unwrap());
    canary.write_from(0, &pattern(1, 4 * 4096)).unwrap();
    let middle = |offset: u64| {
        let ptr = std::ptr::with_exposed_provenance_mut::<u8>(
            usize::try_from(canary.address() + offset).unwrap(),
        );
        // SAFETY: the bytes are part of `canary`, which outlives the test's use of them; nobody
        // holds a reference to them.
        unsafe { Region::from_raw_parts(ptr, 4096) }.unwrap()
    };
    for offset in [4096, 8192] {
        b.segment.register(&middle(offset), RegisterOptions::default()).unwrap();
    }
    let closed = Region::from(te_segment::AlignedBuffer::zeroed(64).unwrap());
    let none = RegisterOptions { remote: RemoteAccess::None, ..RegisterOptions::default() };
    b.segment.register(&closed, none).unwrap();

    let start = canary.address() + 4096;
    let on_the_stack = 0u64;
    let cases = [
        (start - 1, 1),
        (start - 1, 2),
        (start + 4095, 2),
        (start, 8192),
        (start + 8191, 2),
        (start + 8192, 1),
        (start, 0),
        (0, 1),
        (u64::MAX - 4095, 8192),
        (start, 1 << 63),
        (std::ptr::from_ref(&on_the_stack).addr() as u64, 8),
        (closed.address(), 8),
        (memory.address() + 1, 1),
    ];
    let mut stream = raw(b.port());
    for (address, size) in cases {
        assert_eq!(ask(&mut stream, &header(V2 | READ, address, size), 8).unwrap(), REFUSED);
        if size <= 8192 {
            let mut write = header(V2 | WRITE, address, size);
            write.extend(vec![0xbd; usize::try_from(size).unwrap()]);
            assert_eq!(ask(&mut stream, &write, 8).unwrap(), REFUSED, "{address:#x}+{size}");
        }
    }
    assert_eq!(part_of(&canary, 0, 4 * 4096), pattern(1, 4 * 4096));
    for (offset, size) in [(0, 4096), (0, 1), (4095, 1), (4096, 4096)] {
        let answer = ask(&mut stream, &header(V2 | READ, start + offset, size), 8).unwrap();
        assert_eq!(answer, OK, "{offset}+{size}");
        let payload = read_body(&mut stream, size).unwrap();
        let at = 4096 + offset;
        assert_eq!(payload, part_of(&canary, at, usize::try_from(size).unwrap()));
    }
    assert_eq!(b.transport.stats().inbound_open, 1, "one connection served it all");
}

/// A large refused write: its status arrives although the body is not read to the end.
#[test]
fn fault10_the_status_of_a_large_refused_write_is_not_lost_to_a_reset() {
    let b = Node::new();
    for _ in 0..20 {
        let mut stream = raw(b.port());
        let body = vec![1; 8 << 20];
        stream.write_all(&header(V2 | WRITE, 1, body.len() as u64)).unwrap();
        // The server may end the connection before it took everything.
        let _ = stream.write_all(&body);
        assert_eq!(read_body(&mut stream, 8).unwrap(), REFUSED);
        assert!(read_rest(&mut stream).is_empty());
    }
}

/// Peer fault 6: 500 half headers cost nobody anything and are gone in bounded time.
#[test]
fn fault06_five_hundred_half_headers_end_in_time_and_good_requests_go_on() {
    let header_timeout = Duration::from_millis(700);
    let b = Node::with(TcpConfig { header_timeout, ..config() });
    let target = b.register(64);
    let before = open_descriptors();
    let begun = Instant::now();
    let halves: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = raw(b.port());
            stream.write_all(&header(V2 | WRITE, 1, 1)[..12]).unwrap();
            stream
        })
        .collect();
    good_request(&b, target.region().address());
    eventually("half headers end", || b.transport.stats().inbound_timeouts == 500);
    eventually("their sockets close", || b.transport.stats().inbound_open == 0);
    assert!(begun.elapsed() > header_timeout);
    drop(halves);
    good_request(&b, target.region().address());
    eventually("descriptors come back", || open_descriptors() <= before + 8);
}

/// Peer fault 6: a body that stops is ended by the progress deadline; the bytes that came have
/// landed, and the buffer is free again.
#[test]
fn fault06_a_body_that_stops_is_ended_and_frees_the_buffer() {
    let progress_timeout = Duration::from_millis(400);
    let b = Node::with(TcpConfig { progress_timeout, ..config() });
    let target = b.register(1 << 20);
    let mut stream = raw(b.port());
    stream.write_all(&header(V2 | WRITE, target.region().address(), 1 << 20)).unwrap();
    stream.write_all(&[9; 1000]).unwrap();
    let begun = Instant::now();
    assert!(read_rest(&mut stream).is_empty());
    assert!(begun.elapsed() > progress_timeout / 2, "{:?}", begun.elapsed());
    assert_eq!(part_of(target.region(), 0, 1000), [9; 1000]);
    eventually("the guard is gone", || target.in_flight() == 0);
    assert_eq!(b.transport.stats().inbound_timeouts, 1);
}

/// A read whose answer nobody takes is ended as well.
#[test]
fn fault06_an_answer_that_nobody_takes_is_ended() {
    let progress_timeout = Duration::from_millis(400);
    let b = Node::with(TcpConfig { progress_timeout, ..config() });
    let target = b.register(64 << 20);
    let mut stream = raw(b.port());
    stream.write_all(&header(V2 | READ, target.region().address(), 64 << 20)).unwrap();
    eventually("it is ended", || b.transport.stats().inbound_timeouts == 1);
    eventually("the guard is gone", || target.in_flight() == 0);
}

/// K4, peer fault 4: a buffer that goes away ends work on it at once, also where the peer is
/// silent, and not one byte lands afterwards.
#[test]
fn fault04_unregistering_ends_incoming_work_at_once() {
    let b = Node::new();
    let target = b.register(1 << 20);
    let other = b.register(64);
    let at = target.region().address();
    let mut writer = raw(b.port());
    writer.write_all(&header(V2 | WRITE, at, 1 << 20)).unwrap();
    writer.write_all(&[9; 1000]).unwrap();
    let mut bystander = raw(b.port());
    bystander.write_all(&header(V2 | WRITE, other.region().address(), 4)).unwrap();
    eventually("both are being written", || target.in_flight() + other.in_flight() == 2);
    eventually("the bytes are there", || b.transport.stats().bytes_in == 1000);

    let retiring = b.segment.retire(at).unwrap().unwrap();
    b.transport.deregister(&target);
    retiring.finish(Duration::from_secs(10)).unwrap();
    assert_eq!(b.transport.stats().revoked, 1);
    let _ = writer.write_all(&vec![7; (1 << 20) - 1000]);
    assert!(read_rest(&mut writer).is_empty());
    assert_eq!(part_of(target.region(), 1000, 1000), [0; 1000]);
    assert_eq!(ask(&mut bystander, b"good", 8).unwrap(), OK, "the other buffer is served");
}

/// Peer fault 30, FB32: any bytes on the data port close that connection at most.
#[test]
fn fault30_any_bytes_leave_the_server_serving() {
    let b = Node::new();
    let target = b.register(64);
    let address = target.region().address();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(150));
    let bytes = prop::collection::vec(any::<u8>(), 0..200);
    runner
        .run(&bytes, |bytes| {
            let mut stream = raw(b.port());
            // The server may have closed already.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            read_rest(&mut stream);
            Ok(())
        })
        .unwrap();
    let mut stream = raw(b.port());
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(read_rest(&mut stream).is_empty());
    good_request(&b, address);
    eventually("only live connections remain", || b.transport.stats().inbound_open == 0);
}

/// Peer fault 31: 200 requests reset before their answer.
#[test]
fn fault31_two_hundred_resets_leave_the_server_serving() {
    let b = Node::new();
    let target = b.register(1 << 20);
    let at = target.region().address();
    for round in 0u64..200 {
        let mut stream = raw(b.port());
        let (opcode, size) = if round % 2 == 0 { (READ, 1 << 20) } else { (WRITE, 1 << 20) };
        stream.write_all(&header(V2 | opcode, at, size)).unwrap();
        let _ = stream.write_all(&vec![1; usize::try_from(round * 37).unwrap()]);
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    }
    eventually("every connection is gone", || b.transport.stats().inbound_open == 0);
    assert_eq!(target.in_flight(), 0);
    good_request(&b, at);
}

/// K15: too many connections from one address cost the longest idle of them, and no request.
#[test]
fn k15_one_more_connection_than_allowed_closes_the_longest_idle_one() {
    let b = Node::with(TcpConfig { max_inbound_per_address: 8, ..config() });
    let target = b.register(64);
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..8 {
        let mut stream = raw(b.port());
        let answer = ask(&mut stream, &header(V2 | READ, target.region().address(), 1), 9);
        assert_eq!(answer.unwrap()[..8], OK);
        idle.push(stream);
    }
    good_request(&b, target.region().address());
    assert!(read_rest(&mut idle[0]).is_empty(), "the first one was idle longest");
    let last = idle.last_mut().unwrap();
    let answer = ask(last, &header(V2 | READ, target.region().address(), 1), 9);
    assert_eq!(answer.unwrap()[..8], OK, "the others stay");
    assert!(b.transport.stats().inbound_open <= 8);
}

/// K15: clients that only hold connections, by bytes that nobody wants, lock nobody out: they give
/// way, oldest first, before anybody who was ever served.
#[test]
fn k15_connections_of_no_use_give_way_before_proven_ones() {
    let b = Node::with(TcpConfig { max_inbound: 8, ..config() });
    let target = b.register(64);
    let at = target.region().address();
    let mut proven = raw(b.port());
    assert_eq!(ask(&mut proven, &header(V2 | READ, at, 1), 9).unwrap()[..8], OK);
    let hold = |bytes: &[u8]| {
        let mut stream = raw(b.port());
        stream.write_all(bytes).unwrap();
        stream
    };
    let mut holders = Vec::new();
    for _ in 0..4 {
        // A small refused write, whose body is awaited; half a header; nothing.
        let mut draining = hold(&header(V2 | WRITE, 1, 1 << 20));
        assert_eq!(read_body(&mut draining, 8).unwrap(), REFUSED);
        holders.extend([draining, hold(&[0; 12]), hold(&[])]);
    }
    eventually("all were looked at", || b.transport.stats().inbound_shed == 5);
    for _ in 0..20 {
        good_request(&b, at);
    }
    let answer = ask(&mut proven, &header(V2 | READ, at, 1), 9);
    assert_eq!(answer.unwrap()[..8], OK, "it stays");
    assert!(read_rest(&mut holders[0]).is_empty(), "the oldest went first");
}

/// K15: where none is idle the newcomer is turned away, and the working ones go on.
#[test]
fn k15_where_all_connections_work_the_newcomer_is_turned_away() {
    let b = Node::with(TcpConfig { max_inbound: 2, ..config() });
    let target = b.register(64);
    let at = target.region().address();
    let mut working: Vec<_> = (0..2).map(|_| raw(b.port())).collect();
    for stream in &mut working {
        stream.write_all(&header(V2 | WRITE, at, 4)).unwrap();
    }
    eventually("both work", || target.in_flight() == 2);
    let mut third = raw(b.port());
    assert!(ask(&mut third, &header(V2 | READ, at, 1), 9).is_none());
    for stream in &mut working {
        assert_eq!(ask(stream, b"good", 8).unwrap(), OK);
    }
}

/// J55: a v1 initiator is served over one connection, request after request.
#[test]
fn j55_a_v1_initiator_is_served_over_one_connection() {
    let b = Node::new();
    let target = b.register(4096);
    let at = target.region().address();
    let mut stream = raw(b.port());
    for round in 0..50u64 {
        let bytes = pattern(round, 100);
        stream.write_all(&[header(WRITE, at + round, 100), bytes.clone()].concat()).unwrap();
        assert_eq!(ask(&mut stream, &header(READ, at + round, 100), 100).unwrap(), bytes);
    }
    assert_eq!(b.transport.stats().inbound_open, 1);
    let mut refused = raw(b.port());
    refused.write_all(&header(READ, at + 4000, 100)).unwrap();
    assert!(read_rest(&mut refused).is_empty());
}
