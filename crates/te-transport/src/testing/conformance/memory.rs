//! Memory that is gone, on either side, is an error and never a signal.

use te_segment::{AlignedBuffer, Opcode, RegisterOptions, VanishingMemory};

use super::Rig;
use super::bench::{Bench, Failure, ensure, ensure_equal, part_of, pattern};
use crate::fault::FaultClass;

const LEN: usize = 1 << 20;

/// Peer fault 28: the initiator's own memory.
pub(super) fn local(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let target = bench.offer(LEN, 60)?;
    let memory = VanishingMemory::new(AlignedBuffer::zeroed(LEN)?);
    bench.own_region(memory.region())?;
    let peer = bench.pair.target.remote();
    memory.vanish();
    for op in [Opcode::Write, Opcode::Read] {
        let whole = memory.region().whole();
        let address = target.region().address();
        let fault = bench.must_fail(bench.slice(op, whole, &peer, address)?)?;
        ensure(fault.class == FaultClass::Local, || {
            format!("{op:?} with vanished memory is {:?}: {fault}", fault.class)
        })?;
    }
    still_works(&bench)
}

/// Peer fault 29: the target's memory, still registered.
pub(super) fn target(rig: &dyn Rig) -> Result<(), Failure> {
    let bench = Bench::new(rig);
    let memory = VanishingMemory::new(AlignedBuffer::zeroed(LEN)?);
    bench.offer_region(memory.region(), RegisterOptions::default())?;
    let local = bench.own(LEN, 61)?;
    let peer = bench.pair.target.remote();
    memory.vanish();
    for op in [Opcode::Write, Opcode::Read] {
        let address = memory.region().address();
        let fault = bench.must_fail(bench.slice(op, local.whole(), &peer, address)?)?;
        let classes = [FaultClass::Refused, FaultClass::Rail, FaultClass::Peer];
        ensure(classes.contains(&fault.class), || {
            format!("{op:?} at vanished memory is {:?}: {fault}", fault.class)
        })?;
    }
    still_works(&bench)
}

fn still_works(bench: &Bench) -> Result<(), Failure> {
    let buffer = bench.offer(4096, 62)?;
    let local = bench.own(4096, 63)?;
    let peer = bench.pair.target.remote();
    let address = buffer.region().address();
    bench.must(bench.slice(Opcode::Write, local.whole(), &peer, address)?)?;
    ensure_equal(&part_of(buffer.region(), 0, 4096)?, &pattern(4096, 63), "afterwards")?;
    bench.finish()
}
