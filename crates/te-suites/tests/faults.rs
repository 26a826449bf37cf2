//! Suite `faults`: what the published peer was put through, done to us.
//!
//! The number in a test's name is the row of the peer's fault table that it repeats. Every attack
//! is followed by the same questions: does the process live, does it serve, what did it keep. File
//! descriptors, threads and memory before and after are printed for each case, and growth beyond
//! the bound fails.
#![cfg(test)]

#[path = "faults/answers.rs"]
mod answers;
#[path = "faults/batches.rs"]
mod batches;
#[path = "faults/data.rs"]
mod data;
#[path = "faults/death.rs"]
mod death;
#[path = "faults/handshake.rs"]
mod handshake;
#[path = "faults/lanes.rs"]
mod lanes;
#[path = "faults/manners.rs"]
mod manners;
#[path = "faults/memory.rs"]
mod memory;
#[path = "faults/register.rs"]
mod register;

use te_suites::wire::{DataClient, descriptor_of};
use te_suites::{Kind, Node, NodeSpec};

const MIB: u64 = 1 << 20;

/// Two of ours.
const OURS: (Kind, Kind) = (Kind::Te, Kind::Te);

/// One of ours with 1 MiB, or what is missing.
fn target() -> Result<Node, String> {
    Kind::Te.available()?;
    Ok(NodeSpec::new(Kind::Te, MIB).start())
}

/// Asserts that a node lives and serves on both ports.
#[track_caller]
fn serves(node: &mut Node) {
    node.ping();
    let descriptor = descriptor_of(node);
    assert_eq!(descriptor["protocol"], "tcp", "{descriptor}");
    let mut client = DataClient::of(&descriptor).unwrap();
    let bytes = client.read(node.addr(), 64).unwrap();
    assert!(bytes.is_ok(), "{bytes:?}");
}
