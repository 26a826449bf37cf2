//! Batches larger than any queue.

use te_suites::{Bound, Case, Direction, Pair, Parts, Version, need, say};

use crate::{MIB, OURS};

const ROOM: u64 = 32 * MIB;

fn batch(test: &str, n: u64, len: u64, dir: Direction) {
    let mut pair = need!(test, Pair::start(OURS, ROOM, Version::V2));
    pair.initiator.pattern(0, ROOM, 12);
    pair.target.pattern(0, ROOM, 12);
    let cleared = match dir {
        Direction::Write => &mut pair.target,
        Direction::Read => &mut pair.initiator,
    };
    cleared.fill(0, ROOM, 0);
    let case =
        Case::start(&format!("fault 12: {n} x {len} B {}", dir.word()), pair.initiator.pid());
    let parts = Parts::tiled(n, len, (pair.initiator.addr(), pair.target.addr(), ROOM));
    let target = pair.target.name().to_owned();
    let answer = pair.initiator.batch(dir, &target, &parts).ok();
    assert_eq!((answer.number("completed"), answer.number("failed")), (n, 0));
    say(&format!("{test}: {n} requests of {len} B in {:.2} s", answer.took().as_secs_f64()));
    let touched = (n * len).min(ROOM / len * len);
    pair.target.verify(0, touched, 12);
    pair.initiator.verify(0, touched, 12);
    // The list of 100 000 requests itself passes through the node: some 100 bytes a request.
    case.end(Bound::NOTHING.with_rss_mib(96));
    pair.quit();
}

#[test]
fn fault12_a_batch_of_2056_small_requests_completes() {
    // Peer fault 12: the first size that the published peer fails at once.
    batch("fault12_a_batch_of_2056_small_requests_completes", 2056, 4096, Direction::Write);
}

#[test]
fn fault12_a_batch_of_3000_small_reads_completes() {
    // Peer fault 12: the same for reads.
    batch("fault12_a_batch_of_3000_small_reads_completes", 3000, 4096, Direction::Read);
}

#[test]
fn fault12_a_batch_of_10_000_small_requests_completes() {
    // Peer fault 12: no setting is needed.
    batch("fault12_a_batch_of_10_000_small_requests_completes", 10_000, 4096, Direction::Write);
}

#[test]
fn fault12_a_batch_of_100_000_small_requests_completes() {
    // Peer fault 12: nor for 100 000.
    batch("fault12_a_batch_of_100_000_small_requests_completes", 100_000, 64, Direction::Write);
}

#[test]
fn fault12_a_batch_of_1500_large_requests_completes() {
    // Peer fault 12: 6 GiB in one batch; what waits for its turn does not expire.
    batch("fault12_a_batch_of_1500_large_requests_completes", 1500, 4 * MIB, Direction::Write);
}
