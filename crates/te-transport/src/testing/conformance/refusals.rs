//! What the target must not do, and that it goes on afterwards.

use std::sync::Arc;

use te_segment::{LocalBuffer, Opcode, Region, RegisterOptions, RemoteAccess, RemoteSegment};

use super::Rig;
use super::bench::{Bench, Failure, bytes_of, ensure_equal, filled, part_of, pattern};

const LEN: u64 = 8192;

/// Outside, before, over the end, across two touching buffers (peer fault 23, J50, J52, J54).
pub(super) fn bad_ranges(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    // One mapping: a margin that is never registered, two buffers that touch, another margin.
    let all = filled(usize::try_from(4 * LEN)?, 6)?;
    let (first, second) = (all.address() + LEN, all.address() + 2 * LEN);
    let buffers = [offer_part(&bench, &all, LEN)?, offer_part(&bench, &all, 2 * LEN)?];
    let local = bench.own(usize::try_from(2 * LEN)?, 7)?;
    let peer = bench.pair.target.remote();
    let table = [
        ("before", first - LEN, LEN),
        ("the byte before", first - 1, 1),
        ("half before", first - 8, 16),
        ("across touching buffers", second - 8, 16),
        ("one over the end", second + LEN - 16, 17),
        ("the byte behind", second + LEN, 1),
        ("far outside", 8, 8),
        ("longer than the buffer", second, LEN + 1),
    ];
    for (what, address, len) in table {
        for op in [Opcode::Write, Opcode::Read] {
            let name = format!("{op:?} {what}");
            let slice = bench.slice(op, local.range(0, len)?, &peer, address)?;
            bench.must_be_refused(slice, &name)?;
            ensure_equal(&bytes_of(&all)?, &pattern(usize::try_from(4 * LEN)?, 6), &name)?;
        }
        good_write(&bench, &buffers[0], &peer)?;
        all.write_from(0, &pattern(usize::try_from(4 * LEN)?, 6))?;
    }
    bench.finish()
}

/// The class of a refusal is `Refused` and no other, which the rest of the checks takes on trust
/// where a protocol cannot say so.
pub(super) fn told(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let target = bench.offer(64, 12)?;
    let local = bench.own(65, 13)?;
    let peer = bench.pair.target.remote();
    let slice = bench.slice(Opcode::Write, local.whole(), &peer, target.region().address())?;
    bench.must_be_refused(slice, "one byte more than the buffer")?;
    bench.finish()
}

/// Buffers that are not open to peers, or only for reading (J112).
pub(super) fn rights(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let closed = offer_with(&bench, RemoteAccess::None)?;
    let readable = offer_with(&bench, RemoteAccess::Read)?;
    let open = bench.offer(usize::try_from(LEN)?, 8)?;
    let local = bench.own(usize::try_from(LEN)?, 9)?;
    let peer = bench.pair.target.remote();
    let before = (bytes_of(closed.region())?, bytes_of(readable.region())?);
    for (name, op, buffer) in [
        ("write into a closed buffer", Opcode::Write, &closed),
        ("read of a closed buffer", Opcode::Read, &closed),
        ("write into a readable buffer", Opcode::Write, &readable),
    ] {
        let address = buffer.region().address() + 5;
        let slice = bench.slice(op, local.range(0, 100)?, &peer, address)?;
        bench.must_be_refused(slice, name)?;
    }
    ensure_equal(&bytes_of(closed.region())?, &before.0, "closed buffer")?;
    ensure_equal(&bytes_of(readable.region())?, &before.1, "readable buffer")?;
    ensure_equal(&bytes_of(&local)?, &pattern(usize::try_from(LEN)?, 9), "initiator")?;
    let address = readable.region().address() + 5;
    bench.must(bench.slice(Opcode::Read, local.range(0, 100)?, &peer, address)?)?;
    ensure_equal(&part_of(&local, 0, 100)?, &before.1[5..105], "what was read")?;
    good_write(&bench, &open, &peer)?;
    bench.finish()
}

/// A request that is right works directly after one that was refused.
fn good_write(
    bench: &Bench,
    buffer: &LocalBuffer,
    peer: &Arc<RemoteSegment>,
) -> Result<(), Failure> {
    let local = bench.own(333, 10)?;
    let address = buffer.region().address() + 1;
    bench.must(bench.slice(Opcode::Write, local.whole(), peer, address)?)?;
    let seen = part_of(buffer.region(), 1, 333)?;
    ensure_equal(&seen, &pattern(333, 10), "the good write after a refusal")
}

fn offer_with(bench: &Bench, remote: RemoteAccess) -> Result<Arc<LocalBuffer>, Failure> {
    let options = RegisterOptions { remote, ..RegisterOptions::default() };
    bench.offer_region(&filled(usize::try_from(LEN)?, 11)?, options)
}

/// `LEN` bytes of a larger region as a buffer of their own.
fn offer_part(bench: &Bench, all: &Region, offset: u64) -> Result<Arc<LocalBuffer>, Failure> {
    bench.offer_region(&all.subregion(offset, LEN)?, RegisterOptions::default())
}
