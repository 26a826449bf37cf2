//! Requests outside of what is registered, and batches that hold one.

use std::time::Duration;

use te_suites::{Direction, Kind, Pair, Span, Version, need, wait_until};

use crate::{OURS_TO_PEER, PEER_TO_OURS};

const MIB: u64 = 1 << 20;

fn outside(test: &str, kinds: (Kind, Kind)) {
    let mut pair = need!(test, Pair::start(kinds, MIB, Version::V2));
    pair.target.fill(0, MIB, 0x3c);
    let cases = [
        ("one byte past the end", 1, MIB),
        ("before the start", 4096_u64.wrapping_neg(), 4096),
        ("across the start", 1_u64.wrapping_neg(), 2),
        ("across the end", MIB - 1, 2),
        ("far away", 1 << 40, 64),
    ];
    for (what, dst, len) in cases {
        for dir in Direction::BOTH {
            let answer = pair.call(dir, Span { src: 0, dst, len });
            assert!(!answer.is_ok(), "{} {what} went through", dir.word());
        }
        goes_on(&mut pair);
        pair.target.verify_filled(0, MIB - 1, 0x3c);
    }
    two_that_touch(&mut pair);
    pair.quit();
}

/// A refusal costs us no later request. The peer holds its own requests back for a second after
/// one (peer fault 10), which is not ours to judge.
fn goes_on(pair: &mut Pair) {
    let last = Span { src: 0, dst: MIB - 1, len: 1 };
    if pair.initiator.kind() == Kind::Te {
        pair.call(Direction::Write, last).ok();
        return;
    }
    wait_until(Duration::from_secs(10), "a good write of the peer after a bad one", || {
        pair.call(Direction::Write, last).is_ok().then_some(())
    });
}

/// Two buffers side by side are two buffers.
fn two_that_touch(pair: &mut Pair) {
    let both = pair.target.alloc(2 * MIB);
    pair.target.reg(both, MIB).ok();
    pair.target.reg(both + MIB, MIB).ok();
    let (target, src) = (pair.target.name().to_owned(), pair.initiator.addr());
    goes_on(pair);
    pair.initiator.write(&target, src, both + MIB - 4096, 4096).ok();
    pair.initiator.write(&target, src, both + MIB - 4096, 8192).refused();
    pair.initiator.read(&target, src, both + MIB - 4096, 8192).refused();
}

#[test]
fn fault23_the_peer_refuses_what_we_send_outside() {
    // Peer fault 23: the failure is named, and the connection serves the next request.
    outside("fault23_the_peer_refuses_what_we_send_outside", OURS_TO_PEER);
}

#[test]
fn fault23_we_refuse_what_the_peer_sends_outside() {
    // Peer fault 23: our memory is unharmed, and its good requests go on.
    outside("fault23_we_refuse_what_the_peer_sends_outside", PEER_TO_OURS);
}

fn spans_with_a_bad_one() -> Vec<Span> {
    let good = |i: u64| Span { src: i * 100, dst: i * 200, len: 64 };
    vec![good(0), good(1), Span { src: 0, dst: 1 << 40, len: 64 }, good(2), good(3)]
}

#[test]
fn fault24_each_request_of_a_batch_has_its_own_result() {
    // Peer fault 24: one bad entry fails alone, the others arrive.
    let test = "fault24_each_request_of_a_batch_has_its_own_result";
    let mut pair = need!(test, Pair::start(OURS_TO_PEER, MIB, Version::V2));
    pair.initiator.fill(0, MIB, 0x24);
    let parts = pair.parts(&spans_with_a_bad_one());
    let target = pair.target.name().to_owned();
    let answer = pair.initiator.batch(Direction::Write, &target, &parts);
    let expected = ["completed", "completed", "failed", "completed", "completed"];
    assert_eq!(answer.value("states"), &serde_json::json!(expected), "{answer:?}");
    for i in 0..4 {
        pair.target.verify_filled(i * 200, 64, 0x24);
    }
    pair.quit();
}

#[test]
fn fault24_a_bad_batch_of_the_peer_does_us_no_harm() {
    // Peer fault 24: the peer gives one result for the whole; we stay whole.
    let test = "fault24_a_bad_batch_of_the_peer_does_us_no_harm";
    let mut pair = need!(test, Pair::start(PEER_TO_OURS, MIB, Version::V2));
    pair.target.fill(0, MIB, 0x3c);
    pair.initiator.fill(0, MIB, 0x24);
    let parts = pair.parts(&spans_with_a_bad_one());
    let target = pair.target.name().to_owned();
    pair.initiator.batch(Direction::Write, &target, &parts).refused();
    pair.target.verify_filled(3 * 200 + 64, MIB - 3 * 200 - 64, 0x3c);
    goes_on(&mut pair);
    pair.moves(Direction::Write, Span { src: 100, dst: 500, len: 1000 }, 5);
    pair.quit();
}
