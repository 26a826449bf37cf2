//! A live server against hostile and broken peers: each costs a bounded time and nobody else
//! anything.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure time and end at the first surprise"
)]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Host, PATIENCE, client, frame, pause};
use socket2::{Domain, SockRef, Socket, Type};
use te_metadata::{EndpointMessage, FrameReader, Notify, PeerLimits};

fn with_time(serve_timeout: Duration) -> PeerLimits {
    PeerLimits { serve_timeout, ..PeerLimits::default() }
}

/// Peer fault 1, J110: the small well-formed texts of the wrong shape that end a Mooncake process.
/// Each is answered where its format can refuse, is counted, and the server goes on.
#[test]
fn fault01_j110_wrong_shapes_are_refused_and_counted() {
    let host = Host::start();
    let deep = "[".repeat(100_000);
    let array = format!("[{}1]", "1,".repeat(200_000));
    let mut sent = 0;
    for body in ["[1]", "5", r#"{"name":{}}"#, r#"{"notify_msg":1}"#, "null", &deep, &array, "{"] {
        let answer = host.raw(&frame(2, body.as_bytes()));
        assert_eq!(answer, frame(2, b"{\"name\":\"\",\"notify_msg\":\"\"}\n"), "{body:.20}");
        sent += 1;
    }
    for body in [
        "[1]",
        "5",
        r#"{"qp_num":["x"]}"#,
        r#"{"qp_num":[-1]}"#,
        r#"{"qp_num":5}"#,
        r#"{"local_lid":"x"}"#,
        r#"{"payload":[]}"#,
        &deep,
        &array,
        "",
    ] {
        let answer = host.raw(&frame(0, body.as_bytes()));
        let answer = FrameReader::new(1 << 20).push(&answer).unwrap().unwrap();
        let reply = EndpointMessage::decode(&answer.body).unwrap();
        assert!(reply.reply_msg.starts_with("malformed handshake"), "{reply:?}");
        sent += 1;
    }
    for kind in [1, 3] {
        for body in [deep.as_str(), "", "{", "\u{0}"] {
            assert_eq!(host.raw(&frame(kind, body.as_bytes())), b"", "{body:.20}");
            sent += 1;
        }
    }
    let stats = host.wait(|stats| stats.open == 0);
    assert_eq!((stats.malformed, stats.served), (sent, 0));
    assert!(host.desk.notes.lock().is_empty() && host.desk.endpoints.lock().is_empty());
    host.probe();
}

/// Peer fault 30: what is no frame is closed without an answer and counted.
#[test]
fn fault30_bytes_that_are_no_frame_are_closed_and_counted() {
    let host = Host::start();
    let random: Vec<u8> =
        (0..4096u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let cases: [&[u8]; 7] = [
        &[0; 8],
        &u64::MAX.to_le_bytes(),
        &((1u64 << 20) + 1).to_le_bytes(),
        &frame(0x80, b"{}"),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &random,
    ];
    for bytes in cases {
        assert_eq!(host.raw(bytes), b"", "{bytes:.20?}");
    }
    let stats = host.wait(|stats| stats.open == 0);
    assert_eq!((stats.malformed, stats.accepted), (7, 7));
    host.probe();
}

/// Peer fault 7, K5, J111: idle and dripping clients delay nobody and are closed in bounded time.
#[test]
fn fault07_idle_and_dripping_clients_delay_nobody() {
    let host = Host::with(with_time(Duration::from_secs(2)));
    let idle: Vec<_> = (0..100).map(|_| host.connect()).collect();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut stream = host.connect();
                let bytes = frame(3, &[b' '; 1000]);
                for byte in bytes.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    if stream.write_all(&[*byte]).is_err() {
                        break;
                    }
                    pause(Duration::from_millis(20));
                }
            });
        }
        host.wait(|stats| stats.open == 106);
        let slowest = (0..50).map(|_| host.probe()).max().unwrap();
        println!("slowest of 50 probes beside 106 slow clients: {slowest:?}");
        // Half of what those clients may take; the machine may have stalls of its own.
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        let stats = host.wait(|stats| stats.open == 0);
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert_eq!((stats.timed_out, stats.served), (106, 50));
        stop.store(true, Ordering::Relaxed);
    });
    drop(idle);
}

/// Peer fault 31: 200 questions whose senders reset the connection before the answer.
#[test]
fn fault31_resets_before_the_answer_are_survived() {
    let host = Host::start();
    *host.desk.descriptor.lock() = Some(vec![b' '; 200_000]);
    for round in 0..200 {
        let mut stream = host.connect();
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
        let question = frame(1, b"{}");
        stream.write_all(&question[..if round % 2 == 0 { question.len() } else { 5 }]).unwrap();
    }
    let stats = host.wait(|stats| stats.open == 0 && stats.accepted >= 190);
    println!("{stats:?}");
    host.probe();
}

/// A client that asks for much and never reads costs its own connection only.
#[test]
fn a_client_that_never_reads_is_closed_in_bounded_time() {
    let host = Host::with(with_time(Duration::from_secs(2)));
    *host.desk.descriptor.lock() = Some(vec![b' '; 16 << 20]);
    let mut stream = host.connect();
    stream.write_all(&frame(1, b"{}")).unwrap();
    host.wait(|stats| stats.open == 1);
    // Half of what that client may take; the machine may have stalls of its own.
    assert!(host.probe() < Duration::from_secs(1));
    host.wait(|stats| stats.timed_out == 1 && stats.open == 0);
}

/// A client that goes on sending after its question gets its answer and is then closed.
#[test]
fn bytes_behind_the_question_are_not_taken_for_ever() {
    let host = Host::start();
    let mut stream = host.connect();
    stream.write_all(&frame(3, b"{}")).unwrap();
    let flood = vec![0; 1 << 16];
    let start = Instant::now();
    while stream.write_all(&flood).is_ok() {
        assert!(start.elapsed() < PATIENCE);
    }
    host.wait(|stats| stats.open == 0);
    host.probe();
}

/// At the limit of connections the oldest whose question is not whole gives way.
#[test]
fn the_oldest_incomplete_connection_gives_way_at_the_limit() {
    for limits in [
        PeerLimits { max_connections: 3, ..PeerLimits::default() },
        PeerLimits { max_connections_per_peer: 3, ..PeerLimits::default() },
    ] {
        let host = Host::with(limits);
        let mut streams: Vec<_> = (0..3).map(|_| host.connect()).collect();
        host.wait(|stats| stats.open == 3);
        host.probe();
        assert_eq!(host.wait(|stats| stats.served == 1).refused, 1);
        let mut byte = [0];
        assert!(matches!(streams[0].read(&mut byte), Ok(0) | Err(_)));
        streams[2].write_all(&frame(3, b"{}")).unwrap();
        assert_eq!(streams[2].read(&mut byte).unwrap(), 1);
    }
}

/// The bytes of all connections together are bounded; small questions go on.
#[test]
fn held_bytes_are_bounded() {
    let host = Host::with(PeerLimits { max_buffered_bytes: 1 << 20, ..PeerLimits::default() });
    let body = vec![b' '; 700_000];
    let question = frame(3, &body);
    let half = &question[..question.len() - 1];
    let mut streams: Vec<_> = (0..3).map(|_| host.connect()).collect();
    for stream in &mut streams {
        // The server closes the ones that do not fit while they send.
        let _ = stream.write_all(half);
    }
    host.wait(|stats| stats.refused >= 2);
    host.probe();
}

/// Clients that hold unfinished questions up to the budget keep nobody from being answered, neither
/// from their own address nor from another: they lose their own.
#[test]
fn k15_held_bytes_lock_nobody_out() {
    let limits = PeerLimits { max_buffered_bytes: 4 << 20, ..PeerLimits::default() };
    let host = Host::with(limits);
    let hold = |last: u8, size: usize| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 1, last], 0)).into()).unwrap();
        socket.connect(&host.address().into()).unwrap();
        let mut stream = TcpStream::from(socket);
        let question = frame(3, &vec![b' '; size]);
        // The server may close it while it sends.
        let _ = stream.write_all(&question[..question.len() - 1]);
        stream
    };
    let mut held = Vec::new();
    for last in 1..=8 {
        held.extend((0..3).map(|_| hold(last, 1_000_000)));
        held.extend((0..20).map(|_| hold(last, 30_000)));
        host.probe();
    }
    let question = frame(3, &[&[b' '; 20_000][..], b"{}"].concat());
    assert_eq!(host.raw(&question), frame(3, b"{\"status\":\"success\"}\n"));
    let stats = host.server.stats();
    assert!(stats.refused > 0 && stats.dropped == 0 && stats.timed_out == 0, "{stats:?}");
}

/// K7, FB28-like: many senders at once, nothing lost.
#[test]
fn many_notifications_at_once_all_arrive() {
    let host = Host::start();
    thread::scope(|scope| {
        for thread in 0..16 {
            let host = &host;
            scope.spawn(move || {
                for round in 0..25 {
                    let note = Notify { name: thread.to_string(), msg: format!("m{round}") };
                    client().notify(&host.peer(), &note).unwrap();
                }
            });
        }
    });
    assert_eq!(host.desk.notes.lock().len(), 400);
    host.wait(|stats| stats.served == 400 && stats.open == 0);
}
