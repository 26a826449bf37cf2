//! COMPLETED means that the bytes are in the target's memory.

use std::process::Command;

use serde_json::json;
use te_suites::{Bound, Case, LineChild, Node, NodeSpec, need, say};

use crate::{MIB, OURS};

/// The length at which torn data was seen on loopback.
const LEN: u64 = 2_400_256;

/// Writes `n` rounds; the target is told of each end at once, over a connection of its own, and
/// looks at the whole region.
fn rounds(test: &str, writer: &NodeSpec, reader: &NodeSpec, n: u64) {
    let mut reader = reader.start();
    let mut writer = writer.start();
    let cases =
        [Case::start("FB05: writer", writer.pid()), Case::start("FB05: reader", reader.pid())];
    let check = json!({ "op": "check_rounds", "off": 4096 + 5, "len": LEN, "n": n });
    let side = reader.ask(&check).ok().number("port");
    let answer = tell(&mut writer, &reader, side, n);
    let torn = reader.ask(&json!({ "op": "check_result" })).ok().number("torn");
    say(&format!("{test}: {n} rounds in {:.1} s, {torn} torn", answer.took().as_secs_f64()));
    assert_eq!(torn, 0, "of {n} rounds");
    cases.into_iter().for_each(|case| case.end(Bound::NOTHING));
    writer.quit();
    reader.quit();
}

fn tell(writer: &mut Node, reader: &Node, side: u64, n: u64) -> te_suites::Answer {
    let command = json!({
        "op": "rounds", "target": reader.name(), "src": writer.addr() + 7,
        "dst": reader.addr() + 4096 + 5, "len": LEN, "n": n, "side": side,
    });
    writer.ask_within(&command, std::time::Duration::from_secs(300)).ok()
}

fn spec() -> NodeSpec {
    NodeSpec::new(OURS.0, 4 * MIB)
}

#[test]
fn fb05_a_completed_write_is_seen_at_once() {
    // FB05: 1000 rounds of 2.4 MB with a stamp in each 512 bytes.
    let test = "fb05_a_completed_write_is_seen_at_once";
    need!(test, OURS.0.available());
    rounds(test, &spec(), &spec(), 1000);
}

#[test]
fn fb05_a_completed_write_is_seen_at_once_through_tiny_socket_buffers() {
    // FB05: the smallest buffers that the kernel gives, on both sides.
    let test = "fb05_a_completed_write_is_seen_at_once_through_tiny_socket_buffers";
    need!(test, OURS.0.available());
    let tiny = spec().env("TE_TCP_SOCKET_BUFFER_BYTES", "4096");
    rounds(test, &tiny, &tiny, 1000);
}

#[test]
fn fb05_a_completed_write_is_seen_at_once_when_the_target_is_starved() {
    // FB05: the target shares one processor with work that never pauses.
    let test = "fb05_a_completed_write_is_seen_at_once_when_the_target_is_starved";
    need!(test, OURS.0.available());
    let mut command = Command::new("taskset");
    command.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    let _load = LineChild::start("a busy loop", command);
    rounds(test, &spec(), &spec().on_cpu(0), 1000);
}
