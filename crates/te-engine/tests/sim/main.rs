//! Whole engines on the simulated fabric: thousands of seeds, the failing one printed.
//!
//! `TE_SIM_SEEDS=n` changes how many seeds are run, `TE_SIM_SEED=k` runs one of them.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests panic, and name their seed"
)]

mod choice;
mod faults;
mod happy;

mod harness;
mod pressure;
mod scatter;
mod shutdown;
