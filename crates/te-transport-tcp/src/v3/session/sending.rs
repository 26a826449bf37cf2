//! What a session sends.

use std::time::Instant;

use te_segment::{CopyError, Opcode};
use te_transport::{FaultClass, Phase};

use super::{Body, Flight, Session};
use crate::pool::{Job, Place};
use crate::v3::frame::{Frame, Request};
use crate::v3::outbox::Piece;
use crate::v3::sum::Sum;

impl Session {
    /// Puts out cancels, then data of the write that is under way, then further requests.
    pub(super) fn fill(&mut self) {
        while self.out.has_room() {
            if let Some(id) = self.cancels.pop_front() {
                self.out.put(&Frame::Cancel(id));
            } else if self.body.is_some() {
                self.fill_from_memory();
            } else if let Some(job) = self.waiting.pop_front() {
                self.begin(job);
            } else {
                return;
            }
        }
    }

    fn begin(&mut self, job: Job) {
        let (id, begins) = (self.last_id + 1, self.out.staged());
        let write = job.slice.op == Opcode::Write;
        self.out.put(&Frame::Request(id, request(&job)));
        let sum = || job.slice.checked.then(|| Box::new(Sum::new()));
        let mut body = Body { id, done: 0, sum: if write { sum() } else { None } };
        if write && let Err(error) = self.put_data(&job, &mut body) {
            // Nothing of the request has gone out yet.
            self.out.rewind(begins);
            let fault = local_fault(self.fault(FaultClass::Local, Phase::Request, GONE), &error);
            let remote = job.remote_so_far();
            return self.finish(job, (Err(fault), remote), 0);
        }
        self.last_id = id;
        let sum = if write { None } else { sum() };
        let mut flight = Flight::new(job, begins, sum);
        if write {
            self.body = Some(body);
        } else {
            flight.ends = Some(self.out.staged());
            self.reads.push_back(id);
        }
        self.flights.insert(id, flight);
        self.end_body();
    }

    fn put_data(&mut self, job: &Job, body: &mut Body) -> Result<(), CopyError> {
        let piece = Piece { id: body.id, range: &job.slice.local, offset: body.done };
        body.done += self.out.put_data(&piece, body.sum.as_deref_mut())?;
        Ok(())
    }

    fn fill_from_memory(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        let Some(flight) = self.flights.get(&body.id) else { return };
        let piece = Piece { id: body.id, range: &flight.job.slice.local, offset: body.done };
        match self.out.put_data(&piece, body.sum.as_deref_mut()) {
            Ok(n) => {
                body.done += n;
                self.body = Some(body);
                self.end_body();
            }
            Err(error) => self.fail_locally(self.progress.since(), body.id, &error),
        }
    }

    /// Where the last data is put out, so is what follows it.
    fn end_body(&mut self) {
        let Some(body) = &self.body else { return };
        let Some(flight) = self.flights.get_mut(&body.id) else { return };
        if body.done < flight.job.slice.len() {
            return;
        }
        if let Some(sum) = &body.sum {
            self.out.put(&Frame::Sum { id: body.id, crc: sum.value() });
        }
        flight.ends = Some(self.out.staged());
        self.body = None;
    }

    /// Local memory of a request that was begun cannot be touched: the peer is told to end it.
    pub(super) fn fail_locally(&mut self, now: Instant, id: u64, error: &CopyError) {
        let fault = local_fault(self.fault(FaultClass::Local, self.phase_of(id), GONE), error);
        self.call_back(now, id, fault);
    }
}

pub(super) const GONE: &str = "local memory is not mapped";

fn local_fault(fault: te_transport::SliceFault, error: &CopyError) -> te_transport::SliceFault {
    match error {
        CopyError::Fault { cause, .. } => fault.with_os_error(cause),
        _ => fault,
    }
}

fn request(job: &Job) -> Request {
    let place = job.place.unwrap_or(Place::NOWHERE);
    Request {
        op: job.slice.op,
        checked: job.slice.checked,
        attempt: job.slice.attempt,
        patience: 0,
        buffer: place.buffer,
        offset: place.offset,
        length: job.slice.len(),
    }
}
