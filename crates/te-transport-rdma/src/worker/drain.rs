//! How links come and go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{Opcode, SliceToken};
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};
use te_verbs::QueuePair;

use super::complete::ANOTHER_MTU;
use super::inbox::EndpointId;
use super::link::{Lane, Link, State};
use super::{TICK, Worker};
use crate::endpoint::NicPath;
use crate::store::Used;

/// How long a slice that is called back may still end by itself, before its connection is broken for
/// it: with it, everything else on that connection has to be tried again.
const GRACE: Duration = Duration::from_millis(20);
/// A step of waiting while everything ends.
const STEP: Duration = Duration::from_millis(5);

impl Worker {
    /// Looks at links with work soon.
    pub(super) fn watch(&mut self, now: Instant) {
        if self.look_at.is_none() {
            self.look_at = Some(now + TICK);
        }
    }

    pub(super) fn on_open(
        &mut self,
        now: Instant,
        (id, peer): (EndpointId, NicPath),
        (pairs, used): (Vec<Arc<dyn QueuePair>>, Used),
    ) {
        let old = self.by_path.get(&peer).copied();
        if let Some(slot) = old
            && self.links[slot].id.is_some_and(|known| known != id)
        {
            let text = "another connection took its place";
            let why = SliceFault::new(FaultClass::Rail, Phase::Payload, text);
            self.retire(now, slot, &why);
        }
        let slot = match self.by_path.get(&peer) {
            Some(slot) => *slot,
            None => {
                let slot = self.links.insert(Link::new(peer.clone(), State::Open));
                self.by_path.insert(peer, slot);
                slot
            }
        };
        let link = &mut self.links[slot];
        if link.id.is_some() {
            return;
        }
        if self.common.nics.nic(self.nic).is_some_and(|nic| !nic.takes_inline()) {
            self.plan.stop_inline();
        }
        let room = self.lane_room;
        let lane = |pair| Lane {
            pair,
            ring: std::collections::VecDeque::with_capacity(room),
            progress: now,
            ended_by_peer: false,
        };
        link.id = Some(id);
        link.state = State::Open;
        link.used = used;
        link.lanes = pairs.into_iter().map(lane).collect();
        self.activate(slot);
    }

    /// Control could not make the connection that jobs wait for.
    pub(super) fn on_failed(&mut self, now: Instant, peer: &NicPath, fault: SliceFault) {
        let Some(slot) = self.by_path.get(peer).copied() else { return };
        if self.links[slot].id.is_none() {
            self.on_link_error(now, slot);
            self.retire(now, slot, &fault);
        }
    }

    /// Ends a link: what waits ends now, what is posted when it came back.
    pub(super) fn retire(&mut self, now: Instant, slot: usize, why: &SliceFault) {
        let Some(link) = self.links.get_mut(slot) else { return };
        if !matches!(link.state, State::Open | State::Connecting { .. }) {
            return;
        }
        let until = now + self.common.config.work.flush_limit;
        link.state = State::Draining { until, why: why.clone() };
        if self.by_path.get(&link.peer) == Some(&slot) {
            self.by_path.remove(&link.peer);
        }
        for lane in &link.lanes {
            if let Err(error) = lane.pair.to_error() {
                tracing::debug!(%error, "a queue pair could not be ended");
            }
        }
        let (id, peer) = (link.id, link.peer.clone());
        let waiting = std::mem::take(&mut link.queue);
        for key in waiting {
            if let Some(job) = self.jobs.get_mut(key as usize) {
                job.fault.get_or_insert_with(|| why.clone());
            }
            self.end_if_over(key);
        }
        if let Some(id) = id {
            self.common.control.on_broken(self.nic, &peer, id);
        }
        self.watch(now);
        self.finish_drain(now, slot);
    }

    /// Lets a link go whose work requests all came back.
    pub(super) fn finish_drain(&mut self, now: Instant, slot: usize) {
        let Some(link) = self.links.get_mut(slot) else { return };
        if !matches!(link.state, State::Draining { .. }) || !link.is_quiet() {
            return;
        }
        if link.doubtful.is_empty() {
            self.links.remove(slot);
            return;
        }
        link.state = State::Fencing { until: now + self.common.config.work.fence_limit };
        let (id, numbers) = (link.id.unwrap_or_default(), link.numbers());
        match self.wish(slot) {
            Some(wish) => self.common.control.fence(wish, id, numbers),
            None => self.on_fenced(slot, false),
        }
    }

    /// The peer answered, or did not in time.
    pub(super) fn on_fenced(&mut self, slot: usize, is_confirmed: bool) {
        let Some(link) = self.links.get(slot) else { return };
        if !matches!(link.state, State::Fencing { .. }) {
            return;
        }
        for mut completion in self.links.remove(slot).doubtful {
            if is_confirmed {
                completion.remote = RemoteSide::Settled;
            }
            self.ends.push_back(completion);
        }
    }

    /// Does what has its time.
    pub(super) fn look_after(&mut self, now: Instant) {
        if self.look_at.is_none_or(|at| now < at) {
            return;
        }
        self.each_link(|worker, slot| worker.look_after_link(now, slot));
        self.end_called_back(now);
        self.renew_queue();
        let is_needed = self.broken || self.links.iter().any(|(_, link)| link.is_at_work());
        self.look_at = is_needed.then(|| now + TICK);
    }

    fn look_after_link(&mut self, now: Instant, slot: usize) {
        let Some(link) = self.links.get(slot) else { return };
        let patience = self.common.config.work.patience;
        let is_late = |lane: &Lane| {
            !lane.ring.is_empty() && now.saturating_duration_since(lane.progress) >= patience
        };
        match &link.state {
            State::Connecting { until } if *until <= now => {
                let text = "connecting took too long";
                let why = SliceFault::new(FaultClass::Peer, Phase::Connect, text);
                self.retire(now, slot, &why);
            }
            State::Open if link.lanes.iter().any(is_late) => {
                let mut text = format!("no progress within {} ms", patience.as_millis());
                if link.lanes.iter().any(|lane| is_late(lane) && self.waits_for_a_read(lane)) {
                    text = format!("{text}: the peer's NIC does not answer, or {ANOTHER_MTU}");
                }
                let why = SliceFault::new(FaultClass::Rail, Phase::Payload, text);
                self.on_link_error(now, slot);
                self.retire(now, slot, &why);
            }
            State::Draining { until, .. } if *until <= now => {
                self.take_from_device(slot);
                self.finish_drain(now, slot);
            }
            State::Fencing { until } if *until <= now => self.on_fenced(slot, false),
            _ => {}
        }
    }

    fn waits_for_a_read(&self, lane: &Lane) -> bool {
        let jobs = lane.ring.front().map(|request| &request.jobs[..usize::from(request.n_jobs)]);
        let mut jobs = jobs.into_iter().flatten().filter_map(|key| self.jobs.get(*key as usize));
        jobs.any(|job| job.slice.op == Opcode::Read)
    }

    /// Makes another completion queue in the place of one that failed, once nothing is posted.
    fn renew_queue(&mut self) {
        if !self.broken || self.posted > 0 {
            return;
        }
        let nic = self.common.nics.nic(self.nic);
        let Some(device) = nic.and_then(|nic| nic.device()) else { return };
        let entries = u32::try_from(self.queue_room).unwrap_or(u32::MAX);
        match device.completion_queue(entries) {
            Ok(queue) => {
                self.queue = Arc::clone(&queue);
                *self.told_queue.lock() = queue;
                self.broken = false;
            }
            Err(error) => tracing::debug!(%error, "no new completion queue"),
        }
    }

    /// Takes what did not come back from the device. Where even that fails it stays (I3).
    fn take_from_device(&mut self, slot: usize) {
        let Some(link) = self.links.get(slot) else { return };
        let State::Draining { why, .. } = &link.state else { return };
        let why = why.clone();
        for lane_index in 0..self.links[slot].lanes.len() {
            let lane = &mut self.links[slot].lanes[lane_index];
            if lane.ring.is_empty() {
                continue;
            }
            if let Err(error) = lane.pair.to_reset() {
                tracing::error!(%error, n = lane.ring.len(), "a device keeps work requests");
                self.links[slot].state = State::Stuck;
                return;
            }
            while let Some(request) = self.links[slot].lanes[lane_index].ring.pop_front() {
                self.posted -= 1;
                for key in &request.jobs[..usize::from(request.n_jobs)] {
                    if let Some(job) = self.jobs.get_mut(*key as usize) {
                        job.out -= 1;
                        job.in_doubt |= job.slice.op == Opcode::Write;
                        job.fault.get_or_insert_with(|| why.clone());
                    }
                    self.end_if_over(*key);
                }
            }
        }
    }

    /// Slices are called back: those of which nothing is out end at once.
    pub(super) fn cancel(&mut self, now: Instant, tokens: &[SliceToken]) {
        self.take_slices(now);
        let why = SliceFault::new(FaultClass::Cancelled, Phase::Queue, "called back");
        let wanted: std::collections::HashSet<SliceToken> = tokens.iter().copied().collect();
        let found: Vec<usize> = self
            .jobs
            .iter()
            .filter(|(_, job)| wanted.contains(&job.slice.token))
            .map(|(key, _)| key)
            .collect();
        for key in found {
            let job = &mut self.jobs[key];
            job.called_back = Some(now + GRACE);
            let key = u32::try_from(key).unwrap_or(u32::MAX);
            if job.planned < job.slice.len() {
                job.fault.get_or_insert_with(|| why.clone());
                let slot = job.link;
                self.links[slot].queue.retain(|queued| *queued != key);
            }
            self.end_if_over(key);
            let sooner = now + GRACE;
            self.look_at = Some(self.look_at.map_or(sooner, |at| at.min(sooner)));
        }
    }

    /// Breaks the connections of slices that were called back and did not end by themselves.
    fn end_called_back(&mut self, now: Instant) {
        let late = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let slots: Vec<usize> = self
            .jobs
            .iter()
            .filter(|(_, job)| late(job.called_back))
            .map(|(_, job)| job.link)
            .collect();
        if slots.is_empty() {
            return;
        }
        let text = "the connection was broken to call slices back";
        let why = SliceFault::new(FaultClass::Rail, Phase::Payload, text);
        slots.into_iter().for_each(|slot| self.retire(now, slot, &why));
    }

    /// Ends all there is; waits until devices gave everything back, within the limit.
    pub(super) fn end_everything(&mut self, why: &SliceFault) {
        self.closing = true;
        let begun = self.clock.now();
        self.each_link(|worker, slot| {
            worker.retire(begun, slot, why);
            if let Some(link) = worker.links.get_mut(slot)
                && let State::Draining { why: known, .. } = &mut link.state
            {
                *known = why.clone();
            }
            worker.on_fenced(slot, false);
        });
        let limit = begun + self.common.config.work.flush_limit;
        while self.posted > 0 && self.clock.now() < limit {
            let now = self.clock.now();
            if !self.poll(now) {
                te_transport::Core::wait(self, Some(STEP));
            }
        }
        self.each_link(|worker, slot| {
            worker.take_from_device(slot);
            worker.finish_drain(limit, slot);
        });
    }
}
