//! Suite `rdma`: the RDMA transport on real verbs, in emulated machines with soft-RoCE.
//!
//! One boot runs many tests: the modules of `star` want eight devices, each with a link of its own to
//! all others, the modules of `wheel` want the whole host, whose Python has the published peer. On a
//! machine without such devices each test says so and is skipped.
#![cfg(test)]

#[path = "rdma/carry.rs"]
mod carry;
#[path = "rdma/host.rs"]
mod host;
#[path = "rdma/links.rs"]
mod links;
#[path = "rdma/star.rs"]
mod star;
#[path = "rdma/table.rs"]
mod table;
#[path = "rdma/watched.rs"]
mod watched;
#[path = "rdma/wheel.rs"]
mod wheel;
