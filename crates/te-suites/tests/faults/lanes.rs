//! Connections that are refused, or closed behind our back: what they cost the requests after them.

use std::time::Duration;

use te_suites::wire::{Fault, Front};
use te_suites::{
    Bound, Case, Direction, Heartbeat, Pair, Parts, Span, Version, need, say, wait_until,
};

use crate::{MIB, OURS};

#[test]
fn fault10_refusals_do_not_starve_good_requests() {
    // Peer fault 10: after any number of refused writes the next good one is as fast as ever.
    let test = "fault10_refusals_do_not_starve_good_requests";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    pair.call(Direction::Write, Span { src: 0, dst: 0, len: 4096 }).ok();
    let cases = [
        Case::start("fault 10: initiator", pair.initiator.pid()),
        Case::start("fault 10: target", pair.target.pid()),
    ];
    let heartbeat = Heartbeat::start();
    for bad in [1, 3, 4, 8, 64] {
        for _ in 0..bad {
            pair.call(Direction::Write, Span { src: 0, dst: 1 << 40, len: 64 }).refused();
        }
        let mut worst = Duration::ZERO;
        for _ in 0..3 {
            let good = pair.call(Direction::Write, Span { src: 0, dst: 0, len: 4096 }).ok();
            worst = worst.max(good.took());
        }
        say(&format!("fault 10: after {bad} refused writes, the slowest good one took {worst:?}"));
        heartbeat.assert_within("a good write", worst, Duration::from_millis(100));
    }
    cases.into_iter().for_each(|case| case.end(Bound::NOTHING));
    pair.quit();
}

#[test]
fn fault10_good_and_bad_requests_of_one_batch_each_get_what_they_deserve() {
    // Peer fault 10, peer fault 24: every fourth of 400 requests is refused, all others arrive.
    let test = "fault10_good_and_bad_requests_of_one_batch_each_get_what_they_deserve";
    let mut pair = need!(test, Pair::start(OURS, 4 * MIB, Version::V2));
    pair.initiator.pattern(0, 4096, 10);
    let spans = (0..400).map(|i: u64| match i % 4 {
        3 => Span { src: 0, dst: 1 << 40, len: 64 },
        _ => Span { src: 0, dst: i * 8192, len: 4096 },
    });
    let parts = pair.parts(&spans.collect::<Vec<_>>());
    let target = pair.target.name().to_owned();
    let case = Case::start("fault 10: a mixed batch", pair.target.pid());
    let answer = pair.initiator.batch(Direction::Write, &target, &parts);
    assert_eq!((answer.number("completed"), answer.number("failed")), (300, 100), "{answer:?}");
    let states = answer.value("states").as_array().unwrap();
    for (i, state) in (0..).zip(states) {
        assert_eq!(state, if i % 4 == 3 { "failed" } else { "completed" }, "request {i}");
        if i % 4 != 3 {
            pair.target.verify(i * 8192, 4096, 10);
        }
    }
    case.end(Bound::NOTHING);
    pair.quit();
}

#[test]
fn fault11_a_connection_closed_while_idle_costs_no_request() {
    // Peer fault 11: something between closes idle connections; the next request finds out, and is
    // sent again, because nothing of it can have been taken.
    let test = "fault11_a_connection_closed_while_idle_costs_no_request";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let idle = Duration::from_millis(30);
    let front = Front::start(&pair.target, Fault::CloseWhenIdle(idle)).unwrap();
    let proxy = front.proxy();
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    pair.initiator.write(front.name(), src, dst, 64).ok();
    let case = Case::start("fault 11: stale connections", pair.initiator.pid());
    for round in 1..40_u64 {
        wait_until(Duration::from_secs(10), "the proxy closing idle connections", || {
            (proxy.faults() as u64 >= round.min(proxy.seen().len() as u64)).then_some(())
        });
        let dir = Direction::BOTH[usize::try_from(round % 2).unwrap()];
        pair.initiator.pattern(0, 4096, round);
        if dir == Direction::Read {
            pair.target.pattern(0, 4096, round);
            pair.initiator.fill(0, 4096, 0);
        }
        pair.initiator.transfer(dir, front.name(), (src, dst), 4096).ok();
        pair.target.verify(0, 4096, round);
        pair.initiator.verify(0, 4096, round);
    }
    say(&format!("fault 11: {} connections closed behind 39 requests", proxy.faults()));
    assert!(proxy.faults() > 20, "the proxy closed only {}", proxy.faults());
    case.end(Bound::NOTHING);
    pair.quit();
}

#[test]
fn fault11_a_connection_cut_in_the_middle_is_never_a_lie() {
    // Peer fault 11: where a part of a write may have been taken, the truth is told; a read is
    // simply done again.
    let test = "fault11_a_connection_cut_in_the_middle_is_never_a_lie";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    pair.target.pattern(0, MIB, 11);
    for cut in [0, 7, 8, 9, 1000, 65_536] {
        let front = Front::start(&pair.target, Fault::CutAnswerAt(cut)).unwrap();
        let proxy = front.proxy();
        pair.initiator.fill(0, MIB, 0);
        let read = pair.initiator.read(front.name(), src, dst, MIB / 2);
        assert!(!read.is_ok(), "no whole answer can pass: {read:?}");
        assert!(proxy.faults() > 0, "cut {cut}");
        proxy.set(Fault::None);
        pair.initiator.read(front.name(), src, dst, MIB / 2).ok();
        pair.initiator.verify(0, MIB / 2, 11);
    }
    for cut in [8, 23, 24, 25, 1000, 65_536] {
        let front = Front::start(&pair.target, Fault::CutRequestAt(cut)).unwrap();
        let proxy = front.proxy();
        let write = pair.initiator.write(front.name(), src, dst, MIB / 2);
        assert!(!write.is_ok(), "no whole request can pass: {write:?}");
        proxy.set(Fault::None);
        pair.initiator.write(front.name(), src, dst, MIB / 2).ok();
        pair.target.verify(0, MIB / 2, 11);
    }
    pair.quit();
}

#[test]
fn fault11_one_cut_in_the_middle_of_a_read_is_made_good() {
    // Peer fault 11: a read can be asked for again, whatever had come of it.
    let test = "fault11_one_cut_in_the_middle_of_a_read_is_made_good";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    pair.target.pattern(0, MIB, 12);
    for cut in [0, 7, 8, 9, 1000, 65_536] {
        let front = Front::start(&pair.target, Fault::CutOneAnswerAt(cut)).unwrap();
        let proxy = front.proxy();
        pair.initiator.fill(0, MIB, 0);
        pair.initiator.read(front.name(), src, dst, MIB / 2).ok();
        pair.initiator.verify(0, MIB / 2, 12);
        assert_eq!(proxy.faults(), 1, "cut {cut}");
    }
    pair.quit();
}

#[test]
fn fault11_one_cut_in_the_middle_of_a_write_is_told_or_made_good() {
    // Peer fault 11: either the failure is told, with the remote side in doubt where bytes were on
    // their way, or every byte is in place.
    let test = "fault11_one_cut_in_the_middle_of_a_write_is_told_or_made_good";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    for (seed, cut) in (1..).zip([8, 23, 24, 25, 1000, 65_536, 500_000]) {
        let front = Front::start(&pair.target, Fault::CutOneRequestAt(cut)).unwrap();
        let proxy = front.proxy();
        pair.initiator.pattern(0, MIB, seed);
        let answer = pair.initiator.write(front.name(), src, dst, MIB / 2);
        say(&format!("{test}: cut at {cut}: {answer:?}"));
        assert_eq!(proxy.faults(), 1, "cut {cut}");
        if answer.is_ok() {
            pair.target.verify(0, MIB / 2, seed);
        } else {
            assert_ne!(answer.value("remote"), "settled", "{answer:?}");
        }
    }
    pair.quit();
}

#[test]
fn a_status_with_a_flipped_byte_is_not_believed() {
    // J56: a frame that is almost a status.
    let test = "a_status_with_a_flipped_byte_is_not_believed";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    for at in 0..8 {
        let front = Front::start(&pair.target, Fault::FlipAnswerAt(at)).unwrap();
        pair.initiator.write(front.name(), src, dst, 64).refused();
    }
    pair.quit();
}

#[test]
fn fault12_a_slow_answer_is_waited_for() {
    // Peer fault 12: requests pile up behind slow answers and none is given up.
    let test = "fault12_a_slow_answer_is_waited_for";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    let delay = Fault::DelayAnswers(Duration::from_millis(20));
    let front = Front::start(&pair.target, delay).unwrap();
    let parts = Parts::tiled(200, 64, (pair.initiator.addr(), pair.target.addr(), MIB));
    let answer = pair.initiator.batch(Direction::Write, front.name(), &parts).ok();
    assert_eq!(answer.number("completed"), 200);
    pair.quit();
}
