//! The loop of a server, moved by hand.
#![expect(clippy::disallowed_methods, reason = "tests are drivers")]

use std::net::{Ipv4Addr, TcpStream as Client};
use std::os::fd::AsFd;

use super::*;
use crate::{Asker, EndpointMessage, EndpointQuestion, Notify, NotifyRefused};

struct Nobody;

impl PeerService for Nobody {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        None
    }

    fn notify(&self, _notify: Notify) -> Result<(), NotifyRefused> {
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        question.answer(EndpointMessage::default());
    }
}

struct Bench {
    serving: Serving,
    address: SocketAddr,
}

fn bench() -> Bench {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (limits, shared) = (PeerLimits::default(), Arc::default());
    let (serving, _) = Serving::new(listener, limits, Arc::new(Nobody), shared).unwrap();
    Bench { serving, address }
}

impl Bench {
    fn connect(&self) -> Client {
        let client = Client::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client
    }

    /// Looks for events and accepts until so many connections are open.
    #[track_caller]
    fn until_open(&mut self, n: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        while self.serving.open.len() != n {
            assert!(Instant::now() < end, "{} are open", self.serving.open.len());
            self.look();
        }
    }

    fn look(&mut self) {
        let mut events = Events::with_capacity(8);
        self.serving.poll.poll(&mut events, Some(Duration::from_millis(5))).unwrap();
        self.serving.on_events(&events);
        self.serving.accept_some();
    }
}

/// K15: an accept that fails for another reason than its client pauses accepting, whoever comes
/// meanwhile; only where room lacks does somebody give way.
#[test]
fn k15_a_pause_of_accepting_holds_against_new_clients() {
    for (number, victims) in [(libc::EMFILE, 1), (libc::EPERM, 0)] {
        let mut b = bench();
        let mut clients = vec![b.connect(), b.connect()];
        b.until_open(2);
        b.serving.pause_accepting(&io::Error::from_raw_os_error(number));
        assert_eq!(b.serving.open.len(), 2 - victims, "{number}");
        // As if it were never over, so that a slow machine sees the same.
        b.serving.accepting = Accepting::Paused(now() + Duration::from_secs(3600));
        for _ in 0..5 {
            clients.push(b.connect());
            b.look();
        }
        assert_eq!(b.serving.open.len(), 2 - victims, "{number}");
        assert!(b.serving.patience(now()) > Some(Duration::ZERO), "it does not spin");
        b.serving.accepting = Accepting::Paused(now());
        b.until_open(7 - victims);
    }
}

/// A forked child that holds every socket keeps no client waiting: connections end, and nobody
/// listens any more.
#[test]
fn a_forked_child_keeps_neither_connections_nor_the_port() {
    let mut b = bench();
    let mut clients = [b.connect(), b.connect()];
    b.until_open(2);
    let held: Vec<_> = b
        .serving
        .open
        .iter()
        .map(|(_, open)| open.stream.as_fd().try_clone_to_owned().unwrap())
        .collect();
    let listener = b.serving.listener.as_fd().try_clone_to_owned().unwrap();
    b.serving.shared.stop.store(true, Ordering::Release);
    b.serving.run();
    for client in &mut clients {
        assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    }
    assert!(Client::connect(b.address).is_err(), "nobody listens");
    drop((held, listener));
}
