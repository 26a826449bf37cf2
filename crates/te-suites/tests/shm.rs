//! Suite `shm`: processes of one host that copy directly.
//!
//! What is asserted is what holds for every path: bytes are where they were meant to be and nowhere
//! else, each request has one end, what is reported is true; and what holds for this one: a process
//! that does not prove itself is not touched, memory that is taken back is waited for, and where
//! direct copies are not to be had another transport serves.
#![cfg(test)]

#[path = "shm/death.rs"]
mod death;
#[path = "shm/holders.rs"]
mod holders;
#[path = "shm/identity.rs"]
mod identity;
#[path = "shm/permission.rs"]
mod permission;
#[path = "shm/within.rs"]
mod within;

use std::collections::HashSet;

use serde_json::json;
use te_suites::{Kind, Node, NodeSpec, say};

const MIB: u64 = 1 << 20;

/// One of ours with a buffer of this many bytes, that uses what the host offers.
fn spec(size: u64) -> NodeSpec {
    NodeSpec::new(Kind::Te, size).env("TE_TRANSPORTS", "local,shm,tcp")
}

/// A node whose name no other node of the test had: ports are drawn at random, and a name that is
/// used again is another matter.
#[track_caller]
fn fresh(spec: &NodeSpec, seen: &mut HashSet<String>) -> Node {
    loop {
        let node = spec.start();
        if seen.insert(node.name().to_owned()) {
            return node;
        }
        node.quit();
    }
}

/// The transport by which a node reaches a segment.
#[track_caller]
fn via(node: &mut Node, target: &str) -> String {
    let answer = node.ask(&json!({ "op": "via", "target": target })).ok();
    let found = answer.value("transport").as_str().unwrap_or("none").to_owned();
    if found == "tcp" {
        // What it says about why is in the output of a test that did not expect that.
        say(&node.child().errors());
    }
    found
}
