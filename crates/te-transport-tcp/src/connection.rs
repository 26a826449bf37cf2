//! The target's end of one connection, without the socket.
//!
//! ```text
//!            24 bytes, range open                 last byte stored
//!   Header ──────────────┬─ WRITE ─▶ Body ────────────────────────▶ Answer (v2) ──▶ Header
//!     ▲ │                └─ READ ──▶ Payload ── last byte sent ──▶ Header
//!     │ └─ range refused ─▶ Answer ─┬─ small body ▶ Drain ─▶ Header
//!     │       v1: Over              └─ large body ▶ Linger ── end of stream, or time ──▶ Over
//!     └── a v2 READ that was refused
//! ```
//!
//! I1  No byte moves to or from memory before the segment gave a guard for the whole range.
//! I2  A guard that is revoked ends the connection before the next byte moves.
//! I3  The v2 status of a WRITE leaves only after its last byte is in memory.
//! I4  Each state but an idle `Header` has a deadline. That of bytes nobody wants is not moved by
//!     them.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{Incarnation, sabotage};
use te_segment::{Access, BufferGuard, BufferId, LocalSegment, Opcode};

use crate::frame::{HEADER_BYTES, Header, STATUS_BYTES, Status, UnknownOpcode, Version};
use crate::io::{Outgoing, Part};
use crate::pump::{Incoming, Machine, Side};
use crate::stats::Counters;
use crate::v3::is_hello;

/// The body of a refused write is read to its end where it is at most this long, so that the
/// connection can go on; 1 MiB costs less than a new connection and its slow start.
const DRAIN_LIMIT: u64 = 1 << 20;
/// How long a connection that has answered with a refusal takes bytes nobody wants, however they
/// drip, so that no reset overtakes the status.
const LINGER: Duration = Duration::from_secs(2);
const DISCARD_CHUNK: usize = 1 << 20;

/// What a connection is good for at this moment: which one makes room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A request is being served.
    Works,
    /// It served requests, and waits for another one since then.
    Idle(Instant),
    /// It never served one, or takes bytes that nobody wants.
    Nothing,
}

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) segment: Arc<LocalSegment>,
    pub(crate) counters: Arc<Counters>,
    /// Bytes per socket call.
    pub(crate) chunk: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) progress_timeout: Duration,
    /// Which run of this process it is.
    pub(crate) incarnation: Incarnation,
    /// Requests that a peer may have in flight in version 3; 0 where that is not spoken.
    pub(crate) credit: u32,
}

#[derive(Debug)]
enum State {
    Header {
        bytes: [u8; HEADER_BYTES],
        filled: usize,
    },
    Body {
        guard: BufferGuard,
        done: u64,
        version: Version,
    },
    Payload {
        guard: BufferGuard,
        done: u64,
        status: Frame,
    },
    Answer {
        status: Frame,
        then: Then,
    },
    Drain {
        left: u64,
    },
    Linger,
    /// The first bytes of a hello came: another machine goes on.
    Hello([u8; HEADER_BYTES]),
    Over,
}

#[derive(Debug, Clone, Copy)]
enum Then {
    Header,
    Drain(u64),
    Linger,
}

/// A status frame on its way out; empty for v1.
#[derive(Debug)]
struct Frame {
    bytes: [u8; STATUS_BYTES],
    sent: usize,
}

impl Frame {
    fn new(status: Status) -> Self {
        Self { bytes: status.encode(), sent: 0 }
    }

    fn none() -> Self {
        Self { bytes: [0; STATUS_BYTES], sent: STATUS_BYTES }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Takes its share of `n` sent bytes and gives what is left of `n`.
    fn advance(&mut self, n: usize) -> usize {
        let mine = n.min(STATUS_BYTES - self.sent);
        self.sent += mine;
        n - mine
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    service: Arc<Service>,
    state: State,
    /// When the state began or last made progress.
    since: Instant,
    half_close: bool,
    /// Whether no header came so far.
    first: bool,
    /// Whether a request was served whole.
    proven: bool,
}

impl Connection {
    pub(crate) fn new(now: Instant, service: Arc<Service>) -> Self {
        Self {
            service,
            state: State::header(),
            since: now,
            half_close: false,
            first: true,
            proven: false,
        }
    }

    /// What it shares with the others.
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// What it is good for.
    pub(crate) fn use_of_it(&self) -> Use {
        match self.state {
            State::Header { filled: 0, .. } if self.proven => Use::Idle(self.since),
            State::Header { .. } | State::Answer { .. } if self.proven => Use::Works,
            State::Body { .. } | State::Payload { .. } => Use::Works,
            State::Header { .. } | State::Answer { .. } | State::Drain { .. } => Use::Nothing,
            State::Linger | State::Hello(_) | State::Over => Use::Nothing,
        }
    }

    /// Whether it holds a guard on this buffer.
    pub(crate) fn holds(&self, buffer: BufferId) -> bool {
        match &self.state {
            State::Body { guard, .. } | State::Payload { guard, .. } => {
                guard.buffer().id() == buffer
            }
            _ => false,
        }
    }

    /// Whether this side's half of the connection should be shut down; true once.
    pub(crate) fn take_half_close(&mut self) -> bool {
        std::mem::take(&mut self.half_close)
    }

    /// When [`Connection::handle_timeout`] should be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let patience = match &self.state {
            State::Header { filled: 0, .. } | State::Hello(_) | State::Over => return None,
            State::Header { .. } => self.service.header_timeout,
            State::Linger | State::Drain { .. } => LINGER,
            _ if sabotage::is_off("progress-deadline") => return None,
            _ => self.service.progress_timeout,
        };
        Some(self.since + patience)
    }

    /// Ends the connection where its deadline has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|at| at <= now) {
            if !matches!(self.state, State::Linger) {
                self.service.counters.inbound_timeouts.one();
            }
            self.state = State::Over;
        }
    }

    /// Ends the connection where it holds a guard on this buffer.
    pub(crate) fn revoke(&mut self, buffer: BufferId) {
        if self.holds(buffer) {
            self.service.counters.revoked.one();
            self.state = State::Over;
        }
    }

    fn end_if_revoked(&mut self) {
        let (State::Body { guard, .. } | State::Payload { guard, .. }) = &self.state else {
            return;
        };
        if guard.is_revoked() {
            self.service.counters.revoked.one();
            self.state = State::Over;
        }
    }

    fn enter(&mut self, now: Instant, state: State) {
        self.since = now;
        self.state = state;
    }

    /// The first bytes of a hello, once.
    pub(crate) fn take_hello(&mut self) -> Option<[u8; HEADER_BYTES]> {
        let State::Hello(bytes) = self.state else { return None };
        self.state = State::Over;
        Some(bytes)
    }

    fn begin(&mut self, now: Instant, bytes: [u8; HEADER_BYTES]) {
        let first = std::mem::take(&mut self.first);
        if is_hello(&bytes) {
            return self.greeted(now, bytes, first);
        }
        let header = match Header::decode(bytes) {
            Ok(header) => header,
            Err(UnknownOpcode(opcode)) => {
                tracing::debug!(opcode, "closing a connection with an unknown opcode");
                self.service.counters.bad_opcodes.one();
                return self.enter(now, State::Over);
            }
        };
        let state = match (self.admit(&header), header.op) {
            (None, op) => {
                let body = if op == Opcode::Write { header.size } else { 0 };
                return self.refuse(now, header.version, body);
            }
            (Some(guard), Opcode::Write) => State::Body { guard, done: 0, version: header.version },
            (Some(guard), Opcode::Read) => {
                let v2 = header.version == Version::V2;
                let status = if v2 { Frame::new(Status::Ok) } else { Frame::none() };
                State::Payload { guard, done: 0, status }
            }
        };
        self.enter(now, state);
    }

    /// Where version 3 is not spoken a hello is answered as any server of version 2 does.
    fn greeted(&mut self, now: Instant, bytes: [u8; HEADER_BYTES], first: bool) {
        let state = if first && self.service.credit > 0 {
            State::Hello(bytes)
        } else {
            State::Answer { status: Frame::new(Status::REFUSED), then: Then::Linger }
        };
        self.enter(now, state);
    }

    fn admit(&self, header: &Header) -> Option<BufferGuard> {
        if sabotage::is_off("range-check") {
            return self.admit_anything(header.size);
        }
        let access = match header.op {
            Opcode::Read => Access::Read,
            Opcode::Write => Access::Write,
        };
        match self.service.segment.acquire(header.address, header.size, access) {
            Ok(guard) => Some(guard),
            Err(error) => {
                tracing::debug!(%error, "refusing a request");
                None
            }
        }
    }

    /// What a server without a range check would be like, kept inside registered memory.
    fn admit_anything(&self, size: u64) -> Option<BufferGuard> {
        let (_, buffers) = self.service.segment.snapshot();
        buffers.iter().find_map(|b| b.hold(b.region().range(0, size).ok()?).ok())
    }

    /// Answers with a refusal; `body` bytes of the request are still to come.
    fn refuse(&mut self, now: Instant, version: Version, body: u64) {
        self.service.counters.refusals.one();
        let state = match version {
            Version::V1 => State::Over,
            Version::V2 => {
                let then = match body {
                    0 => Then::Header,
                    small if small <= DRAIN_LIMIT => Then::Drain(small),
                    _ => Then::Linger,
                };
                State::Answer { status: Frame::new(Status::REFUSED), then }
            }
        };
        self.enter(now, state);
    }

    fn answered(&mut self, now: Instant, then: Then) {
        match then {
            Then::Header => self.enter(now, State::header()),
            Then::Drain(left) => self.enter(now, State::Drain { left }),
            Then::Linger => {
                self.half_close = true;
                self.enter(now, State::Linger);
            }
        }
    }

    fn served(&mut self) {
        self.proven = true;
        self.service.counters.served.one();
    }

    fn stored(&mut self, now: Instant, version: Version) {
        self.served();
        match version {
            Version::V1 => self.enter(now, State::header()),
            Version::V2 => {
                let status = Frame::new(Status::Ok);
                self.enter(now, State::Answer { status, then: Then::Header });
            }
        }
    }
}

impl State {
    fn header() -> Self {
        Self::Header { bytes: [0; HEADER_BYTES], filled: 0 }
    }
}

impl Machine for Connection {
    fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        self.end_if_revoked();
        match &self.state {
            State::Answer { status, .. } => {
                let mut out = Outgoing::new();
                out.bytes(status.rest());
                Some(out)
            }
            State::Payload { guard, done, status } => {
                let mut out = Outgoing::new();
                out.bytes(status.rest());
                out.memory(Part::new(guard.range(), *done, self.service.chunk));
                Some(out)
            }
            _ => None,
        }
    }

    fn incoming(&mut self) -> Option<Incoming<'_>> {
        self.end_if_revoked();
        match &self.state {
            State::Header { filled, .. } => Some(Incoming::Frame(HEADER_BYTES - filled)),
            State::Body { guard, done, .. } => Some(Incoming::Payload {
                part: Part::new(guard.range(), *done, self.service.chunk),
                more: 0,
            }),
            State::Drain { left } => {
                Some(Incoming::Discard(usize::try_from(*left).unwrap_or(DISCARD_CHUNK)))
            }
            State::Linger => Some(Incoming::Discard(DISCARD_CHUNK)),
            State::Payload { .. } | State::Answer { .. } | State::Hello(_) | State::Over => None,
        }
    }

    fn on_sent(&mut self, now: Instant, n: usize) {
        match &mut self.state {
            State::Answer { status, then } => {
                status.advance(n);
                if status.rest().is_empty() {
                    let then = *then;
                    self.answered(now, then);
                }
            }
            State::Payload { guard, done, status } => {
                let payload = status.advance(n) as u64;
                *done += payload;
                self.since = now;
                self.service.counters.bytes_out.add(payload);
                if *done == guard.range().len() {
                    self.served();
                    self.enter(now, State::header());
                }
            }
            _ => {}
        }
    }

    fn on_frame(&mut self, now: Instant, new: &[u8]) {
        let State::Header { bytes, filled } = &mut self.state else { return };
        if *filled == 0 {
            self.since = now;
        }
        let end = *filled + new.len();
        bytes[*filled..end].copy_from_slice(new);
        *filled = end;
        if end == HEADER_BYTES {
            let bytes = *bytes;
            self.begin(now, bytes);
        }
    }

    fn on_received(&mut self, now: Instant, n: usize) {
        match &mut self.state {
            State::Body { guard, done, version } => {
                *done += n as u64;
                self.since = now;
                self.service.counters.bytes_in.add(n as u64);
                if *done == guard.range().len() {
                    let version = *version;
                    self.stored(now, version);
                }
            }
            State::Drain { left } => {
                *left = left.saturating_sub(n as u64);
                if *left == 0 {
                    self.enter(now, State::header());
                }
            }
            _ => {}
        }
    }

    fn on_end(&mut self, now: Instant) {
        self.enter(now, State::Over);
    }

    fn on_error(&mut self, now: Instant, side: Side, error: io::Error) {
        let fault = error.raw_os_error() == Some(libc::EFAULT);
        match (&self.state, side) {
            (State::Body { guard, done, version }, Side::Receive) if fault => {
                let (version, left) = (*version, guard.range().len() - done);
                self.refuse(now, version, left);
            }
            (State::Payload { status, .. }, Side::Send) if fault && status.sent == 0 => {
                self.refuse(now, Version::V2, 0);
            }
            _ => self.enter(now, State::Over),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }
}

#[cfg(test)]
mod tests;
