//! What failures say, and how often they say it.

use std::time::Duration;

use serde_json::json;
use te_suites::wire::{BASE, DataManner, Deaf, HandTarget, TargetSpec};
use te_suites::{Kind, NodeSpec, free_port, need, say, wait_for};

use crate::{MIB, ours};

#[test]
fn fb54_every_failure_says_where_with_whom_and_why() {
    // FB54: phase, peer and cause of the failures of FB04, FB25, FB26 and FB33.
    let test = "fb54_every_failure_says_where_with_whom_and_why";
    need!(test, Kind::Te.available());
    let spec = NodeSpec::new(Kind::Te, 64 * MIB)
        .env("MC_TCP_PROGRESS_TIMEOUT_SEC", "1")
        .env("TE_TCP_CONNECT_TIMEOUT_MS", "500")
        .env("MC_HANDSHAKE_CONNECT_TIMEOUT", "1");
    let (mut from, mut to) = (spec.start(), ours(MIB));
    let manner = DataManner::NeverReads;
    let size = 64 << 20;
    let never = HandTarget::start(TargetSpec { size, manner, ..TargetSpec::default() }, |_| ());
    let never = never.unwrap();
    let deaf = Deaf::start().unwrap();
    let port = deaf.address().port();
    let nowhere = HandTarget::start(TargetSpec::default(), |descriptor| {
        descriptor["tcp_data_port"] = port.into();
    });
    let nowhere = nowhere.unwrap();
    let nobody = format!("127.0.0.1:{}", free_port("127.0.0.1").unwrap());
    let gone = to.alloc(MIB);
    let source = from.addr();
    let cases = [
        // FB04: the peer stands still.
        (never.name().to_owned(), BASE, 64 * MIB, ["payload", "nothing moved"]),
        // FB25: the address leads nowhere.
        (nowhere.name().to_owned(), BASE, 64, ["connect", "no connection within"]),
        // FB26: the peer is not there; the buffer is not there.
        (nobody, BASE, 64, ["connect", "refused"]),
        (to.name().to_owned(), gone, 64, ["metadata", "not inside one buffer"]),
    ];
    for (name, dst, len, words) in cases {
        let answer = from.write(&name, source, dst, len);
        let error = answer.refused();
        say(&format!("{test}: {error}"));
        for word in [name.as_str()].into_iter().chain(words) {
            assert!(error.contains(word), "`{error}` does not say `{word}`");
        }
    }
    // FB33: overlapping buffers.
    let base = to.alloc(MIB);
    to.reg(base, MIB).ok();
    let answer = to.reg(base + 4096, 4096);
    let error = answer.refused();
    let (mine, other) = (format!("{:#x}", base + 4096), format!("{base:#x}"));
    assert!(error.contains(&mine) && error.contains(&other), "{error}");
    say(&format!("{test}: {error}"));
    from.quit();
    to.quit();
}

#[test]
fn fb54_ten_thousand_failures_are_twenty_lines_at_most() {
    // FB54: 100 batches of 100 refused requests; what is logged has a count, not a line for each.
    let test = "fb54_ten_thousand_failures_are_twenty_lines_at_most";
    need!(test, Kind::Te.available());
    let (mut from, to) = (ours(MIB), ours(MIB));
    let before = from.child().error_lines();
    let command = json!({
        "op": "flaws", "target": to.name(), "src": from.addr(), "dst": 1_u64 << 46, "len": 64,
        "n": 100, "rounds": 100,
    });
    let answer = from.ask_within(&command, Duration::from_secs(120)).ok();
    // What is summarised is written a moment later.
    let counted =
        wait_for(Duration::from_secs(5), || from.child().errors().contains("count=").then_some(()));
    assert_eq!(counted, Some(()), "nothing with a count was logged:\n{}", from.child().errors());
    let lines = from.child().error_lines() - before;
    say(&format!("{test}: {lines} lines in {:?}; {}", answer.took(), answer.value("text")));
    assert!(lines <= 20, "{lines} lines:\n{}", from.child().errors());
    from.quit();
    to.quit();
}
