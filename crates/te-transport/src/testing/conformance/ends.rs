//! Ends that are not a plain success: called back, peer dead, closing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use te_segment::{LocalBuffer, Opcode, Region, RemoteSegment, Slice, SliceToken};

use super::Rig;
use super::bench::{Bench, Failure, bytes_of, ensure, ensure_equal, part_of, pattern};
use crate::completion::Completion;
use crate::fault::FaultClass;

const PLACE: usize = 200_000;
const COUNT: usize = 60;

/// One target buffer and one local region with a place for each slice.
struct Traffic {
    target: Arc<LocalBuffer>,
    local: Region,
    peer: Arc<RemoteSegment>,
}

impl Traffic {
    fn new(bench: &Bench) -> Result<Self, Failure> {
        let target = bench.offer(PLACE * COUNT, 30)?;
        let local = bench.own(PLACE * COUNT, 31)?;
        Ok(Self { target, local, peer: bench.pair.target.remote() })
    }

    /// A slice for each place, writes and reads in turn.
    fn slices(&self, bench: &Bench) -> Result<VecDeque<Slice>, Failure> {
        let place = |i: usize| {
            let offset = (i * PLACE) as u64;
            let op = if i.is_multiple_of(2) { Opcode::Write } else { Opcode::Read };
            let range = self.local.range(offset, PLACE as u64)?;
            bench.slice(op, range, &self.peer, self.target.region().address() + offset)
        };
        (0..COUNT).map(place).collect()
    }

    /// Where a slice ended well its bytes are equal on both sides.
    fn check_done(&self, slices: &[Slice], ends: &[Completion]) -> Result<(), Failure> {
        for slice in slices {
            if ends.iter().any(|end| end.token == slice.token && end.result.is_ok()) {
                let offset = slice.local.offset();
                let here = part_of(&self.local, offset, slice.len())?;
                let there = part_of(self.target.region(), offset, slice.len())?;
                ensure_equal(&there, &here, "a slice that was reported as done")?;
            }
        }
        Ok(())
    }
}

/// Every third slice is called back while all are queued or moving.
pub(super) fn cancel(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let traffic = Traffic::new(&bench)?;
    let mut queue = traffic.slices(&bench)?;
    let slices: Vec<Slice> = queue.iter().cloned().collect();
    bench.submit_once(&traffic.peer, &mut queue)?;
    bench.pump();
    let called: Vec<SliceToken> = bench.tokens().into_iter().skip(1).step_by(3).collect();
    bench.pair.initiator.cancel(&called);
    bench.submit(&traffic.peer, queue)?;
    bench.settle()?;
    // A transport may have to break off a path, with others on it: their next try is the engine's.
    bench.ends_are_in(&[FaultClass::Cancelled, FaultClass::Rail])?;
    for end in bench.recorder.completions() {
        let is_cancelled = end.result.is_err_and(|fault| fault.class == FaultClass::Cancelled);
        ensure(!is_cancelled || called.contains(&end.token), || {
            format!("{:?} was not called back and ended so", end.token)
        })?;
    }
    traffic.check_done(&slices, &bench.recorder.completions())?;
    untouched_afterwards(&bench, &traffic.local)?;
    bench.finish()
}

/// Tokens that never were, and tokens of slices that ended.
pub(super) fn cancel_unknown(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let target = bench.offer(4096, 32)?;
    let local = bench.own(4096, 33)?;
    let peer = bench.pair.target.remote();
    bench.pair.initiator.cancel(&[SliceToken::new(1 << 20, 7)]);
    let address = target.region().address();
    bench.must(bench.slice(Opcode::Write, local.whole(), &peer, address)?)?;
    bench.pair.initiator.cancel(&bench.tokens());
    bench.must(bench.slice(Opcode::Read, local.whole(), &peer, address)?)?;
    bench.linger(Duration::from_millis(50))?;
    bench.finish()
}

/// The target dies under traffic; later slices end as well.
pub(super) fn peer_gone(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let traffic = Traffic::new(&bench)?;
    let mut queue = traffic.slices(&bench)?;
    let slices: Vec<Slice> = queue.iter().cloned().collect();
    bench.submit_once(&traffic.peer, &mut queue)?;
    bench.pump();
    bench.pair.target.kill();
    bench.settle_within(bench.bounds.peer_gone)?;
    bench.ends_are_in(&[FaultClass::Peer, FaultClass::Rail])?;
    traffic.check_done(&slices, &bench.recorder.completions())?;
    let range = traffic.local.range(0, 64)?;
    let address = traffic.target.region().address();
    let late = bench.slice(Opcode::Write, range, &traffic.peer, address)?;
    let token = late.token;
    bench.submit(&traffic.peer, [late])?;
    bench.settle_within(bench.bounds.peer_gone)?;
    let end = bench.end_of(token)?;
    ensure(end.result.is_err(), || "a write to a dead peer was reported as done".to_owned())?;
    bench.ends_are_in(&[FaultClass::Peer, FaultClass::Rail])?;
    untouched_afterwards(&bench, &traffic.local)?;
    bench.finish()
}

/// Closing with slices queued and moving; then closing again, and handing over more.
pub(super) fn close(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let traffic = Traffic::new(&bench)?;
    let mut queue = traffic.slices(&bench)?;
    let slices: Vec<Slice> = queue.iter().cloned().collect();
    bench.submit_once(&traffic.peer, &mut queue)?;
    let transport = &bench.pair.initiator;
    let deadline = bench.pair.clock.now() + bench.bounds.settle;
    let report = transport.close(deadline);
    ensure(report.joined, || "threads are left".to_owned())?;
    bench.exactly_once()?;
    bench.ends_are_in(&[FaultClass::Closed])?;
    traffic.check_done(&slices, &bench.recorder.completions())?;
    let mut more: VecDeque<Slice> = slices.into_iter().rev().take(1).collect();
    let taken = transport.submit(&traffic.peer, &mut more);
    ensure(taken == 0, || format!("{taken} slices were taken after close"))?;
    let again = transport.close(deadline);
    ensure(again.joined, || "the second close found threads".to_owned())?;
    untouched_afterwards(&bench, &traffic.local)?;
    bench.finish()
}

/// Closing without work, twice.
pub(super) fn close_idle(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    for round in ["first", "second"] {
        let report = bench.pair.initiator.close(bench.pair.clock.now() + bench.bounds.settle);
        ensure(report.settled == 0, || format!("the {round} close settled {}", report.settled))?;
        ensure(report.joined, || format!("the {round} close left threads behind"))?;
    }
    bench.finish()
}

/// After its end no slice touches local memory: new bytes there stay, and nothing ends again.
fn untouched_afterwards(bench: &Bench, local: &Region) -> Result<(), Failure> {
    let len = usize::try_from(local.len())?;
    local.write_from(0, &pattern(len, 34))?;
    bench.linger(Duration::from_millis(50))?;
    ensure_equal(&bytes_of(local)?, &pattern(len, 34), "local memory after all slices ended")?;
    bench.exactly_once()
}
