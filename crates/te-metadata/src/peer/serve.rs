//! The loop of a server: accepts, reads, answers, writes, closes. It waits for no single client.
//!
//! Owned by one thread; no lock is taken. Sockets are edge-triggered, so each is used until it
//! would block.
//!
//! I1  `buffered` and `per_ip` are the sums over `open`.
//! I2  Every connection leaves through [`Serving::close`], which counts it once and shuts it down: a
//!     forked child may hold the socket as well.
//! I3  Bytes that are too many cost the address that holds most its largest unfinished question.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use socket2::SockRef;

use super::answer::{QuestionFault, answer};
use super::connection::{Connection, Outcome, Stage};
use super::deadline::now;
use super::question::{Desk, Ticket};
use super::server::Shared;
use super::stats::count;
use super::{PeerLimits, PeerService, evict};
use crate::frame::{Frame, encode_frame};
use crate::log_limit::LogLimit;
use crate::sabotage;

pub(super) struct Serving {
    poll: Poll,
    listener: TcpListener,
    service: Arc<dyn PeerService>,
    /// Where answers that come later are put.
    desk: Arc<Desk>,
    /// Numbers questions.
    asked: u64,
    shared: Arc<Shared>,
    limits: PeerLimits,
    open: Slab<Open>,
    per_ip: HashMap<IpAddr, Share>,
    buffered: usize,
    accepting: Accepting,
    /// When the next connection may be over; never later than the truth.
    next_timeout: Option<Instant>,
    log: LogLimit,
    chunk: Box<[u8]>,
}

struct Open {
    stream: TcpStream,
    ip: IpAddr,
    connection: Connection,
    buffered: usize,
}

/// What one address has.
#[derive(Default)]
struct Share {
    connections: usize,
    buffered: usize,
}

#[derive(Clone, Copy)]
enum Accepting {
    /// Nobody waits, as far as we know.
    Idle,
    /// Somebody may wait.
    Ready,
    /// Accepting failed; to be tried again then, whoever comes meanwhile.
    Paused(Instant),
}

impl Serving {
    pub(super) fn new(
        listener: std::net::TcpListener,
        limits: PeerLimits,
        service: Arc<dyn PeerService>,
        shared: Arc<Shared>,
    ) -> io::Result<(Self, Arc<Waker>)> {
        listener.set_nonblocking(true)?;
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mut listener = TcpListener::from_std(listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let serving = Self {
            poll,
            listener,
            service,
            desk: Desk::new(Arc::clone(&waker)),
            asked: 0,
            shared,
            limits,
            open: Slab::new(),
            per_ip: HashMap::new(),
            buffered: 0,
            accepting: Accepting::Ready,
            next_timeout: None,
            log: LogLimit::new(),
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
        };
        Ok((serving, waker))
    }

    /// Serves until the handle wishes the end.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        // Pairs with the releasing store in `PeerServer::close`.
        while !self.shared.stop.load(Ordering::Acquire) {
            match self.poll.poll(&mut events, self.patience(now())) {
                Ok(()) => self.on_events(&events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "the event queue of the peer server failed");
                    break;
                }
            }
            self.accept_some();
            self.expire(now());
        }
        // From here on nobody connects, also where another process holds the listener.
        let _ = SockRef::from(&self.listener).shutdown(Shutdown::Both);
        let keys: Vec<usize> = self.open.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.close(key, Outcome::Dropped);
        }
    }

    fn on_events(&mut self, events: &Events) {
        for event in events {
            match event.token() {
                WAKER => self.take_answers(),
                LISTENER => {
                    if matches!(self.accepting, Accepting::Idle) {
                        self.accepting = Accepting::Ready;
                    }
                }
                Token(key) => self.serve(key),
            }
        }
    }

    /// How long the poll may wait.
    fn patience(&self, now: Instant) -> Option<Duration> {
        let accept_at = match self.accepting {
            Accepting::Idle => None,
            Accepting::Ready => Some(now),
            Accepting::Paused(until) => Some(until),
        };
        let next = accept_at.into_iter().chain(self.next_timeout).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Accepts a bounded number of clients, so that those already here get their turn.
    fn accept_some(&mut self) {
        match self.accepting {
            Accepting::Idle => return,
            Accepting::Paused(until) if now() < until => return,
            Accepting::Paused(_) | Accepting::Ready => self.accepting = Accepting::Ready,
        }
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listener.accept() {
                Ok((stream, address)) => self.admit(stream, address),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accepting = Accepting::Idle;
                    return;
                }
                // The client is gone again, or a signal came.
                Err(error) if is_passing(&error) => {
                    tracing::trace!(%error, "a client could not be accepted");
                }
                Err(error) => return self.pause_accepting(&error),
            }
        }
    }

    /// Accepting does not work: waits a moment, and makes room where it lacks.
    fn pause_accepting(&mut self, error: &io::Error) {
        let now = now();
        self.accepting = Accepting::Paused(now + ACCEPT_PAUSE);
        if is_exhaustion(error) {
            self.make_room(None);
        }
        if let Some(suppressed) = self.log.allow(now) {
            tracing::warn!(%error, suppressed, n_open = self.open.len(), "cannot accept clients");
        }
    }

    fn admit(&mut self, stream: TcpStream, address: SocketAddr) {
        let (now, ip) = (now(), address.ip().to_canonical());
        count(&self.shared.counters.accepted);
        let of_peer = self.per_ip.get(&ip).map_or(0, |share| share.connections);
        let room = sabotage::is_off("control-connections")
            || ((of_peer < self.limits.max_connections_per_peer || self.make_room(Some(ip)))
                && (self.open.len() < self.limits.max_connections || self.make_room(None)));
        if !room {
            count(&self.shared.counters.refused);
            return shut_down(&stream);
        }
        let connection = Connection::new(now, &self.limits);
        self.look_at(now, connection.deadline());
        let key = self.open.insert(Open { stream, ip, connection, buffered: 0 });
        self.per_ip.entry(ip).or_default().connections += 1;
        self.shared.counters.open.fetch_add(1, Ordering::Relaxed);
        if self.register(key).is_err() {
            return self.close(key, Outcome::Dropped);
        }
        self.serve(key);
    }

    fn register(&mut self, key: usize) -> io::Result<()> {
        let stream = &mut self.open[key].stream;
        stream.set_nodelay(true)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(stream, Token(key), interest)
    }

    /// Closes the connection that gives way at a limit; false when none does.
    fn make_room(&mut self, of_peer: Option<IpAddr>) -> bool {
        let candidates = self
            .open
            .iter()
            .filter(|(_, open)| of_peer.is_none_or(|ip| ip == open.ip))
            .map(|(key, open)| (key, open.connection.stage(), open.connection.accepted()));
        let Some(key) = evict::choose(candidates) else { return false };
        let outcome = match self.open[key].connection.stage() {
            Stage::Lingering => self.open[key].connection.on_broken(),
            _ => Outcome::Refused,
        };
        self.close(key, outcome);
        true
    }

    /// Moves what can be moved on one connection.
    fn serve(&mut self, key: usize) {
        if !self.open.contains(key) {
            return;
        }
        let ended = self.read(key).or_else(|| self.write(key));
        if let Some(outcome) = ended.or_else(|| self.open[key].connection.finished()) {
            self.close(key, outcome);
        }
    }

    fn read(&mut self, key: usize) -> Option<Outcome> {
        loop {
            let open = &mut self.open[key];
            match open.stream.read(&mut self.chunk) {
                Ok(0) => return open.connection.on_end(),
                Ok(n_bytes) => {
                    if let Some(outcome) = self.on_bytes(key, n_bytes) {
                        return Some(outcome);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(open.connection.on_broken()),
            }
        }
    }

    fn on_bytes(&mut self, key: usize, n_bytes: usize) -> Option<Outcome> {
        let connection = &mut self.open[key].connection;
        let ended = match connection.on_bytes(&self.chunk[..n_bytes]) {
            Ok(None) => connection.finished(),
            Ok(Some(frame)) => self.on_question(key, &frame),
            Err(error) => {
                self.complain(key, &error.into());
                Some(Outcome::Malformed)
            }
        };
        ended.or_else(|| self.account(key))
    }

    fn on_question(&mut self, key: usize, frame: &Frame) -> Option<Outcome> {
        self.asked += 1;
        let ticket = Ticket { key, number: self.asked };
        let connection = &mut self.open[key].connection;
        let Some(answer) = answer(&*self.service, frame, (&self.desk, ticket)) else {
            connection.on_later(frame.kind, ticket.number);
            return connection.finished();
        };
        let ended = connection.on_answer(answer.bytes, answer.fault.is_some());
        if let Some(fault) = answer.fault {
            self.complain(key, &fault);
        }
        ended
    }

    /// Sends the answers that came meanwhile.
    fn take_answers(&mut self) {
        for (ticket, message) in self.desk.take() {
            let Some(open) = self.open.get_mut(ticket.key) else { continue };
            let Some(kind) = open.connection.awaits(ticket.number) else { continue };
            let bytes = encode_frame(kind, &message.encode());
            let ended = open.connection.on_answer(Some(bytes), false);
            let ended = ended.or_else(|| self.account(ticket.key));
            match ended {
                Some(outcome) => self.close(ticket.key, outcome),
                None => self.serve(ticket.key),
            }
        }
    }

    /// Brings the sums of held bytes up to date. Where they are too many, closes connections of the
    /// address that holds most until they are not; gives the outcome where this one is among them.
    fn account(&mut self, key: usize) -> Option<Outcome> {
        let open = &mut self.open[key];
        let holds = open.connection.buffered();
        let (ip, before) = (open.ip, std::mem::replace(&mut open.buffered, holds));
        self.buffered = self.buffered - before + holds;
        if let Some(share) = self.per_ip.get_mut(&ip) {
            share.buffered = share.buffered - before + holds;
        }
        while let Some(greedy) = self.over_budget(ip) {
            match self.largest_of(greedy)? {
                victim if victim == key => return Some(Outcome::Refused),
                victim => self.close(victim, Outcome::Refused),
            }
        }
        None
    }

    /// The address that must give bytes back, where one must: this one for its own share, the one
    /// that holds most for the whole.
    fn over_budget(&self, ip: IpAddr) -> Option<IpAddr> {
        let most = self.limits.max_buffered_bytes;
        let share = (most / SHARES).max(self.limits.max_frame);
        if self.per_ip.get(&ip).is_some_and(|of_it| of_it.buffered > share) {
            return Some(ip);
        }
        let over = self.buffered > most;
        over.then(|| self.per_ip.iter().max_by_key(|(_, share)| share.buffered).map(|(ip, _)| *ip))?
    }

    /// The connection of an address that gives its bytes back.
    fn largest_of(&self, ip: IpAddr) -> Option<usize> {
        let of_it = self.open.iter().filter(|(_, open)| open.ip == ip && open.buffered > 0);
        evict::greediest(of_it.map(|(key, open)| (key, open.connection.stage(), open.buffered)))
    }

    fn write(&mut self, key: usize) -> Option<Outcome> {
        let open = &mut self.open[key];
        while !open.connection.output().is_empty() {
            match open.stream.write(open.connection.output()) {
                Ok(n_bytes) => {
                    let now = now();
                    if open.connection.on_sent(now, n_bytes) {
                        // A client that is gone already is seen by the next read.
                        let _ = open.stream.shutdown(Shutdown::Write);
                        let deadline = open.connection.deadline();
                        self.look_at(now, deadline);
                        return self.account(key);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(open.connection.on_broken()),
            }
        }
        None
    }

    /// Closes what is over.
    fn expire(&mut self, now: Instant) {
        if self.next_timeout.is_none_or(|at| now < at) {
            return;
        }
        let over = |(key, open): (usize, &Open)| Some((key, open.connection.on_timeout(now)?));
        let ended: Vec<_> = self.open.iter().filter_map(over).collect();
        for (key, outcome) in ended {
            self.close(key, outcome);
        }
        let next = self.open.iter().map(|(_, open)| open.connection.deadline()).min();
        self.next_timeout = None;
        if let Some(deadline) = next {
            self.look_at(now, deadline);
        }
    }

    /// Sees to it that [`Self::expire`] looks at `deadline`, or a little later: looks are at
    /// least [`TICK`] apart, so many short connections do not make many looks.
    fn look_at(&mut self, now: Instant, deadline: Instant) {
        let at = deadline.max(now + TICK);
        self.next_timeout = Some(self.next_timeout.map_or(at, |next| next.min(at)));
    }

    /// Drops a connection and counts how it ended.
    fn close(&mut self, key: usize, outcome: Outcome) {
        let open = self.open.remove(key);
        shut_down(&open.stream);
        self.buffered -= open.buffered;
        if let Some(of_peer) = self.per_ip.get_mut(&open.ip) {
            of_peer.connections -= 1;
            of_peer.buffered -= open.buffered;
            if of_peer.connections == 0 {
                self.per_ip.remove(&open.ip);
            }
        }
        let counters = &self.shared.counters;
        counters.open.fetch_sub(1, Ordering::Relaxed);
        count(match outcome {
            Outcome::Served => &counters.served,
            Outcome::Malformed => &counters.malformed,
            Outcome::Refused => &counters.refused,
            Outcome::TimedOut => &counters.timed_out,
            Outcome::Dropped => &counters.dropped,
        });
    }

    fn complain(&mut self, key: usize, fault: &QuestionFault) {
        if let Some(suppressed) = self.log.allow(now()) {
            let cause = std::error::Error::source(fault).map(ToString::to_string);
            let peer = self.open[key].ip;
            tracing::warn!(%peer, %fault, cause, suppressed, "a peer's question is malformed");
        }
    }
}

/// Ends a connection for both sides, whoever else holds the socket. What was sent still goes out.
fn shut_down(stream: &TcpStream) {
    // Where this fails the client is gone already.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Whether accepting failed for a reason of the one client, or none.
fn is_passing(error: &io::Error) -> bool {
    let codes = [libc::ECONNABORTED, libc::EINTR, libc::EPROTO];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

/// Whether accepting failed because the process or the host has no room for a socket.
fn is_exhaustion(error: &io::Error) -> bool {
    let codes = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const CHUNK_BYTES: usize = 16 << 10;
const ACCEPTS_PER_TURN: usize = 64;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// One address holds at most this part of all bytes, and at least one frame.
const SHARES: usize = 4;
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
