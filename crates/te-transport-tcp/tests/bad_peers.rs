//! What peers can do to our requests, and what must come of it: the truth, in time.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::fake::{
    Fake, OK, REFUSED, WRITE, read_body, read_header, read_rest, serve_one, serve_v1,
};
use common::{Node, PATIENCE, bytes_of, config, eventually, pattern, peer_at};
use socket2::SockRef;
use te_metadata::{HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{Opcode, RemoteSegment, SegmentId};
use te_transport::{Completion, FaultClass, Phase, RemoteSide, Transport};
use te_transport_tcp::TcpConfig;

const AT: u64 = 0x10_0000;

fn fault_of(end: Completion) -> (FaultClass, Phase, RemoteSide) {
    let fault = end.result.expect_err("it fails");
    (fault.class, fault.phase, end.remote)
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let value = run();
    (value, begun.elapsed())
}

/// FB05, F45: whatever was sent, a write is done only when the peer says so.
#[test]
fn fb05_a_write_is_not_done_before_its_status() {
    let (got, all_there) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = te_sync::Mutex::new(released);
    let fake = Fake::new(move |mut stream, _| {
        let asked = read_header(&mut stream).unwrap();
        read_body(&mut stream, asked.size).unwrap();
        got.send(()).unwrap();
        released.lock().recv().unwrap();
        stream.write_all(&OK).unwrap();
        read_rest(&mut stream);
    });
    let a = Node::new();
    let source = a.register(1 << 20);
    let peer = fake.peer(2);
    let slice = a.slice(Opcode::Write, source.region().whole(), AT, &peer);
    let token = a.submit(&peer, vec![slice])[0];
    all_there.recv_timeout(PATIENCE).unwrap();
    // Time for a wrong report to show.
    std::thread::sleep(Duration::from_millis(100));
    assert!(a.ends.look(|state| state.ends.is_empty()), "done before the status");
    release.send(()).unwrap();
    let end = a.ends.wait(token);
    assert_eq!((end.result, end.remote), (Ok(()), RemoteSide::Settled));
}

/// FB04: a peer that takes the header and then nothing more is given up in time, and its socket is
/// not used again.
#[test]
fn fb04_a_peer_that_stops_reading_is_given_up_in_time() {
    let progress_timeout = Duration::from_secs(1);
    let (end_of, ended) = mpsc::channel();
    let fake = Fake::new(move |mut stream, number| {
        if number > 0 {
            while serve_one(&mut stream).is_some() {}
            return;
        }
        read_header(&mut stream).unwrap();
        // Nothing is read until the other side gives up, which is then seen here.
        std::thread::sleep(Duration::from_secs(4));
        end_of.send(read_rest(&mut stream).len()).unwrap();
    });
    let a = Node::with(TcpConfig { progress_timeout, ..config() });
    let source = a.register(64 << 20);
    let peer = fake.peer(2);
    let run = || a.run(Opcode::Write, source.region().whole(), AT, &peer);
    let (end, took) = timed(run);
    let told = (FaultClass::Peer, Phase::Payload, RemoteSide::InDoubt);
    assert_eq!(fault_of(end), told);
    assert!(took >= progress_timeout && took < 3 * progress_timeout, "{took:?}");
    assert_eq!(run().result, Ok(()));
    assert_eq!(fake.connections(), 2);
    assert!(ended.recv_timeout(PATIENCE).unwrap() < 64 << 20);
    assert_eq!(a.transport.stats().timeouts, 1);
}

/// FB04: a peer that is slow but steady is waited for, also while it drains what the kernel holds
/// and nothing is left to send.
#[test]
fn fb04_a_slow_peer_is_waited_for() {
    let timeout = Duration::from_millis(500);
    let fake = Fake::new(|mut stream, _| {
        SockRef::from(&stream).set_recv_buffer_size(1 << 16).unwrap();
        let mut left = read_header(&mut stream).unwrap().size;
        while left > 0 {
            let some = left.min(1 << 16);
            read_body(&mut stream, some).unwrap();
            left -= some;
            std::thread::sleep(Duration::from_millis(60));
        }
        stream.write_all(&OK).unwrap();
        read_rest(&mut stream);
    });
    let config = TcpConfig { progress_timeout: timeout, status_timeout: timeout, ..config() };
    let a = Node::with(config);
    let source = a.register(4 << 20);
    let peer = fake.peer(2);
    let (end, took) = timed(|| a.run(Opcode::Write, source.region().whole(), AT, &peer));
    assert_eq!(end.result, Ok(()));
    assert!(took > 4 * timeout, "this proves nothing: {took:?}");
}

/// Peer fault 9: a peer that dies in the middle costs this request, at once, and no pause.
#[test]
fn fault09_a_peer_that_dies_fails_the_request_at_once_and_the_next_goes_on() {
    let fake = Fake::new(|mut stream, number| {
        if number == 0 {
            let asked = read_header(&mut stream).unwrap();
            let half = if asked.opcode & WRITE != 0 { asked.size / 2 } else { 0 };
            read_body(&mut stream, half).unwrap();
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
            return;
        }
        while serve_one(&mut stream).is_some() {}
    });
    let a = Node::new();
    let source = a.register(8 << 20);
    let peer = fake.peer(2);
    let run = || a.run(Opcode::Write, source.region().whole(), AT, &peer);
    let (end, took) = timed(run);
    let (class, _, remote) = fault_of(end);
    assert_eq!((class, remote), (FaultClass::Rail, RemoteSide::InDoubt));
    assert!(took < Duration::from_secs(1), "{took:?}");
    let (end, took) = timed(run);
    assert_eq!(end.result, Ok(()));
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// J61 as changed, peer fault 9: nobody listens: a named fault with the address, at once; and as
/// soon as somebody does, requests go on within the longest pause.
#[test]
fn fault09_j61_a_dead_port_is_told_at_once_and_tried_again_soon() {
    let address = free_address();
    let a = Node::new();
    let source = a.register(64);
    let peer = peer_at(address, 2);
    let run = || a.run(Opcode::Write, source.region().whole(), AT, &peer);
    for _ in 0..20 {
        let (end, took) = timed(run);
        assert!(took < Duration::from_millis(500), "{took:?}");
        let fault = end.result.clone().unwrap_err();
        assert_eq!((fault.address, fault.errno), (Some(address), Some(libc::ECONNREFUSED)));
        let told = (FaultClass::Peer, Phase::Connect, RemoteSide::Untouched);
        assert_eq!(fault_of(end), told);
    }
    let listener = TcpListener::bind(address).unwrap();
    let _fake = Fake::on(listener, |mut stream, _| while serve_one(&mut stream).is_some() {});
    let (end, took) = timed(run);
    assert_eq!(end.result, Ok(()));
    assert!(took < Duration::from_millis(500), "{took:?}");
}

/// An address on loopback where nobody listens.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}

/// Peer fault 10: eight refusals, each of which ends its connection as Mooncake ends it, do not
/// delay a good request.
#[test]
fn fault10_refusals_do_not_starve_good_requests() {
    let fake = Fake::new(|mut stream, _| {
        while let Some(asked) = read_header(&mut stream) {
            if asked.address != AT {
                stream.write_all(&REFUSED).unwrap();
                return;
            }
            read_body(&mut stream, asked.size).unwrap();
            stream.write_all(&OK).unwrap();
        }
    });
    let a = Node::new();
    let source = a.register(64);
    let peer = fake.peer(2);
    let run = |at| a.run(Opcode::Write, source.region().whole(), at, &peer);
    for round in 0..5 {
        for _ in 0..8 {
            assert_eq!(fault_of(run(1)).0, FaultClass::Refused);
        }
        let (end, took) = timed(|| run(AT));
        assert_eq!(end.result, Ok(()), "round {round}");
        assert!(took < Duration::from_millis(500), "round {round}: {took:?}");
    }
    assert_eq!(a.transport.stats().refused, 40);
}

/// Peer fault 11: a peer that closes each connection after its request costs nobody a request.
#[test]
fn fault11_a_kept_connection_that_died_is_replaced_silently() {
    let closed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&closed);
    let fake = Fake::new(move |mut stream, _| {
        serve_one(&mut stream);
        drop(stream);
        count.fetch_add(1, Ordering::SeqCst);
    });
    let a = Node::new();
    let source = a.register(64);
    let peer = fake.peer(2);
    for round in 1..=20 {
        for driving in [false, true] {
            let run = if driving { Node::run_driving } else { Node::run };
            let end = run(&a, Opcode::Write, source.region().whole(), AT, &peer);
            assert_eq!(end.result, Ok(()), "round {round}");
            let so_far = fake.connections();
            eventually("the peer closed", || closed.load(Ordering::SeqCst) == so_far);
        }
    }
}

/// Peer fault 11: closing races with the next request. A read always gets through; a write gets
/// through or is told as in doubt.
#[test]
fn fault11_a_close_that_races_with_the_next_request_costs_no_read_and_no_truth() {
    let fake = Fake::new(|mut stream, _| {
        serve_one(&mut stream);
    });
    let a = Node::with(TcpConfig { lanes_per_peer: 1, ..config() });
    let memory = a.register(64);
    let peer = fake.peer(2);
    for op in [Opcode::Read, Opcode::Write] {
        let slices = (0..300).map(|_| a.slice(op, memory.region().whole(), AT, &peer));
        let tokens = a.submit(&peer, slices.collect());
        let mut in_doubt = 0;
        for token in tokens {
            let end = a.ends.wait(token);
            if end.result.is_err() {
                let (class, _, remote) = fault_of(end);
                assert_eq!((op, class), (Opcode::Write, FaultClass::Rail));
                assert_eq!(remote, RemoteSide::InDoubt);
                in_doubt += 1;
            }
        }
        let retries = a.transport.stats().stale_retries;
        println!("{op:?}: {in_doubt} of 300 in doubt, {retries} retries so far");
    }
}

/// Peer fault 11: a kept connection that dies with a request in its hands. A read goes again, once;
/// a write whose bytes the peer's kernel took is told as in doubt.
#[test]
fn fault11_only_what_cannot_have_been_taken_goes_again() {
    let fake = Fake::new(|mut stream, _| {
        serve_one(&mut stream);
        read_header(&mut stream);
    });
    let a = Node::with(TcpConfig { lanes_per_peer: 1, ..config() });
    let memory = a.register(64);
    let peer = fake.peer(2);
    let run = |op| a.run(op, memory.region().whole(), AT, &peer);
    assert_eq!(run(Opcode::Write).result, Ok(()));
    assert_eq!(run(Opcode::Read).result, Ok(()), "on a fresh connection");
    assert_eq!(a.transport.stats().stale_retries, 1);
    assert_eq!(fake.connections(), 2);
    let (class, _, remote) = fault_of(run(Opcode::Write));
    assert_eq!((class, remote), (FaultClass::Rail, RemoteSide::InDoubt));
    assert_eq!(fake.connections(), 2, "it was not sent again");
    assert_eq!(a.transport.stats().stale_retries, 1);
}

/// A fresh connection that dies is not retried here, whatever was on it.
#[test]
fn a_fresh_connection_that_dies_is_told() {
    let fake = Fake::new(|mut stream, _| {
        read_header(&mut stream);
    });
    let a = Node::new();
    let memory = a.register(64);
    for op in [Opcode::Read, Opcode::Write] {
        let end = a.run(op, memory.region().whole(), AT, &fake.peer(2));
        assert_eq!(fault_of(end).0, FaultClass::Rail);
    }
    assert_eq!(a.transport.stats().stale_retries, 0);
}

/// J53: once a refused write is told, not one more byte of the source is read.
#[test]
fn j53_a_large_refused_write_stops_reading_its_source() {
    let (rest_of, rest) = mpsc::channel();
    let (go_on, gone_on) = mpsc::channel::<()>();
    let gone_on = te_sync::Mutex::new(gone_on);
    let fake = Fake::new(move |mut stream, _| {
        read_header(&mut stream).unwrap();
        stream.write_all(&REFUSED).unwrap();
        gone_on.lock().recv_timeout(PATIENCE).unwrap();
        rest_of.send(read_rest(&mut stream)).unwrap();
    });
    let a = Node::new();
    const LEN: usize = 64 << 20;
    let source = a.register(LEN);
    source.region().write_from(0, &vec![1; LEN]).unwrap();
    let peer = fake.peer(2);
    let (end, took) = timed(|| a.run(Opcode::Write, source.region().whole(), AT, &peer));
    assert_eq!(fault_of(end).0, FaultClass::Refused);
    assert!(took < Duration::from_secs(1), "{took:?}");
    source.region().write_from(0, &vec![2; LEN]).unwrap();
    go_on.send(()).unwrap();
    let rest = rest.recv_timeout(PATIENCE).unwrap();
    assert!(!rest.contains(&2), "bytes written after the end of the request were sent");
}

/// J56, F13: the descriptor says v2 and the peer speaks v1: told within 3 s, socket dropped.
#[test]
fn j56_a_v1_peer_behind_a_v2_descriptor_is_told() {
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    let fake = Fake::new(move |mut stream, _| {
        while serve_v1(&mut stream).is_some() {}
        end.store(true, Ordering::SeqCst);
    });
    let a = Node::with(TcpConfig { status_timeout: Duration::from_secs(2), ..config() });
    let source = a.register(4096);
    for op in [Opcode::Write, Opcode::Read] {
        let peer = fake.peer(2);
        let (end, took) = timed(|| a.run(op, source.region().whole(), AT, &peer));
        assert_eq!(fault_of(end).0, FaultClass::Protocol, "{op:?}");
        assert!(took < Duration::from_secs(3), "{took:?}");
        eventually("the socket is dropped", || ended.swap(false, Ordering::SeqCst));
    }
}

/// J57: too short an answer for a status: the status deadline ends it.
#[test]
fn j57_a_short_request_to_a_v1_peer_ends_with_the_status_deadline() {
    let fake = Fake::new(|mut stream, _| while serve_v1(&mut stream).is_some() {});
    let status_timeout = Duration::from_secs(1);
    let a = Node::with(TcpConfig { status_timeout, ..config() });
    let source = a.register(7);
    let peer = fake.peer(2);
    let slices: Vec<_> = [Opcode::Write, Opcode::Read]
        .into_iter()
        .flat_map(|op| [1, 7].map(|len| (op, source.region().range(0, len).unwrap())))
        .map(|(op, local)| a.slice(op, local, AT, &peer))
        .collect();
    let begun = Instant::now();
    for token in a.submit(&peer, slices) {
        let (class, phase, _) = fault_of(a.ends.wait(token));
        assert_eq!((class, phase), (FaultClass::Peer, Phase::Status));
        let took = begun.elapsed();
        assert!(took >= status_timeout && took < Duration::from_secs(6), "{took:?}");
    }
}

/// Peer fault 5: a v1 peer that drops what it does not have: never told as done.
#[test]
fn fault05_a_write_that_a_v1_peer_dropped_is_in_doubt() {
    let fake = Fake::new(|mut stream, _| {
        let asked = read_header(&mut stream).unwrap();
        read_body(&mut stream, asked.size);
    });
    let a = Node::new();
    let source = a.register(32);
    let end = a.run(Opcode::Write, source.region().whole(), AT, &fake.peer(1));
    let (class, _, remote) = fault_of(end);
    assert_eq!((class, remote), (FaultClass::Rail, RemoteSide::InDoubt));
}

/// Cancel: what waits comes back untouched, what is on the wire as it is, each once.
#[test]
fn a_call_back_settles_what_waits_and_what_is_on_the_wire() {
    let fake = Fake::new(|mut stream, _| {
        read_header(&mut stream);
        read_rest(&mut stream);
    });
    let a = Node::with(TcpConfig { lanes_per_peer: 2, ..config() });
    let source = a.register(64);
    let peer = fake.peer(2);
    let slices: Vec<_> =
        (0..10).map(|_| a.slice(Opcode::Write, source.region().whole(), AT, &peer)).collect();
    let tokens = a.submit(&peer, slices);
    eventually("two are on the wire", || fake.connections() == 2);
    // Sent, not only connected: the fake has their headers.
    std::thread::sleep(Duration::from_millis(50));
    a.transport.cancel(&tokens);
    let mut in_doubt = 0;
    for token in tokens {
        let (class, _, remote) = fault_of(a.ends.wait(token));
        assert_eq!(class, FaultClass::Cancelled);
        in_doubt += usize::from(remote == RemoteSide::InDoubt);
    }
    assert_eq!(in_doubt, 2);
    assert!(a.ends.look(|state| state.twice.is_empty()));
}

/// J62: closing settles what waits and what is on the wire exactly once, joins its threads and
/// opens nothing any more.
#[test]
fn j62_closing_settles_everything_once_and_stays_closed() {
    let fake = Fake::new(|mut stream, _| {
        read_rest(&mut stream);
    });
    let a = Node::new();
    let source = a.register(64);
    let peer = fake.peer(2);
    let slices: Vec<_> =
        (0..100).map(|_| a.slice(Opcode::Write, source.region().whole(), AT, &peer)).collect();
    let tokens = a.submit(&peer, slices);
    eventually("some are on the wire", || fake.connections() == 4);
    let report = a.transport.close(Instant::now() + PATIENCE);
    assert_eq!((report.settled, report.joined), (100, true));
    for token in tokens {
        assert_eq!(fault_of(a.ends.wait(token)).0, FaultClass::Closed);
    }
    let slice = a.slice(Opcode::Write, source.region().whole(), AT, &peer);
    let mut late = common::List([slice].into());
    assert_eq!(a.transport.submit(&peer, &mut late), 0);
    let again = a.transport.close(Instant::now() + PATIENCE);
    assert_eq!(again.settled, 100);
    assert_eq!(fake.connections(), 4);
    assert!(a.ends.look(|state| state.twice.is_empty()));
}

/// J62, J61: closing while a connection is being opened, and while a lane pauses.
#[test]
fn j62_closing_while_connecting_or_pausing_ends_at_once() {
    let silent = Silent::new();
    for address in [silent.address, free_address()] {
        let a = Node::new();
        let source = a.register(64);
        let peer = peer_at(address, 2);
        let slices: Vec<_> =
            (0..50).map(|_| a.slice(Opcode::Write, source.region().whole(), AT, &peer)).collect();
        let tokens = a.submit(&peer, slices);
        let (report, took) = timed(|| a.transport.close(Instant::now() + PATIENCE));
        assert!(report.joined && took < Duration::from_secs(2), "{took:?}");
        for token in tokens {
            let (class, _, remote) = fault_of(a.ends.wait(token));
            assert!([FaultClass::Closed, FaultClass::Peer].contains(&class));
            assert_eq!(remote, RemoteSide::Untouched);
        }
        assert!(a.ends.look(|state| state.twice.is_empty()));
    }
}

/// Peer fault 8: a peer that does not even answer a connection request is given up after one
/// connect timeout, not one per lane.
#[test]
fn fault08_a_peer_that_does_not_answer_costs_one_connect_timeout() {
    let silent = Silent::new();
    let connect_timeout = Duration::from_millis(600);
    let a = Node::with(TcpConfig { connect_timeout, ..config() });
    let source = a.register(64);
    let peer = peer_at(silent.address, 2);
    let run = || a.run(Opcode::Write, source.region().whole(), AT, &peer);
    let (end, took) = timed(run);
    assert_eq!(fault_of(end), (FaultClass::Peer, Phase::Connect, RemoteSide::Untouched));
    assert!(took >= connect_timeout && took < 3 * connect_timeout, "{took:?}");
}

/// A listener whose queue is full: further connection requests get no answer.
struct Silent {
    address: SocketAddr,
    _held: Vec<socket2::Socket>,
}

impl Silent {
    fn new() -> Self {
        use socket2::{Domain, Socket, Type};
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut held = vec![listener];
        for _ in 0..4 {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            let _ = filler.connect(&address.into());
            held.push(filler);
        }
        Self { address, _held: held }
    }
}

/// A host name leads to an address without blocking anybody, and one that leads nowhere is told.
#[test]
fn names_are_looked_up_and_a_bad_one_is_told() {
    let b = Node::new();
    let target = b.register(64);
    let a = Node::with(TcpConfig { connect_timeout: Duration::from_secs(20), ..config() });
    let source = a.register(64);
    let named = |host: &str, id| {
        let endpoint = TcpEndpoint {
            data_host: Some(host.to_owned()),
            data_port: Some(b.port()),
            proto_version: 2,
        };
        let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
        let descriptor = SegmentDescriptor::tcp("peer", endpoint, Vec::new());
        let name = SegmentName::parse("peer").unwrap();
        Arc::new(RemoteSegment::new(SegmentId::from_u64(id), name, rpc, descriptor, 1))
    };
    let at = target.region().address();
    let nowhere = named("no-such-host.invalid", 1);
    let slice = a.slice(Opcode::Write, source.region().whole(), at, &nowhere);
    let lost = a.submit(&nowhere, vec![slice])[0];
    let end = a.run(Opcode::Write, source.region().whole(), at, &named("localhost", 2));
    assert_eq!(end.result, Ok(()));
    let end = a.ends.wait(lost);
    let text = end.result.clone().unwrap_err().to_string();
    assert!(text.contains("no-such-host.invalid"), "{text}");
    assert_eq!(fault_of(end), (FaultClass::Peer, Phase::Connect, RemoteSide::Untouched));
}

/// A peer that says nothing of a data port is told, and reached by nobody.
#[test]
fn a_peer_without_a_data_port_is_told() {
    let a = Node::new();
    let source = a.register(64);
    let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
    let peer = Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1));
    assert!(!a.transport.reaches(&peer));
    let end = a.run(Opcode::Write, source.region().whole(), AT, &peer);
    assert_eq!(fault_of(end).0, FaultClass::Peer);
}

/// Bytes of a read that come and then stop, and payload that follows a status, stay what they are:
/// a fault, and the connection is not kept.
#[test]
fn a_read_that_stops_half_way_is_told_and_its_socket_dropped() {
    let fake = Fake::new(|mut stream, number| {
        let asked = read_header(&mut stream).unwrap();
        stream.write_all(&OK).unwrap();
        let len = usize::try_from(asked.size).unwrap();
        let sent = if number == 0 { len / 2 } else { len };
        stream.write_all(&pattern(5, len)[..sent]).unwrap();
        let mut end = [0];
        if number > 0 {
            let _ = stream.read(&mut end);
        }
    });
    let a = Node::new();
    let target = a.register(4096);
    let peer = fake.peer(2);
    let end = a.run(Opcode::Read, target.region().whole(), AT, &peer);
    assert_eq!(fault_of(end), (FaultClass::Rail, Phase::Payload, RemoteSide::Settled));
    let end = a.run(Opcode::Read, target.region().whole(), AT, &peer);
    assert_eq!(end.result, Ok(()));
    assert_eq!(bytes_of(target.region()), pattern(5, 4096));
}
