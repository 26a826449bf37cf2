//! Suite `interop`: the published peer and us, both ways, on one machine.
//!
//! Every test of a transfer checks every byte on the receiving side and the bytes around it. The
//! peer is its Python interface, its benchmark program, or, where a test needs manners that it does
//! not have, a target made by hand.
#![cfg(test)]

#[path = "interop/bench.rs"]
mod bench;
#[path = "interop/bounds.rs"]
mod bounds;
#[path = "interop/calls.rs"]
mod calls;
#[path = "interop/descriptor.rs"]
mod descriptor;
#[path = "interop/large.rs"]
mod large;
#[path = "interop/sizes.rs"]
mod sizes;

use te_suites::Kind;

/// We call, the peer is called.
const OURS_TO_PEER: (Kind, Kind) = (Kind::Te, Kind::Peer);

/// The peer calls, we are called.
const PEER_TO_OURS: (Kind, Kind) = (Kind::Peer, Kind::Te);
