//! From completions to ended jobs.

use std::time::Instant;

use te_segment::Opcode;
use te_transport::{Completion, FaultClass, Phase, RemoteSide, SliceFault};
use te_verbs::{WorkCompletion, WorkStatus};

use super::Worker;
use super::link::{Job, Request};
use super::post::{NUMBER_MASK, parts_of};

impl Worker {
    /// Takes completions. Whether there were any.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            let n = match std::mem::take(&mut self.n_polled) {
                0 if self.broken => 0,
                0 => match self.queue.poll(&mut self.polled[..]) {
                    Ok(n) => n,
                    Err(error) => {
                        self.break_queue(now, &error.to_string());
                        0
                    }
                },
                n => n,
            };
            for i in 0..n {
                let completion = self.polled[i];
                self.on_completion(now, completion);
            }
            any |= n > 0;
            if n < self.polled.len() {
                break;
            }
        }
        if self.is_starved && self.posted < self.queue_room {
            self.is_starved = false;
            self.each_link(Self::activate);
        }
        any
    }

    fn on_completion(&mut self, now: Instant, completion: WorkCompletion) {
        let (slot, lane_index, number) = parts_of(completion.id);
        let Some(link) = self.links.get_mut(slot) else { return self.on_stale() };
        let Some(lane) = link.lanes.get_mut(lane_index) else { return self.on_stale() };
        let Some(front) = lane.ring.front() else { return self.on_stale() };
        let ahead = number.wrapping_sub(front.number) & NUMBER_MASK;
        if ahead > NUMBER_MASK / 2 {
            return self.on_stale();
        }
        let Some(place) = lane.ring.iter().position(|request| request.number == number) else {
            return self.on_stray(now, slot);
        };
        lane.progress = now;
        // Everything before it went well (I2).
        for _ in 0..place {
            if let Some(request) = self.take_first(slot, lane_index) {
                self.on_done(&request);
            }
        }
        match self.take_first(slot, lane_index) {
            Some(request) if completion.status == WorkStatus::Success => self.on_done(&request),
            Some(request) => {
                self.on_failed_request(now, (slot, lane_index), &request, completion.status);
            }
            None => {}
        }
        if completion.status == WorkStatus::Success {
            self.common.nics.on_success(self.nic);
            let link = &self.links[slot];
            self.rails.on_success(link.peer.as_str());
            if !link.queue.is_empty() {
                self.activate(slot);
            }
        }
        self.finish_drain(now, slot);
    }

    fn on_stale(&self) {
        tracing::debug!(nic = self.name.as_str(), "a completion of what is gone");
    }

    /// A completion of what was not posted, by what the device answered: it says nothing of what was,
    /// and the queue pair may do what nobody knows of.
    #[cold]
    fn on_stray(&mut self, now: Instant, slot: usize) {
        tracing::warn!(nic = self.name.as_str(), "a completion of what the device had refused");
        let text = "the NIC carried out what it had refused";
        let why = SliceFault::new(FaultClass::Rail, Phase::Payload, text);
        self.retire(now, slot, &why);
    }

    /// Takes the oldest work request of a lane out of its ring: it is not posted any more.
    pub(super) fn take_first(&mut self, slot: usize, lane: usize) -> Option<Request> {
        let request = self.links.get_mut(slot)?.lanes.get_mut(lane)?.ring.pop_front()?;
        self.posted -= 1;
        Some(request)
    }

    fn on_done(&mut self, request: &Request) {
        for key in &request.jobs[..usize::from(request.n_jobs)] {
            if let Some(job) = self.jobs.get_mut(*key as usize) {
                job.out -= 1;
            }
            self.end_if_over(*key);
        }
    }

    #[cold]
    fn on_failed_request(
        &mut self,
        now: Instant,
        (slot, lane_index): (usize, usize),
        request: &Request,
        status: WorkStatus,
    ) {
        let by_peer = matches!(
            status,
            WorkStatus::RemoteAccess
                | WorkStatus::RemoteInvalidRequest
                | WorkStatus::RemoteOperation
        );
        let link = &mut self.links[slot];
        let lane = &mut link.lanes[lane_index];
        lane.ended_by_peer |= by_peer;
        // Its NIC asks for a key also where there are no bytes: others are not asked any more.
        self.probes &= !(by_peer && request.n_jobs == 0);
        let settled = lane.ended_by_peer;
        let cause = link.ending().cloned();
        for key in &request.jobs[..usize::from(request.n_jobs)] {
            if let Some(job) = self.jobs.get_mut(*key as usize) {
                job.out -= 1;
                job.in_doubt |= job.slice.op == Opcode::Write && !settled;
                let fault = match &cause {
                    Some(why) if status == WorkStatus::Flushed => why.clone(),
                    _ => fault_of(status, job),
                };
                job.fault.get_or_insert(fault);
            }
        }
        // Before the link may be let go, which looks whether an end of it is in doubt.
        for key in &request.jobs[..usize::from(request.n_jobs)] {
            self.end_if_over(*key);
        }
        if cause.is_none() {
            self.on_error(now, slot, status);
        }
    }

    /// The first error of a link: it has to end, and somebody is to blame.
    fn on_error(&mut self, now: Instant, slot: usize, status: WorkStatus) {
        let peer = self.links[slot].peer.clone();
        tracing::debug!(nic = self.name.as_str(), %peer, %status, "a work request failed");
        // A flush is nobody's fault: somebody ended the connection (E52).
        if status.is_local() {
            self.on_nic_error(now);
        }
        if status != WorkStatus::Flushed {
            self.on_link_error(now, slot);
        }
        let text = format!("the connection broke: {status}");
        let why = SliceFault::new(FaultClass::Rail, Phase::Payload, text);
        self.retire(now, slot, &why);
    }

    pub(super) fn on_nic_error(&mut self, now: Instant) {
        if let Some(change) = self.common.nics.on_failure(self.nic, now) {
            self.common.control.on_change(self.nic, &change);
        }
    }

    /// An error on a rail: where the peer has another NIC this one pauses at once (E52).
    pub(super) fn on_link_error(&mut self, now: Instant, slot: usize) {
        let Some(link) = self.links.get(slot) else { return };
        let path = link.peer.shared();
        if link.has_others {
            self.rails.pause(now, &path);
        } else {
            self.rails.on_error(now, &path);
        }
    }

    /// Ends a job of which nothing is out any more and nothing is to come.
    pub(super) fn end_if_over(&mut self, key: u32) {
        let Some(job) = self.jobs.get(key as usize) else { return };
        let is_over = job.planned == job.slice.len() || job.fault.is_some();
        if job.out == 0 && is_over {
            self.end(key);
        }
    }

    /// Ends a job. Where bytes of it may still come to the peer, that waits for the fence.
    pub(super) fn end(&mut self, key: u32) {
        let Some(job) = self.jobs.try_remove(key as usize) else { return };
        let remote = remote_side(&job);
        let mut result = job.fault.map_or(Ok(()), Err);
        if let (Err(fault), Some(_)) = (&mut result, job.called_back)
            && fault.class == FaultClass::Rail
        {
            fault.class = FaultClass::Cancelled;
        }
        let completion = Completion { token: job.slice.token, result, remote };
        let link = self.links.get_mut(job.link);
        match link.filter(|link| remote == RemoteSide::InDoubt && link.knows_fences) {
            Some(link) if !self.closing => link.doubtful.push(completion),
            _ => self.ends.push_back(completion),
        }
    }
}

fn remote_side(job: &Job) -> RemoteSide {
    match (&job.fault, job.slice.op) {
        (None, _) => RemoteSide::Settled,
        (Some(_), _) if job.planned == 0 => RemoteSide::Untouched,
        (Some(_), Opcode::Write) if job.in_doubt => RemoteSide::InDoubt,
        (Some(_), _) => RemoteSide::Settled,
    }
}

/// Neither side is told of the other's, and the NICs have no word for it.
pub(super) const ANOTHER_MTU: &str = "the path MTU of the two sides may differ";

/// What a status means for a slice (E52).
fn fault_of(status: WorkStatus, job: &Job) -> SliceFault {
    let class = match status {
        WorkStatus::LocalProtection | WorkStatus::LocalLength | WorkStatus::LocalAccess => {
            FaultClass::Local
        }
        // The key may be of a registration that is gone. Where a fresh descriptor says the same, the
        // peer means it.
        WorkStatus::RemoteAccess if job.slice.attempt > 0 => FaultClass::Refused,
        _ => FaultClass::Rail,
    };
    let text = match status {
        WorkStatus::RemoteInvalidRequest if job.slice.op == Opcode::Read => {
            format!("{status}: {ANOTHER_MTU}, or its NIC takes fewer reads at once than are sent")
        }
        WorkStatus::RemoteInvalidRequest => format!("{status}: {ANOTHER_MTU}"),
        // What a read brings is in packets of the peer's length, which our NIC drops.
        WorkStatus::RetryExceeded if job.slice.op == Opcode::Read => {
            format!("{status}: the peer's NIC does not answer, or {ANOTHER_MTU}")
        }
        _ => status.to_string(),
    };
    SliceFault::new(class, Phase::Payload, text)
}
