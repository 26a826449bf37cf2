//! From jobs to posted work requests.

use std::time::Instant;

use te_transport::{FaultClass, Phase, SliceFault};
use te_verbs::{PostError, Sge, WorkRequest};

use super::Worker;
use super::link::{MAX_RANGES, Request};
use super::plan::{CHAIN, MAX_MESSAGE, Piece};

/// A work request's id is the slot of its link, its lane and its number, so that the completion finds
/// them.
///
/// ```text
///   63        46 45    40 39                       0
///   ├─ link ────┼─ lane ─┼─ number ───────────────┤
/// ```
const LANE_BIT: u32 = 40;
const LINK_BIT: u32 = 46;
pub(super) const NUMBER_MASK: u64 = (1 << LANE_BIT) - 1;
const LANE_MASK: u64 = (1 << (LINK_BIT - LANE_BIT)) - 1;

pub(super) fn id_of(link: usize, lane: usize, number: u64) -> u64 {
    ((link as u64) << LINK_BIT) | ((lane as u64 & LANE_MASK) << LANE_BIT) | (number & NUMBER_MASK)
}

pub(super) fn parts_of(id: u64) -> (usize, usize, u64) {
    ((id >> LINK_BIT) as usize, ((id >> LANE_BIT) & LANE_MASK) as usize, id & NUMBER_MASK)
}

impl Worker {
    /// Posts one chain on a link. Whether anything was posted.
    pub(super) fn post(&mut self, now: Instant, slot: usize) -> bool {
        let Some(link) = self.links.get_mut(slot) else { return false };
        link.is_active = false;
        if !link.is_open() || link.queue.is_empty() {
            return false;
        }
        let lanes = link.lanes.len();
        let mut turns = (0..lanes).map(|i| (link.next_lane + i) % lanes);
        let free = turns.find(|i| link.lanes[*i].ring.len() < self.lane_room);
        // Where there is no room, a completion makes some, and lets the link post again.
        let Some(lane) = free else { return false };
        let room = self.lane_room - link.lanes[lane].ring.len();
        let room = room.min(self.queue_room.saturating_sub(self.posted)).min(CHAIN);
        if room == 0 {
            self.is_starved = true;
            return false;
        }
        self.fill(slot, room);
        if self.plan.len() == 0 {
            return false;
        }
        self.post_plan(now, slot, lane);
        self.activate(slot);
        true
    }

    /// Makes a chain of the jobs that wait on a link.
    fn fill(&mut self, slot: usize, room: usize) {
        self.plan.clear();
        while self.plan.len() < room {
            let Some(key) = self.links[slot].queue.front().copied() else { break };
            let Some(job) = self.jobs.get_mut(key as usize) else {
                self.links[slot].queue.pop_front();
                continue;
            };
            let (start, len) = (job.planned, job.slice.len());
            let (here, there) =
                (job.slice.local.address() + start, job.slice.remote.address() + start);
            let found = match job.keys {
                Some((lkey, rkey)) => Some((lkey, rkey, len - start)),
                None => {
                    let local = self.memory.local_piece(self.nic, here, len - start);
                    let remote = job.view.remote_piece(job.peer_nic, there, len - start).ok();
                    local.zip(remote).map(|(l, r)| (l.lkey, r.rkey.value(), l.len.min(r.len)))
                }
            };
            let Some((lkey, rkey, piece)) = found else {
                let text = "memory was unregistered on the way";
                job.fault = Some(SliceFault::new(FaultClass::Rail, Phase::Request, text));
                self.links[slot].queue.pop_front();
                self.end_if_over(key);
                continue;
            };
            let piece = u32::try_from(piece.min(MAX_MESSAGE)).unwrap_or(1 << 30);
            let sge = Sge { address: here, len: piece, lkey };
            let planned = Piece { op: job.slice.op, sge, remote: there, rkey, job: key };
            let local = &job.slice.local;
            self.plan.add(&planned, |bytes| {
                local.region().read_into(local.offset() + start, bytes).is_ok()
            });
            job.planned += u64::from(piece);
            job.out += 1;
            if job.planned == len {
                self.links[slot].queue.pop_front();
            }
        }
    }

    fn post_plan(&mut self, now: Instant, slot: usize, lane_index: usize) {
        let (first, n) = (self.next_request, self.plan.len());
        self.next_request += n as u64;
        let link = &mut self.links[slot];
        link.used.mark();
        link.next_lane = (lane_index + 1) % link.lanes.len();
        let lane = &mut link.lanes[lane_index];
        let plan = &self.plan;
        let request = |i: usize| {
            let i = i.min(n - 1);
            plan.request(i, id_of(slot, lane_index, first + i as u64), i == n - 1)
        };
        // Requests that nobody posts cost as much to make as others.
        let outcome = match n {
            1 => lane.pair.post(&[request(0)]),
            2..=4 => lane.pair.post(&std::array::from_fn::<WorkRequest<'_>, 4, _>(request)[..n]),
            5..=8 => lane.pair.post(&std::array::from_fn::<WorkRequest<'_>, 8, _>(request)[..n]),
            9..=12 => lane.pair.post(&std::array::from_fn::<WorkRequest<'_>, 12, _>(request)[..n]),
            _ => lane.pair.post(&std::array::from_fn::<WorkRequest<'_>, CHAIN, _>(request)[..n]),
        };
        let posted = outcome.map_or_else(|error| error.posted.min(n), |()| n);
        if lane.ring.is_empty() {
            lane.progress = now;
        }
        for (i, planned) in plan.entries()[..posted].iter().enumerate() {
            let jobs: [u32; MAX_RANGES] = planned.jobs;
            let number = (first + i as u64) & NUMBER_MASK;
            lane.ring.push_back(Request { number, jobs, n_jobs: planned.n_jobs() });
        }
        self.posted += posted;
        self.watch(now);
        if let Err(error) = outcome {
            self.on_unposted(now, (slot, lane_index), posted, error);
        }
    }

    /// Takes back what was planned and not posted.
    #[cold]
    fn on_unposted(
        &mut self,
        now: Instant,
        (slot, lane_index): (usize, usize),
        posted: usize,
        error: PostError,
    ) {
        for planned in self.plan.entries()[posted..].iter().rev() {
            for (key, len) in planned.pieces().rev() {
                let Some(job) = self.jobs.get_mut(key as usize) else { continue };
                job.planned -= len;
                job.out -= 1;
                let queue = &mut self.links[slot].queue;
                if queue.front() != Some(&key) {
                    queue.push_front(key);
                }
            }
        }
        // What was posted before the one that was refused is unsignaled; what is posted next on the
        // same queue pair tells of it.
        self.links[slot].next_lane = lane_index;
        // Where all may be posted nobody knows what is: to post it again would have it carried out at
        // any time, also after its end.
        let is_known = posted < self.plan.len();
        let is_full = is_known
            && error.errno == libc::ENOMEM
            && self.links[slot].lanes.iter().any(|lane| !lane.ring.is_empty());
        if !is_full {
            let fault = SliceFault::new(FaultClass::Rail, Phase::Request, error.to_string());
            self.on_link_error(now, slot);
            self.retire(now, slot, &fault);
        }
    }
}
