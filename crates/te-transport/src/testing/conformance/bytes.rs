//! Bytes arrive, all of them and no others.

use te_segment::Opcode;

use super::Rig;
use super::bench::{Bench, Failure, bytes_of, ensure_equal, pattern};
use crate::testing::seeded::Seeded;

const LEN: usize = 3 << 20;

/// Lengths around the limits of frames, pages and socket buffers (FB14).
const SIZES: [usize; 17] = [
    1, 2, 7, 8, 63, 64, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_537, 1_048_575, 1_048_576,
    1_048_577,
];

/// Each size at an odd offset on both sides, both ways; bytes around stay as they were.
pub(super) fn odd_sizes(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let target = bench.offer(LEN, 1)?;
    let local = bench.own(LEN, 2)?;
    let peer = bench.pair.target.remote();
    let (mut here, mut there) = (pattern(LEN, 2), pattern(LEN, 1));
    for (round, size) in SIZES.into_iter().enumerate() {
        let (from, to) = (2 * round + 1, 4099 * round + 3);
        for op in [Opcode::Write, Opcode::Read] {
            let shift = if op == Opcode::Write { 0 } else { LEN / 2 };
            let (from, to) = (from + shift, to + shift / 2);
            let range = local.range(from as u64, size as u64)?;
            let address = target.region().address() + to as u64;
            bench.must(bench.slice(op, range, &peer, address)?)?;
            match op {
                Opcode::Write => there[to..to + size].copy_from_slice(&here[from..from + size]),
                Opcode::Read => here[from..from + size].copy_from_slice(&there[to..to + size]),
            }
        }
        let what = format!("after {size} bytes each way");
        ensure_equal(&bytes_of(target.region())?, &there, &format!("target {what}"))?;
        ensure_equal(&bytes_of(&local)?, &here, &format!("initiator {what}"))?;
    }
    bench.finish()
}

/// Hundreds of slices at once, each to a place of its own.
pub(super) fn many(rig: &dyn Rig) -> Result<(), Failure> {
    const PLACE: usize = 16 << 10;
    const COUNT: usize = 400;
    let bench = Bench::new(rig);
    let target = bench.offer(PLACE * COUNT, 3)?;
    let local = bench.own(PLACE * COUNT, 4)?;
    let peer = bench.pair.target.remote();
    let (mut here, mut there) = (pattern(PLACE * COUNT, 4), pattern(PLACE * COUNT, 3));
    let mut random = Seeded::new(5);
    let mut slices = Vec::new();
    for place in (0..COUNT).map(|i| i * PLACE) {
        let len = usize::try_from(1 + random.below(PLACE as u64 - 1))?;
        let is_write = random.chance(500_000);
        let op = if is_write { Opcode::Write } else { Opcode::Read };
        let range = local.range(place as u64, len as u64)?;
        let address = target.region().address() + place as u64;
        slices.push(bench.slice(op, range, &peer, address)?);
        let bytes = place..place + len;
        if is_write {
            there[bytes.clone()].copy_from_slice(&here[bytes]);
        } else {
            here[bytes.clone()].copy_from_slice(&there[bytes]);
        }
    }
    bench.submit(&peer, slices)?;
    bench.settle()?;
    bench.ends_are_in(&[])?;
    ensure_equal(&bytes_of(target.region())?, &there, "target")?;
    ensure_equal(&bytes_of(&local)?, &here, "initiator")?;
    bench.finish()
}
