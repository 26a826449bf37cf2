//! More slices than fit at once.

use std::collections::VecDeque;

use te_segment::{Opcode, Slice};

use super::Rig;
use super::bench::{Bench, Failure, bytes_of, ensure, ensure_equal, pattern};

const LEN: usize = 512;

/// `submit` leaves what does not fit, says so, tells of room, and takes the rest.
pub(super) fn overload(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let count = bench.bounds.overload;
    let target = bench.offer(LEN * count, 40)?;
    let local = bench.own(LEN * count, 41)?;
    let peer = bench.pair.target.remote();
    let mut queue: VecDeque<Slice> = VecDeque::with_capacity(count);
    for offset in (0..count).map(|i| (i * LEN) as u64) {
        let range = local.range(offset, LEN as u64)?;
        let address = target.region().address() + offset;
        queue.push_back(bench.slice(Opcode::Write, range, &peer, address)?);
    }
    let taken = bench.submit_once(&peer, &mut queue)?;
    ensure(taken < count, || format!("all {count} slices were taken at once"))?;
    ensure(taken > 0, || "no slice was taken by an idle transport".to_owned())?;
    bench.submit(&peer, queue)?;
    bench.settle()?;
    bench.ends_are_in(&[])?;
    ensure_equal(&bytes_of(target.region())?, &pattern(LEN * count, 41), "target")?;
    bench.finish()
}
