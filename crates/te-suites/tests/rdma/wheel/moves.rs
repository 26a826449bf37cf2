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
    // Issue 7, part 4: the largest transfer; we write, the peer writes.
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
    pair.moves(Caller::We, Direction::Write, ends, 5);
    pair.moves(Caller::TheWheel, Direction::Write, ends, 6);
    pair.quit();
}

#[test]
fn batches_cross_over() {
    // Issue 7, part 4: 64 parts of 8 KiB, the last to the place of the first.
    let test = "wheel::moves::batches_cross_over";
    need!(test, available());
    let verbs = need!(test, Watched::with_devices(4));
    let mut pair = Pair::new(&verbs, 2, MIB);
    const N: u64 = 64;
    const LEN: u64 = 8192;
    let base = pair.buffer.region().address();
    let parts: Vec<(u64, u64, u64)> =
        (0..N).map(|i| (i * LEN, base + (N - 1 - i) * LEN, LEN)).collect();
    for direction in Direction::BOTH {
        let (mut here, mut there) = (vec![0_u8; 0], vec![0_u8; 0]);
        for i in 0..N {
            here.extend(te_suites::pattern::bytes(100 + i, 8192));
            there.extend(te_suites::pattern::bytes(200 + i, 8192));
        }
        pair.buffer.region().write_from(0, &here).unwrap();
        pair.wheel.put(0, &there);
        let name = pair.host.name().to_owned();
        assert_eq!(pair.wheel.batch(direction, &name, &parts), 0, "{direction:?}");
        let cross =
            |bytes: &[u8]| -> Vec<u8> { bytes.chunks(8192).rev().flatten().copied().collect() };
        let mut ours = vec![0; here.len()];
        pair.buffer.region().read_into(0, &mut ours).unwrap();
        match direction {
            Direction::Write => assert!(ours == cross(&there), "what the peer wrote"),
            Direction::Read => {
                assert!(pair.wheel.bytes(0, here.len()) == cross(&here), "what the peer read");
            }
        }
    }
    pair.quit();
}
