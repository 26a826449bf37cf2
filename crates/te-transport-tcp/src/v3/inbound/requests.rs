//! Frames that came in whole: requests, cancels, and how requests end.

use std::time::Instant;

use te_metadata::sabotage;
use te_segment::{Access, AccessError, BufferGuard, Opcode};

use super::{Body, Inbound, Landing, What, Work, until};
use crate::v3::frame::{Code, Frame, Request, Status, Violation};
use crate::v3::outbox::SMALL;
use crate::v3::sum::Sum;

impl Inbound {
    pub(super) fn on_whole_frame(&mut self, now: Instant, frame: Frame) {
        let done = match frame {
            Frame::Request(id, request) => self.on_request(now, id, &request),
            Frame::Data { id, len, last } => self.on_data(id, u64::from(len), last),
            Frame::Sum { id, crc } => self.on_sum(id, crc),
            Frame::Cancel(id) => self.on_cancel(id),
            Frame::Goodbye => {
                self.end();
                Ok(())
            }
            Frame::Status(..) | Frame::Done { .. } | Frame::Credit(_) => {
                Err(Violation("a frame that only a target sends"))
            }
        };
        if let Err(violation) = done {
            self.violated(violation);
        }
    }

    fn on_request(&mut self, now: Instant, id: u64, request: &Request) -> Result<(), Violation> {
        if id != self.last_id + 1 {
            return Err(Violation("an id out of order"));
        }
        if self.body.is_some() {
            return Err(Violation("a request in the middle of another's data"));
        }
        if self.works.len() + self.cancelled.len() >= self.credit {
            return Err(Violation("more requests than the credit"));
        }
        self.last_id = id;
        self.dropping = None;
        self.since = now;
        let what = match self.admit(request) {
            Ok(guard) => self.begin(id, guard, request),
            Err(code) => {
                self.service.counters.refusals.one();
                self.dropping = (request.op == Opcode::Write).then_some(id);
                What::Ended(Status::plain(code, 0))
            }
        };
        self.works.push_back(Work { id, until: until(now, request.patience), what });
        Ok(())
    }

    fn admit(&self, request: &Request) -> Result<BufferGuard, Code> {
        let access = match request.op {
            Opcode::Read => Access::Read,
            Opcode::Write => Access::Write,
        };
        let segment = &self.service.segment;
        let Request { buffer, offset, length, .. } = *request;
        segment.acquire_buffer(buffer, offset, length, access).map_err(|error| {
            tracing::debug!(%error, "refusing a request");
            match error {
                AccessError::NoSuchBuffer { .. } => Code::NoSuchBuffer,
                AccessError::Forbidden { .. } => Code::Forbidden,
                AccessError::Closed { .. } => Code::TakenBack,
                _ => Code::OutOfRange,
            }
        })
    }

    fn begin(&mut self, id: u64, guard: BufferGuard, request: &Request) -> What {
        let sum = request.checked.then(|| Box::new(Sum::new()));
        match request.op {
            Opcode::Read => What::Read { guard, done: 0, sum },
            Opcode::Write => {
                self.body = Some(Body { id, guard, done: 0, sum });
                What::Write
            }
        }
    }

    fn on_data(&mut self, id: u64, len: u64, last: bool) -> Result<(), Violation> {
        match &self.body {
            Some(body) if body.id == id => {
                let left = body.guard.range().len() - body.done;
                if len > left || last != (len == left) {
                    return Err(Violation("data that is not as long as its request"));
                }
            }
            _ if self.dropping == Some(id) => {}
            _ => return Err(Violation("data for no request")),
        }
        self.large = len > SMALL;
        self.landing = Some(Landing { id, left: len });
        Ok(())
    }

    fn on_sum(&mut self, id: u64, crc: u32) -> Result<(), Violation> {
        match &self.body {
            Some(Body { id: mine, guard, done, sum: Some(sum) })
                if *mine == id && *done == guard.range().len() =>
            {
                let same = sum.value() == crc || sabotage::is_off("checksum");
                let code = if same { Code::Done } else { Code::Corrupt };
                self.finish_write(code);
                Ok(())
            }
            _ if self.dropping == Some(id) => Ok(()),
            _ => Err(Violation("a sum for no request")),
        }
    }

    fn on_cancel(&mut self, id: u64) -> Result<(), Violation> {
        if id == 0 || id > self.last_id {
            return Err(Violation("a cancel of no request"));
        }
        let Some(at) = self.position(id) else { return Ok(()) };
        if matches!(self.works[at].what, What::Ended(_)) {
            return Ok(());
        }
        let status = Status::plain(Code::Cancelled, self.moved(id));
        self.end_work(id, status);
        if let Some(at) = self.position(id) {
            self.works.remove(at);
            self.cancelled.push_back((id, status));
        }
        Ok(())
    }

    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.works.binary_search_by_key(&id, |work| work.id).ok()
    }

    /// Ends a request; its guard is gone when this returns.
    pub(super) fn end_work(&mut self, id: u64, status: Status) {
        self.out.let_go(id);
        if self.body.as_ref().is_some_and(|body| body.id == id) {
            self.body = None;
            self.dropping = Some(id);
        }
        if let Some(at) = self.position(id) {
            self.works[at].what = What::Ended(status);
        }
    }

    /// The owner took the buffer of a request back.
    pub(super) fn take_back(&mut self, id: u64) {
        self.service.counters.revoked.one();
        let moved = self.moved(id);
        self.end_work(id, Status::plain(Code::TakenBack, moved));
    }

    pub(super) fn on_memory_fault(&mut self, id: u64, errno: i32) {
        let errno = u32::try_from(errno).unwrap_or(0);
        let status = Status { errno, ..Status::plain(Code::MemoryFault, self.moved(id)) };
        self.service.counters.refusals.one();
        self.end_work(id, status);
    }

    pub(super) fn expire(&mut self, now: Instant) {
        let late = self.works.iter_mut().filter(|work| work.until.is_some_and(|at| at <= now));
        let mut ids = Vec::new();
        for work in late {
            work.until = None;
            if !matches!(work.what, What::Ended(_)) {
                ids.push(work.id);
            }
        }
        for id in ids {
            let moved = self.moved(id);
            self.end_work(id, Status::plain(Code::TimeIsUp, moved));
        }
    }

    fn moved(&self, id: u64) -> u64 {
        match (&self.body, self.position(id).map(|at| &self.works[at].what)) {
            (Some(body), _) if body.id == id => body.done,
            (_, Some(What::Read { done, .. })) => *done,
            _ => 0,
        }
    }
}
