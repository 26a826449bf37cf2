//! Suite `field`: what users of the published engine reported, as tests of ours.
//!
//! The name of a test begins with the row that it comes from. Where the usual run is shorter than
//! the row asks, the test says so and `TE_FULL=1` runs the whole.
#![cfg(test)]

#[path = "field/addresses.rs"]
mod addresses;
#[path = "field/cpu.rs"]
mod cpu;
#[path = "field/memory.rs"]
mod memory;
#[path = "field/metadata.rs"]
mod metadata;
#[path = "field/names.rs"]
mod names;
#[path = "field/ports.rs"]
mod ports;
#[path = "field/security.rs"]
mod security;
#[path = "field/sizes.rs"]
mod sizes;
#[path = "field/visibility.rs"]
mod visibility;

use te_suites::{Kind, full, say};

const MIB: u64 = 1 << 20;

/// Two of ours.
const OURS: (Kind, Kind) = (Kind::Te, Kind::Te);

/// How much to do: `whole`, or `short` in a usual run, which is said with the reason.
fn amount(test: &str, whole: u64, short: u64) -> u64 {
    if full() || short >= whole {
        return whole;
    }
    say(&format!("{test}: {short} instead of {whole}, to keep the usual run short (TE_FULL=1)"));
    short
}
