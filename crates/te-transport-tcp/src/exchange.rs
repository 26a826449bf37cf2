//! The initiator's end of one request on one connection, without the socket.
//!
//! ```text
//!   WRITE v2   header, payload ──▶                      status read all the while
//!   READ  v2   header ──▶  status ◀──  payload ◀──
//!   READ  v1   header ──▶  payload ◀──
//!   WRITE v1   header, payload, READ of the last byte ──▶  that byte ◀──
//!   checked    … and then a READ of the same range, whose bytes are compared
//! ```
//!
//! A v1 peer confirms no write. It serves one request after the other, so an answer to a read that
//! follows a write on the same connection proves that the write was stored.
//!
//! I1  An ending is given once. Once it is there, nothing reads or writes the local range.
//! I2  A connection is kept only where the whole request went out and the whole answer came (F15);
//!     after a refusal only where the peer is one of ours.
//! I3  A confirmation that overtakes the payload counts only when the payload is out (F12).

mod check;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use te_metadata::sabotage;
use te_segment::Opcode;
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};

use crate::frame::{HEADER_BYTES, Header, NoStatus, STATUS_BYTES, Status, Version};
use crate::io::{Acked, Outgoing, Part};
use crate::pool::Job;
use crate::progress::Progress;
use crate::pump::{Incoming, Machine, Side};

use check::Check;

/// Bounds that every exchange has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes per socket call.
    pub(crate) chunk: usize,
    pub(crate) status_timeout: Duration,
    pub(crate) progress_timeout: Duration,
}

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It takes the next request.
    Keep,
    /// It is closed; what was sent still goes out.
    Close,
    /// It is reset, so that nothing that waits in the kernel goes out any more.
    Reset,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) result: Result<(), SliceFault>,
    pub(crate) remote: RemoteSide,
    /// How the connection went away under it, where it did: a fresh one may do better.
    pub(crate) lost: Option<Loss>,
}

/// How a connection goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer ended its side. Its kernel acknowledged, with that, all it had until then.
    Ended,
    /// A reset or another error. What the peer took is unknown: a kernel that resets may have
    /// handed over bytes that it had not acknowledged yet.
    Broken,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    job: Job,
    address: SocketAddr,
    bounds: Bounds,
    header: [u8; HEADER_BYTES],
    /// The read that confirms a v1 write.
    proof: [u8; HEADER_BYTES],
    sent: u64,
    total: u64,
    status: [u8; STATUS_BYTES],
    status_filled: usize,
    confirmed: bool,
    received: u64,
    progress: Progress,
    send_error: Option<io::Error>,
    ending: Option<Ending>,
    ended: bool,
    fate: Option<Fate>,
    check: Check,
}

impl Exchange {
    pub(crate) fn new(now: Instant, job: Job, address: SocketAddr, bounds: Bounds) -> Self {
        let (op, remote) = (job.slice.op, job.slice.remote);
        let (size, at) = (remote.len(), remote.address());
        let version = job.version;
        let header = Header { version, op, address: at, size };
        let last = at.wrapping_add(size).wrapping_sub(1);
        let proof = Header { version: Version::V1, op: Opcode::Read, address: last, size: 1 };
        let body = if op == Opcode::Write { size } else { 0 };
        let mut new = Self {
            job,
            address,
            bounds,
            header: header.encode(),
            proof: proof.encode(),
            sent: 0,
            total: HEADER_BYTES as u64 + body,
            status: [0; STATUS_BYTES],
            status_filled: 0,
            confirmed: false,
            received: 0,
            progress: Progress::new(now),
            send_error: None,
            ending: None,
            ended: false,
            fate: None,
            check: Check::None,
        };
        if new.job.slice.checked && !new.job.slice.is_empty() {
            new.check = Check::Wanted;
        }
        if new.needs_proof() {
            new.total += HEADER_BYTES as u64;
        }
        new
    }

    /// The request.
    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Gives the request back.
    pub(crate) fn into_job(self) -> Job {
        self.job
    }

    /// Bytes that were given to the kernel.
    pub(crate) fn sent(&self) -> u64 {
        self.sent_before_check() + self.sent
    }

    /// Payload bytes received and sent.
    pub(crate) fn payload_moved(&self) -> (u64, u64) {
        if let Check::Running { moved, .. } = &self.check {
            return *moved;
        }
        let body = if self.is_write() { self.job.slice.len() } else { 0 };
        (self.received, self.sent.saturating_sub(HEADER_BYTES as u64).min(body))
    }

    /// The ending, once.
    pub(crate) fn take_ending(&mut self) -> Option<Ending> {
        self.ending.take()
    }

    /// What becomes of the connection; `None` while the exchange goes on.
    pub(crate) fn fate(&self) -> Option<Fate> {
        self.fate
    }

    /// When [`Exchange::handle_timeout`] should be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.fate.is_some() || sabotage::is_off("progress-deadline") {
            return None;
        }
        Some(self.progress.deadline(self.patience()))
    }

    fn patience(&self) -> Duration {
        let Bounds { status_timeout, progress_timeout, .. } = self.bounds;
        let waits = self.sent == self.total && !self.confirmed && self.received == 0;
        if waits { status_timeout.min(progress_timeout) } else { progress_timeout }
    }

    /// Ends the exchange where its deadline has passed and the peer's kernel took nothing more
    /// either; `acked` is how much of this request it has, where that is known.
    pub(crate) fn handle_timeout(&mut self, now: Instant, acked: Option<Acked>) {
        self.progress.look(now, acked);
        if self.deadline().is_none() || !self.progress.is_over(now, self.patience()) {
            return;
        }
        let millis = now.duration_since(self.progress.since()).as_millis();
        let cause = format!("nothing moved for {millis} ms");
        // Not the path's fault: a peer that stands still does so on every connection, and another
        // try would take as long again.
        self.fail(self.fault(FaultClass::Peer, cause), Fate::Reset);
    }

    /// Ends the exchange for a reason of this side.
    pub(crate) fn abort(&mut self, class: FaultClass, cause: &str) {
        self.fail(self.fault(class, cause), Fate::Reset);
    }

    fn is_write(&self) -> bool {
        self.job.slice.op == Opcode::Write && !self.is_checking()
    }

    fn needs_proof(&self) -> bool {
        self.is_write() && self.job.version == Version::V1 && !self.job.slice.is_empty()
    }

    fn phase(&self) -> Phase {
        if self.is_checking() {
            Phase::Status
        } else if self.sent < HEADER_BYTES as u64 {
            Phase::Request
        } else if self.sent < self.total || self.received > 0 || self.confirmed {
            Phase::Payload
        } else {
            Phase::Status
        }
    }

    /// What is known of the peer's memory while no answer came.
    fn remote(&self) -> RemoteSide {
        match (self.sent, self.is_write()) {
            _ if self.is_checking() => RemoteSide::Settled,
            (0, _) => self.job.remote_so_far(),
            (_, false) => RemoteSide::Settled,
            (_, true) => RemoteSide::InDoubt,
        }
    }

    fn fault(&self, class: FaultClass, cause: impl Into<Box<str>>) -> SliceFault {
        SliceFault::new(class, self.phase(), cause).at(self.address)
    }

    fn end(&mut self, ending: Ending, fate: Fate) {
        if !std::mem::replace(&mut self.ended, true) {
            self.ending = Some(ending);
        }
        self.fate.get_or_insert(fate);
    }

    fn fail(&mut self, fault: SliceFault, fate: Fate) {
        let remote = self.remote();
        self.end(Ending { result: Err(fault), remote, lost: None }, fate);
    }

    fn lose(&mut self, cause: &str, error: Option<&io::Error>) {
        let mut fault = self.fault(FaultClass::Rail, cause);
        let mut loss = Loss::Ended;
        if let Some(error) = self.send_error.as_ref().or(error) {
            fault = fault.with_os_error(error);
            // The error of a reset that follows the peer's end of stream.
            if error.raw_os_error() != Some(libc::EPIPE) {
                loss = Loss::Broken;
            }
        }
        let remote = self.remote();
        self.end(Ending { result: Err(fault), remote, lost: Some(loss) }, Fate::Reset);
    }

    fn succeed(&mut self, fate: Fate) {
        if fate == Fate::Keep && matches!(self.check, Check::Wanted) {
            return self.begin_check();
        }
        self.end(Ending { result: Ok(()), remote: RemoteSide::Settled, lost: None }, fate);
    }

    fn on_status(&mut self, now: Instant) {
        match Status::decode(self.status) {
            Ok(Status::Ok) => {
                self.confirmed = true;
                self.progress.moved(now);
                if self.send_error.is_some() {
                    return self.lose("the connection broke", None);
                }
                let whole =
                    if self.is_write() { self.sent == self.total } else { self.is_filled() };
                if whole {
                    self.succeed(Fate::Keep);
                }
            }
            Ok(Status::Refused(code)) => self.refused(code),
            Err(NoStatus) => {
                let cause = "the peer published protocol version 2 and answered without a status";
                self.fail(self.fault(FaultClass::Protocol, cause), Fate::Reset);
            }
        }
    }

    fn refused(&mut self, code: u32) {
        let cause = match code {
            1 => {
                "the peer refused: the range is not registered there, or not with this right".into()
            }
            other => format!("the peer refused with code {other}"),
        };
        let fault = self.fault(FaultClass::Refused, cause);
        let ending = Ending { result: Err(fault), remote: RemoteSide::Settled, lost: None };
        if self.sent == self.total {
            // A Mooncake peer closes after a refusal, and would take the next request with it.
            let keeps = self.job.slice.peer.descriptor().te.is_some();
            self.end(ending, if keeps { Fate::Keep } else { Fate::Close });
        } else if sabotage::is_off("drain-before-fail") {
            self.ended = true;
            self.ending = Some(ending);
            self.confirmed = true;
        } else {
            self.end(ending, Fate::Reset);
        }
    }

    fn is_filled(&self) -> bool {
        self.received == self.job.slice.len()
    }
}

impl Machine for Exchange {
    fn outgoing(&mut self) -> Option<Outgoing<'_>> {
        if self.fate.is_some() || self.send_error.is_some() || self.sent == self.total {
            return None;
        }
        let head_bytes = HEADER_BYTES as u64;
        let body_end = head_bytes + if self.is_write() { self.job.slice.len() } else { 0 };
        let head = match usize::try_from(self.sent) {
            Ok(n) if n < HEADER_BYTES => &self.header[n..],
            _ => &[],
        };
        let payload = (body_end > head_bytes && self.sent < body_end).then(|| {
            let from = self.sent.saturating_sub(head_bytes);
            Part::new(&self.job.slice.local, from, self.bounds.chunk)
        });
        let tail = match self.total - self.sent.max(body_end) {
            0 => &[][..],
            _ if payload.is_some_and(|p| !p.is_last()) => &[],
            left => &self.proof[HEADER_BYTES - usize::try_from(left).unwrap_or(HEADER_BYTES)..],
        };
        let mut out = Outgoing::new();
        out.bytes(head);
        payload.into_iter().for_each(|part| out.memory(part));
        out.bytes(tail);
        Some(out)
    }

    fn incoming(&mut self) -> Option<Incoming<'_>> {
        if self.fate.is_some() {
            return None;
        }
        match (self.job.version, self.is_write()) {
            (Version::V2, _) if !self.confirmed => {
                Some(Incoming::Frame(STATUS_BYTES - self.status_filled))
            }
            (Version::V2, true) => None,
            (Version::V1, true) => Some(Incoming::Frame(1)),
            (_, false) if self.is_checking() => Some(Incoming::Frame(self.left_to_check())),
            (_, false) => {
                let part = Part::new(&self.job.slice.local, self.received, self.bounds.chunk);
                Some(Incoming::Payload { part, more: 0 })
            }
        }
    }

    fn on_sent(&mut self, now: Instant, n: usize) {
        self.sent += n as u64;
        self.progress.moved(now);
        if self.sent < self.total || !self.is_write() {
            return;
        }
        if self.confirmed {
            self.succeed(Fate::Keep);
        } else if sabotage::is_off("early-completed") {
            self.succeed(Fate::Close);
        }
    }

    fn on_frame(&mut self, now: Instant, bytes: &[u8]) {
        if self.is_checking() && (self.confirmed || self.job.version == Version::V1) {
            return self.on_check_bytes(now, bytes);
        }
        if self.job.version == Version::V1 {
            return match self.sent == self.total {
                true => self.succeed(Fate::Keep),
                false => {
                    let cause = "the peer answered before it had the request";
                    self.fail(self.fault(FaultClass::Protocol, cause), Fate::Reset);
                }
            };
        }
        let end = self.status_filled + bytes.len();
        self.status[self.status_filled..end].copy_from_slice(bytes);
        self.status_filled = end;
        if end == STATUS_BYTES {
            self.on_status(now);
        }
    }

    fn on_received(&mut self, now: Instant, n: usize) {
        self.received += n as u64;
        self.progress.moved(now);
        if self.is_filled() {
            self.succeed(Fate::Keep);
        }
    }

    fn on_end(&mut self, _now: Instant) {
        let cause = match (self.job.version, self.is_write()) {
            (Version::V2, _) => "the peer closed the connection",
            (Version::V1, _) => "the peer closed the connection, which may be a refusal",
        };
        self.lose(cause, None);
    }

    fn on_error(&mut self, _now: Instant, side: Side, error: io::Error) {
        if error.raw_os_error() == Some(libc::EFAULT) {
            let cause = "local memory is not mapped";
            let fault = self.fault(FaultClass::Local, cause).with_os_error(&error);
            let fate = if self.sent == 0 { Fate::Keep } else { Fate::Reset };
            return self.fail(fault, fate);
        }
        match side {
            Side::Send if self.confirmed => self.lose("the connection broke", Some(&error)),
            Side::Send => self.send_error = Some(error),
            Side::Receive if self.job.version == Version::V1 => {
                self.lose("the connection broke, which may be a refusal", Some(&error));
            }
            Side::Receive => self.lose("the connection broke", Some(&error)),
        }
    }

    fn is_over(&self) -> bool {
        self.fate.is_some()
    }
}

#[cfg(test)]
mod tests;
