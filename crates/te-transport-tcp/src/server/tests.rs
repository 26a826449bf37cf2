//! The driver of the target's side, stepped by hand.
#![expect(clippy::disallowed_methods, reason = "tests are drivers")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;

use te_metadata::Incarnation;
use te_segment::LocalSegment;

use super::*;
use crate::stats::Counters;

struct Bench {
    server: Server,
    address: SocketAddr,
    now: Instant,
}

fn bench(change: impl FnOnce(&mut TcpConfig)) -> Bench {
    let mut config = TcpConfig::default();
    change(&mut config);
    let service = Service {
        segment: Arc::new(LocalSegment::new()),
        counters: Arc::new(Counters::default()),
        chunk: 4096,
        header_timeout: config.header_timeout,
        progress_timeout: config.progress_timeout,
        incarnation: Incarnation::from_u128(1),
        credit: 4,
    };
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (server, _) = Server::new(listener, Arc::new(service), Arc::default(), config).unwrap();
    Bench { server, address, now: Instant::now() }
}

impl Bench {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Takes what the poller has, and steps; `now` stands still.
    fn step(&mut self) {
        self.server.wait(Some(Duration::from_millis(20)));
        self.server.step(self.now);
    }

    /// Steps until something holds.
    #[track_caller]
    fn until(&mut self, holds: impl Fn(&Server) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds(&self.server) {
            assert!(Instant::now() < end);
            self.step();
        }
    }

    fn open(&self) -> usize {
        self.server.connections.len()
    }
}

/// Asks for what is not there, and gives how the server answers: with the refusal of version 2.
fn ask(stream: &mut TcpStream) -> Vec<u8> {
    let mut header = [0; 24];
    header[0] = 1;
    header[16] = 0x80;
    stream.write_all(&header).unwrap();
    header[..8].to_vec()
}

/// K15: a pause after a failed accept holds also when more connections come, costs one connection
/// where descriptors are short and none otherwise, and ends by itself.
#[test]
fn k15_a_pause_of_accepting_holds_against_new_connections() {
    for (number, victims) in [(libc::EMFILE, 1), (libc::EPERM, 0)] {
        let mut b = bench(|_| {});
        let mut kept: Vec<_> = (0..3).map(|_| b.connect()).collect();
        b.until(|server| server.connections.len() == 3);
        b.server.pause_accepting(b.now, &io::Error::from_raw_os_error(number));
        for _ in 0..20 {
            kept.push(b.connect());
            b.step();
        }
        assert_eq!(b.open(), 3 - victims, "{number}");
        assert!(!b.server.is_eager(), "it does not spin");
        assert_eq!(b.server.deadline(), Some(b.now + ACCEPT_PAUSE));
        b.now += ACCEPT_PAUSE;
        b.until(|server| server.connections.len() == 23 - victims);
    }
}

#[test]
fn only_errors_of_one_connection_are_passed_over() {
    let passing = |number| is_passing(&io::Error::from_raw_os_error(number));
    assert!([libc::ECONNABORTED, libc::EINTR, libc::EPROTO].into_iter().all(passing));
    assert!(![libc::EMFILE, libc::EPERM, libc::EINVAL, libc::EBADF].into_iter().any(passing));
}

/// A forked child that holds every socket keeps no peer waiting: connections end, and nobody
/// listens any more.
#[test]
fn a_forked_child_keeps_neither_connections_nor_the_port() {
    let mut b = bench(|_| {});
    let (mut one, mut two) = (b.connect(), b.connect());
    b.until(|server| server.connections.len() == 2);
    let streams = b.server.connections.iter().map(|(_, inbound)| &inbound.stream);
    let held: Vec<_> = streams.map(|s| s.as_fd().try_clone_to_owned().unwrap()).collect();
    let listener = b.server.listener.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
    let first = b.server.connections.iter().next().unwrap().0;
    b.server.close(first);
    assert_eq!(one.read(&mut [0]).unwrap_or(0), 0);
    b.server.finish(b.now);
    assert_eq!(two.read(&mut [0]).unwrap_or(0), 0);
    assert!(TcpStream::connect(b.address).is_err(), "nobody listens");
    drop((held, listener));
}

#[test]
fn silent_connections_are_asked_for_their_other_end() {
    let mut b = bench(|_| {});
    let _stream = b.connect();
    b.until(|server| server.connections.len() == 1);
    let (_, inbound) = b.server.connections.iter().next().unwrap();
    assert!(SockRef::from(&inbound.stream).keepalive().unwrap());
}

/// What was answered before the end still arrives.
#[test]
fn an_answer_on_its_way_survives_the_close() {
    let mut b = bench(|_| {});
    let mut stream = b.connect();
    b.until(|server| server.connections.len() == 1);
    ask(&mut stream);
    b.until(|server| server.service.counters.refusals.value() == 1);
    b.step();
    b.server.finish(b.now);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [1, 0, 0, 0, 0x56, 0x54, 0x43, 0x4d]);
}
