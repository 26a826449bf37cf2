//! A buffer goes away at the target while peers work on it.

use te_segment::{Opcode, Slice};

use super::Rig;
use super::bench::{Bench, Failure, bytes_of, ensure_equal, part_of, pattern};
use crate::completion::Completion;
use crate::fault::FaultClass;

const PLACE: usize = 500_000;
const COUNT: usize = 40;

/// Each slice ends; once the unregister has returned no byte changes; another buffer still works.
///
/// A protocol that can only break a path off in the middle of a payload ends the slice in a fault
/// of the rail, and the engine's next try is then refused.
pub(super) fn during_traffic(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let target = bench.offer(PLACE * COUNT, 50)?;
    let other = bench.offer(4096, 51)?;
    let local = bench.own(PLACE * COUNT, 52)?;
    let peer = bench.pair.target.remote();
    let place = |i: usize| -> Result<Slice, Failure> {
        let offset = (i * PLACE) as u64;
        let range = local.range(offset, PLACE as u64)?;
        bench.slice(Opcode::Write, range, &peer, target.region().address() + offset)
    };
    let mut queue = (0..COUNT).map(place).collect::<Result<_, Failure>>()?;
    bench.submit_once(&peer, &mut queue)?;
    bench.pump();
    let segment = bench.pair.target.segment();
    if let Some(retiring) = segment.retire(target.region().address())? {
        bench.pair.target.transport().deregister(retiring.buffer());
        retiring.finish(bench.bounds.settle)?;
    }
    let frozen = bytes_of(target.region())?;
    bench.submit(&peer, queue)?;
    bench.settle()?;
    ensure_equal(&bytes_of(target.region())?, &frozen, "memory after unregister")?;
    bench.ends_are_in(&[FaultClass::Refused, FaultClass::Rail])?;
    let wanted = pattern(PLACE * COUNT, 52);
    check_done(&bench.recorder.completions(), &frozen, &wanted)?;
    bench.must_be_refused(place(0)?, "a write into the old buffer")?;
    let range = local.range(0, 100)?;
    bench.must(bench.slice(Opcode::Write, range, &peer, other.region().address())?)?;
    ensure_equal(&part_of(other.region(), 0, 100)?, &wanted[..100], "the other buffer")?;
    bench.finish()
}

/// What was reported as done is there. Slot n wrote place n.
fn check_done(ends: &[Completion], seen: &[u8], wanted: &[u8]) -> Result<(), Failure> {
    for end in ends.iter().filter(|end| end.result.is_ok()) {
        let begin = usize::try_from(end.token.slot())? * PLACE;
        let bytes = begin..begin + PLACE;
        ensure_equal(&seen[bytes.clone()], &wanted[bytes], "a slice that was reported as done")?;
    }
    Ok(())
}
