//! The program as a person uses it: its verbs against each other, its words, its exit codes.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[path = "cli/program.rs"]
mod program;

#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/faults.rs"]
mod faults;
#[path = "cli/meta.rs"]
mod meta;
#[path = "cli/metadata_server.rs"]
mod metadata_server;
#[path = "cli/moving.rs"]
mod moving;
#[path = "cli/telling.rs"]
mod telling;
#[path = "cli/topo.rs"]
mod topo;
