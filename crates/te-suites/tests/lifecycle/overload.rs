//! More work than there is room for: who gets how much, and what it costs in memory.

use std::time::Duration;

use serde_json::{Value, json};
use te_suites::{Bound, Case, Kind, Node, NodeSpec, Usage, available_memory, need, say, wait_for};

use crate::{MIB, amount, ours};

/// Milliseconds of a contest.
const CONTEST: u64 = 4000;

/// A caller that takes what it can get: by many batches at a time, or by one that is long.
fn greedy(from: &Node, to: &Node, threads: u64) -> Value {
    json!({
        "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": 4 * MIB,
        "depth": 128 / threads, "threads": threads,
    })
}

/// A caller with one batch at a time, of so many requests of 64 KiB.
fn small(from: &Node, to: &Node, depth: u64) -> Value {
    json!({
        "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": 65_536, "depth": depth,
        "threads": 1,
    })
}

fn flood(node: &mut Node, roles: &[Value]) {
    node.send(&json!({ "op": "flood", "ms": CONTEST, "roles": roles }));
}

fn gains(node: &mut Node) -> Vec<Value> {
    let answer = node.receive(Duration::from_secs(90)).ok();
    let roles = answer.value("roles").as_array().cloned().unwrap();
    for role in &roles {
        assert_eq!(role["failed"], 0, "{role}");
    }
    roles
}

fn bytes(role: &Value) -> f64 {
    role["bytes"].as_f64().unwrap()
}

/// Contests for a fair share: what a machine that is busy with other things takes from the small
/// one, it takes from some contests; an engine that is unfair is so in each of them.
const CONTESTS: u32 = 3;

/// Asserts the small one's share, at least a third of even, in one of a few contests. Each of two has
/// a half when it is even.
#[track_caller]
fn fair(test: &str, mut contest: impl FnMut() -> [Value; 2]) {
    let mut contests = (0..CONTESTS).map(|_| share(test, &contest()));
    assert!(contests.any(|share| share >= 0.5 / 3.0), "the small one never got its share");
}

/// Prints what each got; gives the small one's share.
fn share(test: &str, [greedy, small]: &[Value; 2]) -> f64 {
    let share = bytes(small) / (bytes(small) + bytes(greedy));
    let rate = |role: &Value| bytes(role) / 1e3 / CONTEST as f64;
    say(&format!(
        "row {test}: greedy {:.0} MB/s, small {:.0} MB/s = {:.1} % (even is 50 %), small p50 {} ms, p99 {} ms",
        rate(greedy),
        rate(small),
        100.0 * share,
        small["p50_ms"],
        small["p99_ms"]
    ));
    share
}

#[test]
fn a_small_initiator_beside_a_greedy_one_gets_its_share() {
    // Issue, item 5: two initiators at one target; the small one's share is at least a third of even.
    let test = "a_small_initiator_beside_a_greedy_one_gets_its_share";
    need!(test, Kind::Te.available());
    let (mut large, mut little, to) = (ours(4 * MIB), ours(4 * MIB), ours(4 * MIB));
    let (much, few) = (greedy(&large, &to, 8), small(&little, &to, 16));
    fair(test, || {
        flood(&mut large, std::slice::from_ref(&much));
        flood(&mut little, std::slice::from_ref(&few));
        [gains(&mut large).swap_remove(0), gains(&mut little).swap_remove(0)]
    });
}

#[test]
fn a_small_batch_beside_a_greedy_one_gets_its_share() {
    // Issue, item 5: the same for two callers of one initiator, at one target and at two. One has
    // 512 MiB outstanding, the other 4 MiB; in the order of submission it would get below 1 %.
    let test = "a_small_batch_beside_a_greedy_one_gets_its_share";
    need!(test, Kind::Te.available());
    small_beside_greedy(test, || ours(4 * MIB));
}

#[test]
fn a_small_batch_beside_a_greedy_one_gets_its_share_of_direct_copies() {
    // Issue, item 5: the same where bytes are copied from process to process.
    let test = "a_small_batch_beside_a_greedy_one_gets_its_share_of_direct_copies";
    need!(test, Kind::Te.available());
    let spec = NodeSpec::new(Kind::Te, 4 * MIB).env("TE_TRANSPORTS", "local,shm,tcp");
    small_beside_greedy(test, || spec.start());
}

#[track_caller]
fn small_beside_greedy(test: &str, start: impl Fn() -> Node) {
    let (mut from, to, other) = (start(), start(), start());
    for to_small in [&other, &to] {
        let roles = [greedy(&from, &to, 1), small(&from, to_small, 64)];
        fair(test, || {
            flood(&mut from, &roles);
            gains(&mut from).try_into().expect("two roles gain")
        });
    }
}

#[test]
fn ten_times_too_much_costs_time_and_no_memory() {
    // Issue, item 5: 20 callers with ten times what may be outstanding, by count and by bytes; all
    // of it completes, and neither side grows by more than 48 MiB.
    let test = "ten_times_too_much_costs_time_and_no_memory";
    need!(test, Kind::Te.available());
    let spec = NodeSpec::new(Kind::Te, 4 * MIB)
        .env("TE_ENGINE_MAX_REQUESTS", "1000")
        .env("TE_ENGINE_MAX_BYTES", &(64 * MIB).to_string());
    let (mut from, to) = (spec.start(), ours(4 * MIB));
    let cases = [Case::start("overload: from", from.pid()), Case::start("overload: to", to.pid())];
    let caller = |len: u64, depth: u64| {
        json!({
            "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": len,
            "depth": depth, "threads": 20,
        })
    };
    // 20 × 500 requests, then 20 × 32 MiB.
    for role in [caller(64, 500), caller(4 * MIB, 8)] {
        flood(&mut from, &[role]);
        let mut peak = 0;
        let done = wait_for(Duration::from_millis(CONTEST + 500), || {
            let rss = |node: &Node| Usage::of(node.pid()).map_or(0, |usage| usage.rss_kib);
            peak = peak.max(rss(&from)).max(rss(&to));
            None::<()>
        });
        assert_eq!(done, None);
        let gained = gains(&mut from);
        say(&format!("{test}: {} batches, at most {} MiB resident", gained[0]["n"], peak >> 10));
        assert!(peak < 80 << 10, "{} MiB resident", peak >> 10);
    }
    cases.into_iter().for_each(|case| case.end(Bound::NOTHING.with_threads(2).with_rss_mib(48)));
}

#[test]
fn fb39_batches_that_come_and_go_leave_nothing() {
    // FB39: batches of one request that go through, are refused, or are out of time; each is freed,
    // a busy one is named, a second free is an error. Memory grows by less than 10 MiB.
    let test = "fb39_batches_that_come_and_go_leave_nothing";
    need!(test, Kind::Te.available());
    need!(test, available_memory(256 * MIB));
    let (mut from, to) = (ours(MIB), ours(MIB));
    let n = amount(test, 1_000_000, 100_000);
    let cycles = |n: u64| {
        json!({
            "op": "cycles", "target": to.name(), "src": from.addr(), "dst": to.addr(), "len": 64,
            "n": n, "threads": 8,
        })
    };
    let (first, all) = (cycles(4000), cycles(n));
    // What a first round takes stays, and is the same for any number of them.
    from.ask_within(&first, Duration::from_secs(60)).ok();
    let case = Case::start(&format!("FB39: {n} batches"), from.pid());
    let answer = from.ask_within(&all, Duration::from_secs(600)).ok();
    say(&format!("{test}: {answer:?}"));
    for kind in ["completed", "timeout"] {
        assert!(answer.number(kind) > 0, "{answer:?}");
    }
    case.end(Bound::NOTHING.with_rss_mib(10));
    let mut parts = te_suites::Parts::default();
    parts.push(from.addr(), to.addr(), 64);
    let id = from.submit(te_suites::Direction::Write, to.name(), &parts);
    from.wait(id).ok();
    assert!(from.free(id).refused().contains("not known"));
    assert!(from.free(123_456_789).refused().contains("not known"));
    from.quit();
    to.quit();
}
