//! The rails to one peer: which one the next bytes take, and which may be used now.
//!
//! A rail is a way from one local end to one end of the peer: a pair of addresses, of NICs. Rails
//! are numbered in the order in which they were given. Each has a fixed weight; bytes are dealt out
//! by smallest finish time, so that each rail carries its share whatever the sizes.
//!
//! ```text
//!   choose(n bytes) ─▶ a rail whose probe is due, else
//!                      an open rail with a weight, least ahead of its share, else
//!                      an open reserve, else
//!                      the rail whose pause ends first
//! ```
//!
//! I1  A paused rail is never chosen while another open rail reaches the peer, except for the one
//!     slice that probes it.
//! I2  A pause has an end; see [`RailState`].
//! I3  A rail that carried less than its share, because it paused or was full, catches up with a
//!     bounded number of bytes only.
//! I4  Equal calls give equal answers: no clock is read and nothing is drawn.

mod health;

use std::fmt;
use std::time::Instant;

use health::RailHealth;
pub use health::{RailPauses, RailState};

/// Small slices follow each other on one rail up to so many bytes, so that they travel together.
const RUN: u64 = 64 << 10;
/// What a rail may be behind its share, bytes.
const CATCH_UP: u64 = 8 << 20;

/// The place of a rail in its set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RailIndex(usize);

impl RailIndex {
    /// The plain number, from 0.
    pub const fn as_usize(self) -> usize {
        self.0
    }
}

impl fmt::Debug for RailIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rail#{}", self.0)
    }
}

#[derive(Debug, Clone)]
struct Rail {
    weight: u32,
    health: RailHealth,
    /// What it carried, divided by its weight.
    finish: Share,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct RailSet {
    rails: Vec<Rail>,
    pauses: RailPauses,
    /// Where the furthest choice began.
    front: Share,
    last: Option<usize>,
}

/// Which rails a choice is among.
type Fits<'a> = dyn Fn(usize) -> bool + 'a;

/// Bytes divided by a weight, finely enough for the largest weight.
type Share = u128;

fn share(bytes: u64, weight: u64) -> Share {
    (Share::from(bytes) << 32) / Share::from(weight.max(1))
}

impl RailSet {
    /// Rails of these weights, all open. A rail of weight 0 is a reserve: it is used while no other
    /// one is open.
    pub fn new(weights: impl IntoIterator<Item = u32>, pauses: RailPauses) -> Self {
        let rail = |weight| Rail { weight, health: RailHealth::NEW, finish: 0 };
        let rails = weights.into_iter().map(rail).collect();
        Self { rails, pauses, front: 0, last: None }
    }

    /// All rails, in order.
    pub fn indices(&self) -> impl Iterator<Item = RailIndex> + use<> {
        (0..self.rails.len()).map(RailIndex)
    }

    /// What is known of a rail; `None` for one that is not in the set.
    pub fn state(&self, rail: RailIndex) -> Option<RailState> {
        Some(self.rails.get(rail.0)?.health.state())
    }

    /// Whether a rail is open.
    pub fn is_open(&self, rail: RailIndex) -> bool {
        self.state(rail) == Some(RailState::Open)
    }

    /// The weight of a rail; 0 for a reserve.
    pub fn weight(&self, rail: RailIndex) -> u32 {
        self.rails.get(rail.0).map_or(0, |rail| rail.weight)
    }

    /// Whether a rail is a reserve.
    pub fn is_reserve(&self, rail: RailIndex) -> bool {
        self.rails.get(rail.0).is_some_and(Rail::is_reserve)
    }

    /// Chooses the rail for so many bytes among those that `reaches` allows, and counts them there.
    pub fn choose(
        &mut self,
        now: Instant,
        bytes: u64,
        reaches: impl Fn(RailIndex) -> bool,
    ) -> Option<RailIndex> {
        let chosen = self.best(now, bytes, &|index| reaches(RailIndex(index)))?;
        self.charge(chosen, bytes);
        Some(RailIndex(chosen))
    }

    /// Whether a rail may be tried: it is open, or its pause is over.
    pub fn may_try(&self, now: Instant, rail: RailIndex) -> bool {
        let Some(rail) = self.rails.get(rail.0) else { return false };
        rail.health.until().is_none_or(|until| until <= now)
    }

    /// The same; where the pause of the rail is over its probe begins.
    pub fn try_open(&mut self, now: Instant, rail: RailIndex) -> bool {
        let entry = self.rails.get_mut(rail.0);
        entry.is_some_and(|rail| rail.health.is_open() || rail.health.begin_probe(now))
    }

    /// The rail to try where none has to be spared: an open one with a weight, an open reserve,
    /// the one whose pause ends first; of equals the first.
    pub fn likeliest(&self) -> Option<RailIndex> {
        let rank = |rail: &Rail| (rail.health.until(), rail.is_reserve());
        let best = (0..self.rails.len()).min_by_key(|index| rank(&self.rails[*index]));
        best.map(RailIndex)
    }

    /// Something that began then on a rail has failed because of the rail. Gives whether the rail
    /// pauses from now on.
    pub fn on_fault(&mut self, now: Instant, rail: RailIndex, began: Instant) -> bool {
        let pauses = self.pauses;
        let entry = self.rails.get_mut(rail.0);
        entry.is_some_and(|rail| rail.health.on_fault(now, began, pauses))
    }

    /// Something that began then on a rail went well. Gives whether the rail is open again by it.
    pub fn on_success(&mut self, now: Instant, rail: RailIndex, began: Instant) -> bool {
        let entry = self.rails.get_mut(rail.0);
        entry.is_some_and(|rail| rail.health.on_success(now, began))
    }

    /// When the first probe may be made.
    pub fn deadline(&self) -> Option<Instant> {
        self.rails.iter().filter_map(|rail| rail.health.until()).min()
    }

    fn best(&mut self, now: Instant, bytes: u64, fits: &Fits<'_>) -> Option<usize> {
        let due = self.among(fits).find(|(_, rail)| rail.health.wants_probe(now));
        if let Some((index, _)) = due {
            self.rails[index].health.take_probe(now);
            return Some(index);
        }
        let open = |reserve: bool| {
            let open = self.among(fits).filter(|(_, rail)| rail.health.is_open());
            open.filter(move |(_, rail)| rail.is_reserve() == reserve)
        };
        let fairest = |(index, rail): &(usize, &Rail)| (self.ends(rail, bytes), *index);
        let next = open(false).min_by_key(fairest).or_else(|| open(true).min_by_key(fairest));
        match next {
            Some((index, _)) => Some(self.stay(index, bytes, fits)),
            None => Some(self.among(fits).min_by_key(|(_, rail)| rail.health.until())?.0),
        }
    }

    fn among<'a>(&'a self, fits: &'a Fits<'_>) -> impl Iterator<Item = (usize, &'a Rail)> {
        self.rails.iter().enumerate().filter(|(index, _)| fits(*index))
    }

    /// The rail chosen last instead, while it is not a run ahead.
    fn stay(&self, next: usize, bytes: u64, fits: &Fits<'_>) -> usize {
        let Some(last) = self.last.filter(|last| fits(*last)) else { return next };
        let (rail, best) = (&self.rails[last], &self.rails[next]);
        let alike = rail.health.is_open() && rail.is_reserve() == best.is_reserve();
        let near =
            self.ends(rail, bytes) <= self.begins(best, bytes).saturating_add(rail.cost(RUN));
        if alike && near { last } else { next }
    }

    /// Where a rail's next bytes begin (I3). What it may be behind is no less than some of them, or
    /// the rest would always come first.
    fn begins(&self, rail: &Rail, bytes: u64) -> Share {
        let behind = rail.cost(CATCH_UP.max(bytes.saturating_mul(2)));
        rail.finish.max(self.front.saturating_sub(behind))
    }

    fn ends(&self, rail: &Rail, bytes: u64) -> Share {
        self.begins(rail, bytes).saturating_add(rail.cost(bytes))
    }

    fn charge(&mut self, index: usize, bytes: u64) {
        let begins = self.begins(&self.rails[index], bytes);
        self.front = self.front.max(begins);
        let rail = &mut self.rails[index];
        rail.finish = begins.saturating_add(rail.cost(bytes));
        self.last = Some(index);
    }
}

impl Rail {
    fn is_reserve(&self) -> bool {
        self.weight == 0
    }

    fn cost(&self, bytes: u64) -> Share {
        share(bytes, u64::from(self.weight))
    }
}

#[cfg(test)]
mod tests;
