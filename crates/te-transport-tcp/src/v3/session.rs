//! The initiator's end of a connection of version 3, without the socket: many requests in flight.
//!
//! ```text
//!   push ─▶ waiting ─▶ flights: request, data, sum ──▶ status ──▶ finished
//!                         │ cancel ──▶ cancel frame ──▶ status ──┘
//!                         └── connection lost ──▶ finished: untouched, settled, or in doubt
//! ```
//!
//! I1  Each job that was pushed is finished exactly once. From then on nothing reads or writes its
//!     local range; where the connection was lost, from the moment when its socket is closed.
//! I2  A write counts as done when its last byte and its sum were sent and its status came, a read
//!     when all its bytes came before its status.
//! I3  A write of which a byte may have reached the peer is in doubt when the connection is lost;
//!     a fence on a later connection settles it.
//! I4  A cancel is confirmed by the peer's status. Without one in time the connection is given up;
//!     the time begins again whenever bytes move, because a status waits its turn behind them, and
//!     is over at last when one transfer might have stood still. Requests that nobody called back
//!     then end as those of a lost connection.

mod answers;
mod ends;
mod sending;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use te_metadata::{Incarnation, sabotage};
use te_segment::{Opcode, SliceToken};
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};

use crate::exchange::Fate;
use crate::io::{Acked, Outgoing, Part};
use crate::pool::Job;
use crate::progress::Progress;
use crate::pump::{Incoming, MAX_FRAME, Machine, Side};
use crate::v3::frame::Frame;
use crate::v3::hello::{ANSWER_BYTES, Hello};
use crate::v3::intake::{HEADS, Intake};
use crate::v3::outbox::{HELD_FOR, Outbox, SMALL};
use crate::v3::sum::Sum;

/// Payload of a write up to this many bytes is copied: cheaper than a part of its own.
const COPIED: u64 = 2 << 10;

/// Bounds of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Bytes per socket call.
    pub(crate) chunk: usize,
    pub(crate) status_timeout: Duration,
    pub(crate) progress_timeout: Duration,
    pub(crate) cancel_timeout: Duration,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) job: Job,
    pub(crate) result: Result<(), SliceFault>,
    pub(crate) remote: RemoteSide,
    /// Whether the connection went away under it, and was not given up.
    pub(crate) lost: bool,
    /// Payload bytes that moved.
    pub(crate) moved: u64,
}

/// What happened to the connection.
#[derive(Debug)]
pub(crate) enum News {
    /// The peer answered: so many requests may be in flight, and connections below `fenced` have
    /// ended.
    Open { credit: u32, fenced: u32 },
    /// So many requests may be in flight from now on.
    Credit(u32),
    /// The peer has ended a request, the first on this connection.
    Proven,
    /// The hello was not answered well.
    Refused(SliceFault),
}

#[derive(Debug)]
enum Life {
    Hello { answer: [u8; ANSWER_BYTES], filled: usize },
    Open,
    Over(Fate),
}

/// A request that was begun.
#[derive(Debug)]
struct Flight {
    job: Job,
    /// Where its request begins in the stream that goes out.
    begins: u64,
    /// Where its last byte ends, once that is known.
    ends: Option<u64>,
    received: u64,
    sum: Option<Box<Sum>>,
    /// When the peer was first to end it.
    cancelled: Option<Instant>,
    /// How it will end, whatever the peer says.
    fault: Option<SliceFault>,
    /// Whether its end was told before it was known; only in counter-proofs.
    told: bool,
}

impl Flight {
    fn new(job: Job, begins: u64, sum: Option<Box<Sum>>) -> Self {
        let (ends, cancelled, fault) = (None, None, None);
        Self { job, begins, ends, received: 0, sum, cancelled, fault, told: false }
    }
}

/// The write whose data goes out.
#[derive(Debug)]
struct Body {
    id: u64,
    done: u64,
    sum: Option<Box<Sum>>,
}

/// Payload of a read that comes in.
#[derive(Debug)]
struct Landing {
    id: u64,
    left: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    address: SocketAddr,
    to: Incarnation,
    limits: Limits,
    life: Life,
    news: VecDeque<News>,
    intake: Intake,
    out: Outbox,
    waiting: VecDeque<Job>,
    flights: BTreeMap<u64, Flight>,
    /// Reads in flight, in order.
    reads: VecDeque<u64>,
    body: Option<Body>,
    cancels: VecDeque<u64>,
    landing: Option<Landing>,
    /// Whether the last payload was large, so that more such is likely.
    large: bool,
    last_id: u64,
    checks: bool,
    /// Nothing more goes out; the peer may still say why.
    send_error: Option<io::Error>,
    finished: Vec<Finished>,
    confirmed_cancels: u64,
    proven: bool,
    progress: Progress,
}

impl Session {
    /// A session on a connection that stands. It says its hello first.
    pub(crate) fn new(now: Instant, address: SocketAddr, hello: &Hello, limits: Limits) -> Self {
        let mut out = Outbox::new(COPIED);
        out.put_bytes(&hello.encode());
        Self {
            address,
            to: hello.to,
            limits,
            life: Life::Hello { answer: [0; ANSWER_BYTES], filled: 0 },
            news: VecDeque::new(),
            intake: Intake::new(),
            out,
            waiting: VecDeque::new(),
            flights: BTreeMap::new(),
            reads: VecDeque::new(),
            body: None,
            cancels: VecDeque::new(),
            landing: None,
            large: false,
            last_id: 0,
            checks: false,
            send_error: None,
            finished: Vec::new(),
            confirmed_cancels: 0,
            proven: false,
            progress: Progress::new(now),
        }
    }

    /// Says goodbye where nothing is in flight.
    pub(crate) fn say_goodbye(&mut self) {
        if self.is_idle() && matches!(self.life, Life::Open) && self.out.has_room() {
            self.out.put(&Frame::Goodbye);
        }
    }

    /// What happened to the connection, in order.
    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// The jobs that ended.
    pub(crate) fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Cancels that the peer confirmed since the last call.
    pub(crate) fn take_confirmed_cancels(&mut self) -> u64 {
        std::mem::take(&mut self.confirmed_cancels)
    }

    /// What becomes of the connection, once it is over.
    pub(crate) fn fate(&self) -> Option<Fate> {
        match self.life {
            Life::Over(fate) => Some(fate),
            _ => None,
        }
    }

    /// Whether no job is in it.
    pub(crate) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.waiting.is_empty()
    }

    /// Since when nothing has moved, where something should.
    pub(crate) fn still_since(&self) -> Option<Instant> {
        (matches!(self.life, Life::Open) && !self.is_idle()).then(|| self.progress.since())
    }

    /// Whether the peer has not answered the hello.
    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self.life, Life::Hello { .. })
    }

    /// Takes a job. The caller keeps to the credit.
    pub(crate) fn push(&mut self, now: Instant, job: Job) {
        if self.is_idle() {
            self.progress.moved(now);
        }
        if job.slice.is_empty() {
            return self.finish(job, (Ok(()), RemoteSide::Settled), 0);
        }
        if job.slice.checked && !self.checks {
            let cause = "the peer does not offer checksums";
            let fault = self.fault(FaultClass::Protocol, Phase::Queue, cause);
            let remote = job.remote_so_far();
            return self.finish(job, (Err(fault), remote), 0);
        }
        self.waiting.push_back(job);
    }

    /// Calls jobs back. Those that wait end at once, the others when the peer confirms.
    pub(crate) fn cancel(&mut self, now: Instant, tokens: &HashSet<SliceToken>) {
        let fault = SliceFault::new(FaultClass::Cancelled, Phase::Queue, "called back");
        let waiting = std::mem::take(&mut self.waiting);
        let hit = |job: &Job| tokens.contains(&job.slice.token);
        let (gone, kept): (Vec<_>, Vec<_>) = waiting.into_iter().partition(hit);
        self.waiting = kept.into();
        for job in gone {
            let remote = job.remote_so_far();
            self.finish(job, (Err(fault.clone()), remote), 0);
        }
        let flying = self.flights.iter().filter(|(_, flight)| hit(&flight.job));
        let ids: Vec<u64> = flying.map(|(id, _)| *id).collect();
        for id in ids {
            let fault = self.fault(FaultClass::Cancelled, self.phase_of(id), "called back");
            self.call_back(now, id, fault);
        }
        if sabotage::is_off("cancel-confirm") {
            self.confirm_all_cancels();
        }
    }

    /// When [`Session::handle_timeout`] should be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if !matches!(self.life, Life::Open) {
            return None;
        }
        if self.is_idle() {
            return self.out.is_roomy().then(|| self.progress.since() + HELD_FOR);
        }
        let cancels = self.cancel_deadline().into_iter();
        let progress = self.is_hurried().then(|| self.progress.deadline(self.patience()));
        cancels.chain(progress).min()
    }

    /// Whether something must move.
    fn is_hurried(&self) -> bool {
        !self.is_idle() && !sabotage::is_off("progress-deadline")
    }

    /// Gives the connection up where a deadline has passed and the peer's kernel took nothing more
    /// either; `acked` is how much of this connection's bytes it has, where that is known.
    pub(crate) fn handle_timeout(&mut self, now: Instant, acked: Option<Acked>) {
        if self.is_idle() && now >= self.progress.since() + HELD_FOR {
            self.out.give_room_back();
        }
        self.progress.look(now, acked);
        if self.is_idle() || self.deadline().is_none() {
            return;
        }
        if self.cancel_deadline().is_some_and(|at| at <= now) {
            let millis = self.limits.cancel_timeout.as_millis();
            let cause = format!("another request's cancel was not confirmed within {millis} ms");
            return self.lose(&cause, None);
        }
        if !self.is_hurried() || !self.progress.is_over(now, self.patience()) {
            return;
        }
        let millis = now.duration_since(self.progress.since()).as_millis();
        self.give_up(FaultClass::Peer, &format!("nothing moved for {millis} ms"));
    }

    /// Ends everything for a reason of this side.
    pub(crate) fn abort(&mut self, class: FaultClass, cause: &str) {
        if self.fate().is_none() {
            self.give_up(class, cause);
        }
    }

    /// When the first cancel must have been confirmed.
    fn cancel_deadline(&self) -> Option<Instant> {
        let asked = self.flights.values().filter_map(|flight| flight.cancelled).min()?;
        let Limits { cancel_timeout, progress_timeout, .. } = self.limits;
        let silent = asked.max(self.progress.since()) + cancel_timeout;
        Some(silent.min(asked + progress_timeout.max(cancel_timeout)))
    }

    fn patience(&self) -> Duration {
        let Limits { status_timeout, progress_timeout, .. } = self.limits;
        let waits = self.out.is_empty() && self.waiting.is_empty() && self.body.is_none();
        if waits { status_timeout.min(progress_timeout) } else { progress_timeout }
    }

    fn phase_of(&self, id: u64) -> Phase {
        let Some(flight) = self.flights.get(&id) else { return Phase::Queue };
        let is_out = flight.ends.is_some_and(|end| self.out.sent() >= end);
        match (self.out.sent() > flight.begins, is_out, flight.job.slice.op) {
            (false, ..) => Phase::Queue,
            (_, false, _) => Phase::Payload,
            (_, true, Opcode::Read) if flight.received > 0 => Phase::Payload,
            (_, true, _) => Phase::Status,
        }
    }

    fn fault(&self, class: FaultClass, phase: Phase, cause: &str) -> SliceFault {
        SliceFault::new(class, phase, cause).at(self.address)
    }

    /// The read that payload comes in for, unless its bytes are not wanted any more.
    fn landing_flight(&self) -> Option<&Flight> {
        let flight = self.flights.get(&self.landing.as_ref()?.id)?;
        let local = |fault: &SliceFault| fault.class == FaultClass::Local;
        (!flight.fault.as_ref().is_some_and(local)).then_some(flight)
    }

    fn expects_data(&self) -> bool {
        let first = self.reads.front().and_then(|id| self.flights.get(id));
        first.is_some_and(|flight| flight.job.slice.len() - flight.received > SMALL)
    }
}

impl Machine for Session {
    fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        if self.send_error.is_some() || self.fate().is_some() {
            return None;
        }
        if matches!(self.life, Life::Open) {
            self.fill();
        }
        self.out.outgoing(self.limits.chunk)
    }

    fn incoming(&mut self) -> Option<Incoming<'_>> {
        match self.life {
            Life::Hello { filled, .. } => return Some(Incoming::Frame(ANSWER_BYTES - filled)),
            Life::Over(_) => return None,
            Life::Open => {}
        }
        let left = self.landing.as_ref().map_or(0, |landing| landing.left);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        Some(match (&self.landing, self.landing_flight()) {
            (Some(landing), _) if landing.left <= SMALL && self.large => {
                Incoming::Frame(left + HEADS)
            }
            (Some(landing), _) if landing.left <= SMALL => Incoming::Frame(MAX_FRAME),
            (Some(_), Some(flight)) => {
                let (local, done) = (&flight.job.slice.local, flight.received);
                let part = Part::new(local, done, left.min(self.limits.chunk));
                let more = if part.len() == left { HEADS } else { 0 };
                Incoming::Payload { part, more }
            }
            (Some(_), None) => Incoming::Discard(left),
            // What follows is a head and then payload that belongs straight into memory.
            (None, _) if self.expects_data() => Incoming::Frame(self.intake.missing()),
            (None, _) => Incoming::Frame(MAX_FRAME),
        })
    }

    fn on_sent(&mut self, now: Instant, n: usize) {
        self.progress.moved(now);
        self.out.on_sent(n);
        if sabotage::is_off("early-completed-v3") {
            self.believe_what_is_sent();
        }
    }

    fn on_frame(&mut self, now: Instant, bytes: &[u8]) {
        if let Life::Hello { .. } = self.life {
            return self.on_answer(now, bytes);
        }
        let mut rest = bytes;
        while !rest.is_empty() && matches!(self.life, Life::Open) {
            if self.landing.is_some() {
                self.store(now, &mut rest);
                continue;
            }
            match self.intake.take(&mut rest) {
                Ok(Some(frame)) => self.on_whole_frame(now, frame),
                Ok(None) => {}
                Err(violation) => self.violated(violation),
            }
        }
    }

    fn on_received(&mut self, now: Instant, n: usize) {
        self.landed(now, n as u64);
    }

    fn on_end(&mut self, _now: Instant) {
        if let Life::Hello { .. } = self.life {
            return self.refuse(FaultClass::Rail, UNANSWERED);
        }
        self.lose("the peer closed the connection", None);
    }

    fn on_error(&mut self, now: Instant, side: Side, error: io::Error) {
        if error.raw_os_error() == Some(libc::EFAULT) {
            return self.on_memory_fault(now, side, &error);
        }
        match side {
            Side::Send => self.send_error = Some(error),
            Side::Receive if self.is_greeting() => {
                self.refuse(FaultClass::Rail, UNANSWERED);
            }
            Side::Receive => self.lose("the connection broke", Some(&error)),
        }
    }

    fn is_over(&self) -> bool {
        self.fate().is_some()
    }
}

/// A peer that does not speak version 3 answers the hello as a refused read, so an end without an
/// answer says nothing about the peer.
const UNANSWERED: &str = "the connection was lost before the hello was answered";

#[cfg(test)]
mod tests;
