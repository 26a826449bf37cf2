//! The bytes of writes.

use std::time::Instant;

use super::{Body, Inbound, What, errno_of};
use crate::v3::frame::{Code, Status};

impl Inbound {
    /// Stores or drops payload that came together with frames.
    pub(super) fn store(&mut self, now: Instant, rest: &mut &[u8]) {
        self.end_revoked_body();
        let Some(landing) = &self.landing else { return };
        let n = rest.len().min(usize::try_from(landing.left).unwrap_or(usize::MAX));
        let (bytes, later) = rest.split_at(n);
        *rest = later;
        if let Some(body) = self.body.as_ref().filter(|body| body.id == landing.id) {
            let (range, id) = (body.guard.range(), body.id);
            if let Err(error) = range.region().write_from(range.offset() + body.done, bytes) {
                self.on_memory_fault(id, errno_of(&error));
            }
        }
        self.landed(now, n as u64);
    }

    /// `n` bytes of the payload that comes in are in memory, or dropped.
    pub(super) fn landed(&mut self, now: Instant, n: u64) {
        let dropping = self.is_dropping();
        let Some(landing) = &mut self.landing else { return };
        if !dropping {
            self.since = now;
        }
        let id = landing.id;
        landing.left = landing.left.saturating_sub(n);
        if landing.left == 0 {
            self.landing = None;
        }
        let Some(body) = self.body.as_mut().filter(|body| body.id == id) else { return };
        let from = body.done;
        body.done += n;
        self.service.counters.bytes_in.add(n);
        let Body { guard, sum, done, .. } = body;
        let range = guard.range();
        if let Some(Err(error)) = sum.as_mut().map(|sum| sum.add_range(range, from, n)) {
            return self.on_memory_fault(id, errno_of(&error));
        }
        if *done == range.len() && sum.is_none() {
            self.finish_write(Code::Done);
        }
    }

    /// All bytes of the write are in place.
    pub(super) fn finish_write(&mut self, code: Code) {
        let Some(body) = &self.body else { return };
        let (id, moved) = (body.id, body.done);
        if code == Code::Done {
            self.served();
        }
        self.end_work(id, Status::plain(code, moved));
        self.dropping = None;
    }

    pub(super) fn end_revoked_body(&mut self) {
        if let Some(body) = self.body.as_ref().filter(|body| body.guard.is_revoked()) {
            let id = body.id;
            self.take_back(id);
        }
    }

    pub(super) fn end_revoked_direct(&mut self) {
        let revoked = |id: &u64| {
            let what = self.position(*id).map(|at| &self.works[at].what);
            matches!(what, Some(What::Read { guard, .. }) if guard.is_revoked())
        };
        let ids: Vec<u64> = self.out.direct_ids().filter(revoked).collect();
        for id in ids {
            self.take_back(id);
        }
    }
}
