//! Every other call: batches, not waiting, notifications, probes, buffers registered later.

use std::time::Duration;

use te_suites::{
    Direction, GUARD_LEN, Kind, NodeSpec, Pair, Span, Version, free_port, need, now, say,
    wait_until,
};

use crate::{OURS_TO_PEER, PEER_TO_OURS};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 8 * MIB;

/// Pieces of uneven lengths that tile a range on the sending side and land in reverse order.
fn scattered(len: u64) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut at = 0;
    for i in 0.. {
        let piece = (997 * i % 70_000 + 1).min(len - at);
        spans.push(Span { src: at, dst: len - at - piece, len: piece });
        at += piece;
        if at == len {
            return spans;
        }
    }
    spans
}

fn batches(test: &str, kinds: (Kind, Kind), version: Version) {
    let mut pair = need!(test, Pair::start(kinds, SIZE, version));
    let spans = scattered(4 * MIB + 5);
    let parts = pair.parts(&spans);
    let target = pair.target.name().to_owned();
    // Each piece has a pattern of its own, so that two that change places show.
    for (seed, span) in (1..).zip(&spans) {
        pair.initiator.pattern(span.src, span.len, seed);
    }
    pair.initiator.batch(Direction::Write, &target, &parts).ok();
    let id = pair.initiator.submit(Direction::Write, &target, &parts);
    pair.initiator.wait(id).ok();
    for (seed, span) in (1..).zip(&spans) {
        wait_until(Duration::from_secs(20), "a piece of a batch", || {
            pair.target.matches(span.dst, span.len, seed).then_some(())
        });
    }
    pair.initiator.fill(0, SIZE, 0);
    let id = pair.initiator.submit(Direction::Read, &target, &parts);
    pair.initiator.wait(id).ok();
    for (seed, span) in (1..).zip(&spans) {
        pair.initiator.verify(span.src, span.len, seed);
    }
    pair.initiator.verify_filled(4 * MIB + 5, 1024, 0);
    say(&format!("{test}: 3 batches of {} pieces, every byte checked", spans.len()));
    pair.quit();
}

#[test]
fn batches_of_scattered_pieces_from_us_to_the_peer_v2() {
    // J118: batches, waited for and not, write and read.
    batches("batches_of_scattered_pieces_from_us_to_the_peer_v2", OURS_TO_PEER, Version::V2);
}

#[test]
fn batches_of_scattered_pieces_from_us_to_the_peer_v1() {
    // J118: the same in the old framing.
    batches("batches_of_scattered_pieces_from_us_to_the_peer_v1", OURS_TO_PEER, Version::V1);
}

#[test]
fn batches_of_scattered_pieces_from_the_peer_to_us_v2() {
    // J118: the peer calls.
    batches("batches_of_scattered_pieces_from_the_peer_to_us_v2", PEER_TO_OURS, Version::V2);
}

#[test]
fn batches_of_scattered_pieces_from_the_peer_to_us_v1() {
    // J55, J118: the peer calls in the old framing.
    batches("batches_of_scattered_pieces_from_the_peer_to_us_v1", PEER_TO_OURS, Version::V1);
}

fn without_waiting(test: &str, kinds: (Kind, Kind)) {
    let mut pair = need!(test, Pair::start(kinds, SIZE, Version::V2));
    let span = Span { src: GUARD_LEN + 1, dst: GUARD_LEN + 2, len: 4 * MIB + 1 };
    pair.prepare(Direction::Write, span, 9);
    let (src, dst) = (pair.initiator.addr() + span.src, pair.target.addr() + span.dst);
    let target = pair.target.name().to_owned();
    let id = pair.initiator.submit_one(&target, src, dst, span.len);
    let state = wait_until(Duration::from_secs(30), "a write that was submitted", || {
        let state = pair.initiator.check(id);
        (state != 0).then_some(state)
    });
    assert_eq!(state, 1, "the write ended as {state}");
    pair.arrived(Direction::Write, span, 9);
    pair.quit();
}

#[test]
fn a_write_is_submitted_and_asked_after_by_us() {
    // J118: asynchronous write.
    without_waiting("a_write_is_submitted_and_asked_after_by_us", OURS_TO_PEER);
}

#[test]
fn a_write_is_submitted_and_asked_after_by_the_peer() {
    // J118: asynchronous write, the peer calls.
    without_waiting("a_write_is_submitted_and_asked_after_by_the_peer", PEER_TO_OURS);
}

fn notifications(test: &str, kinds: (Kind, Kind)) {
    let mut pair = need!(test, Pair::start(kinds, SIZE, Version::V2));
    let sent =
        [("node-a", "ready 1"), ("", "no name"), ("näme", "línea\nzwei \"quoted\" \u{1F980}")];
    let target = pair.target.name().to_owned();
    let mut got = Vec::new();
    for (i, message) in (0..).zip(sent) {
        let span = Span { src: GUARD_LEN, dst: GUARD_LEN + 5000 * i, len: 4097 };
        pair.prepare(Direction::Write, span, i + 1);
        let ends = (pair.initiator.addr() + span.src, pair.target.addr() + span.dst, span.len);
        pair.initiator.notify(&target, ends, message).ok();
        wait_until(Duration::from_secs(10), "a notification", || {
            got.extend(pair.target.notifies());
            (got.len() as u64 > i).then_some(())
        });
        pair.arrived(Direction::Write, span, i + 1);
    }
    assert_eq!(got, sent.map(|(name, message)| (name.to_owned(), message.to_owned())));
    assert_eq!(pair.target.notifies(), []);
    pair.quit();
}

#[test]
fn notifications_follow_our_writes_to_the_peer() {
    // J118: a notification arrives once, in order, after the bytes that it speaks of.
    notifications("notifications_follow_our_writes_to_the_peer", OURS_TO_PEER);
}

#[test]
fn notifications_follow_the_writes_of_the_peer_to_us() {
    // J118: the peer calls.
    notifications("notifications_follow_the_writes_of_the_peer_to_us", PEER_TO_OURS);
}

#[test]
fn both_answer_a_probe_and_the_dead_do_not() {
    // J118: probe, both ways; a port on which nobody listens is told apart within two seconds.
    let test = "both_answer_a_probe_and_the_dead_do_not";
    need!(test, Kind::Te.available());
    need!(test, Kind::Peer.available());
    let mut ours = NodeSpec::new(Kind::Te, MIB).start();
    let mut peer = NodeSpec::new(Kind::Peer, MIB).start();
    ours.probe(peer.name()).ok();
    peer.probe(ours.name()).ok();
    let nobody = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let start = now();
    let error = ours.probe(&nobody).refused().to_owned();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}: {error}", start.elapsed());
    assert!(error.contains(&nobody), "{error}");
    ours.quit();
}

fn a_later_buffer(test: &str, kinds: (Kind, Kind)) {
    let mut pair = need!(test, Pair::start(kinds, MIB, Version::V2));
    pair.moves(Direction::Write, Span { src: 100, dst: 200, len: 300 }, 1);
    let later = pair.target.alloc(MIB);
    pair.target.reg(later, MIB).ok();
    let target = pair.target.name().to_owned();
    let src = pair.initiator.addr();
    pair.initiator.pattern(0, MIB, 32);
    pair.initiator.write(&target, src, later, MIB).ok();
    pair.initiator.fill(0, MIB, 0);
    pair.initiator.read(&target, src, later, MIB).ok();
    pair.initiator.verify(0, MIB, 32);
    pair.quit();
}

#[test]
fn fault32_a_buffer_that_the_peer_registered_later_is_reached() {
    // Peer fault 32: we had its descriptor before; one refresh, then it works.
    a_later_buffer("fault32_a_buffer_that_the_peer_registered_later_is_reached", OURS_TO_PEER);
}

#[test]
fn fault32_a_buffer_that_we_registered_later_is_reached() {
    // Peer fault 32: the peer had our descriptor before.
    a_later_buffer("fault32_a_buffer_that_we_registered_later_is_reached", PEER_TO_OURS);
}

fn unregistered_source(test: &str, kinds: (Kind, Kind)) {
    let mut pair = need!(test, Pair::start(kinds, MIB, Version::V2));
    let bare = pair.initiator.alloc(MIB);
    let (target, dst) = (pair.target.name().to_owned(), pair.target.addr());
    pair.target.pattern(0, MIB, 28);
    pair.initiator.read(&target, bare, dst, MIB).ok();
    pair.target.fill(0, MIB, 0);
    pair.initiator.write(&target, bare, dst, MIB).ok();
    pair.target.verify(0, MIB, 28);
    // Nothing is mapped in the first page of a process.
    for dir in Direction::BOTH {
        pair.initiator.transfer(dir, &target, (4096, dst), 8192).refused();
    }
    pair.target.verify(0, MIB, 28);
    pair.moves(Direction::Write, Span { src: 100, dst: 200, len: 300 }, 1);
    pair.quit();
}

#[test]
fn fault28_our_memory_need_not_be_registered() {
    // Peer fault 28: unregistered local memory works, unmapped memory is a named error.
    unregistered_source("fault28_our_memory_need_not_be_registered", OURS_TO_PEER);
}

#[test]
fn fault28_the_memory_of_the_peer_need_not_be_registered() {
    // Peer fault 28: the peer calls; its bad address costs us nothing.
    unregistered_source("fault28_the_memory_of_the_peer_need_not_be_registered", PEER_TO_OURS);
}
