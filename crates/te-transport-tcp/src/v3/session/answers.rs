//! What a session receives.

use std::time::Instant;

use te_metadata::sabotage;
use te_segment::Opcode;
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};

use super::{Flight, Landing, Life, News, Session};
use crate::frame::{STATUS_BYTES, Status as PlainStatus};
use crate::v3::frame::{Code, Frame, Status, Violation};
use crate::v3::hello::{ANSWER_BYTES, Answer, AnswerCode, FEATURE_CHECKSUM, VERSION};
use crate::v3::outbox::SMALL;

impl Session {
    pub(super) fn on_answer(&mut self, now: Instant, new: &[u8]) {
        let Life::Hello { answer, filled } = &mut self.life else { return };
        let end = *filled + new.len();
        answer[*filled..end].copy_from_slice(new);
        *filled = end;
        let came = &answer[..end];
        if !Answer::may_begin(came) {
            let mut first = [0; STATUS_BYTES];
            if end < STATUS_BYTES {
                return;
            }
            first.copy_from_slice(&came[..STATUS_BYTES]);
            return match PlainStatus::decode(first) {
                Ok(_) => self.refuse(FaultClass::Peer, "the peer does not speak version 3"),
                Err(_) => self.refuse(FaultClass::Protocol, "no answer to the hello"),
            };
        }
        if end == ANSWER_BYTES {
            let whole = *answer;
            match Answer::decode(whole) {
                Ok(answer) => self.on_whole_answer(now, &answer),
                Err(malformed) => self.refuse(FaultClass::Protocol, malformed.0),
            }
        }
    }

    fn on_whole_answer(&mut self, now: Instant, answer: &Answer) {
        let other = answer.target != self.to && !sabotage::is_off("incarnation-check");
        let cause = match answer.code {
            AnswerCode::Ok if !other && answer.credit > 0 => {
                self.life = Life::Open;
                self.progress.moved(now);
                self.checks = answer.features & FEATURE_CHECKSUM != 0;
                let (credit, fenced) = (answer.credit, answer.fenced);
                return self.news.push_back(News::Open { credit, fenced });
            }
            AnswerCode::Ok if !other => {
                return self.refuse(FaultClass::Protocol, "the peer allows no request");
            }
            AnswerCode::Ok | AnswerCode::OtherIncarnation => {
                "another run of the peer's process answers: what was known of it is stale".into()
            }
            AnswerCode::Version => format!("the peer does not speak version {VERSION}"),
            AnswerCode::RequiredFeature => "the peer lacks a feature that is required".into(),
            AnswerCode::Busy => "the peer is busy".into(),
            AnswerCode::Closing => "the peer is closing".into(),
            AnswerCode::Unknown(code) => format!("the peer refused the hello with code {code}"),
        };
        self.refuse(FaultClass::Peer, &cause);
    }

    pub(super) fn on_whole_frame(&mut self, now: Instant, frame: Frame) {
        let done = match frame {
            Frame::Data { id, len, last } => self.on_data(id, u64::from(len), last),
            Frame::Status(id, status) => self.on_status(now, id, &status),
            Frame::Done { last, count } => self.on_done(now, last, count),
            Frame::Credit(0) => Err(Violation("a credit of nothing")),
            Frame::Credit(requests) => {
                self.news.push_back(News::Credit(requests));
                Ok(())
            }
            Frame::Goodbye => {
                self.part();
                Ok(())
            }
            Frame::Request(..) | Frame::Sum { .. } | Frame::Cancel(_) => {
                Err(Violation("a frame that only an initiator sends"))
            }
        };
        if let Err(violation) = done {
            self.violated(violation);
        }
    }

    fn on_data(&mut self, id: u64, len: u64, last: bool) -> Result<(), Violation> {
        let flight = self.flights.get(&id).filter(|_| self.reads.front() == Some(&id));
        let Some(flight) = flight.filter(|flight| self.is_asked(flight)) else {
            return Err(Violation("data for no request"));
        };
        let left = flight.job.slice.len() - flight.received;
        if len > left || last != (len == left) {
            return Err(Violation("data that is not as long as its request"));
        }
        self.large = len > SMALL;
        self.landing = Some(Landing { id, left: len });
        Ok(())
    }

    /// Whether the whole request, without the data behind it, was sent.
    fn is_asked(&self, flight: &Flight) -> bool {
        self.out.sent() >= flight.begins + REQUEST_FRAME
    }

    /// Stores or drops payload that came together with frames.
    pub(super) fn store(&mut self, now: Instant, rest: &mut &[u8]) {
        let Some(landing) = &self.landing else { return };
        let id = landing.id;
        let n = rest.len().min(usize::try_from(landing.left).unwrap_or(usize::MAX));
        let (bytes, later) = rest.split_at(n);
        *rest = later;
        if let Some(flight) = self.landing_flight() {
            let local = &flight.job.slice.local;
            let at = local.offset() + flight.received;
            if let Err(error) = local.region().write_from(at, bytes) {
                self.fail_locally(now, id, &error);
            }
        }
        self.landed(now, n as u64);
    }

    /// `n` bytes of the payload that comes in are in memory, or dropped.
    pub(super) fn landed(&mut self, now: Instant, n: u64) {
        self.progress.moved(now);
        let wanted = self.landing_flight().is_some();
        let Some(landing) = &mut self.landing else { return };
        let id = landing.id;
        landing.left = landing.left.saturating_sub(n);
        if landing.left == 0 {
            self.landing = None;
        }
        let Some(flight) = self.flights.get_mut(&id) else { return };
        let from = flight.received;
        flight.received += n;
        if flight.received == flight.job.slice.len() {
            // The data of the next read may come before this one's status.
            self.reads.pop_front();
        }
        let local = &flight.job.slice.local;
        let sum = flight.sum.as_mut().filter(|_| wanted);
        if let Some(Err(error)) = sum.map(|sum| sum.add_range(local, from, n)) {
            self.fail_locally(now, id, &error);
        }
    }

    fn on_done(&mut self, now: Instant, last: u64, count: u32) -> Result<(), Violation> {
        if count == 0 || u64::from(count) > last || self.flights.len() < count as usize {
            return Err(Violation("more requests done than there are"));
        }
        for id in last - u64::from(count) + 1..=last {
            self.on_status(now, id, &Status::plain(Code::Done, 0))?;
        }
        Ok(())
    }

    fn on_status(&mut self, now: Instant, id: u64, status: &Status) -> Result<(), Violation> {
        let first = self.flights.first_key_value().map(|(id, _)| *id);
        let Some(flight) = self.flights.get(&id) else {
            return Err(Violation("a status for no request"));
        };
        if first != Some(id) && flight.cancelled.is_none() {
            return Err(Violation("a status out of order"));
        }
        if !self.is_asked(flight) {
            return Err(Violation("a status before the request"));
        }
        self.check_status(flight, status)?;
        let Some(flight) = self.remove(id) else { return Ok(()) };
        self.progress.moved(now);
        if !std::mem::replace(&mut self.proven, true) {
            self.news.push_back(News::Proven);
        }
        let result = self.outcome(&flight, status);
        if flight.cancelled.is_some() {
            self.confirmed_cancels += 1;
        }
        let moved = if result.is_ok() { flight.job.slice.len() } else { flight.received };
        if !flight.told {
            self.finish(flight.job, (result, RemoteSide::Settled), moved);
        }
        Ok(())
    }

    /// Whether the peer may say this now.
    fn check_status(&self, flight: &Flight, status: &Status) -> Result<(), Violation> {
        let whole = match flight.job.slice.op {
            Opcode::Write => flight.ends.is_some_and(|end| self.out.sent() >= end),
            Opcode::Read => flight.received == flight.job.slice.len(),
        };
        match status.code {
            Code::Done | Code::Corrupt if !whole => {
                Err(Violation("a status before the last of its data"))
            }
            Code::Done if flight.sum.is_some() && status.sum.is_none() => {
                Err(Violation("a checked read without a sum"))
            }
            Code::Corrupt if !flight.job.slice.checked => {
                Err(Violation("a sum that nobody asked for"))
            }
            Code::Cancelled if flight.cancelled.is_none() => {
                Err(Violation("a cancel that nobody asked for"))
            }
            _ => Ok(()),
        }
    }

    fn outcome(&self, flight: &Flight, status: &Status) -> Result<(), SliceFault> {
        let called_back = |fault: &SliceFault| fault.class == FaultClass::Cancelled;
        match &flight.fault {
            Some(fault) if !called_back(fault) || status.code != Code::Done => {
                return Err(fault.clone());
            }
            _ => {}
        }
        let (class, cause) = match status.code {
            Code::Done => match (&flight.sum, status.sum) {
                (Some(mine), Some(theirs)) if mine.value() != theirs => {
                    if sabotage::is_off("checksum") {
                        return Ok(());
                    }
                    (FaultClass::Corrupt, CORRUPT)
                }
                _ => return Ok(()),
            },
            Code::OutOfRange => (FaultClass::Refused, "the peer refused: outside the buffer"),
            Code::Forbidden => (FaultClass::Refused, "the peer refused: not with this right"),
            Code::NoSuchBuffer => (FaultClass::Refused, "the peer refused: no such buffer there"),
            Code::TakenBack => (FaultClass::Refused, "the peer took the buffer back"),
            Code::Cancelled => (FaultClass::Cancelled, "called back"),
            Code::Corrupt => (FaultClass::Corrupt, CORRUPT),
            Code::MemoryFault => (FaultClass::Refused, "the peer's memory cannot be touched"),
            Code::TimeIsUp => (FaultClass::Cancelled, "the peer saw the time run out"),
        };
        let mut fault = self.fault(class, Phase::Status, cause);
        fault.errno = i32::try_from(status.errno).ok().filter(|errno| *errno > 0);
        Err(fault)
    }
}

const CORRUPT: &str = "the bytes at the destination have another checksum than at the source";
/// Bytes of a request frame.
const REQUEST_FRAME: u64 = 56;
