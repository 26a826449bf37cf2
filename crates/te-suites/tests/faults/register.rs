//! What may be registered, and what others see of it.

use serde_json::json;
use te_suites::wire::descriptor_of;
use te_suites::{Bound, Case, Direction, Kind, NodeSpec, Pair, Span, Version, need};

use crate::{MIB, OURS, serves, target};

#[test]
fn fault21_memory_that_is_none_is_refused_and_never_published() {
    // Peer fault 21: null, unmapped and wrapping ranges are refused by name; others can open the
    // segment as before.
    let test = "fault21_memory_that_is_none_is_refused_and_never_published";
    let mut node = need!(test, target());
    let before = descriptor_of(&node)["buffers"].clone();
    let case = Case::start("fault 21: bad registrations", node.pid());
    let cases = [
        ("null", 0, 4096, "address 0"),
        ("unmapped", 4096, 4096, "not wholly mapped"),
        ("wraps around", 4096_u64.wrapping_neg(), 8192, "wraps"),
        ("empty", node.addr() + 64 * MIB, 0, "length 0"),
        ("beyond any memory", node.addr(), 1 << 62, "longer"),
    ];
    for (what, addr, len, word) in cases {
        let answer = node.reg(addr, len);
        let error = answer.refused();
        assert!(error.contains(word), "{what}: `{error}` does not say `{word}`");
        assert_eq!(descriptor_of(&node)["buffers"], before, "{what}");
    }
    serves(&mut node);
    case.end(Bound::NOTHING);
    let mut other = NodeSpec::new(Kind::Te, MIB).start();
    other.write(node.name(), other.addr(), node.addr(), 64).ok();
    other.quit();
    node.quit();
}

#[test]
fn fault22_overlapping_registrations_are_refused_with_the_code_of_the_peer() {
    // Peer fault 22: -7 for an overlap, -3 for an unknown or inner address, nothing changed.
    let test = "fault22_overlapping_registrations_are_refused_with_the_code_of_the_peer";
    let mut node = need!(test, target());
    let base = node.alloc(4 * MIB);
    node.reg(base + MIB, MIB).ok();
    let before = descriptor_of(&node)["buffers"].clone();
    let overlaps = [
        ("inside", base + MIB + 4096, 4096),
        ("over the start", base + MIB - 4096, 8192),
        ("over the end", base + 2 * MIB - 4096, 8192),
        ("around", base, 4 * MIB),
        ("same start, shorter", base + MIB, 4096),
        ("same start, longer", base + MIB, 2 * MIB),
    ];
    for (what, addr, len) in overlaps {
        assert_eq!(node.reg(addr, len).rc(), -7, "{what}");
        assert_eq!(descriptor_of(&node)["buffers"], before, "{what}");
    }
    assert_eq!(node.unreg(12345).rc(), -3, "unknown");
    assert_eq!(node.unreg(base + MIB + 4096).rc(), -3, "inside");
    assert_eq!(descriptor_of(&node)["buffers"], before);
    node.reg(base, MIB).ok();
    node.reg(base + 2 * MIB, MIB).ok();
    assert_eq!(descriptor_of(&node)["buffers"].as_array().map(Vec::len), Some(4));
    node.quit();
}

#[test]
fn fault22_an_exact_duplicate_is_counted() {
    // Peer fault 22: the same range again is counted; the last unregistration takes it away.
    let mut node = need!("fault22_an_exact_duplicate_is_counted", target());
    let base = node.alloc(MIB);
    let is_there = |node: &te_suites::Node| {
        let buffers = descriptor_of(node)["buffers"].clone();
        let n = buffers.as_array().unwrap().iter().filter(|b| b["addr"] == json!(base)).count();
        assert!(n < 2, "listed twice: {buffers}");
        n == 1
    };
    node.reg(base, MIB).ok();
    node.reg(base, MIB).ok();
    assert!(is_there(&node));
    node.unreg(base).ok();
    assert!(is_there(&node), "one registration is left");
    node.unreg(base).ok();
    assert!(!is_there(&node));
    assert_eq!(node.unreg(base).rc(), -3);
    node.quit();
}

#[test]
fn fault32_a_buffer_registered_after_it_was_looked_up_is_reached() {
    // Peer fault 32: the initiator knows an older list; one refresh, then it works.
    let test = "fault32_a_buffer_registered_after_it_was_looked_up_is_reached";
    let mut pair = need!(test, Pair::start(OURS, MIB, Version::V2));
    pair.moves(Direction::Write, Span { src: 100, dst: 200, len: 300 }, 1);
    let case = Case::start("fault 32: later buffers", pair.initiator.pid());
    for round in 0..20 {
        let later = pair.target.alloc(MIB);
        pair.target.reg(later, MIB).ok();
        pair.initiator.pattern(0, 4096, round);
        let (target, src) = (pair.target.name().to_owned(), pair.initiator.addr());
        pair.initiator.write(&target, src, later, 4096).ok();
        pair.initiator.fill(0, 4096, 0);
        pair.initiator.read(&target, src, later, 4096).ok();
        pair.initiator.verify(0, 4096, round);
        pair.target.unreg(later).ok();
        pair.initiator.write(&target, src, later, 4096).refused();
    }
    case.end(Bound::NOTHING);
    pair.quit();
}
