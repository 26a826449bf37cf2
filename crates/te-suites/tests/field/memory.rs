//! Memory that is unmapped, and peers that leave, while requests run.

use std::time::Duration;

use te_suites::pattern::Random;
use te_suites::{
    Bound, Case, Direction, Kind, NodeSpec, Pair, Parts, Span, Version, need, pace, say,
};

use crate::{MIB, OURS, amount};

const WRITES: u64 = 64;
const EACH: u64 = 4 * MIB;

/// What is done to the 64 writes while they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// Half of the source is unmapped.
    UnmapSource,
    /// Half of the destination is unmapped in the target.
    UnmapDestination,
    /// The target is killed.
    KillTarget,
}

/// One iteration: statuses only, and an engine that can be used afterwards.
fn iteration(pair: &mut Pair, harm: Harm, wait: Duration) -> u64 {
    let src = pair.initiator.alloc(WRITES * EACH);
    pair.initiator.reg(src, WRITES * EACH).ok();
    let dst = pair.target.alloc(WRITES * EACH);
    pair.target.reg(dst, WRITES * EACH).ok();
    let target = pair.target.name().to_owned();
    let parts = Parts::tiled(WRITES, EACH, (src, dst, WRITES * EACH));
    let id = pair.initiator.submit(Direction::Write, &target, &parts);
    pace(wait);
    match harm {
        Harm::UnmapSource => pair.initiator.unmap(src, WRITES * EACH / 2),
        Harm::UnmapDestination => pair.target.unmap(dst, WRITES * EACH / 2),
        Harm::KillTarget => pair.target.child().kill(),
    }
    let answer = pair.initiator.wait(id);
    let failed = answer.number("failed");
    assert_eq!(answer.number("completed") + failed, WRITES, "{harm:?}: {answer:?}");
    if harm == Harm::KillTarget {
        pair.target = NodeSpec::new(Kind::Te, MIB).start();
    } else {
        pair.target.unreg(dst).ok();
        let left = if harm == Harm::UnmapDestination { WRITES * EACH / 2 } else { 0 };
        pair.target.unmap(dst + left, WRITES * EACH - left);
    }
    pair.initiator.unreg(src).ok();
    let left = if harm == Harm::UnmapSource { WRITES * EACH / 2 } else { 0 };
    pair.initiator.unmap(src + left, WRITES * EACH - left);
    failed
}

fn harmed(test: &str, harm: Harm, iterations: u64) {
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    pair.moves(Direction::Write, Span { src: 64, dst: 64, len: 4096 }, 13);
    let case = Case::start(&format!("FB13: {harm:?}"), pair.initiator.pid());
    let mut random = Random::new(13);
    let (mut failed, mut hit) = (0, 0);
    for _ in 0..iterations {
        let wait = Duration::from_micros(random.below(30_000));
        let n = iteration(&mut pair, harm, wait);
        failed += n;
        hit += u64::from(n > 0);
        pair.moves(Direction::Write, Span { src: 64, dst: 64, len: 4096 }, 13);
    }
    say(&format!("{test}: {iterations} iterations, {hit} hit, {failed} writes failed"));
    assert!(hit > 0, "the harm always came too late");
    case.end(Bound::NOTHING.with_rss_mib(64));
    pair.quit();
}

#[test]
fn fb13_a_source_unmapped_while_it_is_sent_fails_its_requests_only() {
    // FB13: 64 writes of 4 MiB; half of their source goes away at a random time.
    let test = "fb13_a_source_unmapped_while_it_is_sent_fails_its_requests_only";
    harmed(test, Harm::UnmapSource, amount(test, 200, 100));
}

#[test]
fn fb13_a_destination_unmapped_while_it_is_written_fails_its_requests_only() {
    // FB13: the same with the target's memory.
    let test = "fb13_a_destination_unmapped_while_it_is_written_fails_its_requests_only";
    harmed(test, Harm::UnmapDestination, amount(test, 200, 50));
}

#[test]
fn fb13_a_peer_that_leaves_while_it_is_written_fails_its_requests_only() {
    // FB13: the peer closes at a random time.
    let test = "fb13_a_peer_that_leaves_while_it_is_written_fails_its_requests_only";
    harmed(test, Harm::KillTarget, amount(test, 100, 50));
}
