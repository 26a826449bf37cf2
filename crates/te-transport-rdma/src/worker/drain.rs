//! How links come and go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{Opcode, SliceToken};
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};
use te_verbs::QueuePair;

use super::complete::ANOTHER_MTU;
use super::inbox::EndpointId;
use super::link::{Lane, Link, State};
use super::route::taken_over;
use super::whom::Whom;
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
        (id, peer, whom): (EndpointId, NicPath, Whom),
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
        if self.links[slot].id.is_some() {
            return;
        }
        if !self.reports_here(&pairs) {
            let text = "it was made with a completion queue that failed";
            let why = SliceFault::new(FaultClass::Rail, Phase::Connect, text);
            return self.refuse(now, (slot, id), &why);
        }
        let wanted = &self.links[slot].whom;
        if !wanted.may_be(&whom) {
            // Who answered at the address of the one that is wanted is who has its name. Another one is
            // of an earlier try, or came by itself.
            if wanted.rpc.is_some() && wanted.rpc == whom.rpc {
                return self.refuse(now, (slot, id), &taken_over(Phase::Connect));
            }
            let peer = self.links[slot].peer.clone();
            self.common.control.on_broken(self.nic, &peer, id);
            return self.want(slot);
        }
        let link = &mut self.links[slot];
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
        link.whom.fill_from(whom);
        link.lanes = pairs.into_iter().map(lane).collect();
        self.activate(slot);
    }

    /// A connection that may not be used is none, and who waits for it ends.
    fn refuse(&mut self, now: Instant, (slot, id): (usize, EndpointId), why: &SliceFault) {
        let peer = self.links[slot].peer.clone();
        self.common.control.on_broken(self.nic, &peer, id);
        self.retire(now, slot, why);
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
        if link.ending().is_none() || !link.is_quiet() {
            return;
        }
        // Closing waits for no peer.
        if link.doubtful.is_empty() || self.closing {
            return self.let_go(slot, false);
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
        self.let_go(slot, is_confirmed);
    }

    /// Ends what is in doubt on a link, and the link.
    fn let_go(&mut self, slot: usize, is_confirmed: bool) {
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
            State::Draining { until, .. } if *until <= now => self.take_from_device(now, slot),
            State::Stuck { .. } => self.take_from_device(now, slot),
            State::Fencing { until } if *until <= now => self.on_fenced(slot, false),
            _ => {}
        }
    }

    fn waits_for_a_read(&self, lane: &Lane) -> bool {
        let jobs = lane.ring.front().map(|request| &request.jobs[..usize::from(request.n_jobs)]);
        let mut jobs = jobs.into_iter().flatten().filter_map(|key| self.jobs.get(*key as usize));
        jobs.any(|job| job.slice.op == Opcode::Read)
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
            let state = worker.links.get_mut(slot).map(|link| &mut link.state);
            if let Some(State::Draining { why: known, .. } | State::Stuck { why: known, .. }) =
                state
            {
                *known = why.clone();
            }
            worker.on_fenced(slot, false);
        });
        let patience = self.common.config.work.flush_limit;
        self.await_posted(begun + patience, |_, _| {});
        let limit = self.clock.now() + patience + STEP;
        self.await_posted(limit, |worker, now| {
            worker.nics.refresh();
            worker.each_link(|worker, slot| worker.take_from_device(now, slot));
        });
    }

    /// Does something again and again until nothing is posted, or until then.
    fn await_posted(&mut self, limit: Instant, mut work: impl FnMut(&mut Self, Instant)) {
        while self.posted > 0 {
            let now = self.clock.now();
            work(self, now);
            if now >= limit {
                return;
            }
            if self.posted > 0 && !self.poll(now) {
                te_transport::Core::wait(self, Some(STEP));
            }
        }
    }
}
