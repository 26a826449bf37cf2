//! The published peer over RDMA, and us: both ways, over one NIC and two. The machine has four devices,
//! each with a link of its own: the first two are ours, the others the peer's.

#[path = "wheel/faults.rs"]
mod faults;
#[path = "wheel/mismatch.rs"]
mod mismatch;
#[path = "wheel/moves.rs"]
mod moves;
#[path = "wheel/node.rs"]
mod node;
#[path = "wheel/pair.rs"]
mod pair;
#[path = "wheel/refused.rs"]
mod refused;
#[path = "wheel/rules.rs"]
mod rules;
#[path = "wheel/store.rs"]
mod store;
