//! One connection of ours to a peer, and what is on it: an exchange, or a session of version 3.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use te_metadata::sabotage;
use te_segment::{Opcode, SliceToken};
use te_transport::{FaultClass, Phase, SliceFault};

use crate::exchange::{Ending, Exchange, Fate, Loss};
use crate::io as sys;
use crate::io::{Acked, Waiting};
use crate::keep::{ask, ask_no_more, keep_alive, shut_down, suit};
use crate::pump::{Ready, Stopped, pump};
use crate::stats::RailCounters;
use crate::v3::Session;

use super::watch::{Look, PathWatch};

#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: usize,
    pub(super) lane: usize,
    pub(super) address: SocketAddr,
    pub(super) stream: TcpStream,
    pub(super) ready: Ready,
    /// Whether it is in the list of links to look at.
    pub(super) queued: bool,
    pub(super) connecting: bool,
    pub(super) exchange: Option<Exchange>,
    pub(super) session: Option<Box<Session>>,
    /// Its number in the session of version 3.
    pub(super) number: u32,
    /// What counts what goes over its rail.
    pub(super) rail: Arc<RailCounters>,
    /// Looks whether the way is dead, where there are several.
    watch: Option<PathWatch>,
    /// Whether it was given up because its way is dead.
    pub(super) path_died: bool,
    /// Requests that ended well on this connection.
    served: u64,
    /// Bytes sent for them, counted as the kernel counts acknowledged ones.
    sent_before: u64,
}

impl Link {
    pub(super) fn new(
        (peer, lane): (usize, usize),
        address: SocketAddr,
        stream: TcpStream,
        rail: Arc<RailCounters>,
    ) -> Self {
        Self {
            peer,
            lane,
            address,
            stream,
            ready: Ready::default(),
            queued: false,
            connecting: true,
            exchange: None,
            session: None,
            number: 0,
            rail,
            watch: None,
            path_died: false,
            served: 0,
            sent_before: 0,
        }
    }

    /// Whether it is in use and stands.
    pub(super) fn is_at_work(&self) -> bool {
        let session = self.session.as_ref().is_some_and(|session| !session.is_idle());
        !self.connecting && (self.exchange.is_some() || session)
    }

    /// The connection stands.
    pub(super) fn on_connected(&mut self, buffer: Option<usize>) {
        suit(&self.stream, buffer);
        self.connecting = false;
        // What the peer said at once may have been reported together with the connection.
        self.ready.writable = true;
        self.sent_before = sys::acked(self.stream.as_fd()).map_or(0, |acked| acked.bytes);
    }

    /// Whether the attempt to connect has an outcome, and which.
    pub(super) fn connect_outcome(&self) -> Option<io::Result<()>> {
        match self.stream.take_error() {
            Ok(Some(error)) | Err(error) => return Some(Err(error)),
            Ok(None) => {}
        }
        match (self.stream.peer_addr(), self.stream.local_addr()) {
            // A port that nobody listens on can connect to itself when both ends happen to match.
            (Ok(peer), Ok(local)) if peer == local => {
                Some(Err(io::Error::from(io::ErrorKind::ConnectionRefused)))
            }
            (Ok(_), _) => Some(Ok(())),
            (Err(error), _) if error.kind() == io::ErrorKind::NotConnected => None,
            (Err(error), _) => Some(Err(error)),
        }
    }

    /// Whether a kept connection died while nobody used it (peer fault 11).
    pub(super) fn is_stale(&mut self) -> bool {
        self.ready.readable = false;
        sys::peek(self.stream.as_fd()) == Waiting::Unusable
    }

    pub(super) fn is_kept(&self) -> bool {
        self.served > 0
    }

    /// Whether anything waits on the connection, or it is gone.
    pub(super) fn has_something(&self) -> bool {
        sys::peek(self.stream.as_fd()) == Waiting::Unusable
    }

    pub(super) fn carries(&self, tokens: &HashSet<SliceToken>) -> bool {
        self.exchange.as_ref().is_some_and(|e| tokens.contains(&e.job().slice.token))
    }

    pub(super) fn abort(&mut self, class: FaultClass, cause: &str) {
        if let Some(exchange) = &mut self.exchange {
            exchange.abort(class, cause);
        }
        if let Some(session) = &mut self.session {
            session.abort(class, cause);
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.session {
            Some(session) => {
                let watch = self.watch.zip(session.still_since());
                let look = watch.map(|(watch, since)| watch.deadline(since));
                session.deadline().into_iter().chain(look).min()
            }
            None => self.exchange.as_ref()?.deadline(),
        }
    }

    /// Whether the exchange or session has ended by this.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let acked = self.acked();
        if let Some(session) = &mut self.session {
            session.handle_timeout(now, acked);
            return session.fate().is_some();
        }
        let Some(exchange) = &mut self.exchange else { return false };
        exchange.handle_timeout(now, acked);
        exchange.fate().is_some()
    }

    /// Gives the connection up once its host is silent for so long, if there is another way.
    pub(super) fn watch_path(&mut self, patience: Duration) {
        self.watch = Some(PathWatch::new(patience));
    }

    /// Looks whether the way is dead where requests stand still; `spare` says that there is another.
    pub(super) fn look_at_path(&mut self, now: Instant, spare: bool) {
        let Some((watch, session)) = self.watch.as_mut().zip(self.session.as_mut()) else { return };
        let since = session.still_since();
        if watch.takes_back(since) {
            ask_no_more(&self.stream);
        }
        let Some(since) = since else { return };
        match watch.look(now, since) {
            Look::Wait => {}
            Look::Ask => ask(&self.stream),
            Look::Judge => {
                let dead = sys::unanswered(self.stream.as_fd()).is_some_and(|u| watch.is_dead(u));
                if dead && spare {
                    self.path_died = true;
                    session.lose_path("the way to the peer carries nothing any more");
                }
            }
        }
    }

    /// Moves bytes; whether it should have another turn soon.
    pub(super) fn turn(&mut self, now: Instant, scratch: &mut [u8]) -> bool {
        let (stream, ready) = (&self.stream, &mut self.ready);
        let stopped = match (&mut self.session, &mut self.exchange) {
            (Some(session), _) => pump(&mut **session, stream, ready, now, scratch),
            (None, Some(exchange)) => pump(exchange, stream, ready, now, scratch),
            (None, None) => return false,
        };
        stopped == Stopped::TurnOver
    }

    /// Whether the job goes again on a fresh connection: it was on a kept one that went away, and
    /// either it is a read, or the peer had ended the stream before it had any byte of the job.
    pub(super) fn may_go_again(&self, ending: &Ending) -> bool {
        let Some(exchange) = &self.exchange else { return false };
        let job = exchange.job();
        let untaken =
            ending.lost == Some(Loss::Ended) && self.acked().is_some_and(|acked| acked.bytes == 0);
        ending.lost.is_some()
            && (untaken || job.slice.op == Opcode::Read)
            && self.is_kept()
            && !job.retried
            && !sabotage::is_off("stale-retry")
    }

    /// The exchange ended well for the connection.
    pub(super) fn keep(&mut self, exchange: &Exchange) {
        self.served += 1;
        self.sent_before += exchange.sent();
    }

    /// Sets what closing the socket does to bytes the kernel still has, and ends the connection.
    pub(super) fn before_close(&self, fate: Fate) {
        if fate == Fate::Reset {
            // Where this fails the connection is gone anyway.
            let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
        }
        shut_down(&self.stream);
    }

    /// Bytes of the present request that the peer's kernel took.
    fn acked(&self) -> Option<Acked> {
        let Acked { bytes, ago } = sys::acked(self.stream.as_fd())?;
        Some(Acked { bytes: bytes.saturating_sub(self.sent_before), ago })
    }
}

/// Begins to connect, from one of our addresses where one is named.
pub(super) fn begin_connect(
    local: Option<IpAddr>,
    address: SocketAddr,
    socket_buffer: Option<usize>,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    keep_alive(&SockRef::from(&socket))?;
    if let Some(bytes) = socket_buffer {
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(local) = local {
        sys::bind_without_port(socket.as_fd());
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// What a failed attempt means: a shortage on this host is not the peer's death (FB01).
pub(super) fn connect_fault(address: SocketAddr, error: &io::Error) -> SliceFault {
    let (class, cause) = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => (FaultClass::Rail, "no file descriptor is free"),
        Some(libc::EADDRNOTAVAIL) => {
            (FaultClass::Rail, "no local port is free, or the address is not of this host")
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => (FaultClass::Rail, "no memory for a socket"),
        _ => (FaultClass::Peer, "cannot connect"),
    };
    SliceFault::new(class, Phase::Connect, cause).at(address).with_os_error(error)
}

/// Whether a connection was lost by the way to the peer, and not by the peer.
pub(super) fn is_of_the_path(errno: Option<i32>) -> bool {
    const OF_THE_PATH: [i32; 4] =
        [libc::ETIMEDOUT, libc::EHOSTUNREACH, libc::ENETUNREACH, libc::ENETDOWN];
    errno.is_some_and(|number| OF_THE_PATH.contains(&number))
}

/// Whether an attempt to connect failed by something that another way may not have; a shortage on
/// this host every way has.
pub(super) fn is_of_the_attempt(errno: Option<i32>) -> bool {
    const SHORTAGES: [i32; 4] = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    errno.is_some_and(|number| !SHORTAGES.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Link, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stream = begin_connect(None, address, None).unwrap();
        let link = Link::new((0, 0), address, stream, Arc::default());
        (link, listener.accept().unwrap().0)
    }

    /// The other end sees the end although a forked child holds the socket as well.
    #[test]
    fn a_forked_child_keeps_no_connection_of_ours() {
        for fate in [Fate::Close, Fate::Reset] {
            let (link, mut theirs) = pair();
            theirs.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let held = link.stream.as_fd().try_clone_to_owned().unwrap();
            link.before_close(fate);
            drop(link);
            let end = io::Read::read(&mut theirs, &mut [0]);
            let reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
            assert!(end.as_ref().map_or_else(reset, |n| *n == 0), "{fate:?}: {end:?}");
            drop(held);
        }
    }

    /// A connection to a host that vanished does not stay for ever.
    #[test]
    fn silent_connections_are_asked_for_their_other_end() {
        let (link, _theirs) = pair();
        let socket = SockRef::from(&link.stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    }

    /// What was reported readable while connecting is not forgotten: no second edge comes.
    #[test]
    fn readiness_that_came_with_the_connection_is_kept() {
        let (mut link, _theirs) = pair();
        link.ready.readable = true;
        link.on_connected(None);
        assert!(link.ready.readable && link.ready.writable && !link.connecting);
    }

    /// FB01: a shortage here is named and never taken for the peer's death.
    #[test]
    fn fb01_a_shortage_on_this_host_is_not_the_peers_death() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let cases = [
            (
                libc::EADDRNOTAVAIL,
                FaultClass::Rail,
                "no local port is free, or the address is not of this host",
            ),
            (libc::EMFILE, FaultClass::Rail, "no file descriptor is free"),
            (libc::ENFILE, FaultClass::Rail, "no file descriptor is free"),
            (libc::ENOBUFS, FaultClass::Rail, "no memory for a socket"),
            (libc::ECONNREFUSED, FaultClass::Peer, "cannot connect"),
            (libc::EHOSTUNREACH, FaultClass::Peer, "cannot connect"),
        ];
        for (number, class, cause) in cases {
            let fault = connect_fault(address, &io::Error::from_raw_os_error(number));
            assert_eq!((fault.class, &*fault.cause), (class, cause), "{number}");
            assert!(fault.class.is_retryable());
            assert_eq!((fault.address, fault.errno), (Some(address), Some(number)));
        }
    }
}
