//! Descriptors that are read while they change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use te_suites::wire::{Frame, HandshakeClient};
use te_suites::{Bound, Case, NodeSpec, need, now, pace, say};

use crate::{MIB, OURS, amount};

const BUFFER: u64 = 96;

/// A snapshot lists the fixed buffer, and any number of the changing ones, each once and whole.
fn check(descriptor: &Value, fixed: u64, arena: std::ops::Range<u64>) {
    let name = descriptor["name"].as_str().unwrap();
    let mut seen = BTreeMap::new();
    for buffer in descriptor["buffers"].as_array().unwrap() {
        let (addr, len) = (buffer["addr"].as_u64().unwrap(), buffer["length"].as_u64().unwrap());
        assert_eq!(buffer["name"], name, "{buffer}");
        assert!(seen.insert(addr, len).is_none(), "{addr:#x} is listed twice");
        let is_small =
            arena.contains(&addr) && (addr - arena.start).is_multiple_of(BUFFER) && len == BUFFER;
        assert!(is_small || (addr == fixed && len == MIB), "nobody registered {buffer}");
    }
    assert!(seen.contains_key(&fixed), "the fixed buffer is missing");
}

#[test]
fn fb28_a_descriptor_is_a_snapshot() {
    // FB28: 4 threads register and unregister 1000 buffers, 32 clients fetch the descriptor.
    let test = "fb28_a_descriptor_is_a_snapshot";
    need!(test, OURS.0.available());
    let seconds = amount(test, 30, 6);
    let mut node = NodeSpec::new(OURS.0, MIB).start();
    let case = Case::start("FB28: 32 clients", node.pid());
    let churn = json!({ "op": "churn", "threads": 4, "buffers": 250, "len": BUFFER });
    let start = node.ask(&churn).ok().number("addr");
    let arena = start..start + 1000 * BUFFER;
    let client = HandshakeClient::new("127.0.0.1", node.rpc_port());
    let fixed = node.addr();
    let (stop, fetched) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = now();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.ask(&Frame::typed(1, b"{}")).unwrap();
                    check(&answer.json(), fixed, arena.clone());
                    fetched.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        pace(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let registered = node.ask(&json!({ "op": "churn_stop" })).ok().number("registered");
    let n = fetched.into_inner();
    say(&format!("{test}: {n} descriptors, {registered} registrations in {:?}", begun.elapsed()));
    assert!(n > 100 && registered > 1000, "{n} descriptors, {registered} registrations");
    case.end(Bound::NOTHING.with_rss_mib(32));
    node.quit();
}
