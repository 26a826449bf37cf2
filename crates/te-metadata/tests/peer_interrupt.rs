//! Whoever closes does not wait for peers that do not answer.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure time and end at the first surprise"
)]

mod common;

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::{Host, PATIENCE, client};
use socket2::{Domain, Socket, Type};
use te_metadata::{
    AddressFamily, Directory, HostPort, Notify, PeerClient, PeerError, PeerLimits, PeerPhase,
    SegmentName,
};

/// Long before any deadline of an exchange.
const SOON: Duration = Duration::from_secs(2);

/// A client with no limit that a test would meet.
fn patient() -> PeerClient {
    let limits = PeerLimits {
        max_frame: 128 << 20,
        connect_timeout: 3 * PATIENCE,
        exchange_timeout: 3 * PATIENCE,
        ..PeerLimits::default()
    };
    PeerClient::new(limits, AddressFamily::Any)
}

/// A peer that takes part of each question and never answers; says when it has one.
fn silent() -> (HostPort, Receiver<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = channel();
    thread::spawn(move || {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            stream.read_exact(&mut [0; 8]).unwrap();
            streams.push(stream);
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    (address.into(), asked)
}

/// A port whose queue of connections is full, so that nobody's connect ends, and its queue.
fn deaf() -> (HostPort, Socket, Vec<TcpStream>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queue.push(stream);
    }
    (address.into(), listener, queue)
}

/// Calls `client` off once `ready`, and gives what `ask` then ends with.
fn called_off<T: std::fmt::Debug + Send>(
    client: &PeerClient,
    ready: impl FnOnce(),
    ask: impl FnOnce(&PeerClient) -> Result<T, PeerError> + Send,
) -> PeerError {
    thread::scope(|scope| {
        let asked = scope.spawn(|| ask(client));
        ready();
        let begun = Instant::now();
        client.clone().interrupt();
        let error = asked.join().unwrap().unwrap_err();
        assert!(begun.elapsed() < SOON, "{error} after {:?}", begun.elapsed());
        error
    })
}

fn note() -> Notify {
    Notify { name: "a".into(), msg: "b".into() }
}

#[test]
fn every_question_to_a_silent_peer_ends_when_the_asker_closes() {
    // Issue, item 7: whatever is asked, by however many.
    let (peer, asked) = silent();
    let client = patient();
    thread::scope(|scope| {
        let (client, peer) = (&client, &peer);
        let mut all = Vec::new();
        for _ in 0..8 {
            all.push(scope.spawn(|| client.metadata(peer, b"{}").map(drop)));
            all.push(scope.spawn(|| client.notify(peer, &note())));
            all.push(scope.spawn(|| client.probe(peer, 3 * PATIENCE).map(drop)));
        }
        all.iter().for_each(|_| asked.recv_timeout(PATIENCE).unwrap());
        let begun = Instant::now();
        client.interrupt();
        for asked in all {
            let error = asked.join().unwrap().unwrap_err();
            assert!(error.is_interrupted() && !error.is_unsent(), "{error}");
            assert_eq!(error.peer(), peer);
            assert!(!error.is_timeout() && !error.is_refusal() && !error.is_protocol());
        }
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    });
    let error = client.probe(&peer, PATIENCE).unwrap_err();
    let text = format!("peer {peer}: connect was called off, this side is closing");
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_question_that_nobody_reads_ends_when_the_asker_closes() {
    let (peer, asked) = silent();
    let ready = || asked.recv_timeout(PATIENCE).unwrap();
    let long = vec![b' '; 100 << 20];
    let error = called_off(&patient(), ready, |client| client.metadata(&peer, &long));
    assert_eq!((error.is_interrupted(), error.phase()), (true, Some(PeerPhase::Send)), "{error}");
}

#[test]
fn connecting_ends_when_the_asker_closes() {
    let (peer, _listener, _queue) = deaf();
    let error = called_off(&patient(), || (), |client| client.metadata(&peer, b"{}"));
    assert!(error.is_interrupted() && error.is_unsent(), "{error}");
    assert_eq!(error.phase(), Some(PeerPhase::Connect));
}

#[test]
fn a_closed_asker_reaches_nobody_and_others_are_not_affected() {
    let host = Host::start();
    let closed = patient();
    closed.interrupt();
    let error = closed.probe(&host.peer(), PATIENCE).unwrap_err();
    assert!(error.is_interrupted() && error.is_unsent(), "{error}");
    let name = HostPort::parse("localhost:1").unwrap();
    let error = closed.probe(&name, PATIENCE).unwrap_err();
    assert!(error.is_interrupted() && error.is_unsent(), "{error}");
    let segment = SegmentName::parse(&host.peer().to_string()).unwrap();
    let error = Directory::p2p(closed).fetch(&segment, b"{}").unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    client().notify(&host.peer(), &note()).unwrap();
    assert_eq!(*host.desk.notes.lock(), [note()]);
}
