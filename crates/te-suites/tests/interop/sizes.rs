//! Lengths around every border, at odd offsets, with each version of the data protocol.

use te_suites::{Direction, GUARD_LEN, Kind, Pair, Span, Version, need, say};

use crate::{OURS_TO_PEER, PEER_TO_OURS};

const MIB: u64 = 1 << 20;

/// FB14, and the borders of what both engines move in one piece: the peer's slices of 64 KiB, our
/// stripes of a few MiB.
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
    2 * MIB + 1,
    4 * MIB - 1,
    4 * MIB,
    4 * MIB + 1,
    16 * MIB + 13,
];

fn every_length(test: &str, kinds: (Kind, Kind), version: Version) {
    let mut pair = need!(test, Pair::start(kinds, 20 * MIB, version));
    let mut n_moved = 0;
    for (seed, &len) in (1..).zip(LENGTHS) {
        for dir in Direction::BOTH {
            let span = Span { src: GUARD_LEN + 13, dst: GUARD_LEN + 4099, len };
            pair.moves(dir, span, seed);
            n_moved += 1;
        }
    }
    say(&format!("{test}: {n_moved} transfers, every byte checked"));
    pair.quit();
}

#[test]
fn fb14_every_length_from_us_to_the_peer_v2() {
    // FB14, J118, peer fault 26: lengths and odd offsets, write and read, acknowledged framing.
    every_length("fb14_every_length_from_us_to_the_peer_v2", OURS_TO_PEER, Version::V2);
}

#[test]
fn fb14_every_length_from_us_to_the_peer_v1() {
    // FB14, J118: the same in the old framing, forced on our side.
    every_length("fb14_every_length_from_us_to_the_peer_v1", OURS_TO_PEER, Version::V1);
}

#[test]
fn fb14_every_length_from_the_peer_to_us_v2() {
    // FB14, J118, peer fault 26: the peer calls.
    every_length("fb14_every_length_from_the_peer_to_us_v2", PEER_TO_OURS, Version::V2);
}

#[test]
fn fb14_every_length_from_the_peer_to_us_v1() {
    // FB14, J55, J118: the peer calls in the old framing.
    every_length("fb14_every_length_from_the_peer_to_us_v1", PEER_TO_OURS, Version::V1);
}

fn nothing(test: &str, kinds: (Kind, Kind)) {
    let mut pair = need!(test, Pair::start(kinds, MIB, Version::V2));
    pair.target.fill(0, MIB, 0x3c);
    for dir in Direction::BOTH {
        pair.call(dir, Span { src: 13, dst: 77, len: 0 }).ok();
        pair.call(dir, Span { src: 13, dst: 1 << 40, len: 0 }).ok();
    }
    pair.target.verify_filled(0, MIB, 0x3c);
    pair.quit();
}

#[test]
fn fault25_nothing_is_moved_at_once_by_us() {
    // FB14, peer fault 25: a request of no bytes completes, whatever its address.
    nothing("fault25_nothing_is_moved_at_once_by_us", OURS_TO_PEER);
}

#[test]
fn fault25_nothing_is_moved_at_once_by_the_peer() {
    // FB14, peer fault 25: the peer calls.
    nothing("fault25_nothing_is_moved_at_once_by_the_peer", PEER_TO_OURS);
}
