//! What the client does for one peer: connecting, starting, ending.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mio::{Interest, Token};
use te_metadata::{HostPort, NicAddress};
use te_segment::Opcode;
use te_transport::{FaultClass, Phase, SliceFault};

use crate::client::doubt::Doubt;
use crate::client::link::{Link, begin_connect, connect_fault, is_of_the_attempt};
use crate::client::sessions::Sessions;
use crate::client::speak::Numbers;
use crate::client::{Client, Due};
use crate::config::TcpConfig;
use crate::exchange::{Exchange, Fate};
use crate::inbox::{Destination, Load};
use crate::paths::{Path, paths};
use crate::pool::{Job, Order, Pool};

/// A peer's data port.
pub(super) struct Peer {
    pub(super) to: Destination,
    pub(super) pool: Pool,
    /// The way of each rail.
    paths: Vec<Path>,
    /// The link of each lane.
    links: Vec<Option<usize>>,
    /// What each lane says of itself in version 3.
    pub(super) numbers: Vec<Numbers>,
    /// Writes whose connection of version 3 was lost, until a fence settles them.
    pub(super) doubts: Vec<Doubt>,
    /// Where the name leads, the address that worked last first; empty when not looked up.
    found: Vec<SocketAddr>,
    attempt: Option<Attempt>,
    /// What left the queue since the inbox was told.
    pub(super) left: Load,
    pub(super) stirred: bool,
}

/// One lane being opened.
struct Attempt {
    lane: usize,
    until: Instant,
    left: VecDeque<SocketAddr>,
    fault: Option<SliceFault>,
}

impl Peer {
    pub(super) fn new(
        to: Destination,
        addresses: &[NicAddress],
        config: &TcpConfig,
        sessions: &mut Sessions,
    ) -> Self {
        let paths = paths(&config.local_addresses, addresses, to.address.ip());
        let weights: Vec<_> = paths.iter().map(|path| path.weight).collect();
        let rails = weights.iter().filter(|weight| **weight > 0).count();
        let v3 = to.v3.is_some();
        let lanes =
            if v3 { rails * config.lanes_per_rail } else { config.lanes_per_peer.max(rails) };
        let numbers = sessions.take(&to, lanes);
        Self {
            to,
            pool: Pool::over(&weights, lanes, v3, config),
            paths,
            links: vec![None; lanes],
            numbers,
            doubts: Vec::new(),
            found: Vec::new(),
            attempt: None,
            left: Load::default(),
            stirred: false,
        }
    }

    /// These jobs wait no more. One of versions 1 and 2 that goes again was counted before.
    pub(super) fn count_out(&mut self, jobs: &[Job]) {
        let counts = |job: &&Job| self.to.v3.is_some() || !job.retried;
        jobs.iter().filter(counts).for_each(|job| self.left.add(&job.slice));
    }

    fn has_rails(&self) -> bool {
        self.paths.len() > 1
    }

    /// The way of a lane's rail.
    fn path_of(&self, lane: usize) -> Path {
        self.paths.get(self.pool.rail_of(lane).as_usize()).copied().unwrap_or(Path::PLAIN)
    }

    fn is_literal(&self) -> bool {
        self.to.address.ip().is_some()
    }

    /// A lane is connected, to this address.
    pub(super) fn on_connected(&mut self, address: SocketAddr) {
        self.attempt = None;
        self.found.sort_by_key(|found| *found != address);
    }
}

impl Client {
    /// Carries out what a pool wants until it wants nothing.
    pub(super) fn run_pool(&mut self, now: Instant, index: usize) {
        if !self.peers.contains(index) {
            return;
        }
        self.peers[index].stirred = false;
        let mut begun = Vec::new();
        while let Some(order) = self.peers[index].pool.poll(now) {
            match order {
                Order::Connect(lane) => self.open_lane(now, index, lane),
                Order::Start(lane, job) if self.peers[index].to.v3.is_some() => {
                    begun.extend(self.start_on_session(now, index, lane, job));
                }
                Order::Start(lane, job) => self.start(now, index, lane, job),
                Order::Fail(jobs, fault) => self.fail_waiting(index, jobs, &fault),
            }
        }
        begun.dedup();
        for link in begun {
            self.run_and_arm(now, link);
        }
        let left = std::mem::take(&mut self.peers[index].left);
        if left != Load::default() {
            let address = self.peers[index].to.clone();
            self.tell_room(&address, left);
        }
        self.arm_or_forget(now, index);
    }

    fn arm_or_forget(&mut self, now: Instant, index: usize) {
        self.drop_idle_attempt(index);
        let peer = &self.peers[index];
        if peer.pool.is_forgettable(now) && peer.doubts.is_empty() {
            let gone = self.peers.remove(index);
            self.by_address.remove(&gone.to);
            self.sessions.keep(gone.to, gone.numbers);
            self.timers.forget(Due::Peer(index));
            return;
        }
        let attempt = peer.attempt.as_ref().map(|attempt| attempt.until);
        let closed = peer.attempt.is_none() && peer.links.iter().all(Option::is_none);
        let look = closed.then(|| now + self.parts.config.max_pause);
        let doubt = peer.doubts.iter().map(|doubt| doubt.until).min();
        let dues = [attempt, peer.pool.deadline(), look, doubt];
        if let Some(at) = dues.into_iter().flatten().min() {
            self.timers.arm(Due::Peer(index), at);
        }
    }

    pub(super) fn on_peer_due(&mut self, now: Instant, index: usize) {
        let Some(peer) = self.peers.get(index) else { return };
        if peer.attempt.as_ref().is_some_and(|attempt| attempt.until <= now) {
            self.time_out_attempt(now, index);
        }
        self.end_doubts(now, index);
        self.stir(index);
    }

    fn time_out_attempt(&mut self, now: Instant, index: usize) {
        let peer = &mut self.peers[index];
        let Some(attempt) = &mut peer.attempt else { return };
        attempt.left.clear();
        let lane = attempt.lane;
        let millis = self.parts.config.connect_timeout.as_millis();
        let link = peer.links[attempt.lane];
        let greeting = link.is_some_and(|link| self.links[link].session.is_some());
        let (phase, cause) = match link {
            Some(_) if greeting => {
                (Phase::Handshake, format!("the hello was not answered within {millis} ms"))
            }
            Some(_) => (Phase::Connect, format!("no connection within {millis} ms")),
            None => {
                let name = &peer.to.address;
                (Phase::Connect, format!("{name} was not looked up within {millis} ms"))
            }
        };
        let mut fault = SliceFault::new(FaultClass::Peer, phase, cause);
        if let Some(link) = link {
            fault = fault.at(self.links[link].address);
            self.close_link(link, Fate::Reset);
        }
        self.pause_rail(now, index, lane);
        self.fail_attempt(now, index, fault);
    }

    /// The rail of a lane is to blame for what became of it.
    pub(super) fn pause_rail(&mut self, now: Instant, index: usize, lane: usize) {
        let peer = &mut self.peers[index];
        if peer.has_rails() && peer.pool.on_rail_fault(now, lane) {
            self.parts.counters.rail_pauses.one();
            self.parts.counters.rails.of(&peer.path_of(lane)).pauses.one();
            self.tell_rail(index, lane, "a rail pauses");
        }
    }

    pub(super) fn tell_rail(&self, index: usize, lane: usize, what: &str) {
        let peer = &self.peers[index];
        let Path { local, peer: to, .. } = peer.path_of(lane);
        let shown = |ip: Option<IpAddr>| ip.map_or_else(|| "any".to_owned(), |ip| ip.to_string());
        let (local, to) = (shown(local), shown(to));
        tracing::warn!(peer = %peer.to.address, local, to, "{what}");
    }

    fn open_lane(&mut self, now: Instant, index: usize, lane: usize) {
        if let Some(idle) = self.peers[index].links[lane] {
            self.close_link(idle, Fate::Close);
        }
        let peer = &mut self.peers[index];
        let TcpConfig { connect_timeout, rail_timeout, .. } = self.parts.config;
        let patience =
            if peer.has_rails() { connect_timeout.min(rail_timeout) } else { connect_timeout };
        let until = now + patience;
        let until = peer.pool.round_ends().map_or(until, |end| end.min(until));
        let name = &peer.to.address;
        let at = |ip| SocketAddr::new(ip, name.port_or(0));
        let left: VecDeque<_> = match peer.path_of(lane).peer {
            Some(ip) => [at(ip)].into(),
            None => peer.found.iter().copied().chain(name.ip().map(at)).collect(),
        };
        let unknown = left.is_empty();
        peer.attempt = Some(Attempt { lane, until, left, fault: None });
        if unknown {
            self.resolver.look_up(name.clone());
        } else {
            self.try_next_address(now, index);
        }
    }

    pub(super) fn on_resolved(
        &mut self,
        now: Instant,
        address: &HostPort,
        found: io::Result<Vec<SocketAddr>>,
    ) {
        self.resolver.on_resolved();
        let named = self.peers.iter().filter(|(_, peer)| peer.to.address == *address);
        let named: Vec<_> = named.map(|(index, _)| index).collect();
        for index in named {
            self.on_found(now, index, &found);
        }
    }

    fn on_found(&mut self, now: Instant, index: usize, found: &io::Result<Vec<SocketAddr>>) {
        let peer = &mut self.peers[index];
        let waits = peer.attempt.as_ref().is_some_and(|a| peer.links[a.lane].is_none());
        match found {
            Ok(found) => {
                peer.found.clone_from(found);
                if let Some(attempt) = peer.attempt.as_mut().filter(|_| waits) {
                    attempt.left = found.iter().copied().collect();
                    self.try_next_address(now, index);
                }
            }
            Err(error) if waits => {
                let cause = format!("cannot look up {}: {error}", peer.to.address);
                let fault = SliceFault::new(FaultClass::Peer, Phase::Connect, cause);
                self.fail_attempt(now, index, fault);
            }
            Err(_) => {}
        }
        self.stir(index);
    }

    fn try_next_address(&mut self, now: Instant, index: usize) {
        loop {
            let peer = &mut self.peers[index];
            let Some(attempt) = &mut peer.attempt else { return };
            let Some(address) = attempt.left.pop_front() else {
                let fault = attempt.fault.take().unwrap_or_else(|| {
                    let cause = format!("{} has no address", peer.to.address);
                    SliceFault::new(FaultClass::Peer, Phase::Connect, cause)
                });
                return self.fail_attempt(now, index, fault);
            };
            let lane = attempt.lane;
            match self.begin(index, lane, address) {
                Ok(link) => {
                    self.peers[index].links[lane] = Some(link);
                    return;
                }
                Err(error) => attempt_failed(&mut self.peers[index], address, &error),
            }
        }
    }

    fn begin(&mut self, peer: usize, lane: usize, address: SocketAddr) -> io::Result<usize> {
        let path = self.peers[peer].path_of(lane);
        let mut stream = begin_connect(path.local, address, self.parts.config.socket_buffer)?;
        let entry = self.links.vacant_entry();
        let token = Token(entry.key() + 1);
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, both)?;
        let index = entry.key();
        let rail = self.parts.counters.rails.of(&path);
        let link = entry.insert(Link::new((peer, lane), address, stream, rail));
        if self.peers[peer].has_rails() {
            link.watch_path(self.parts.config.rail_timeout);
        }
        Ok(index)
    }

    pub(super) fn fail_attempt(&mut self, now: Instant, index: usize, fault: SliceFault) {
        let peer = &mut self.peers[index];
        let Some(attempt) = peer.attempt.take() else { return };
        if !peer.is_literal() {
            peer.found.clear();
        }
        if is_of_the_attempt(fault.errno) {
            self.pause_rail(now, index, attempt.lane);
        }
        let peer = &mut self.peers[index];
        self.parts.counters.connect_failures.one();
        let usable = peer.pool.has_other_rail(attempt.lane);
        let nobody = fault.class == FaultClass::Peer && fault.phase == Phase::Connect && !usable;
        peer.pool.on_connect_failed(now, attempt.lane, fault);
        if nobody {
            // Nobody is there to confirm a fence.
            self.end_doubts_of(index);
        }
        self.stir(index);
    }

    /// Gives up an attempt that nothing waits for any more: what comes next would wait for an answer
    /// that may have been lost.
    fn drop_idle_attempt(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if peer.pool.needs_attempt() {
            return;
        }
        let Some(attempt) = peer.attempt.take() else { return };
        if let Some(link) = peer.links[attempt.lane] {
            self.close_link(link, Fate::Reset);
        }
        self.peers[index].pool.on_given_up(attempt.lane);
    }

    /// The link of a lane.
    pub(super) fn link_of(&self, peer: usize, lane: usize) -> Option<usize> {
        self.peers[peer].links[lane]
    }

    fn start(&mut self, now: Instant, index: usize, lane: usize, job: Job) {
        let Some(at) = self.link_of(index, lane) else { return };
        let link = &mut self.links[at];
        if link.is_kept() && link.is_stale() {
            self.close_link(at, Fate::Close);
            let pool = &mut self.peers[index].pool;
            pool.on_lost(lane);
            pool.push_again(job);
            return;
        }
        let address = link.address;
        self.peers[index].count_out(std::slice::from_ref(&job));
        self.links[at].exchange = Some(Exchange::new(now, job, address, self.bounds));
        self.run_and_arm(now, at);
    }

    fn run_and_arm(&mut self, now: Instant, link: usize) {
        if self.links.contains(link) {
            self.run_link(now, link);
            self.arm_link(link);
        }
    }

    /// Looks at a link that has events or another turn.
    pub(super) fn turn_link(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        if link.connecting {
            return self.on_connecting(now, index);
        }
        if link.exchange.is_some() || link.session.is_some() {
            return self.run_and_arm(now, index);
        }
        if link.ready.readable && link.is_stale() {
            let (peer, lane) = (link.peer, link.lane);
            self.close_link(index, Fate::Close);
            self.peers[peer].pool.on_lost(lane);
            self.stir(peer);
        }
    }

    fn on_connecting(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        let (peer, lane, address) = (link.peer, link.lane, link.address);
        match link.connect_outcome() {
            None => {}
            Some(Ok(())) => {
                link.on_connected(self.parts.config.socket_buffer);
                if self.peers[peer].to.v3.is_some() {
                    return self.greet(now, index);
                }
                let peer = &mut self.peers[peer];
                peer.on_connected(address);
                peer.pool.on_connected(now, lane, 1);
                self.parts.counters.connects.one();
            }
            Some(Err(error)) => {
                self.close_link(index, Fate::Close);
                attempt_failed(&mut self.peers[peer], address, &error);
                self.try_next_address(now, peer);
            }
        }
        self.stir(peer);
    }

    pub(super) fn run_link(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        if link.turn(now, &mut self.scratch) && !std::mem::replace(&mut link.queued, true) {
            self.eager.push_back(index);
        }
        self.settle(now, index);
    }

    /// Reports an exchange that has ended, and decides about its connection.
    pub(super) fn settle(&mut self, now: Instant, index: usize) {
        let Some(link) = self.links.get_mut(index) else { return };
        if link.session.is_some() {
            return self.settle_session(now, index);
        }
        let Some(exchange) = &mut link.exchange else { return };
        let (ending, fate) = (exchange.take_ending(), exchange.fate());
        let again = ending.as_ref().is_some_and(|ending| link.may_go_again(ending));
        let token = link.exchange.as_ref().map(|e| e.job().slice.token);
        if let Some(fate) = fate {
            self.release(index, fate, again);
        }
        if let (Some(ending), Some(token), false) = (ending, token, again) {
            self.complete(token, ending.result, ending.remote);
        }
    }

    fn release(&mut self, index: usize, fate: Fate, again: bool) {
        let link = &mut self.links[index];
        let (peer, lane) = (link.peer, link.lane);
        let Some(exchange) = link.exchange.take() else { return };
        let (read, written) = exchange.payload_moved();
        self.count(index, Opcode::Read, read);
        self.count(index, Opcode::Write, written);
        if fate == Fate::Keep {
            self.links[index].keep(&exchange);
        } else {
            self.close_link(index, fate);
        }
        let pool = &mut self.peers[peer].pool;
        pool.on_finished(lane, fate == Fate::Keep);
        if again {
            self.parts.counters.stale_retries.one();
            pool.push_again(exchange.into_job().again());
        }
        self.stir(peer);
    }

    /// Counts payload that moved over a link.
    pub(super) fn count(&self, index: usize, op: Opcode, bytes: u64) {
        let (all, rail) = (&self.parts.counters, &self.links[index].rail);
        let counters = match op {
            Opcode::Read => [&all.bytes_read, &rail.bytes_read],
            Opcode::Write => [&all.bytes_written, &rail.bytes_written],
        };
        counters.into_iter().for_each(|counter| counter.add(bytes));
    }

    pub(super) fn close_link(&mut self, index: usize, fate: Fate) {
        let link = self.links.remove(index);
        link.before_close(fate);
        self.timers.forget(Due::Link(index));
        self.peers[link.peer].links[link.lane] = None;
    }
}

fn attempt_failed(peer: &mut Peer, address: SocketAddr, error: &io::Error) {
    if let Some(attempt) = &mut peer.attempt {
        attempt.fault = Some(connect_fault(address, error));
    }
}
