//! What planning, posting and completing a slice costs one core, over a fake fabric that moves no
//! bytes; beside it what copying as many bytes costs.
//!
//! ```text
//! cargo run --release -p te-transport-rdma --features testing --example hot            # a table
//! cargo run --release -p te-transport-rdma --features testing --example hot -- --json  # one JSON object a line
//! ```
//!
//! Handing a slice over, choosing NICs and what the fake devices do is in the figures. Each time is
//! the least of several rounds: what the machine adds to a round is no cost of ours. With several
//! NICs one thread does the work of all their workers, so that the time is that of one core. Figures
//! with a limit say whether they keep it; nothing fails.
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures and tells")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::hot::{Hot, PIECE};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use te_transport_rdma::Rdma;

#[global_allocator]
static COUNTED: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Slices of a measurement, at least.
const SLICES: usize = 4096;
/// Measurements, of which the least counts.
const ROUNDS: usize = 400;
/// The most that a slice may cost, ns: 200 GB/s of one core.
const LIMIT: f64 = 300.0;
/// How much dearer it may be with 8 NICs.
const RATIO: f64 = 1.2;
/// Bytes that are copied: more than caches hold.
const COPIED: usize = 64 << 20;

/// What was found for some number of NICs.
struct Found {
    nanos: f64,
    /// Of these, what the loop costs without the transport.
    frame: f64,
    allocations: f64,
    locks: f64,
}

fn main() {
    let json = std::env::args().any(|word| word == "--json");
    let one = measure(1);
    let name = |text: &str| format!("rdma: {text}");
    let print = |text: &str, value: f64, unit: &str, limit: Option<f64>| {
        print(json, &name(text), (value, unit), limit);
    };
    print("a slice of 64 KiB, 1 NIC", one.nanos, "ns", Some(LIMIT));
    print("of these, to make the slice", one.frame, "ns", None);
    print("rate of one core, 1 NIC", PIECE as f64 / one.nanos, "GB/s", None);
    print("rate of one core that copies", copying(), "GB/s", None);
    print("allocations of a slice", one.allocations, "", Some(0.0));
    print("locks of a slice", one.locks, "", Some(0.0));
    for nics in [2, 4] {
        print(&format!("a slice of 64 KiB, {nics} NICs"), measure(nics).nanos, "ns", None);
    }
    let eight = measure(8);
    print("a slice of 64 KiB, 8 NICs", eight.nanos, "ns", Some(LIMIT));
    print("allocations of a slice, 8 NICs", eight.allocations, "", Some(0.0));
    print("locks of a slice, 8 NICs", eight.locks, "", Some(0.0));
    print("8 NICs to 1", eight.nanos / one.nanos, "", Some(RATIO));
}

fn measure(nics: usize) -> Found {
    let mut hot = Hot::new(nics);
    let times = (SLICES / hot.len()).max(1);
    let slices = (times * hot.len()) as f64;
    let (mut made, locks) = (usize::MAX, Rdma::locks_taken());
    let nanos = least(slices, || {
        let region = Region::new(COUNTED);
        (0..times).for_each(|_| hot.round());
        let change = region.change();
        // The least: what a timer of another thread allocates is none of a slice's.
        made = made.min(change.allocations + change.reallocations);
    });
    let (allocations, taken) = (made as f64 / slices, Rdma::locks_taken() - locks);
    let all = slices * ROUNDS as f64;
    let frame = least(slices, || (0..times).for_each(|_| hot.refill()));
    hot.close();
    Found { nanos, frame, allocations, locks: taken as f64 / all }
}

/// Nanoseconds of each of `n` things that `work` does: the least of all rounds.
fn least(n: f64, mut work: impl FnMut()) -> f64 {
    let round = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed().as_nanos() as f64 / n
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// Bytes that a core copies in a nanosecond, in pieces as long as a slice.
fn copying() -> f64 {
    let (from, mut to) = (vec![1_u8; COPIED], vec![2_u8; COPIED]);
    let copy = || {
        let begun = Instant::now();
        for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
            black_box(to).copy_from_slice(black_box(from));
        }
        COPIED as f64 / begun.elapsed().as_nanos() as f64
    };
    std::iter::repeat_with(copy).take(10).fold(0.0, f64::max)
}

fn print(json: bool, name: &str, (value, unit): (f64, &str), limit: Option<f64>) {
    let kept = limit.map(|limit| value <= limit);
    if json {
        let or_null = |text: Option<String>| text.unwrap_or_else(|| "null".to_owned());
        let limit = or_null(limit.map(|limit| limit.to_string()));
        let kept = or_null(kept.map(|kept| kept.to_string()));
        println!(
            "{{\"figure\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\",\"limit\":{limit},\"kept\":{kept}}}"
        );
        return;
    }
    let verdict = match (limit, kept) {
        (Some(limit), Some(true)) => format!("  ok, at most {limit}"),
        (Some(limit), _) => format!("  MISSED, at most {limit}"),
        _ => String::new(),
    };
    println!("{name:<44} {value:>10.2} {unit:<6}{verdict}");
}
