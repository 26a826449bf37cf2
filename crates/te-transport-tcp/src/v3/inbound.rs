//! The target's end of a connection of version 3, without the socket.
//!
//! ```text
//!   Hello ─128 bytes─▶ Greeted ─answer ok─▶ Open ── requests, data ──▶ works ── statuses ──▶
//!                         └── other answer ──▶ Farewell ─▶ Over
//! ```
//!
//! Requests are taken up in order and their statuses go out in order; those that were cancelled go
//! out before the others. A write is stored while data of an earlier read still goes out.
//!
//! I1  No byte moves to or from memory before the segment gave a guard on the buffer of the named
//!     generation, for the whole range; the guard is held until the last byte moved.
//! I2  A guard that is revoked ends its request, and nothing else, before the next byte moves.
//! I3  Each request ends with exactly one status, unless the connection ends first.
//! I4  What waits is bounded by the credit: one more request ends the connection.

mod bodies;
mod requests;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::sabotage;
use te_segment::{BufferGuard, BufferId};

use crate::connection::{Service, Use};
use crate::frame::HEADER_BYTES;
use crate::io::{Outgoing, Part};
use crate::pump::{Incoming, MAX_FRAME, Machine, Side};
use crate::v3::frame::{Code, Frame, Status, Violation};
use crate::v3::hello::{Answer, AnswerCode, FEATURE_DONE, HELLO_BYTES, Hello};
use crate::v3::intake::{HEADS, Intake};
use crate::v3::outbox::{HELD_FOR, Outbox, Piece, SMALL};
use crate::v3::sum::Sum;

/// Payload of a read up to this many bytes is copied: cheaper than a part of its own.
const COPIED: u64 = 2 << 10;

/// Reads up to this many bytes end before their data is out, where that is sure to come: what was
/// promised must be copied if the owner wants its memory back meanwhile.
const PROMISED: u64 = SMALL;

/// So many bytes of data go out before the ends of their reads do.
const TOGETHER: u64 = 128 << 10;

#[derive(Debug)]
enum Stage {
    Hello {
        bytes: [u8; HELLO_BYTES],
        filled: usize,
    },
    Greeted,
    Open,
    /// What is written goes out, and a goodbye behind it where one is due; then it is over.
    Farewell {
        goodbye: bool,
    },
    Over,
}

/// A request whose status has not gone out.
#[derive(Debug)]
struct Work {
    id: u64,
    /// When the initiator gives up.
    until: Option<Instant>,
    what: What,
}

#[derive(Debug)]
enum What {
    Read {
        guard: BufferGuard,
        done: u64,
        sum: Option<Box<Sum>>,
    },
    /// Its bytes come in: see [`Body`].
    Write,
    Ended(Status),
}

/// The write whose bytes come in.
#[derive(Debug)]
struct Body {
    id: u64,
    guard: BufferGuard,
    done: u64,
    sum: Option<Box<Sum>>,
}

/// Payload that comes in. It is stored where it belongs to the body, else dropped.
#[derive(Debug)]
struct Landing {
    id: u64,
    left: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbound {
    service: Arc<Service>,
    stage: Stage,
    hello: Option<Hello>,
    /// The hello waits for its answer.
    unanswered: bool,
    intake: Intake,
    out: Outbox,
    works: VecDeque<Work>,
    cancelled: VecDeque<(u64, Status)>,
    body: Option<Body>,
    /// The request whose further data is dropped.
    dropping: Option<u64>,
    landing: Option<Landing>,
    last_id: u64,
    credit: usize,
    /// Whether the end of several requests is told in one frame.
    groups: bool,
    /// Whether the last payload was large, so that more such is likely.
    large: bool,
    /// Whether a request was served whole.
    proven: bool,
    /// When something last moved. Bytes that nobody wants do not count.
    since: Instant,
}

impl Inbound {
    /// A connection whose first bytes begin a hello.
    pub(crate) fn new(now: Instant, service: Arc<Service>, first: &[u8; HEADER_BYTES]) -> Self {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(first);
        Self {
            service,
            stage: Stage::Hello { bytes, filled: HEADER_BYTES },
            hello: None,
            unanswered: false,
            intake: Intake::new(),
            out: Outbox::new(COPIED),
            works: VecDeque::new(),
            cancelled: VecDeque::new(),
            body: None,
            dropping: None,
            landing: None,
            last_id: 0,
            credit: 0,
            groups: false,
            large: false,
            proven: false,
            since: now,
        }
    }

    /// The hello that waits for an answer, once.
    pub(crate) fn take_hello(&mut self) -> Option<Hello> {
        std::mem::take(&mut self.unanswered).then_some(self.hello).flatten()
    }

    /// Answers the hello.
    pub(crate) fn answer(&mut self, now: Instant, answer: &Answer) {
        self.since = now;
        self.credit = usize::try_from(answer.credit).unwrap_or(usize::MAX);
        self.groups = answer.features & FEATURE_DONE != 0;
        self.out.put_bytes(&answer.encode());
        self.stage = match answer.code {
            AnswerCode::Ok => Stage::Open,
            _ => Stage::Farewell { goodbye: false },
        };
    }

    /// Whether a hello that fences ends this connection.
    pub(crate) fn is_fenced_by(&self, fence: &Hello) -> bool {
        let earlier = |mine: &Hello| {
            (mine.from, mine.session) == (fence.from, fence.session)
                && mine.connection < fence.fence
        };
        self.hello.as_ref().is_some_and(earlier)
    }

    /// What it is good for. A peer that has proven itself may be in the middle of a frame.
    pub(crate) fn use_of_it(&self) -> Use {
        match self.stage {
            Stage::Greeted => Use::Works,
            Stage::Open if self.guards().next().is_some() => Use::Works,
            Stage::Open if !self.proven || (self.works.is_empty() && self.is_dropping()) => {
                Use::Nothing
            }
            Stage::Open if self.is_busy() => Use::Works,
            Stage::Open => Use::Idle(self.since),
            _ => Use::Nothing,
        }
    }

    /// Whether bytes come in that nobody wants.
    fn is_dropping(&self) -> bool {
        let wanted = self.body.as_ref().map(|body| body.id);
        self.landing.as_ref().is_some_and(|landing| Some(landing.id) != wanted)
    }

    /// Whether it holds a guard on this buffer.
    pub(crate) fn holds(&self, buffer: BufferId) -> bool {
        self.guards().any(|(_, guard)| guard.buffer().id() == buffer)
    }

    /// When [`Inbound::handle_timeout`] should be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let patience = match self.stage {
            Stage::Hello { .. } => self.service.header_timeout,
            Stage::Over => return None,
            Stage::Open if !self.is_busy() => {
                return self.out.is_roomy().then(|| self.since + HELD_FOR);
            }
            _ if !self.is_busy() || sabotage::is_off("progress-deadline") => return None,
            _ => self.service.progress_timeout,
        };
        let untils = self.works.iter().filter_map(|work| work.until);
        untils.chain([self.since + patience]).min()
    }

    /// Ends what has taken too long.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.expire(now);
        if !self.is_busy() && now >= self.since + HELD_FOR {
            self.out.give_room_back();
        }
        let patience = match self.stage {
            Stage::Hello { .. } => self.service.header_timeout,
            _ => self.service.progress_timeout,
        };
        let waits = self.is_busy() || matches!(self.stage, Stage::Hello { .. });
        if waits && now >= self.since + patience && !sabotage::is_off("progress-deadline") {
            self.service.counters.inbound_timeouts.one();
            self.end();
        }
    }

    /// Ends the requests that hold a guard on this buffer.
    pub(crate) fn revoke(&mut self, buffer: BufferId) {
        self.out.release(buffer);
        let holders = self.guards().filter(|(_, guard)| guard.buffer().id() == buffer);
        let ids: Vec<u64> = holders.map(|(id, _)| id).collect();
        for id in ids {
            self.take_back(id);
        }
    }

    /// Ends everything and says so to the peer, as far as the socket takes it.
    pub(crate) fn say_goodbye(&mut self, closing: &Answer) {
        let goodbye = match self.stage {
            Stage::Hello { .. } | Stage::Greeted => {
                self.out.put_bytes(&closing.encode());
                false
            }
            Stage::Open => {
                self.drop_work();
                true
            }
            Stage::Farewell { .. } | Stage::Over => return,
        };
        self.stage = Stage::Farewell { goodbye };
    }

    /// What goes out last.
    fn part(&mut self) {
        match self.stage {
            Stage::Farewell { goodbye: true } if self.out.has_room() => {
                self.out.put(&Frame::Goodbye);
                self.stage = Stage::Farewell { goodbye: false };
            }
            Stage::Farewell { goodbye: false } if self.out.is_empty() => self.stage = Stage::Over,
            _ => {}
        }
    }

    fn guards(&self) -> impl Iterator<Item = (u64, &BufferGuard)> {
        let reads = self.works.iter().filter_map(|work| match &work.what {
            What::Read { guard, .. } => Some((work.id, guard)),
            _ => None,
        });
        reads.chain(self.body.iter().map(|body| (body.id, &body.guard))).chain(self.out.guards())
    }

    fn is_busy(&self) -> bool {
        let waiting = !self.works.is_empty() || !self.cancelled.is_empty();
        waiting || self.landing.is_some() || self.intake.is_within() || !self.out.is_empty()
    }

    fn drop_work(&mut self) {
        self.out.let_go_of_all();
        self.works.clear();
        self.cancelled.clear();
        self.body = None;
    }

    fn end(&mut self) {
        self.drop_work();
        self.stage = Stage::Over;
    }

    fn violated(&mut self, violation: Violation) {
        tracing::debug!(what = violation.0, "closing a connection that broke the protocol");
        self.service.counters.violations.one();
        self.end();
    }

    fn on_hello(&mut self, new: &[u8]) {
        let Stage::Hello { bytes, filled } = &mut self.stage else { return };
        let end = *filled + new.len();
        bytes[*filled..end].copy_from_slice(new);
        *filled = end;
        if end < HELLO_BYTES {
            return;
        }
        match Hello::decode(*bytes) {
            Ok(hello) => {
                self.hello = Some(hello);
                self.unanswered = true;
                self.stage = Stage::Greeted;
            }
            Err(malformed) => self.violated(Violation(malformed.0)),
        }
    }

    /// Puts out what is ready.
    fn fill(&mut self) {
        while self.out.has_room()
            && let Some((id, status)) = self.cancelled.pop_front()
        {
            self.out.put(&Frame::Status(id, status));
        }
        while self.out.has_room() && (self.put_fronts() | self.put_data()) {}
    }

    /// Puts out the statuses of the requests in front that have one; whether it did anything.
    fn put_fronts(&mut self) -> bool {
        let mut puts = false;
        while self.out.has_room() && self.put_front() {
            puts = true;
        }
        puts
    }

    /// Puts out data of reads, so much that the ends of several go out in one frame, and the first of
    /// them before the last data; whether it did anything.
    fn put_data(&mut self) -> bool {
        let (before, mut puts) = (self.out.staged(), false);
        while self.out.has_room() && self.out.staged() - before < TOGETHER && self.put_next_data() {
            puts = true;
        }
        puts
    }

    /// Puts out the status of the request in front, where it has one; whether it did anything.
    fn put_front(&mut self) -> bool {
        let Some(Work { id, what, .. }) = self.works.front() else { return false };
        let id = *id;
        match what {
            What::Write => return false,
            What::Ended(status) => {
                match status {
                    Status { code: Code::Done, sum: None, .. } if self.groups => {
                        self.out.put_done(id);
                    }
                    status => self.out.put(&Frame::Status(id, *status)),
                }
                self.works.pop_front();
            }
            What::Read { guard, done, sum } => {
                // Memory of a caller may still turn out to be gone while its bytes go out.
                if *done < guard.range().len() || self.out.is_direct(id) {
                    return false;
                }
                let status = done_reading(*done, sum.as_deref());
                self.served();
                self.end_work(id, status);
            }
        }
        true
    }

    /// Puts out the next data of the first read that has some; whether it did anything.
    fn put_next_data(&mut self) -> bool {
        let reads = self.works.iter().take_while(|work| !matches!(work.what, What::Write));
        let mut open = reads.enumerate().filter_map(|(at, work)| match &work.what {
            What::Read { guard, done, .. } => {
                (*done < guard.range().len()).then(|| (at, work.id, guard.is_revoked()))
            }
            _ => None,
        });
        let Some((at, id, revoked)) = open.next() else { return false };
        drop(open);
        if revoked {
            self.take_back(id);
        } else {
            self.fill_from_memory(at);
        }
        true
    }

    fn fill_from_memory(&mut self, at: usize) {
        let Work { id, what: What::Read { guard, done, sum }, .. } = &mut self.works[at] else {
            return;
        };
        let id = *id;
        let piece = Piece { id, range: guard.range(), offset: *done };
        match self.out.put_data(&piece, sum.as_deref_mut()) {
            Ok(n) => {
                *done += n;
                self.service.counters.bytes_out.add(n);
                self.end_lasting(at);
            }
            Err(error) => self.on_memory_fault(id, errno_of(&error)),
        }
    }

    /// Where all data of a small read is put out and its memory cannot vanish, it is as good as read:
    /// its guard goes with the data.
    fn end_lasting(&mut self, at: usize) {
        let work = &mut self.works[at];
        let What::Read { guard, done, sum } = &work.what else { return };
        let len = guard.range().len();
        if *done < len || len > PROMISED || !guard.range().region().is_engine_memory() {
            return;
        }
        let ended = What::Ended(done_reading(*done, sum.as_deref()));
        if let What::Read { guard, .. } = std::mem::replace(&mut work.what, ended) {
            self.out.hold(work.id, guard);
        }
        self.served();
    }

    fn served(&mut self) {
        self.proven = true;
        self.service.counters.served.one();
        self.service.counters.served_v3.one();
    }
}

/// How a read ends of which all bytes are put out.
fn done_reading(moved: u64, sum: Option<&Sum>) -> Status {
    Status { sum: sum.map(Sum::value), ..Status::plain(Code::Done, moved) }
}

/// The system's number of a copy that failed.
fn errno_of(error: &te_segment::CopyError) -> i32 {
    match error {
        te_segment::CopyError::Fault { cause, .. } => cause.raw_os_error().unwrap_or(libc::EFAULT),
        _ => libc::EFAULT,
    }
}

impl Machine for Inbound {
    fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        match self.stage {
            Stage::Open => {
                self.end_revoked_direct();
                self.fill();
            }
            Stage::Farewell { .. } => self.part(),
            _ => return None,
        }
        self.out.outgoing(self.service.chunk)
    }

    fn incoming(&mut self) -> Option<Incoming<'_>> {
        match &self.stage {
            Stage::Hello { filled, .. } => return Some(Incoming::Frame(HELLO_BYTES - filled)),
            Stage::Open => {}
            _ => return None,
        }
        self.end_revoked_body();
        let left = self.landing.as_ref().map_or(0, |landing| landing.left);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        Some(match (&self.landing, &self.body) {
            (Some(landing), _) if landing.left <= SMALL && self.large => {
                Incoming::Frame(left + HEADS)
            }
            (Some(landing), _) if landing.left <= SMALL => Incoming::Frame(MAX_FRAME),
            (Some(landing), Some(body)) if body.id == landing.id => {
                let part = Part::new(body.guard.range(), body.done, left.min(self.service.chunk));
                let more = if part.len() == left { HEADS } else { 0 };
                Incoming::Payload { part, more }
            }
            (Some(_), _) => Incoming::Discard(left),
            // What follows is a head and then payload that belongs straight into memory.
            (None, Some(body)) if body.guard.range().len() - body.done > SMALL => {
                Incoming::Frame(self.intake.missing())
            }
            (None, _) if self.large => Incoming::Frame(HEADS),
            (None, _) => Incoming::Frame(MAX_FRAME),
        })
    }

    fn on_sent(&mut self, now: Instant, n: usize) {
        self.since = now;
        self.out.on_sent(n);
        self.part();
    }

    fn on_frame(&mut self, now: Instant, bytes: &[u8]) {
        if matches!(self.stage, Stage::Hello { .. }) {
            return self.on_hello(bytes);
        }
        if !self.is_busy() {
            self.since = now;
        }
        let mut rest = bytes;
        while !rest.is_empty() && matches!(self.stage, Stage::Open) {
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
        self.end();
    }

    fn on_error(&mut self, _now: Instant, side: Side, error: io::Error) {
        let is_fault = error.raw_os_error() == Some(libc::EFAULT);
        match (side, &self.landing) {
            (Side::Receive, Some(landing)) if is_fault => {
                let id = landing.id;
                self.on_memory_fault(id, libc::EFAULT);
            }
            (Side::Send, _) if is_fault && !self.out.is_empty() => {
                if let Some(id) = self.out.find_fault() {
                    self.on_memory_fault(id, libc::EFAULT);
                }
            }
            _ => self.end(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

/// How long until an initiator gives up, from the number in its request.
fn until(now: Instant, patience: u32) -> Option<Instant> {
    (patience > 0).then(|| now + Duration::from_millis(u64::from(patience)))
}

#[cfg(test)]
mod tests;
