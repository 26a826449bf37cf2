//! Addresses that are wrong, unregistered, or gone.

use te_suites::{Bound, Case, Direction, Pair, Span, Version, need};

use crate::{MIB, OURS};

#[test]
fn fault23_requests_outside_are_refused_and_harm_nothing() {
    // Peer fault 23: before the start, over the end, across two buffers that touch.
    let test = "fault23_requests_outside_are_refused_and_harm_nothing";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    pair.target.fill(0, MIB, 0x3c);
    let both = pair.target.alloc(2 * MIB);
    pair.target.reg(both, MIB).ok();
    pair.target.reg(both + MIB, MIB).ok();
    let across = both.wrapping_sub(pair.target.addr()) + MIB - 4096;
    let cases = [Case::start("fault 23: initiator", pair.initiator.pid())]
        .into_iter()
        .chain([Case::start("fault 23: target", pair.target.pid())])
        .collect::<Vec<_>>();
    let outside = [
        ("one byte past the end", 1, MIB),
        ("before the start", 4096_u64.wrapping_neg(), 4096),
        ("across the start", 1_u64.wrapping_neg(), 2),
        ("far away", 1 << 40, 64),
        ("two buffers that touch", across, 8192),
    ];
    for (what, dst, len) in outside {
        for dir in Direction::BOTH {
            let answer = pair.call(dir, Span { src: 0, dst, len });
            assert!(!answer.refused().is_empty(), "{} {what}", dir.word());
            assert_eq!(answer.value("states"), &serde_json::json!(["failed"]), "{what}");
        }
    }
    pair.call(Direction::Write, Span { src: 0, dst: MIB - 1, len: 1 }).ok();
    pair.target.verify_filled(0, MIB - 1, 0x3c);
    cases.into_iter().for_each(|case| case.end(Bound::NOTHING));
    pair.quit();
}

#[test]
fn fault25_nothing_is_moved_at_once() {
    // Peer fault 25, FB14: a request of no bytes completes, whatever its address, once the target
    // was found.
    let test = "fault25_nothing_is_moved_at_once";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    for dst in [0, 10, MIB, 1 << 40] {
        for dir in Direction::BOTH {
            let answer = pair.call(dir, Span { src: 5, dst, len: 0 }).ok();
            assert_eq!(answer.number("completed"), 1);
        }
    }
    let src = pair.initiator.addr();
    pair.initiator.write("127.0.0.1:1", src, 0, 0).refused();
    pair.quit();
}

#[test]
fn fault26_odd_lengths_at_odd_addresses_arrive() {
    // Peer fault 26, FB14: nothing has to be aligned.
    let test = "fault26_odd_lengths_at_odd_addresses_arrive";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    for (seed, len) in (1..).zip([1, 3, 17, 12_345, 99_999]) {
        for dir in Direction::BOTH {
            pair.moves(dir, Span { src: 64 + seed, dst: 67 + 3 * seed, len }, seed);
        }
    }
    pair.quit();
}

#[test]
fn fault28_local_memory_that_is_not_registered_works_and_unmapped_fails() {
    // Peer fault 28: accepted for the time of the task; unmapped memory fails with the cause.
    let test = "fault28_local_memory_that_is_not_registered_works_and_unmapped_fails";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let bare = pair.initiator.alloc(2 * MIB);
    let (target, dst) = (pair.target.name().to_owned(), pair.target.addr());
    pair.target.pattern(0, MIB, 28);
    pair.initiator.read(&target, bare, dst, MIB).ok();
    pair.target.fill(0, MIB, 0);
    pair.initiator.write(&target, bare, dst, MIB).ok();
    pair.target.verify(0, MIB, 28);
    let case = Case::start("fault 28: unmapped local memory", pair.initiator.pid());
    pair.initiator.write(&target, 4096, dst, 8192).refused();
    pair.initiator.read(&target, 4096, dst, 8192).refused();
    // Memory that was there when the engine learned of it, and is gone.
    pair.initiator.unmap(bare, MIB);
    for dir in Direction::BOTH {
        let answer = pair.initiator.transfer(dir, &target, (bare, dst), 8192);
        let error = answer.refused();
        assert!(error.contains("Bad address"), "{} from gone memory: {error}", dir.word());
    }
    pair.target.verify(0, MIB, 28);
    pair.moves(Direction::Write, Span { src: 100, dst: 200, len: 300 }, 1);
    case.end(Bound::NOTHING);
    pair.quit();
}

#[test]
fn fault29_target_memory_unmapped_under_us_fails_the_request_only() {
    // Peer fault 29: registered, then unmapped without a word; EFAULT, and both processes live.
    let test = "fault29_target_memory_unmapped_under_us_fails_the_request_only";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let gone = pair.target.alloc(4 * MIB);
    pair.target.reg(gone, 4 * MIB).ok();
    let (target, src) = (pair.target.name().to_owned(), pair.initiator.addr());
    pair.initiator.write(&target, src, gone, MIB).ok();
    let case = Case::start("fault 29: target unmaps", pair.target.pid());
    // The second half stays: a request over the border fails, one behind it works.
    pair.target.unmap(gone, 2 * MIB);
    for (at, len) in [(0, 4096), (2 * MIB - 4096, 8192), (0, MIB)] {
        for dir in Direction::BOTH {
            let answer = pair.initiator.transfer(dir, &target, (src, gone + at), len);
            assert!(!answer.refused().is_empty(), "{} at {at}", dir.word());
        }
    }
    pair.initiator.write(&target, src, gone + 2 * MIB, MIB).ok();
    crate::serves(&mut pair.target);
    case.end(Bound::NOTHING);
    pair.quit();
}
