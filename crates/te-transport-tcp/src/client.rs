//! The initiator's side: peers, their pools and links, moved by one driver.
//!
//! ```text
//!   Inbox ──▶ Peer ─ Pool ─ orders ──▶ Link ─ Exchange ──▶ ending ──▶ completions ──▶ sink
//!                                       └── Session ──▶ finished ─┤
//!                                                       doubts ───┘
//! ```
//!
//! I1  Each job that was taken from the inbox is in exactly one place: a pool, an exchange, a session,
//!     the doubts of its peer, or the list of completions that the end of the step reports.
//! I2  A spoiled socket is closed before its slice's end is reported (F35).
//! I3  The sink is called at the end of the step, when the core is consistent. Where a call panics
//!     the others are made all the same.

mod doubt;
mod link;
mod peer;
mod sessions;
mod speak;
mod watch;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use slab::Slab;
use te_metadata::Incarnation;
use te_segment::{SegmentId, SliceToken};
use te_transport::{
    Completion, CompletionSink, Core, FaultClass, Phase, RemoteSide, SliceFault, Step, Threads,
};

use crate::config::TcpConfig;
use crate::exchange::{Bounds, Fate};
use crate::inbox::{Command, Destination, Inbox, Load};
use crate::io::comes_from_this_core;
use crate::keep::Throttle;
use crate::paths::addresses;
use crate::pool::Job;
use crate::pump::{Scratch, scratch};
use crate::resolver::Resolver;
use crate::stats::Counters;
use crate::timers::Timers;

use link::Link;
use peer::Peer;
use sessions::Sessions;

/// The poller's token of the waker; links count from 1.
const WAKER: Token = Token(0);

/// What the client side shares with the rest of the transport.
pub(crate) struct ClientParts {
    pub(crate) config: TcpConfig,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) sink: Arc<dyn CompletionSink>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) threads: Arc<Threads>,
    /// Which run of this process it is.
    pub(crate) incarnation: Incarnation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Due {
    Link(usize),
    Peer(usize),
}

/// See the module.
pub(crate) struct Client {
    poll: Poll,
    events: Events,
    parts: ClientParts,
    bounds: Bounds,
    resolver: Resolver,
    peers: Slab<Peer>,
    by_address: HashMap<Destination, usize>,
    sessions: Sessions,
    links: Slab<Link>,
    timers: Timers<Due>,
    scratch: Scratch,
    /// Links to look at in this step.
    eager: VecDeque<usize>,
    /// Peers whose pool may have orders.
    stirred: VecDeque<usize>,
    completions: VecDeque<Completion>,
    room: Vec<SegmentId>,
    complaints: Throttle,
    /// The link that had the last event.
    latest: usize,
    /// Whether anything happened in this step.
    moved: bool,
    /// Slices that were ended with [`FaultClass::Closed`].
    closed: Arc<std::sync::atomic::AtomicU64>,
}

impl Client {
    pub(crate) fn new(
        parts: ClientParts,
        closed: Arc<std::sync::atomic::AtomicU64>,
    ) -> io::Result<(Self, Arc<mio::Waker>)> {
        let poll = Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER)?);
        let threads = Arc::clone(&parts.threads);
        let resolver = Resolver::new(Arc::clone(&parts.inbox), Arc::clone(&waker), threads);
        let bounds = Bounds {
            chunk: parts.config.io_chunk,
            status_timeout: parts.config.status_timeout,
            progress_timeout: parts.config.progress_timeout,
        };
        let client = Self {
            poll,
            events: Events::with_capacity(256),
            parts,
            bounds,
            resolver,
            peers: Slab::new(),
            by_address: HashMap::new(),
            sessions: Sessions::default(),
            links: Slab::new(),
            timers: Timers::new(),
            scratch: scratch(),
            eager: VecDeque::new(),
            stirred: VecDeque::new(),
            completions: VecDeque::new(),
            room: Vec::new(),
            complaints: Throttle::new(),
            latest: 0,
            moved: false,
            closed,
        };
        Ok((client, waker))
    }

    fn take_events(&mut self) {
        let ready = self.events.iter().filter(|event| event.token() != WAKER);
        for event in ready {
            let index = event.token().0 - 1;
            let Some(link) = self.links.get_mut(index) else { continue };
            self.latest = index;
            let broken = event.is_error() || event.is_read_closed() || event.is_write_closed();
            link.ready.readable |= event.is_readable() || broken;
            link.ready.writable |= event.is_writable() || broken;
            if !std::mem::replace(&mut link.queued, true) {
                self.eager.push_back(index);
            }
        }
        self.events.clear();
    }

    fn take_commands(&mut self, now: Instant) {
        for command in self.parts.inbox.take() {
            self.moved = true;
            match command {
                Command::Submit(address, jobs) => self.on_submit(address, jobs),
                Command::Unreachable(jobs) => {
                    let cause = "the peer published no tcp data port";
                    let fault = SliceFault::new(FaultClass::Peer, Phase::Queue, cause);
                    self.fail(jobs, &fault);
                }
                Command::Cancel(tokens) => self.on_cancel(now, &tokens.into_iter().collect()),
                Command::Resolved(address, found) => self.on_resolved(now, &address, found),
                Command::Room(address) => self.tell_room(&address, Load::default()),
            }
        }
    }

    fn on_submit(&mut self, address: Destination, jobs: Vec<Job>) {
        let index = match self.by_address.get(&address) {
            Some(index) => *index,
            None => {
                let known = jobs.first().map(|job| addresses(&job.slice.peer)).unwrap_or_default();
                let config = &self.parts.config;
                let peer = Peer::new(address.clone(), &known, config, &mut self.sessions);
                let index = self.peers.insert(peer);
                self.by_address.insert(address, index);
                index
            }
        };
        for job in jobs {
            self.peers[index].pool.push(job);
        }
        self.stir(index);
    }

    fn on_cancel(&mut self, now: Instant, tokens: &HashSet<SliceToken>) {
        let fault = SliceFault::new(FaultClass::Cancelled, Phase::Queue, "called back");
        let indices: Vec<_> = self.peers.iter().map(|(index, _)| index).collect();
        for index in indices {
            let jobs = self.peers[index].pool.cancel(tokens);
            self.fail_waiting(index, jobs, &fault);
        }
        let hit: Vec<_> = self.links.iter().filter(|(_, link)| link.carries(tokens)).collect();
        let hit: Vec<_> = hit.into_iter().map(|(index, _)| index).collect();
        for index in hit {
            self.links[index].abort(FaultClass::Cancelled, "called back");
            self.settle(now, index);
        }
        self.cancel_in_sessions(now, tokens);
    }

    fn take_timers(&mut self, now: Instant) {
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Link(index) => self.on_link_due(now, index),
                Due::Peer(index) => self.on_peer_due(now, index),
            }
        }
    }

    fn on_link_due(&mut self, now: Instant, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        let spare = self.peers[link.peer].pool.has_other_rail(link.lane);
        link.look_at_path(now, spare);
        if link.handle_timeout(now) {
            self.parts.counters.timeouts.one();
        }
        self.settle(now, index);
        self.arm_link(index);
    }

    fn arm_link(&mut self, index: usize) {
        if let Some(at) = self.links.get(index).and_then(Link::deadline) {
            self.timers.arm(Due::Link(index), at);
        }
    }

    fn turn_links(&mut self, now: Instant) {
        for _ in 0..self.eager.len() {
            let Some(index) = self.eager.pop_front() else { return };
            if let Some(link) = self.links.get_mut(index) {
                link.queued = false;
                self.turn_link(now, index);
            }
        }
    }

    fn stir(&mut self, index: usize) {
        if !std::mem::replace(&mut self.peers[index].stirred, true) {
            self.stirred.push_back(index);
        }
    }

    /// Ends jobs that were still waiting in a pool.
    fn fail_waiting(&mut self, peer: usize, jobs: Vec<Job>, fault: &SliceFault) {
        self.peers[peer].count_out(&jobs);
        if !jobs.is_empty() {
            self.stir(peer);
        }
        self.fail(jobs, fault);
    }

    fn fail(&mut self, jobs: Vec<Job>, fault: &SliceFault) {
        for job in jobs {
            let remote = job.remote_so_far();
            let token = job.slice.token;
            drop(job);
            self.complete(token, Err(fault.clone()), remote);
        }
    }

    fn complete(&mut self, token: SliceToken, result: Result<(), SliceFault>, remote: RemoteSide) {
        match result.as_ref().map_err(|fault| fault.class) {
            Err(FaultClass::Refused) => self.parts.counters.refused.one(),
            Err(FaultClass::Corrupt) => self.parts.counters.corrupt.one(),
            _ => {}
        }
        self.completions.push_back(Completion { token, result, remote });
    }

    fn tell_room(&mut self, address: &Destination, left: Load) {
        self.room.extend(self.parts.inbox.on_left_queue(address, left));
    }

    fn report(&mut self, now: Instant) -> u64 {
        let reported = self.completions.len() as u64;
        let mut completions = std::mem::take(&mut self.completions);
        while !completions.is_empty() {
            let left = completions.len();
            self.call(now, |sink| sink.complete_all(&mut completions));
            if completions.len() == left {
                // Whoever panics before it takes one does so again.
                completions.pop_front();
            }
        }
        self.completions = completions;
        for segment in std::mem::take(&mut self.room) {
            self.call(now, |sink| sink.room(segment));
        }
        reported
    }

    /// Calls the sink. A panic in it, or in what it wakes, ends that call and nothing else.
    fn call(&mut self, now: Instant, what: impl FnOnce(&dyn CompletionSink)) {
        let sink = &*self.parts.sink;
        // The core is consistent here, and of the sink nothing is used that could be torn.
        let outcome = catch_unwind(AssertUnwindSafe(|| what(sink)));
        if outcome.is_err()
            && let Some(suppressed) = self.complaints.allow(now)
        {
            tracing::error!(suppressed, "the receiver of completions panicked");
        }
    }
}

impl Core for Client {
    fn step(&mut self, now: Instant) -> Step {
        self.moved = !self.events.is_empty() || !self.eager.is_empty();
        self.take_events();
        self.take_commands(now);
        self.take_timers(now);
        self.turn_links(now);
        while let Some(index) = self.stirred.pop_front() {
            self.run_pool(now, index);
        }
        Step { reported: self.report(now), moved: self.moved }
    }

    fn expects(&self) -> bool {
        self.links.iter().any(|(_, link)| link.is_at_work())
    }

    fn shares_core(&mut self) -> bool {
        let latest = self.links.get(self.latest);
        latest.is_some_and(|link| comes_from_this_core(link.stream.as_fd()))
    }

    fn is_eager(&self) -> bool {
        !self.eager.is_empty() || self.parts.inbox.is_filled()
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
        let fault = SliceFault::new(FaultClass::Closed, Phase::Queue, "the transport is closing");
        let before = self.completions.len();
        for index in 0..self.links.capacity() {
            if self.links.contains(index) {
                self.say_goodbye(now, index);
                self.links[index].abort(FaultClass::Closed, "the transport is closing");
                self.settle(now, index);
            }
        }
        self.end_all_doubts();
        let mut jobs: Vec<_> = self.peers.iter_mut().flat_map(|(_, p)| p.pool.drain()).collect();
        for command in self.parts.inbox.close() {
            if let Command::Submit(_, more) | Command::Unreachable(more) = command {
                jobs.extend(more);
            }
        }
        self.fail(jobs, &fault);
        let settled = (self.completions.len() - before) as u64;
        self.closed.fetch_add(settled, std::sync::atomic::Ordering::Relaxed);
        for index in 0..self.links.capacity() {
            if self.links.contains(index) {
                self.close_link(index, Fate::Close);
            }
        }
        self.peers.clear();
        self.room.clear();
        self.report(now);
    }
}
