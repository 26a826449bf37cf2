//! What the client does for connections of version 3.

use std::collections::HashSet;
use std::time::Instant;

use te_metadata::{Incarnation, sabotage};
use te_segment::SliceToken;
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};

use crate::client::Client;
use crate::client::doubt::Doubt;
use crate::client::link::is_of_the_path;
use crate::exchange::Fate;
use crate::inbox::Load;
use crate::pool::Job;
use crate::v3::{FEATURES, Finished, Hello, Limits, News, Session, VERSION};

/// So often a request goes from one rail to another. What it meets then is no rail's fault.
const MOST_MOVES: u8 = 8;

/// What a lane says of itself: a session drawn at random, and how many connections it had.
#[derive(Debug)]
pub(super) struct Numbers {
    session: u64,
    last: u32,
}

impl Numbers {
    pub(super) fn new() -> Self {
        let [half, ..] = halves(Incarnation::random().as_u128());
        Self { session: half, last: 0 }
    }

    /// The number of the next connection.
    pub(super) fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    #[cfg(test)]
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// Whether it never had a connection.
    pub(super) fn is_unused(&self) -> bool {
        self.last == 0
    }
}

fn halves(number: u128) -> [u64; 2] {
    let bytes = number.to_le_bytes();
    let half = |from: usize| {
        let mut eight = [0; 8];
        eight.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(eight)
    };
    [half(0), half(8)]
}

impl Client {
    /// A connection stands: says hello. Whatever the lane had before is fenced by it.
    pub(super) fn greet(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        let peer = &mut self.peers[link.peer];
        let Some(to) = peer.to.v3 else { return };
        let numbers = &mut peer.numbers[link.lane];
        link.number = numbers.next();
        let hello = Hello {
            version: VERSION,
            offered: FEATURES,
            required: 0,
            wanted: self.parts.config.max_in_flight,
            from: self.parts.incarnation,
            to,
            session: numbers.session,
            connection: numbers.last,
            fence: if numbers.last > 1 { numbers.last } else { 0 },
        };
        let limits = Limits {
            chunk: self.bounds.chunk,
            status_timeout: self.bounds.status_timeout,
            progress_timeout: self.bounds.progress_timeout,
            cancel_timeout: self.parts.config.cancel_timeout,
        };
        link.session = Some(Box::new(Session::new(now, link.address, &hello, limits)));
        self.run_link(now, index);
    }

    /// Puts a job on a session; gives the link, which is to be moved when all jobs are on theirs.
    pub(super) fn start_on_session(
        &mut self,
        now: Instant,
        index: usize,
        lane: usize,
        job: Job,
    ) -> Option<usize> {
        let at = self.link_of(index, lane)?;
        let link = &mut self.links[at];
        let idle = link.session.as_ref().is_some_and(|session| session.is_idle());
        if idle && link.has_something() {
            link.ready.readable = true;
            self.run_link(now, at);
        }
        let link = self.links.get_mut(at).filter(|link| link.number > 0);
        let Some(session) = link.and_then(|link| link.session.as_mut()) else {
            self.peers[index].pool.push_front(job);
            return None;
        };
        self.peers[index].pool.on_used(lane);
        session.push(now, job);
        Some(at)
    }

    pub(super) fn cancel_in_sessions(&mut self, now: Instant, tokens: &HashSet<SliceToken>) {
        self.cancel_doubts(tokens);
        for index in 0..self.links.capacity() {
            let Some(link) = self.links.get_mut(index) else { continue };
            let Some(session) = &mut link.session else { continue };
            session.cancel(now, tokens);
            self.run_link(now, index);
            self.arm_link(index);
        }
    }

    /// Tells an idle peer that this side goes.
    pub(super) fn say_goodbye(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        if let Some(session) = &mut link.session {
            session.say_goodbye();
            link.turn(now, &mut self.scratch);
        }
    }

    /// Reports what ended on a session, and decides about its connection.
    pub(super) fn settle_session(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        let (peer, lane) = (link.peer, link.lane);
        let Some(session) = &mut link.session else { return };
        let (finished, fate) = (session.take_finished(), session.fate());
        self.parts.counters.cancels_confirmed.add(session.take_confirmed_cancels());
        let path_error = |finished: &Finished| {
            let fault = finished.result.as_ref().err().filter(|_| finished.lost);
            fault.is_some_and(|fault| is_of_the_path(fault.errno))
        };
        let path_died = link.path_died || finished.iter().any(path_error);
        let mut again = Vec::new();
        for finished in finished {
            again.extend(self.on_finished(now, index, finished));
        }
        for job in again.into_iter().rev() {
            self.peers[peer].pool.push_front(job);
        }
        self.hear_news(now, index);
        if let Some(fate) = fate
            && self.links.contains(index)
        {
            let address = self.links[index].address;
            self.close_link(index, fate);
            if path_died {
                self.pause_rail(now, peer, lane);
            }
            let cause = "the connection was lost before a request was on it";
            let fault = SliceFault::new(FaultClass::Peer, Phase::Handshake, cause).at(address);
            self.peers[peer].pool.on_greeted_lost(now, lane, fault);
        }
        self.stir(peer);
    }

    fn hear_news(&mut self, now: Instant, index: usize) {
        let link = &mut self.links[index];
        let (peer, lane, address) = (link.peer, link.lane, link.address);
        while let Some(news) = self.links[index].session.as_mut().and_then(|s| s.take_news()) {
            match news {
                News::Open { credit, fenced } => {
                    let room = self.room(credit);
                    self.peers[peer].on_connected(address);
                    self.peers[peer].pool.on_greeted(lane, room);
                    self.parts.counters.connects.one();
                    self.links[index].rail.connects.one();
                    self.on_fenced(peer, lane, fenced);
                }
                News::Proven => {
                    if self.peers[peer].pool.on_proven(now, lane) {
                        self.tell_rail(peer, lane, "a rail is open again");
                    }
                }
                News::Credit(credit) => {
                    let room = self.room(credit);
                    self.peers[peer].pool.on_room(lane, room);
                }
                News::Refused(fault) => {
                    self.close_link(index, Fate::Close);
                    // Somebody else may be there, at an address that is of another network too.
                    self.pause_rail(now, peer, lane);
                    return self.fail_attempt(now, peer, fault);
                }
            }
        }
    }

    /// How many requests may be on a connection whose peer allows so many.
    fn room(&self, credit: u32) -> usize {
        usize::try_from(credit.min(self.parts.config.max_in_flight)).unwrap_or(1)
    }

    /// Reports a request that ended. Gives it back where it goes again, on another connection.
    fn on_finished(&mut self, now: Instant, index: usize, finished: Finished) -> Option<Job> {
        let link = &self.links[index];
        let (peer, lane, number) = (link.peer, link.lane, link.number);
        self.count(index, finished.job.slice.op, finished.moved);
        let Finished { job, result, remote, lost, .. } = finished;
        let pool = &mut self.peers[peer].pool;
        pool.on_finished(lane, true);
        pool.on_unloaded(now, lane, &job, result.is_ok());
        let moves = lost && job.moves < MOST_MOVES && pool.has_other_rail(lane);
        if lost && may_go_again(&job, &result, remote, moves) {
            self.parts.counters.stale_retries.one();
            return Some(moved(job, remote));
        }
        let token = job.slice.token;
        let mut load = Load::default();
        load.add(&job.slice);
        let again = moves.then_some(job);
        match result {
            Err(fault) if remote == RemoteSide::InDoubt && fault.class != FaultClass::Closed => {
                let until = now + self.parts.config.fence_timeout;
                let job = again.map(|job| moved(job, RemoteSide::Settled));
                self.keep_doubt(peer, Doubt { token, job, load, fault, lane, number, until });
            }
            result => {
                self.peers[peer].left.merge(load);
                self.complete(token, result, remote);
            }
        }
        None
    }
}

/// Whether a job goes again whose connection went away: once, or as often as there is another rail,
/// and only where the peer cannot have changed its memory.
fn may_go_again(
    job: &Job,
    result: &Result<(), SliceFault>,
    remote: RemoteSide,
    moves: bool,
) -> bool {
    let rail = result.as_ref().is_err_and(|fault| fault.class == FaultClass::Rail);
    let again = moves || !job.retried;
    rail && remote != RemoteSide::InDoubt && again && !sabotage::is_off("stale-retry")
}

/// The job for another try, with what is known of the peer's memory.
fn moved(job: Job, before: RemoteSide) -> Job {
    Job { retried: true, moves: job.moves + 1, before, ..job }
}
