//! Version 3 with peers that are not what they should be, on real sockets.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::fake::{Fake, REFUSED, raw, read_body, read_rest};
use common::{Node, bytes_of, eventually, raw3, v3};
use te_metadata::{
    BufferDescriptor, BufferHandle, Incarnation, SegmentDescriptor, TcpEndpoint, TeObject,
};
use te_segment::{Opcode, RemoteSegment};
use te_transport::{FaultClass, Phase, RemoteSide, Transport};
use te_transport_tcp::TcpConfig;

const WHO: u128 = 0x1234_5678;
const AT: u64 = 0x10_0000;

/// A fake as a peer that offers version 3 and has one buffer.
fn as_peer(fake: &Fake) -> Arc<RemoteSegment> {
    let te = Some(BufferHandle { slot: 0, generation: 1 });
    let buffer =
        BufferDescriptor { name: "x".into(), addr: AT, length: 1 << 30, te, ..<_>::default() };
    let endpoint = TcpEndpoint {
        data_host: Some(fake.address.ip().to_string()),
        data_port: Some(fake.address.port()),
        proto_version: 2,
    };
    let mut descriptor = SegmentDescriptor::tcp("peer", endpoint, vec![buffer]);
    let mut te = TeObject::new(Incarnation::from_u128(WHO));
    te.transports.insert("tcp".into(), serde_json::json!({"v3": 1}));
    descriptor.te = Some(te);
    common::segment_of(descriptor)
}

/// Reads a hello and answers it well.
fn greet(stream: &mut TcpStream, credit: u32) -> Option<u32> {
    let hello = read_body(stream, 128)?;
    let fence = u32::from_le_bytes(hello[76..80].try_into().unwrap());
    stream.write_all(&raw3::answer(WHO, 0, credit, fence)).ok()?;
    Some(fence)
}

/// What a peer does instead of serving; every request ends once, with a named fault, in bounded time.
#[test]
fn fb32_a_hostile_peer_fails_requests_and_nothing_else() {
    type Serve = fn(&mut TcpStream);
    let protocol = FaultClass::Protocol;
    let table: [(&str, FaultClass, Serve); 12] = [
        ("garbage", protocol, |s| drop(s.write_all(&[0x5a; 4096]))),
        ("an unknown type", protocol, |s| drop(s.write_all(&raw3::frame(77, 0, 1, &[])))),
        ("a status for no request", protocol, |s| drop(s.write_all(&raw3::status(9, 0)))),
        ("done too early", protocol, |s| drop(s.write_all(&raw3::status(1, 0)))),
        ("a code of its own", protocol, |s| drop(s.write_all(&raw3::status(1, 99)))),
        ("data for a write", protocol, |s| drop(s.write_all(&raw3::frame(2, 1, 1, &[1; 64])))),
        ("a length of 4 GiB", protocol, |s| drop(s.write_all(&raw3::head(2, 0, u32::MAX, 1)))),
        ("an id of 2^64 − 1", protocol, |s| drop(s.write_all(&raw3::status(u64::MAX, 0)))),
        ("a request of its own", protocol, |s| {
            drop(s.write_all(&raw3::request(1, 1, (0, 1), 0, 1 << 63)));
        }),
        ("a credit of nothing", protocol, |s| drop(s.write_all(&raw3::frame(18, 0, 0, &[0; 8])))),
        ("goodbye", FaultClass::Peer, |s| drop(s.write_all(&raw3::frame(5, 0, 0, &[0; 8])))),
        ("nothing at all", FaultClass::Peer, |_| {}),
    ];
    for (what, class, serve) in table {
        let fake = Fake::new(move |mut stream, _| {
            if greet(&mut stream, 16).is_some() && read_body(&mut stream, 56).is_some() {
                serve(&mut stream);
                read_rest(&mut stream);
            }
        });
        let timeout = Duration::from_millis(300);
        let a =
            Node::with(TcpConfig { status_timeout: timeout, progress_timeout: timeout, ..v3() });
        let source = a.register(32 << 20);
        let peer = as_peer(&fake);
        let slices = [Opcode::Write, Opcode::Read, Opcode::Write]
            .map(|op| a.slice(op, source.region().whole(), AT, &peer));
        let begun = Instant::now();
        for token in a.submit(&peer, slices.into()) {
            let fault = a.ends.wait(token).result.unwrap_err();
            // A read that was not begun when the connection went away went again, and fared alike.
            assert_eq!(fault.class, class, "{what}: {fault}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {:?}", begun.elapsed());
        assert!(a.ends.look(|state| state.twice.is_empty()), "{what}");
    }
}

/// Each way not to answer a hello is told as what it is, with nothing of the request sent.
#[test]
fn a_hello_that_is_not_answered_well_is_a_fault_of_the_handshake() {
    type Serve = fn(&mut TcpStream);
    let peer = FaultClass::Peer;
    let table: [(&str, FaultClass, &str, Serve); 8] = [
        ("as version 2", peer, "does not speak version 3", |s| {
            drop(s.write_all(&REFUSED));
            read_rest(s);
        }),
        ("closed", FaultClass::Rail, "lost before the hello was answered", |_| {}),
        ("another run", peer, "another run", |s| {
            drop(s.write_all(&raw3::answer(WHO + 1, 1, 1, 0)));
        }),
        ("a liar", peer, "another run", |s| {
            drop(s.write_all(&raw3::answer(WHO + 1, 0, 1, 0)));
        }),
        ("busy", peer, "busy", |s| drop(s.write_all(&raw3::answer(WHO, 4, 1, 0)))),
        ("garbage", FaultClass::Protocol, "no answer", |s| drop(s.write_all(&[0x5a; 64]))),
        ("silence", peer, "not answered", |s| drop(read_rest(s))),
        ("dripping", peer, "not answered", |s| {
            for byte in raw3::answer(WHO, 0, 16, 0) {
                std::thread::sleep(Duration::from_millis(100));
                if s.write_all(&[byte]).is_err() {
                    return;
                }
            }
        }),
    ];
    for (what, class, cause, serve) in table {
        let fake = Fake::new(move |mut stream, _| {
            if read_body(&mut stream, 128).is_some() {
                serve(&mut stream);
            }
        });
        let a = Node::with(TcpConfig { connect_timeout: Duration::from_millis(500), ..v3() });
        let source = a.register(4096);
        let end = a.run(Opcode::Write, source.region().whole(), AT, &as_peer(&fake));
        let fault = end.result.unwrap_err();
        assert_eq!((fault.class, fault.phase), (class, Phase::Handshake), "{what}: {fault}");
        assert_eq!(end.remote, RemoteSide::Untouched, "{what}");
        assert!(fault.cause.contains(cause), "{what}: {fault}");
    }
}

/// A peer that answers each hello and goes at once is not stormed: the request ends with a fault
/// after a few connections.
#[test]
fn a_peer_that_greets_and_goes_costs_a_handful_of_connections() {
    let fake = Fake::new(|mut stream, _| {
        if read_body(&mut stream, 128).is_some() {
            let mut bytes = raw3::answer(WHO, 0, 16, 0);
            bytes.extend(raw3::frame(5, 0, 0, &[0; 8]));
            let _ = stream.write_all(&bytes);
        }
    });
    let a = Node::with(v3());
    let source = a.register(4096);
    for _ in 0..3 {
        let end = a.run(Opcode::Write, source.region().whole(), AT, &as_peer(&fake));
        let fault = end.result.unwrap_err();
        assert_eq!((fault.class, end.remote), (FaultClass::Peer, RemoteSide::Untouched), "{fault}");
    }
    assert!(fake.connections() <= 9, "{}", fake.connections());
}

/// The peer's credit is kept to, also where it is one.
#[test]
fn never_more_requests_than_the_credit_are_in_flight() {
    let fake = Fake::new(|mut stream, _| {
        greet(&mut stream, 1).unwrap();
        let mut id = 0;
        while let Some(asked) = read_body(&mut stream, 56) {
            id += 1;
            assert_eq!(asked[8..16], u64::to_le_bytes(id));
            stream.set_nonblocking(true).unwrap();
            let early = stream.read(&mut [0; 1]);
            stream.set_nonblocking(false).unwrap();
            assert!(early.is_err(), "something came before the status: {early:?}");
            let mut answer = raw3::frame(2, 1, id, &[7; 8]);
            answer.extend(raw3::status(id, 0));
            stream.write_all(&answer).unwrap();
        }
    });
    let a = Node::with(v3());
    let source = a.register(8);
    let peer = as_peer(&fake);
    let slice = |_| a.slice(Opcode::Read, source.region().whole(), AT, &peer);
    for token in a.submit(&peer, (0..50).map(slice).collect()) {
        assert_eq!(a.ends.wait(token).result, Ok(()));
    }
    assert_eq!(fake.connections(), 1);
}

/// A cancel that nobody confirms costs the connection, and the fence then settles it.
#[test]
fn an_unconfirmed_cancel_is_settled_by_a_fence() {
    let sent = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&sent);
    let fake = Fake::new(move |mut stream, _| {
        if greet(&mut stream, 16).is_some() && read_body(&mut stream, 56).is_some() {
            told.store(true, Ordering::SeqCst);
            read_rest(&mut stream);
        }
    });
    let a = Node::with(TcpConfig { cancel_timeout: Duration::from_millis(200), ..v3() });
    let source = a.register(4096);
    let peer = as_peer(&fake);
    let slice = a.slice(Opcode::Write, source.region().whole(), AT, &peer);
    let token = a.submit(&peer, vec![slice])[0];
    eventually("it is sent", || sent.load(Ordering::SeqCst));
    a.transport.cancel(&[token]);
    let end = a.ends.wait(token);
    assert_eq!(end.result.unwrap_err().class, FaultClass::Cancelled);
    assert_eq!(end.remote, RemoteSide::Settled);
    assert_eq!((fake.connections(), a.transport.stats().fences), (2, 1));
}

/// A connection to a server, greeted; what it says is granted.
fn greeted(b: &Node, session: u64, connection: u32, fence: u32) -> TcpStream {
    let mut stream = raw(b.port());
    let hello = raw3::hello(b.incarnation.as_u128(), session, connection, fence);
    stream.write_all(&hello).unwrap();
    let answer = read_body(&mut stream, 64).unwrap();
    assert_eq!(answer, raw3::answer(b.incarnation.as_u128(), 0, 64, fence));
    stream
}

/// Whether the server closes the connection by itself, and soon.
fn closes(stream: &mut TcpStream) -> bool {
    let begun = Instant::now();
    read_rest(stream);
    begun.elapsed() < Duration::from_secs(10)
}

#[test]
fn a_server_refuses_hellos_by_name() {
    let b = Node::with(v3());
    let me = b.incarnation.as_u128();
    let ask = |hello: Vec<u8>| {
        let mut stream = raw(b.port());
        stream.write_all(&hello).unwrap();
        let answer = read_rest(&mut stream);
        (answer.len() == 64).then(|| u16::from_le_bytes([answer[6], answer[7]]))
    };
    let resealed = |change: fn(&mut [u8])| {
        let mut bytes = raw3::hello(me, 1, 1, 0);
        bytes.truncate(124);
        change(&mut bytes);
        let crc = raw3::crc32c(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes
    };
    assert_eq!(ask(raw3::hello(me + 1, 1, 1, 0)), Some(1));
    assert_eq!(ask(resealed(|bytes| bytes[17] = 4)), Some(2));
    assert_eq!(ask(resealed(|bytes| bytes[24] = 4)), Some(3));
    assert_eq!(ask(resealed(|bytes| bytes[0] = 127)), None);
    let mut wrong = raw3::hello(me, 1, 1, 0);
    wrong[127] ^= 1;
    assert_eq!(ask(wrong), None);
}

/// Peer fault 6: neither a hello that drips nor silence in the middle of a request holds a
/// connection for long, and others are served meanwhile.
#[test]
fn fault06_dripping_and_silent_clients_are_closed() {
    let timeout = Duration::from_millis(500);
    let b = Node::with(TcpConfig { header_timeout: timeout, progress_timeout: timeout, ..v3() });
    let target = b.register(4096);
    let id = target.id();
    let begun = Instant::now();
    let mut dripping = raw(b.port());
    dripping.write_all(&raw3::hello(b.incarnation.as_u128(), 1, 1, 0)[..30]).unwrap();
    let mut silent = greeted(&b, 2, 1, 0);
    silent.write_all(&raw3::request(1, 1, (id.slot(), id.generation()), 0, 100)).unwrap();
    eventually("the guard is held", || target.in_flight() == 1);
    let a = Node::with(v3());
    let source = a.register(64);
    let end =
        a.run(Opcode::Write, source.region().whole(), target.region().address(), &b.as_peer());
    assert_eq!(end.result, Ok(()));
    assert!(closes(&mut dripping) && closes(&mut silent));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    eventually("the guard is gone", || target.in_flight() == 0);
}

/// A credit is a bound, lengths are looked at before anything is done, ids count up; whoever does
/// otherwise is closed, memory is untouched, and others go on.
#[test]
fn fb32_hostile_clients_are_closed_and_harm_nothing() {
    let b = Node::with(v3());
    let target = b.register(4096);
    let handle = (target.id().slot(), target.id().generation());
    let many: Vec<u8> = (1..=65).flat_map(|id| raw3::request(id, 0, handle, 0, 4096)).collect();
    let cases = [
        ("more than the credit", many),
        ("an id out of order", raw3::request(2, 0, handle, 0, 1)),
        ("an unknown operation", raw3::request(1, 9, handle, 0, 1)),
        ("data for no request", raw3::frame(2, 1, 1, &[0xee; 100])),
        ("a data frame of 2 GiB", raw3::head(2, 0, 1 << 31, 1)),
        ("a status", raw3::status(1, 0)),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ];
    for (number, (what, bytes)) in cases.into_iter().enumerate() {
        let mut stream = greeted(&b, number as u64, 1, 0);
        stream.write_all(&bytes).unwrap();
        assert!(closes(&mut stream), "{what}");
        eventually(what, || b.transport.stats().violations == number as u64 + 1);
    }
    let mut stream = greeted(&b, 99, 1, 0);
    stream.write_all(&raw3::request(1, 1, handle, 1, 1 << 63)).unwrap();
    let refusal = read_body(&mut stream, 40).unwrap();
    assert_eq!(refusal[..18], raw3::status(1, 1)[..18], "a refusal, and the connection stays");
    stream.write_all(&raw3::request(2, 0, handle, 0, 4)).unwrap();
    assert!(read_body(&mut stream, 16 + 4 + 40).is_some());
    assert_eq!(target.in_flight(), 0);
    assert!(bytes_of(target.region()).iter().all(|byte| *byte == 0));
}

/// A fence of one session ends its earlier connections, with their guards, before it is answered;
/// and nobody else's.
#[test]
fn a_fence_ends_the_earlier_connections_of_its_session_only() {
    let b = Node::with(v3());
    let target = b.register(1 << 20);
    let handle = (target.id().slot(), target.id().generation());
    let begin = |session, connection| {
        let mut stream = greeted(&b, session, connection, 0);
        stream.write_all(&raw3::request(1, 1, handle, 0, 1 << 20)).unwrap();
        stream
    };
    let (mut first, mut second, mut other) = (begin(5, 1), begin(5, 2), begin(6, 1));
    eventually("three guards are held", || target.in_flight() == 3);
    let third = greeted(&b, 5, 3, 2);
    assert_eq!(target.in_flight(), 2, "one is gone when the answer is here");
    assert!(closes(&mut first));
    let fourth = greeted(&b, 5, 4, 4);
    assert_eq!(target.in_flight(), 1);
    assert!(closes(&mut second));
    let mut body = raw3::head(2, 1, 1 << 20, 1);
    body.extend(vec![9; 1 << 20]);
    other.write_all(&body).unwrap();
    assert_eq!(read_body(&mut other, 40).unwrap()[..18], raw3::status(1, 0)[..18]);
    drop((third, fourth));
}
