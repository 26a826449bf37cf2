//! The target's side: a listener and the connections of peers, moved by one driver.
//!
//! I1  Never more connections than allowed, all together and from one address. For one more, the
//!     oldest one makes room that never served its peer or takes what nobody wants; then the
//!     longest idle one; where all work, the new one is closed.
//! I2  An accept that fails for another reason than its connection pauses accepting for a moment,
//!     whatever comes meanwhile; it never loops. A shortage closes one connection per pause.
//! I3  A buffer that is taken back ends a connection of versions 1 and 2 that works on it, and of
//!     version 3 only the requests that do.
//! I4  An address that is an IPv4 one in IPv6 clothes counts as the IPv4 one.
//! I5  Each socket is shut down before it is dropped: a forked child may hold it as well.

mod greet;
mod protocol;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use socket2::SockRef;
use te_segment::BufferId;
use te_sync::Mutex;
use te_transport::{Core, Step};

use crate::config::TcpConfig;
use crate::connection::Service;
use crate::io::comes_from_this_core;
use crate::keep::{Throttle, keep_alive, shut_down, suit};
use crate::pump::{Machine, Ready, Scratch, Stopped, pump, scratch};
use crate::timers::Timers;
use crate::v3::AnswerCode;

use protocol::{Protocol, Use};

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// The token of the first connection.
const FIRST: usize = 2;
/// Connections accepted in one step.
const ACCEPTS: usize = 64;
/// How long accepting rests when the host has no file descriptor or memory for one more.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is known of connections that may wait to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepting {
    /// Nobody waits, as far as we know.
    Idle,
    /// Somebody may wait.
    Ready,
    /// An accept failed; it is tried again when its timer fires, and not before.
    Paused,
}

/// Buffers that are closing, on their way to the server driver.
#[derive(Debug, Default)]
pub(crate) struct Revocations {
    list: Mutex<Vec<BufferId>>,
    filled: AtomicBool,
}

impl Revocations {
    pub(crate) fn push(&self, buffer: BufferId) {
        self.list.lock().push(buffer);
        // Pairs with the load in `is_filled`; the driver looks after it said that it sleeps.
        self.filled.store(true, Ordering::SeqCst);
    }

    fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    fn take(&self) -> Vec<BufferId> {
        if !self.is_filled() {
            return Vec::new();
        }
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.list.lock())
    }
}

struct Inbound {
    stream: TcpStream,
    address: IpAddr,
    accepted: Instant,
    machine: Protocol,
    ready: Ready,
    queued: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Due {
    Accept,
    Connection(usize),
}

/// See the module.
pub(crate) struct Server {
    poll: Poll,
    events: Events,
    /// Gone once the transport closes, so that nobody connects to a port that nobody serves.
    listener: Option<TcpListener>,
    service: Arc<Service>,
    revocations: Arc<Revocations>,
    config: TcpConfig,
    connections: Slab<Inbound>,
    per_address: HashMap<IpAddr, usize>,
    timers: Timers<Due>,
    eager: VecDeque<usize>,
    accepting: Accepting,
    complaints: Throttle,
    scratch: Scratch,
    /// The connection that had the last event.
    latest: usize,
}

impl Server {
    pub(crate) fn new(
        listener: std::net::TcpListener,
        service: Arc<Service>,
        revocations: Arc<Revocations>,
        config: TcpConfig,
    ) -> io::Result<(Self, Arc<mio::Waker>)> {
        listener.set_nonblocking(true)?;
        if let Some(bytes) = config.socket_buffer {
            // Accepted sockets inherit it, and the window is agreed on before accept returns.
            SockRef::from(&listener).set_recv_buffer_size(bytes)?;
        }
        let mut listener = TcpListener::from_std(listener);
        let poll = Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER)?);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let server = Self {
            poll,
            events: Events::with_capacity(1024),
            listener: Some(listener),
            service,
            revocations,
            config,
            connections: Slab::new(),
            per_address: HashMap::new(),
            timers: Timers::new(),
            eager: VecDeque::new(),
            accepting: Accepting::Idle,
            complaints: Throttle::new(),
            scratch: scratch(),
            latest: 0,
        };
        Ok((server, waker))
    }

    fn take_events(&mut self) {
        for event in &self.events {
            let index = match event.token() {
                WAKER => continue,
                LISTENER => {
                    if self.accepting == Accepting::Idle {
                        self.accepting = Accepting::Ready;
                    }
                    continue;
                }
                Token(token) => token - FIRST,
            };
            let Some(inbound) = self.connections.get_mut(index) else { continue };
            self.latest = index;
            let broken = event.is_error() || event.is_read_closed() || event.is_write_closed();
            inbound.ready.readable |= event.is_readable() || broken;
            inbound.ready.writable |= event.is_writable() || broken;
            if !std::mem::replace(&mut inbound.queued, true) {
                self.eager.push_back(index);
            }
        }
        self.events.clear();
    }

    fn take_revocations(&mut self) {
        for buffer in self.revocations.take() {
            let holders = self.connections.iter().filter(|(_, c)| c.machine.holds(buffer));
            let holders: Vec<_> = holders.map(|(index, _)| index).collect();
            for index in holders {
                self.connections[index].machine.revoke(buffer);
                self.look_again(index);
            }
        }
    }

    fn take_timers(&mut self, now: Instant) {
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Accept => self.accepting = Accepting::Ready,
                Due::Connection(index) => self.on_due(now, index),
            }
        }
    }

    fn on_due(&mut self, now: Instant, index: usize) {
        let Some(inbound) = self.connections.get_mut(index) else { return };
        inbound.machine.handle_timeout(now);
        self.look_again(index);
        if self.connections.contains(index) {
            self.arm(index);
        }
    }

    /// Closes a connection that is over; gives another one a turn.
    fn look_again(&mut self, index: usize) {
        let inbound = &mut self.connections[index];
        if inbound.machine.is_over() {
            self.close(index);
        } else if !std::mem::replace(&mut inbound.queued, true) {
            self.eager.push_back(index);
        }
    }

    fn arm(&mut self, index: usize) {
        if let Some(at) = self.connections[index].machine.deadline() {
            self.timers.arm(Due::Connection(index), at);
        }
    }

    fn turn_connections(&mut self, now: Instant) {
        for _ in 0..self.eager.len() {
            let Some(index) = self.eager.pop_front() else { return };
            if let Some(inbound) = self.connections.get_mut(index) {
                inbound.queued = false;
                self.turn(now, index);
            }
        }
    }

    fn turn(&mut self, now: Instant, index: usize) {
        let inbound = &mut self.connections[index];
        let Inbound { machine, stream, ready, .. } = inbound;
        let stopped = pump(machine, stream, ready, now, &mut self.scratch);
        if machine.take_half_close() {
            // Where this fails the peer is gone, which the next receive tells.
            let _ = stream.shutdown(Shutdown::Write);
        }
        let greeted = self.greet(now, index);
        match stopped {
            Stopped::Over => return self.close(index),
            Stopped::Blocked if !greeted => {}
            Stopped::Blocked | Stopped::TurnOver => self.look_again(index),
        }
        if self.connections.contains(index) {
            self.arm(index);
        }
    }

    /// Says goodbye to peers that know the word, as far as their sockets take it.
    fn part(&mut self, now: Instant) {
        let closing = self.answer(AnswerCode::Closing);
        for (_, inbound) in &mut self.connections {
            let Inbound { machine, stream, .. } = inbound;
            if machine.say_goodbye(&closing) {
                let mut ready = Ready { readable: false, writable: true };
                pump(machine, stream, &mut ready, now, &mut self.scratch);
            }
        }
    }

    fn close(&mut self, index: usize) {
        let inbound = self.connections.remove(index);
        shut_down(&inbound.stream);
        self.timers.forget(Due::Connection(index));
        if let Some(n) = self.per_address.get_mut(&inbound.address) {
            *n -= 1;
            if *n == 0 {
                self.per_address.remove(&inbound.address);
            }
        }
        self.count_open();
    }

    fn count_open(&self) {
        self.service.counters.inbound_open.set(self.connections.len() as u64);
    }

    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS {
            if self.accepting != Accepting::Ready {
                return;
            }
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => self.on_accepted(now, stream, address),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.accepting = Accepting::Idle;
                }
                // It is this connection's; the next one may be well.
                Err(error) if is_passing(&error) => {}
                Err(error) => self.pause_accepting(now, &error),
            }
        }
    }

    fn pause_accepting(&mut self, now: Instant, error: &io::Error) {
        if is_shortage(error) {
            self.shed(None);
        }
        self.accepting = Accepting::Paused;
        self.timers.arm(Due::Accept, now + ACCEPT_PAUSE);
        if let Some(suppressed) = self.complaints.allow(now) {
            tracing::warn!(%error, suppressed, "cannot accept; resting");
        }
    }

    fn on_accepted(&mut self, now: Instant, stream: TcpStream, address: SocketAddr) {
        let address = address.ip().to_canonical();
        if !self.has_room(address) {
            self.service.counters.inbound_shed.one();
            return shut_down(&stream);
        }
        if let Err(error) = self.admit(now, stream, address) {
            tracing::debug!(%error, %address, "a connection broke while it was accepted");
        }
    }

    fn has_room(&mut self, address: IpAddr) -> bool {
        let from_it = self.per_address.get(&address).copied().unwrap_or(0);
        if from_it >= self.config.max_inbound_per_address {
            return self.shed(Some(address));
        }
        self.connections.len() < self.config.max_inbound || self.shed(None)
    }

    /// Closes the connection that makes room, of one address or of all; whether there was one.
    fn shed(&mut self, address: Option<IpAddr>) -> bool {
        let fitting =
            self.connections.iter().filter(|(_, c)| address.is_none_or(|a| a == c.address));
        let ranked = fitting.filter_map(|(index, c)| {
            Some(match c.machine.use_of_it() {
                Use::Works => return None,
                Use::Idle(since) => (true, since, index),
                Use::Nothing => (false, c.accepted, index),
            })
        });
        let Some((.., index)) = ranked.min() else { return false };
        self.service.counters.inbound_shed.one();
        self.close(index);
        true
    }

    fn admit(&mut self, now: Instant, mut stream: TcpStream, address: IpAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        keep_alive(&SockRef::from(&stream))?;
        if let Some(bytes) = self.config.socket_buffer {
            SockRef::from(&stream).set_send_buffer_size(bytes)?;
        }
        suit(&stream, self.config.socket_buffer);
        let entry = self.connections.vacant_entry();
        let token = Token(entry.key() + FIRST);
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, both)?;
        let machine = Protocol::new(now, Arc::clone(&self.service));
        let ready = Ready { readable: true, writable: true };
        self.eager.push_back(entry.key());
        entry.insert(Inbound { stream, address, accepted: now, machine, ready, queued: true });
        *self.per_address.entry(address).or_default() += 1;
        self.count_open();
        Ok(())
    }
}

/// Whether an accept failed for a reason of the one connection, or none.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ECONNABORTED, libc::EINTR, libc::EPROTO];
    error.raw_os_error().is_some_and(|number| passing.contains(&number))
}

fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| shortages.contains(&number))
}

impl Core for Server {
    fn step(&mut self, now: Instant) -> Step {
        let moved = !self.events.is_empty() || !self.eager.is_empty();
        self.take_events();
        self.take_revocations();
        self.take_timers(now);
        self.accept(now);
        self.turn_connections(now);
        Step { reported: 0, moved }
    }

    fn expects(&self) -> bool {
        // Mooncake's initiator polls with one thread and moves bytes with another: it needs the cores.
        self.connections.get(self.latest).is_some_and(|inbound| inbound.machine.is_own_kind())
    }

    fn shares_core(&mut self) -> bool {
        let latest = self.connections.get(self.latest);
        latest.is_some_and(|inbound| comes_from_this_core(inbound.stream.as_fd()))
    }

    fn is_eager(&self) -> bool {
        self.accepting == Accepting::Ready || !self.eager.is_empty() || self.revocations.is_filled()
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.timers.next()
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if let Err(error) = self.poll.poll(&mut self.events, timeout)
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::error!(%error, "the poller failed");
        }
    }

    fn finish(&mut self, now: Instant) {
        if let Some(listener) = self.listener.take() {
            // From here on nobody connects, also where another process holds it.
            let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
        }
        self.part(now);
        for (_, inbound) in &self.connections {
            shut_down(&inbound.stream);
        }
        self.connections.clear();
        self.per_address.clear();
        self.count_open();
    }
}

#[cfg(test)]
mod tests;
