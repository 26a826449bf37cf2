//! What a completion promises holds in the moment it is given.

use std::sync::Arc;

use te_segment::{Opcode, Region};
use te_sync::Mutex;

use super::Rig;
use super::bench::{Bench, Failure, bytes_of, ensure_equal, pattern};
use crate::testing::recorder::Recorder;

const LEN: usize = 300_001;
const ROUNDS: u64 = 50;

/// The bytes that must be in place when the next completion comes.
struct Expectation {
    place: Option<(Region, Vec<u8>)>,
    seen: Result<u64, String>,
}

impl Expectation {
    fn look(&mut self) {
        let Some((region, wanted)) = self.place.take() else { return };
        let round = self.seen.clone().unwrap_or(0) + 1;
        let what = format!("in the completion of round {round}");
        let looked = bytes_of(&region).and_then(|seen| ensure_equal(&seen, &wanted, &what));
        self.seen = match looked {
            Ok(()) => self.seen.clone().map(|_| round),
            Err(failure) => Err(failure.into_text()),
        };
    }
}

/// FB05, J51: the bytes of a finished write are in the target's memory.
pub(super) fn writes(rig: &dyn Rig) -> Result<(), Failure> {
    rounds(rig, Opcode::Write)
}

/// The bytes of a finished read are in the initiator's memory.
pub(super) fn reads(rig: &dyn Rig) -> Result<(), Failure> {
    rounds(rig, Opcode::Read)
}

fn rounds(rig: &dyn Rig, op: Opcode) -> Result<(), Failure> {
    let expectation: Arc<Mutex<Expectation>> =
        Arc::new(Mutex::new(Expectation { place: None, seen: Ok(0) }));
    let probed = Arc::clone(&expectation);
    let bench = Bench::with(rig, Recorder::with_probe(move |_| probed.lock().look()));
    let target = bench.offer(LEN, 20)?;
    let local = bench.own(LEN, 21)?;
    let peer = bench.pair.target.remote();
    let (from, to) = match op {
        Opcode::Write => (&local, target.region()),
        Opcode::Read => (target.region(), &local),
    };
    for round in 0..ROUNDS {
        let bytes = pattern(LEN, 1000 + round);
        from.write_from(0, &bytes)?;
        expectation.lock().place = Some((to.clone(), bytes));
        let address = target.region().address();
        bench.must(bench.slice(op, local.whole(), &peer, address)?)?;
        if let Err(failure) = &expectation.lock().seen {
            return Err(Failure::new(failure.clone()));
        }
    }
    bench.finish()
}
