//! Suite `lifecycle`: transfers, regions, peers and engines from their beginning to their end,
//! whatever happens in between.
//!
//! Processes are killed, stopped and started again, memory goes away, networks swallow what is
//! sent, engines close in every state. What is asserted is the same throughout: each request has
//! one end, in time; what is reported is true; nothing is written where it must not be; nothing is
//! left behind. Every bound on a wait is asserted beside what the machine itself lost meanwhile.
#![cfg(test)]

#[path = "lifecycle/chaos.rs"]
mod chaos;
#[path = "lifecycle/checked.rs"]
mod checked;
#[path = "lifecycle/control.rs"]
mod control;
#[path = "lifecycle/end.rs"]
mod end;
#[path = "lifecycle/holder.rs"]
mod holder;
#[path = "lifecycle/memory.rs"]
mod memory;
#[path = "lifecycle/network.rs"]
mod network;
#[path = "lifecycle/overload.rs"]
mod overload;
#[path = "lifecycle/rails.rs"]
mod rails;
#[path = "lifecycle/recycled.rs"]
mod recycled;
#[path = "lifecycle/registering.rs"]
mod registering;
#[path = "lifecycle/restart.rs"]
mod restart;
#[path = "lifecycle/stop.rs"]
mod stop;
#[path = "lifecycle/texts.rs"]
mod texts;

use te_suites::{Kind, Node, NodeSpec, Parts, full, say};

const MIB: u64 = 1 << 20;

/// Two of ours.
const OURS: (Kind, Kind) = (Kind::Te, Kind::Te);

/// One request that covers `len` bytes from the starts of both buffers.
fn whole(from: &Node, to: &Node, len: u64) -> Parts {
    let mut parts = Parts::default();
    parts.push(from.addr(), to.addr(), len);
    parts
}

/// One of ours with a buffer of this many bytes.
fn ours(size: u64) -> Node {
    NodeSpec::new(Kind::Te, size).start()
}

/// How much to do: `long`, or `short` in a usual run, which is said with the reason.
fn amount(test: &str, long: u64, short: u64) -> u64 {
    if full() || short >= long {
        return long;
    }
    say(&format!("{test}: {short} instead of {long}, to keep the usual run short (TE_FULL=1)"));
    short
}
