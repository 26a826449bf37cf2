//! Requests beyond 2 and 4 GiB, in one piece.

use te_suites::{Direction, GUARD_LEN, Kind, Pair, Span, Version, available_memory, need, say};

use crate::{OURS_TO_PEER, PEER_TO_OURS};

const GIB: u64 = 1 << 30;
/// The length of peer fault 27.
const LONGEST: u64 = 4 * GIB + 12345;
const SIZE: u64 = LONGEST + 2 * GUARD_LEN + 64;

/// One pattern serves all lengths: its beginning is the pattern of a shorter transfer.
fn long_requests(test: &str, kinds: (Kind, Kind)) {
    need!(test, available_memory(2 * SIZE + 3 * GIB));
    let mut pair = need!(test, Pair::start(kinds, SIZE, Version::V2));
    let span = Span { src: GUARD_LEN + 1, dst: GUARD_LEN + 3, len: LONGEST };
    pair.prepare(Direction::Write, span, 27);
    for len in [2 * GIB + 1, 4 * GIB + 1, LONGEST] {
        let took = pair.call(Direction::Write, Span { len, ..span }).ok().took();
        say(&format!("{test}: write of {len} bytes in {:.2} s", took.as_secs_f64()));
        pair.target.verify_filled(span.dst + len, GUARD_LEN, 0xee);
    }
    pair.arrived(Direction::Write, span, 27);
    // The way back, over memory that holds something else.
    pair.initiator.fill(span.src, LONGEST, 0xee);
    for len in [2 * GIB + 1, 4 * GIB + 1] {
        let took = pair.call(Direction::Read, Span { len, ..span }).ok().took();
        say(&format!("{test}: read of {len} bytes in {:.2} s", took.as_secs_f64()));
        pair.initiator.verify_filled(span.src + len, GUARD_LEN, 0xee);
    }
    pair.initiator.verify(span.src, 4 * GIB + 1, 27);
    pair.quit();
}

#[test]
fn fault27_requests_beyond_4_gib_from_us_to_the_peer() {
    // FB14, peer fault 27: 2 GiB + 1, 4 GiB + 1 and 4 GiB + 12345 in one request each.
    long_requests("fault27_requests_beyond_4_gib_from_us_to_the_peer", OURS_TO_PEER);
}

#[test]
fn fault27_requests_beyond_4_gib_from_the_peer_to_us() {
    // FB14, peer fault 27: the peer calls.
    long_requests("fault27_requests_beyond_4_gib_from_the_peer_to_us", PEER_TO_OURS);
}
