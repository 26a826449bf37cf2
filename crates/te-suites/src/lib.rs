//! The kit of the system suites: real processes, real sockets, the real peer.
//!
//! The suites themselves are the test programs of this crate: `interop` (the published peer, both
//! ways), `faults` (what brought the peer down, done to us), `field` (what went wrong in the
//! field), `lifecycle` (death, restart, memory that goes, overload, the end), `metadata` (stores on real
//! services), `rdma` (real verbs in emulated machines). They start engines as
//! processes of their own ([`Node`]), talk to their ports by hand
//! ([`wire`]), and measure what a case left behind ([`Case`]).
//!
//! A test that cannot run where it is says so through [`skip`] and never passes silently. The
//! environment names the programs: `TE_BIN`, `TE_NODE`, `TE_PEER_PYTHON`; `TE_FULL=1` (or
//! `TE_LEVEL=full`) asks for the long forms; `TE_CHAOS_SECONDS` and `TE_CHAOS_SEED` say how long the
//! chaos of `lifecycle` lasts, and which run of it to repeat.

pub mod pattern;
pub mod wire;

mod calls;
mod child;
mod clock;
mod control;
mod environment;
mod measure;
mod netns;
mod node;
mod pair;
mod place;
mod report;

pub use calls::{Direction, Parts};
pub use child::{LineChild, send_signal};
pub use clock::{now, pace, wait_for, wait_until};
pub use control::Wish;
pub use environment::{
    chaos_seconds, chaos_seed, full, guest, peer_bench, peer_python, retry_shim, te_bin, te_node,
};
pub use measure::{Bound, Case, Heartbeat, Usage, available_memory};
pub use netns::Netns;
pub use node::{Answer, Kind, Launched, Node, NodeSpec};
pub use pair::{GUARD_LEN, Pair, Span, Version};
pub use place::{TempDir, free_port};
pub use report::{say, skip};
