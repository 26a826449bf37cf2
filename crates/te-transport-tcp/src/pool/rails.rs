//! Which lane of which rail, for jobs and for connections.
//!
//! Each lane has a rail as its home. While that pauses the lane stays closed, so that its share goes
//! to the others; it connects over another rail only where a fence is owed, or no lane is left.
//!
//! ```text
//!   job ─▶ rail by weight ─▶ small: the first lane, where it is packed with others
//!                            large: the lane with the fewest bytes
//! ```

use std::time::Instant;

use te_segment::{RailIndex, RailSet, RailState, SliceToken};

use super::lane::{Lane, State};
use super::{Job, Order, Pool};
use crate::config::TcpConfig;

/// Slices up to this size keep together on the first lane of a rail.
const SMALL: u64 = 64 << 10;
/// With so much under way every rail is wanted.
const STRIPED: u64 = 1 << 20;

/// The rails of a pool and what its lanes may have on them.
#[derive(Debug)]
pub(super) struct Rails {
    set: RailSet,
    n: usize,
    /// Whether jobs are dealt out by weight and size; else lanes take them as they come free.
    striped: bool,
    /// Bytes under way on all lanes; one slice may be larger.
    window: u64,
    /// The sum of all weights.
    whole: u64,
    /// Slices that show whether a rail works again, and since when.
    probes: Vec<(SliceToken, Instant)>,
}

impl Rails {
    /// Rails of these weights.
    pub(super) fn new(weights: &[u32], striped: bool, config: &TcpConfig) -> Self {
        Self {
            set: RailSet::new(weights.iter().copied(), config.rail_pauses()),
            n: weights.len(),
            striped,
            window: config.max_queued_bytes_per_peer,
            whole: weights.iter().map(|weight| u64::from(*weight)).sum(),
            probes: Vec::new(),
        }
    }

    /// Lanes that are at home on rails which are no reserves, in turn.
    pub(super) fn lanes(&self, n: usize) -> Vec<Lane> {
        let homes: Vec<_> = self.set.indices().filter(|rail| !self.set.is_reserve(*rail)).collect();
        let lane = |(index, home)| {
            let lane = Lane::new(home);
            let spare = self.striped && index >= homes.len();
            Lane { window: self.window(&lane, n), spare, ..lane }
        };
        homes.iter().copied().cycle().take(n).enumerate().map(lane).collect()
    }

    /// Bytes on one lane at a time: the share of its rail, so that what is under way is dealt out
    /// by weight also where every line is busy.
    fn window(&self, lane: &Lane, n_lanes: usize) -> u64 {
        let homes = self.set.indices().filter(|rail| !self.set.is_reserve(*rail)).count();
        let on_rail = (n_lanes / homes.max(1)).max(1) as u128;
        let weight = u128::from(self.set.weight(lane.home));
        let share = u128::from(self.window) * weight / u128::from(self.whole.max(1)) / on_rail;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    fn is_many(&self) -> bool {
        self.n > 1
    }

    /// Whether a lane may be opened at home: its rail is open, or to be probed.
    fn may_go_home(&self, now: Instant, lane: &Lane) -> bool {
        !self.is_many() || self.set.may_try(now, lane.home)
    }
}

impl Pool {
    /// The rails beside the first: fewer bytes than that are not worth another connection.
    fn wants_rails(&self) -> bool {
        if !self.rails.is_many() || !self.rails.striped {
            return false;
        }
        let waiting: u64 = self.queue.iter().take(16).map(|job| job.slice.len()).sum();
        self.under_way() + waiting >= STRIPED
    }

    /// Payload on all lanes.
    pub(super) fn under_way(&self) -> u64 {
        self.lanes.iter().filter(|lane| lane.is_open()).map(|lane| lane.bytes).sum()
    }

    /// The lane for a job of so many bytes, where one has room.
    pub(super) fn lane_for(&mut self, now: Instant, job: &Job) -> Option<usize> {
        let len = job.slice.len();
        let home = self.lanes.iter().any(|lane| lane.is_open() && lane.is_at_home());
        let fits = |lane: &Lane| lane.fits(len) && (lane.is_at_home() || !home);
        let lanes = &self.lanes[..];
        let takes = |rail| lanes.iter().any(|lane| lane.rail == rail && fits(lane));
        let rail = match lanes {
            [only, ..] if !self.rails.is_many() => only.home,
            _ => self.rails.set.choose(now, len, takes)?,
        };
        if let Some(RailState::Probing { .. }) = self.rails.set.state(rail) {
            self.rails.probes.push((job.slice.token, now));
        }
        let mut there =
            lanes.iter().enumerate().filter(|(_, lane)| lane.rail == rail && fits(lane));
        let lane = match len {
            ..=SMALL => there.next(),
            _ => there.min_by_key(|(index, lane)| (lane.bytes, *index)),
        };
        lane.map(|(index, _)| index)
    }

    pub(super) fn start_striped(&mut self, now: Instant) -> Option<Order> {
        let job = self.queue.pop_front()?;
        match self.lane_for(now, &job) {
            Some(lane) => {
                self.lanes[lane].bytes += job.slice.len();
                Some(self.occupy(lane, job))
            }
            None => {
                self.queue.push_front(job);
                None
            }
        }
    }

    pub(super) fn is_striped(&self) -> bool {
        self.rails.striped
    }

    /// A job has left a lane, and ended well or not.
    pub(crate) fn on_unloaded(&mut self, now: Instant, lane: usize, job: &Job, well: bool) {
        let lane = &mut self.lanes[lane];
        lane.bytes = lane.bytes.saturating_sub(job.slice.len());
        let token = job.slice.token;
        if let Some(at) = self.rails.probes.iter().position(|(probe, _)| *probe == token) {
            let (_, began) = self.rails.probes.swap_remove(at);
            if well {
                self.rails.set.on_success(now, lane.rail, began);
            }
        }
    }

    /// Whether what a lane's connection came to is to be blamed on its rail. Gives whether the rail
    /// pauses from now on.
    pub(crate) fn on_rail_fault(&mut self, now: Instant, lane: usize) -> bool {
        let Lane { rail, began, .. } = self.lanes[lane];
        self.rails.is_many() && self.rails.set.on_fault(now, rail, began.unwrap_or(now))
    }

    /// The peer has answered a request on a lane. Gives whether its rail is open again by that.
    pub(super) fn on_rail_success(&mut self, now: Instant, lane: usize) -> bool {
        let Lane { rail, began, .. } = self.lanes[lane];
        self.rails.set.on_success(now, rail, began.unwrap_or(now))
    }

    /// Whether a lane failed by its rail, and another rail is left to try.
    pub(super) fn is_other_rail_worth_it(&self, lane: usize) -> bool {
        let open = |rail| self.rails.set.is_open(rail);
        !open(self.lanes[lane].rail) && self.rails.set.indices().any(open)
    }

    /// The rail of a lane's connection.
    pub(crate) fn rail_of(&self, lane: usize) -> RailIndex {
        self.lanes[lane].rail
    }

    /// Whether another rail than a lane's is open, so that the lane's may be given up soon.
    pub(crate) fn has_other_rail(&self, lane: usize) -> bool {
        let own = self.lanes[lane].rail;
        self.rails.set.indices().any(|rail| rail != own && self.rails.set.is_open(rail))
    }

    /// When the first rail is to be probed, where that would be done.
    pub(super) fn probe_due(&self) -> Option<Instant> {
        let wanted = self.rails.is_many() && (self.has_work() || self.wants_rails());
        self.rails.set.deadline().filter(|_| wanted)
    }

    /// Whether some lane should be opened though no job waits for one.
    pub(super) fn wants_more_lanes(&self, now: Instant) -> bool {
        self.wants_rails() && self.lanes.iter().any(|lane| self.is_missed(now, lane))
    }

    /// Whether a lane's rail could be used and has no connection.
    fn is_missed(&self, now: Instant, lane: &Lane) -> bool {
        let served =
            |other: &Lane| other.is_open() && other.is_at_home() && other.home == lane.home;
        let spare = lane.state == State::Empty || (lane.is_idle() && !lane.is_at_home());
        spare && self.rails.may_go_home(now, lane) && !self.lanes.iter().any(served)
    }

    /// Whether every lane has as many bytes that another one is of use; many small slices travel
    /// better together.
    fn are_lanes_full(&self) -> bool {
        let mut open = self.lanes.iter().filter(|lane| lane.is_open());
        open.all(|lane| lane.bytes >= lane.window / 2)
    }

    /// Whether a lane is to be opened now, its state aside.
    fn is_wanted(&self, now: Instant, lane: &Lane) -> bool {
        let waits = !self.queue.is_empty() || !self.again.is_empty();
        if lane.fence {
            return true;
        }
        if !self.is_usable() {
            return waits && !lane.spare;
        }
        let home = self.rails.may_go_home(now, lane);
        let more = waits && (!self.rails.striped || self.are_lanes_full());
        home && (more || (self.wants_rails() && self.is_missed(now, lane)))
    }

    /// The lane to open next, on its rail. Lanes that owe a fence come first, then never-tried ones,
    /// then those that failed least. For the sake of a job that needs a fresh connection an idle
    /// lane is given up where no other is left, and one that strayed from its rail when it can go
    /// home.
    pub(super) fn next_to_open(&mut self, now: Instant) -> Option<usize> {
        let open = |lane: &Lane| match lane.state {
            State::Empty => true,
            State::Open { load: 0, .. } if !lane.is_at_home() => self.rails.may_go_home(now, lane),
            State::Open { load: 0, .. } => !self.again.is_empty(),
            _ => false,
        };
        let rank = |lane: &Lane| {
            let given_up = lane.state != State::Empty;
            (given_up || !lane.fence, given_up, lane.tried, lane.failures)
        };
        let candidates = self.lanes.iter().enumerate();
        let candidates = candidates.filter(|(_, lane)| open(lane) && self.is_wanted(now, lane));
        let (index, lane) = candidates.min_by_key(|(_, lane)| rank(lane))?;
        let home = lane.home;
        let rail = if self.rails.set.try_open(now, home) {
            home
        } else {
            self.rails.set.likeliest().unwrap_or(home)
        };
        self.lanes[index].rail = rail;
        Some(index)
    }
}
