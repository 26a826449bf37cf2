//! What a server leaves behind: nothing. One test only, because it counts the whole process.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure time and end at the first surprise"
)]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Host, frame, pause};
use te_metadata::{
    Asker, BoundPeerServer, EndpointMessage, EndpointQuestion, ListenAddress, Notify,
    NotifyRefused, PeerLimits, PeerService, PortChoice,
};

fn counts() -> (usize, usize) {
    let entries = |path| std::fs::read_dir(path).unwrap().count();
    (entries("/proc/self/fd"), entries("/proc/self/task"))
}

/// A service that is busy for a while.
struct Busy(Duration);

impl PeerService for Busy {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        pause(self.0);
        None
    }

    fn notify(&self, _: Notify) -> Result<(), NotifyRefused> {
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        question.answer(EndpointMessage::default());
    }
}

/// Threads and descriptors before and after: closed, dropped, with clients in every state, and
/// with a service that holds the thread.
#[test]
fn closing_gives_back_every_thread_and_descriptor() {
    let before = counts();
    closed_with_clients_in_every_state();
    assert_eq!(settled(before), before);

    for _ in 0..20 {
        drop(Host::start());
    }
    drop(BoundPeerServer::bind(&ListenAddress::Any, PortChoice::Exact(0), PeerLimits::default()));
    assert_eq!(settled(before), before);

    closing_is_bounded_when_the_service_is_busy();
    let after = settled(before);
    println!("descriptors and threads before {before:?}, after {after:?}");
    assert_eq!(after, before);
}

fn closed_with_clients_in_every_state() {
    let host = Host::start();
    *host.desk.descriptor.lock() = Some(vec![b' '; 16 << 20]);
    let mut clients: Vec<TcpStream> = (0..30).map(|_| host.connect()).collect();
    for (n, stream) in clients.iter_mut().enumerate() {
        match n % 3 {
            // An answer that is not read.
            0 => stream.write_all(&frame(1, b"{}")).unwrap(),
            // A part of a question.
            1 => stream.write_all(&frame(3, b"{}")[..5]).unwrap(),
            _ => {}
        }
    }
    host.wait(|stats| stats.accepted == 30);
    host.probe();
    let start = Instant::now();
    host.server.close(Duration::from_secs(5)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
    let stats = host.server.stats();
    let ended = stats.served + stats.malformed + stats.refused + stats.timed_out + stats.dropped;
    assert_eq!((stats.open, ended), (0, stats.accepted), "{stats:?}");
    host.server.close(Duration::from_secs(5)).unwrap();
    assert!(TcpStream::connect(host.address()).is_err());
}

fn closing_is_bounded_when_the_service_is_busy() {
    let bound =
        BoundPeerServer::bind(&ListenAddress::V4, PortChoice::Exact(0), PeerLimits::default());
    let bound = bound.unwrap();
    let port = bound.port();
    let server = bound.start(Arc::new(Busy(Duration::from_millis(700)))).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&frame(1, b"{}")).unwrap();
    while server.stats().accepted == 0 {
        pause(Duration::from_millis(2));
    }
    pause(Duration::from_millis(50));
    let start = Instant::now();
    let error = server.close(Duration::from_millis(100)).unwrap_err();
    assert!(error.to_string().contains("100 ms"), "{error}");
    assert!(start.elapsed() < Duration::from_millis(600));
    server.close(Duration::from_secs(5)).unwrap();
}

/// The counts once they are `wished`, or whatever they are after a while: the kernel takes a
/// moment to forget a thread that was joined.
fn settled(wished: (usize, usize)) -> (usize, usize) {
    let end = Instant::now() + Duration::from_secs(5);
    while counts() != wished && Instant::now() < end {
        pause(Duration::from_millis(5));
    }
    counts()
}
