//! Registering: what is refused, by which name, and what is left when it ends.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use te_suites::wire::descriptor_of;
use te_suites::{Bound, Case, Kind, Node, need, say};

use crate::{MIB, amount, ours};

/// The buffers that a node publishes, by address.
fn published(node: &Node) -> Vec<(u64, u64)> {
    let list = descriptor_of(node)["buffers"].clone();
    let place = |b: &Value| Some((b["addr"].as_u64()?, b["length"].as_u64()?));
    let mut all: Vec<_> = list.as_array().into_iter().flatten().filter_map(place).collect();
    all.sort_unstable();
    all
}

fn reg_batch(node: &mut Node, entries: &[(u64, u64)]) -> te_suites::Answer {
    node.ask(&json!({ "op": "reg_batch", "entries": entries }))
}

#[test]
fn fb33_a_batch_is_registered_wholly_or_not_at_all() {
    // FB33: overlapping and empty entries are named, and nothing of the batch is registered; an
    // exact duplicate is counted and stays reachable until its last unregistration.
    let test = "fb33_a_batch_is_registered_wholly_or_not_at_all";
    need!(test, Kind::Te.available());
    let (mut node, mut peer) = (ours(MIB), ours(MIB));
    let base = node.alloc(4 * MIB);
    let before = published(&node);
    // Each follows a good entry.
    let bad = [
        ("overlap", (base + 64, 128), "overlap"),
        ("overlap inside", (base + 32, 8), "overlap"),
        ("empty", (base + 128, 0), "length 0"),
        ("unmapped", (4096, 128), "not wholly mapped"),
        ("wrapping", (64_u64.wrapping_neg(), 128), "wraps"),
    ];
    for (what, entry, word) in bad {
        let answer = reg_batch(&mut node, &[(base, 128), (base + MIB, 64), entry]);
        assert!(answer.refused().contains(word), "{what}: {answer:?}");
        assert_eq!(published(&node), before, "{what}");
    }
    reg_batch(&mut node, &[(base, 128), (base + 128, 128)]).ok();
    reg_batch(&mut node, &[(base, 128), (base + MIB, MIB)]).ok();
    assert_eq!(published(&node).len(), before.len() + 3);
    peer.write(node.name(), peer.addr(), base, 128).ok();
    node.unreg(base).ok();
    peer.write(node.name(), peer.addr(), base, 128).ok();
    node.unreg(base).ok();
    peer.write(node.name(), peer.addr(), base, 128).refused();
    node.quit();
    peer.quit();
}

#[test]
fn fb33_many_threads_leave_nothing_behind() {
    // FB33: 32 threads register and unregister ranges of their own and one that they share.
    let test = "fb33_many_threads_leave_nothing_behind";
    need!(test, Kind::Te.available());
    let mut node = ours(MIB);
    let before = published(&node);
    let base = node.alloc(64 * MIB);
    let case = Case::start("FB33: 32 threads", node.pid());
    let rounds = amount(test, 10_000, 1000);
    let command =
        json!({ "op": "reg_storm", "addr": base, "len": MIB, "threads": 32, "rounds": rounds });
    let answer = node.ask_within(&command, Duration::from_secs(120)).ok();
    assert_eq!(answer.number("failed"), 0, "{answer:?}");
    assert_eq!(published(&node), before);
    case.end(Bound::NOTHING);
    node.quit();
}

#[test]
fn j43_of_overlapping_registrations_one_wins() {
    // J43: 16 threads register overlapping ranges at the same moment; one gets it, the others are
    // told so at once.
    let test = "j43_of_overlapping_registrations_one_wins";
    need!(test, Kind::Te.available());
    let mut node = ours(MIB);
    let before = published(&node);
    let base = node.alloc(4 * MIB);
    let command =
        json!({ "op": "reg_race", "addr": base, "len": MIB, "threads": 16, "rounds": 200 });
    let answer = node.ask(&command).ok();
    assert_eq!(answer.number("odd"), 0, "{answer:?}");
    say(&format!("{test}: 200 rounds, the slowest call took {} ms", answer.value("slowest_ms")));
    assert_eq!(published(&node), before);
    node.quit();
}

#[test]
fn fb35_memory_that_cannot_be_had_is_named_and_leaves_nothing() {
    // FB35: a limit on locked memory, unmapped memory and memory without rights; the engine stays
    // usable and its descriptor as it was.
    let test = "fb35_memory_that_cannot_be_had_is_named_and_leaves_nothing";
    need!(test, Kind::Te.available());
    let (mut node, mut peer) = (ours(MIB), ours(MIB));
    let before = published(&node);
    let case = Case::start("FB35: memory that cannot be had", node.pid());
    let base = node.alloc(64 * MIB);
    let hole = base + 16 * MIB;
    for (what, addr, len) in [("unmapped", 8192, MIB), ("unmapped and huge", 1 << 44, 1 << 30)] {
        let answer = node.reg(addr, len);
        let error = answer.refused();
        let (hex, bytes) = (format!("{addr:#x}"), len.to_string());
        assert!(error.contains(&hex) && error.contains(&bytes), "{what}: `{error}`");
        assert_eq!(published(&node), before, "{what}");
    }
    // Memory without rights can be registered where nothing is pinned; whoever moves it is told.
    node.protect(hole, MIB, "none");
    let no_rights = node.reg(hole, MIB);
    if no_rights.is_ok() {
        for dir in te_suites::Direction::BOTH {
            let answer = peer.transfer(dir, node.name(), (peer.addr(), hole), 4096);
            let error = answer.refused();
            assert!(error.contains("ad address"), "{error}");
        }
        node.unreg(hole).ok();
    } else {
        let error = no_rights.refused();
        assert!(error.contains(&format!("{hole:#x}")), "`{error}`");
    }
    assert_eq!(published(&node), before);
    node.protect(hole, MIB, "all");
    // TCP pins nothing, so that the limit does not matter.
    let limited = Command::new("prlimit")
        .args(["--memlock=65536", "--pid", &node.pid().to_string()])
        .status();
    if limited.is_ok_and(|status| status.success()) {
        node.reg(base, 64 * MIB).ok();
        peer.write(node.name(), peer.addr(), base, 64).ok();
        node.unreg(base).ok();
    } else {
        say(&format!("{test}: prlimit is not there, the limit on locked memory was not tried"));
    }
    assert_eq!(published(&node), before);
    peer.write(node.name(), peer.addr(), node.addr(), 64).ok();
    case.end(Bound::NOTHING);
    node.quit();
    peer.quit();
}

#[test]
fn fb36_registering_often_costs_no_mapping_and_no_descriptor() {
    // FB36: 20 000 random parts of one mapping of 1 GiB.
    let test = "fb36_registering_often_costs_no_mapping_and_no_descriptor";
    need!(test, Kind::Te.available());
    let mut node = ours(MIB);
    let case = Case::start("FB36: 20 000 cycles", node.pid());
    let base = node.alloc(1 << 30);
    let command =
        json!({ "op": "reg_cycles", "addr": base, "len": 1 << 30, "n": 20_000, "seed": 36 });
    let answer = node.ask_within(&command, Duration::from_secs(120)).ok();
    say(&format!("{test}: {answer:?}"));
    for what in ["maps", "fds"] {
        let at = |when: &str| answer.number(&format!("{what}_{when}"));
        assert!(at("after") < at("before") + 20, "{what}: {answer:?}");
    }
    case.end(Bound::NOTHING);
    node.quit();
}
