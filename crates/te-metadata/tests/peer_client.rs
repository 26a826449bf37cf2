//! The asking side against peers that are dead, silent or wrong: named errors within the deadline.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure time and end at the first surprise"
)]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use common::{client, frame, pause};
use te_metadata::{
    AddressFamily, EndpointMessage, HostPort, Notify, PeerClient, PeerError, PeerLimits, PeerPhase,
};

/// A peer that reads one question and then does what it is told with the connection.
fn peer(behave: impl FnOnce(std::net::TcpStream) + Send + 'static) -> HostPort {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        behave(stream);
    });
    address.into()
}

fn answering(bytes: Vec<u8>) -> HostPort {
    peer(move |mut stream| stream.write_all(&bytes).unwrap())
}

fn note() -> Notify {
    Notify { name: "a".into(), msg: "b".into() }
}

fn hasty() -> PeerClient {
    let limits =
        PeerLimits { exchange_timeout: Duration::from_millis(300), ..PeerLimits::default() };
    PeerClient::new(limits, AddressFamily::Any)
}

#[test]
fn a_dead_port_is_refused_at_once_and_the_address_is_named() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let dead: HostPort = listener.local_addr().unwrap().into();
    drop(listener);
    let start = Instant::now();
    let error = client().probe(&dead, Duration::from_secs(5)).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(error.phase(), Some(PeerPhase::Connect));
    assert!(error.is_unsent());
    assert_eq!(error.peer(), &dead);
    assert_eq!(error.to_string(), format!("peer {dead}: connect failed at {dead}"));
}

/// Peer fault 8: a stopped peer costs the deadline and not more.
#[test]
fn fault08_a_silent_peer_costs_the_deadline() {
    let silent = || peer(|_stream| pause(Duration::from_secs(5)));
    let start = Instant::now();
    let error = client().probe(&silent(), Duration::from_millis(300)).unwrap_err();
    assert!(error.is_timeout() && !error.is_unsent(), "{error}");
    assert_eq!(error.phase(), Some(PeerPhase::Receive));
    let error = hasty().metadata(&silent(), b"{}").unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let elapsed = start.elapsed();
    assert!(
        elapsed > Duration::from_millis(550) && elapsed < Duration::from_secs(2),
        "{elapsed:?}"
    );
}

/// A peer that drips its answer does not keep us beyond the deadline.
#[test]
fn a_dripping_peer_costs_the_deadline() {
    let dripping = peer(|mut stream| {
        let bytes = frame(1, &[b' '; 200]);
        for byte in bytes {
            if stream.write_all(&[byte]).is_err() {
                break;
            }
            pause(Duration::from_millis(20));
        }
    });
    let start = Instant::now();
    assert!(hasty().metadata(&dripping, b"{}").unwrap_err().is_timeout());
    assert!(start.elapsed() < Duration::from_secs(2));
}

/// A peer that accepts no bytes: the question is larger than the socket buffers.
#[test]
fn a_peer_that_does_not_read_costs_the_deadline() {
    let stuck = peer(|_stream| pause(Duration::from_secs(5)));
    let limits = PeerLimits {
        max_frame: 64 << 20,
        exchange_timeout: Duration::from_secs(1),
        ..PeerLimits::default()
    };
    let client = PeerClient::new(limits, AddressFamily::Any);
    let error = client.metadata(&stuck, &vec![b' '; 40 << 20]).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(error.phase(), Some(PeerPhase::Send));
}

#[test]
fn a_peer_that_closes_is_told_apart_from_a_dead_one() {
    let closing = peer(drop);
    let error = client().metadata(&closing, b"{}").unwrap_err();
    assert!(matches!(error, PeerError::Closed { .. } | PeerError::Io { .. }), "{error}");
    let half = answering(frame(1, b"{}")[..9].to_vec());
    assert!(matches!(client().metadata(&half, b"{}"), Err(PeerError::Closed { .. })));
}

/// Peer fault 2, J110: wrong answers are named errors.
#[test]
fn fault02_wrong_answers_are_named() {
    let frames = [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0; 8], &frame(0x90, b"{}")];
    for bytes in frames {
        let error = client().metadata(&answering(bytes.to_vec()), b"{}").unwrap_err();
        assert!(matches!(error, PeerError::Frame { .. }), "{error}");
        assert!(error.is_protocol());
    }
    let legacy = b"\x02\0\0\0\0\0\0\0{}".to_vec();
    let error = client().metadata(&answering(legacy), b"{}").unwrap_err();
    assert!(matches!(error, PeerError::WrongType { .. }), "{error}");
    let error = client().metadata(&answering(frame(3, b"{}")), b"{}").unwrap_err();
    assert!(matches!(error, PeerError::WrongType { .. }), "{error}");

    for body in ["[1]", "5", r#"{"name":{}}"#, "{", &"[".repeat(100_000)] {
        let error = client().notify(&answering(frame(2, body.as_bytes())), &note()).unwrap_err();
        assert!(matches!(error, PeerError::Malformed { .. }), "{error}");
    }
    let offer = EndpointMessage::default();
    for body in ["[1]", r#"{"qp_num":["x"]}"#, r#"{"qp_num":[-1]}"#] {
        let wrong = answering(frame(0, body.as_bytes()));
        let error = client().endpoint(&wrong, &offer).unwrap_err();
        assert!(matches!(error, PeerError::Malformed { .. }), "{error}");
    }
    let error = client().probe(&answering(frame(3, b"{")), Duration::from_secs(5)).unwrap_err();
    assert!(matches!(error, PeerError::Malformed { .. }), "{error}");
}

/// B61, B63: refusals come with the peer's words where the format has any.
#[test]
fn refusals_are_told() {
    let body = EndpointMessage::refusal("QP count mismatch").encode();
    let refusing = answering(frame(0, &body));
    let error = client().endpoint(&refusing, &EndpointMessage::default()).unwrap_err();
    assert_eq!(error.to_string(), format!("peer {refusing} refused: QP count mismatch"));
    let deaf = answering(frame(2, br#"{"name":"","notify_msg":""}"#));
    let error = client().notify(&deaf, &note()).unwrap_err();
    assert!(error.is_refusal() && !error.is_full(), "{error}");
}

/// B64: any text of the right type counts as alive.
#[test]
fn b64_any_parseable_answer_is_alive() {
    let odd = answering(frame(3, b"[1, 2]"));
    assert!(client().probe(&odd, Duration::from_secs(5)).is_ok());
}

#[test]
fn a_question_above_the_limit_is_not_sent() {
    let nobody = HostPort::parse("127.0.0.1:1").unwrap();
    let error = client().metadata(&nobody, &vec![b' '; 1 << 20]).unwrap_err();
    assert!(matches!(error, PeerError::QuestionTooLong { bytes: 1_048_578, .. }), "{error}");
    assert!(error.is_unsent());
}

#[test]
fn a_name_that_nobody_has_fails_in_its_phase() {
    let unknown = HostPort::parse("no-such-host.invalid:1").unwrap();
    let start = Instant::now();
    let error = hasty().probe(&unknown, Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.phase(), Some(PeerPhase::Resolve));
    assert!(start.elapsed() < Duration::from_secs(4));
}
