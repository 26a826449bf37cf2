//! 1 byte to 256 MiB, each way, over one NIC and over two.

use te_suites::{Direction, need, retry_shim, say};

use super::node::{WheelSpec, available};
use super::pair::{Caller, Ends, Pair};
use crate::watched::Watched;

const MIB: u64 = 1 << 20;

/// The borders of what both engines move in one piece: their packets, slices of 64 KiB whose tail joins
/// the one before, our pieces.
const LENGTHS: &[u64] =
    &[1, 7, 64, 65, 4095, 4096, 4097, 65_535, 65_536, 65_537, 81_921, MIB, MIB + 1, 8 * MIB + 13];

fn every_length(test: &str, n_nics: usize) {
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let mut pair = Pair::new(&verbs, n_nics, 10 * MIB);
    let mut n_moved = 0;
    for (seed, &len) in (1..).zip(LENGTHS) {
        for caller in [Caller::We, Caller::TheWheel] {
            for direction in Direction::BOTH {
                pair.moves(caller, direction, Ends { here: 1031, there: 4099, len }, seed);
                n_moved += 1;
            }
        }
    }
    say(&format!("row {n_moved} transfers over {n_nics} NICs, every byte checked"));
    pair.quit();
}

#[test]
fn every_length_over_one_nic() {
    // Issue 7, part 4; J93.
    every_length("wheel::moves::every_length_over_one_nic", 1);
}

#[test]
fn every_length_over_two_nics() {
    // Issue 7, part 4; J93.
    every_length("wheel::moves::every_length_over_two_nics", 2);
}

#[test]
fn a_quarter_of_a_gibibyte_each_way() {
    // Issue 7, part 4: the largest transfer; each writes and each reads.
    let test = "wheel::moves::a_quarter_of_a_gibibyte_each_way";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    // Emulated NICs that never give up may stand still for the 30 s that a call of the peer has.
    let shim = need!(test, retry_shim().ok_or("TE_RETRY_SHIM names no file"));
    let spec = WheelSpec::new("rxe2,rxe3", 258 * MIB)
        .env("LD_PRELOAD", &shim.display().to_string())
        .env("MC_TRANSFER_TIMEOUT", "80");
    let mut pair = Pair::with(&verbs, 2, &spec);
    let ends = Ends { here: MIB + 3, there: MIB + 64, len: 256 * MIB };
    for (seed, direction) in [(5, Direction::Write), (7, Direction::Read)] {
        pair.moves(Caller::We, direction, ends, seed);
        pair.moves(Caller::TheWheel, direction, ends, seed + 1);
    }
    pair.quit();
}

const N_PARTS: u64 = 64;
const PART: u64 = 8192;
/// The same as a length in memory.
const LEN: usize = 8192;

/// The bytes of so many parts, each with its own.
fn parts_of(seed: u64) -> Vec<u8> {
    (0..N_PARTS).flat_map(|i| te_suites::pattern::bytes(seed + i, LEN)).collect()
}

/// The last part in the place of the first, and so on.
fn crossed(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(LEN).rev().flatten().copied().collect()
}

#[test]
fn batches_cross_over() {
    // Issue 7, part 4: 64 parts of 8 KiB, the last to the place of the first, whoever calls.
    let test = "wheel::moves::batches_cross_over";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let mut pair = Pair::new(&verbs, 2, MIB);
    for caller in [Caller::We, Caller::TheWheel] {
        for direction in Direction::BOTH {
            let (here, there) = (parts_of(100), parts_of(200));
            pair.buffer.region().write_from(0, &here).unwrap();
            pair.wheel.put(0, &there);
            call(&mut pair, caller, direction);
            let mut ours = vec![0; here.len()];
            pair.buffer.region().read_into(0, &mut ours).unwrap();
            if Pair::comes(caller, direction) {
                assert!(ours == crossed(&there), "{caller:?} {direction:?}: what came");
            } else {
                let theirs = pair.wheel.bytes(0, here.len());
                assert!(theirs == crossed(&here), "{caller:?} {direction:?}: what left");
            }
        }
    }
    pair.quit();
}

/// One batch of all parts.
fn call(pair: &mut Pair, caller: Caller, direction: Direction) {
    let crossing = |i: u64| (i * PART, (N_PARTS - 1 - i) * PART);
    match caller {
        Caller::We => {
            let part = |i| pair.piece(direction, crossing(i), PART);
            pair.carry(&(0..N_PARTS).map(part).collect::<Vec<_>>());
        }
        Caller::TheWheel => {
            let base = pair.buffer.region().address();
            let part = |i| (crossing(i).0, base + crossing(i).1, PART);
            let parts: Vec<_> = (0..N_PARTS).map(part).collect();
            let name = pair.host.name().to_owned();
            assert_eq!(pair.wheel.batch(direction, &name, &parts), 0, "{direction:?}");
        }
    }
}
