//! What the checks share: memory on both sides, slices with fresh tokens, waiting.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{
    Allocation, LocalBuffer, LocalRange, Opcode, Region, RegisterOptions, RemoteRange,
    RemoteSegment, Slice, SliceToken,
};

use super::{Ability, Bounds, Pair, Rig};
use crate::clock::{Clock as _, SystemClock};
use crate::completion::{Completion, RemoteSide};
use crate::fault::{FaultClass, SliceFault};
use crate::testing::recorder::Recorder;
use crate::testing::seeded::Seeded;
use crate::transport::Driven;

/// Why a check failed.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

pub(super) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure(otherwise())) }
}

/// One pair at work.
pub(super) struct Bench {
    pub(super) pair: Pair,
    pub(super) recorder: Arc<Recorder>,
    pub(super) bounds: Bounds,
    tells_refusal: bool,
    tokens: RefCell<Vec<SliceToken>>,
    next: Cell<u32>,
}

impl Bench {
    pub(super) fn new(rig: &dyn Rig) -> Self {
        Self::with(rig, Recorder::new())
    }

    pub(super) fn with(rig: &dyn Rig, recorder: Arc<Recorder>) -> Self {
        let pair = rig.pair(Arc::clone(&recorder));
        let (tokens, next) = (RefCell::default(), Cell::new(0));
        let tells_refusal = rig.lacks(Ability::TellsRefusal).is_none();
        Self { pair, recorder, bounds: rig.bounds(), tells_refusal, tokens, next }
    }

    /// Memory that the target offers, filled by `seed`.
    pub(super) fn offer(&self, len: usize, seed: u64) -> Result<Arc<LocalBuffer>, Failure> {
        let region = filled(len, seed)?;
        self.offer_region(&region, RegisterOptions::default())
    }

    pub(super) fn offer_region(
        &self,
        region: &Region,
        options: RegisterOptions,
    ) -> Result<Arc<LocalBuffer>, Failure> {
        let buffer = self.pair.target.segment().register(region, options)?;
        self.pair.target.transport().register(&buffer).map_err(|e| Failure(e.to_string()))?;
        Ok(buffer)
    }

    /// Memory of the initiator, filled by `seed`.
    pub(super) fn own(&self, len: usize, seed: u64) -> Result<Region, Failure> {
        let region = filled(len, seed)?;
        self.own_region(&region)?;
        Ok(region)
    }

    pub(super) fn own_region(&self, region: &Region) -> Result<(), Failure> {
        let buffer = self.pair.segment.register(region, RegisterOptions::default())?;
        self.pair.initiator.register(&buffer).map_err(|e| Failure(e.to_string()))
    }

    /// A slice of the whole of `local` to or from the peer's `address`.
    pub(super) fn slice(
        &self,
        op: Opcode,
        local: LocalRange,
        peer: &Arc<RemoteSegment>,
        address: u64,
    ) -> Result<Slice, Failure> {
        let slot = self.next.get();
        self.next.set(slot + 1);
        let token = SliceToken::new(slot, 1);
        let remote = RemoteRange::new(address, local.len())?;
        let peer = Arc::clone(peer);
        Ok(Slice { token, op, local, remote, peer, attempt: 0, checked: false })
    }

    /// Hands slices over until all are taken, driving in between.
    pub(super) fn submit(
        &self,
        peer: &Arc<RemoteSegment>,
        slices: impl IntoIterator<Item = Slice>,
    ) -> Result<(), Failure> {
        let mut queue: VecDeque<Slice> = slices.into_iter().collect();
        let limit = self.limit(self.bounds.settle);
        while !queue.is_empty() {
            // Counted before: room may be told of before `submit` returns.
            let rooms = self.recorder.rooms();
            self.submit_once(peer, &mut queue)?;
            while !queue.is_empty() && self.recorder.rooms() == rooms {
                limit.check(self, || format!("{} slices are still not taken", queue.len()))?;
                self.pump();
            }
        }
        Ok(())
    }

    /// Hands over what is taken at once; how many slices that were.
    pub(super) fn submit_once(
        &self,
        peer: &Arc<RemoteSegment>,
        queue: &mut VecDeque<Slice>,
    ) -> Result<usize, Failure> {
        let offered: Vec<SliceToken> = queue.iter().map(|slice| slice.token).collect();
        let taken = self.pair.initiator.submit(peer, queue);
        let really = offered.len() - queue.len();
        self.tokens.borrow_mut().extend(&offered[..really]);
        ensure(taken == really, || format!("took {really} slices and says {taken}"))?;
        Ok(taken)
    }

    /// Tokens of all slices that were taken.
    pub(super) fn tokens(&self) -> Vec<SliceToken> {
        self.tokens.borrow().clone()
    }

    /// Waits until as many completions came as slices were taken, and compares them.
    pub(super) fn settle(&self) -> Result<(), Failure> {
        self.settle_within(self.bounds.settle)
    }

    pub(super) fn settle_within(&self, patience: Duration) -> Result<(), Failure> {
        let wanted = self.tokens.borrow().len();
        let limit = self.limit(patience);
        while self.recorder.count() < wanted {
            limit.check(self, || format!("{} of {wanted} slices ended", self.recorder.count()))?;
            self.pump();
        }
        self.exactly_once()
    }

    pub(super) fn exactly_once(&self) -> Result<(), Failure> {
        Ok(self.recorder.check_exactly_once(&self.tokens.borrow())?)
    }

    /// Hands one slice over and waits for its end.
    pub(super) fn run(&self, slice: Slice) -> Result<Completion, Failure> {
        let (token, peer) = (slice.token, Arc::clone(&slice.peer));
        self.submit(&peer, [slice])?;
        self.settle()?;
        self.end_of(token)
    }

    /// As `run`, for a slice that must succeed.
    pub(super) fn must(&self, slice: Slice) -> Result<(), Failure> {
        let text = format!("{slice:?}");
        let end = self.run(slice)?;
        end.result.map_err(|fault| Failure(format!("{text} failed: {fault}")))
    }

    /// As `run`, for a slice that must fail.
    pub(super) fn must_fail(&self, slice: Slice) -> Result<SliceFault, Failure> {
        let text = format!("{slice:?}");
        match self.run(slice)?.result {
            Ok(()) => Err(Failure(format!("{text} was reported as done"))),
            Err(fault) => Ok(fault),
        }
    }

    /// As `must_fail`, for a slice that the target must refuse.
    pub(super) fn must_be_refused(&self, slice: Slice, what: &str) -> Result<(), Failure> {
        let token = slice.token;
        let fault = self.must_fail(slice)?;
        if !self.tells_refusal && fault.class == FaultClass::Rail {
            return Ok(());
        }
        ensure(fault.class == FaultClass::Refused, || {
            format!("{what} is not refused but {:?}: {fault}", fault.class)
        })?;
        let remote = self.end_of(token)?.remote;
        ensure(remote != RemoteSide::InDoubt, || format!("{what} leaves the peer in doubt"))
    }

    pub(super) fn end_of(&self, token: SliceToken) -> Result<Completion, Failure> {
        let mut ends = self.recorder.of(token);
        ends.pop().ok_or_else(|| Failure(format!("{token:?} has no end")))
    }

    /// Every end is a success or of one of these classes.
    pub(super) fn ends_are_in(&self, classes: &[FaultClass]) -> Result<(), Failure> {
        for end in self.recorder.completions() {
            if let Err(fault) = &end.result {
                ensure(classes.contains(&fault.class), || {
                    format!("{:?} ended as {:?}: {fault}", end.token, fault.class)
                })?;
            }
        }
        Ok(())
    }

    /// Drives the initiator a little, or waits for whoever does.
    pub(super) fn pump(&self) {
        const STEP: Duration = Duration::from_millis(5);
        let seen = self.recorder.count() + self.recorder.rooms();
        if self.pair.initiator.drive(self.pair.clock.now() + STEP) == Driven::Busy {
            self.recorder.wait_beyond(seen, STEP);
        }
    }

    /// Lets `time` pass on the rig's clock.
    pub(super) fn linger(&self, time: Duration) -> Result<(), Failure> {
        let end = self.pair.clock.now() + time;
        let limit = self.limit(time);
        while self.pair.clock.now() < end {
            limit.check_real(|| "time does not pass".to_owned())?;
            self.pump();
        }
        Ok(())
    }

    /// Closes both ends; nothing that ended may end again.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let deadline = self.pair.clock.now() + self.bounds.settle;
        let here = self.pair.initiator.close(deadline);
        let there = self.pair.target.transport().close(deadline);
        ensure(here.joined && there.joined, || "close left threads behind".to_owned())?;
        self.exactly_once()
    }

    fn limit(&self, patience: Duration) -> Limit {
        // A clock that stands still would let a check wait for ever.
        let real = SystemClock.now() + patience + Duration::from_secs(10);
        Limit { at: self.pair.clock.now() + patience, real }
    }
}

/// How long a check waits.
struct Limit {
    at: Instant,
    real: Instant,
}

impl Limit {
    fn check(&self, bench: &Bench, seen: impl FnOnce() -> String) -> Result<(), Failure> {
        if bench.pair.clock.now() >= self.at {
            return Err(Failure(format!("{} when the time was over", seen())));
        }
        self.check_real(seen)
    }

    fn check_real(&self, seen: impl FnOnce() -> String) -> Result<(), Failure> {
        ensure(SystemClock.now() < self.real, || format!("{} when the time was over", seen()))
    }
}

/// Engine memory with bytes that follow from `seed`. It is shareable, as what engines allocate is: a
/// transport that can map the memory of a peer does so here.
pub(super) fn filled(len: usize, seed: u64) -> Result<Region, Failure> {
    let region = Region::from(Allocation::new(len).shareable().allocate()?);
    region.write_from(0, &pattern(len, seed))?;
    Ok(region)
}

pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Seeded::new(seed).fill(&mut bytes);
    bytes
}

/// All bytes of a region as they are now.
pub(super) fn bytes_of(region: &Region) -> Result<Vec<u8>, Failure> {
    part_of(region, 0, region.len())
}

pub(super) fn part_of(region: &Region, offset: u64, len: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; usize::try_from(len)?];
    region.read_into(offset, &mut bytes)?;
    Ok(bytes)
}

/// Tells where two pieces of memory differ first.
pub(super) fn ensure_equal(seen: &[u8], wanted: &[u8], what: &str) -> Result<(), Failure> {
    if seen == wanted {
        return Ok(());
    }
    let at = seen.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(seen.len());
    Err(Failure(format!("{what}: wrong from byte {at} of {}", wanted.len())))
}
