//! Every length works.

use te_suites::{Direction, GUARD_LEN, Pair, Span, Version, available_memory, need, say};

use crate::{MIB, OURS};

/// FB14, and the borders of our own pieces, which are 1 to 64 MiB.
const LENGTHS: &[u64] = &[
    1,
    2,
    7,
    8,
    63,
    64,
    511,
    512,
    513,
    4095,
    4096,
    4097,
    65535,
    65536,
    65537,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB - 1,
    2 * MIB,
    2 * MIB + 1,
    4 * MIB + 3,
    64 * MIB - 1,
    64 * MIB + 1,
];

fn every_length(test: &str, version: Version) {
    let mut pair = need!(test, Pair::start(OURS, 72 * MIB, version));
    for (seed, &len) in (1..).zip(LENGTHS) {
        for dir in Direction::BOTH {
            pair.moves(dir, Span { src: GUARD_LEN + 13, dst: GUARD_LEN + 4099, len }, seed);
        }
    }
    say(&format!("{test}: {} transfers, every byte checked", 2 * LENGTHS.len()));
    pair.quit();
}

#[test]
fn fb14_every_length_between_two_of_ours_v2() {
    // FB14: write and read at odd offsets, guard bytes untouched.
    every_length("fb14_every_length_between_two_of_ours_v2", Version::V2);
}

#[test]
fn fb14_every_length_between_two_of_ours_v1() {
    // FB14: the same in the old framing.
    every_length("fb14_every_length_between_two_of_ours_v1", Version::V1);
}

#[test]
fn fb14_requests_beyond_2_and_4_gib_between_two_of_ours() {
    // FB14: 2 GiB + 1 and 4 GiB + 1 in one request each.
    const GIB: u64 = 1 << 30;
    let test = "fb14_requests_beyond_2_and_4_gib_between_two_of_ours";
    let size = 4 * GIB + 2 * GUARD_LEN + 64;
    need!(test, available_memory(2 * size + 3 * GIB));
    let mut pair = need!(test, Pair::start(OURS, size, Version::V2));
    let span = Span { src: GUARD_LEN + 1, dst: GUARD_LEN + 3, len: 4 * GIB + 1 };
    pair.prepare(Direction::Write, span, 14);
    pair.call(Direction::Write, Span { len: 2 * GIB + 1, ..span }).ok();
    pair.target.verify_filled(span.dst + 2 * GIB + 1, GUARD_LEN, 0xee);
    let took = pair.call(Direction::Write, span).ok().took();
    say(&format!("{test}: {} bytes in {:.2} s", span.len, took.as_secs_f64()));
    pair.arrived(Direction::Write, span, 14);
    pair.quit();
}
