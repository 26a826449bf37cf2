//! What the engine itself costs, without a network: times, allocations and memory, one figure a line.
//!
//! ```text
//! cargo run --release -p te-engine --example micro            # a table
//! cargo run --release -p te-engine --example micro -- --json  # one JSON object a line
//! cargo run --release -p te-engine --example micro -- memory  # only figures whose name has this
//! ```
//!
//! A transport that moves nothing stands behind the engine, so that what is left is the engine's
//! own. Each time is the least of several rounds: what the machine adds to a round is no cost of
//! ours. Figures with a limit say whether they keep it; nothing fails.
#![allow(clippy::print_stdout, reason = "a benchmark's output is what it prints")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot run ends")]

mod figures;
mod memory;
mod null;
mod requests;
mod tables;

use figures::Figures;

#[global_allocator]
static COUNTED: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, names @ ..] = words.as_slice()
        && first == "--serve"
    {
        return memory::serve(names);
    }
    let json = words.iter().any(|word| word == "--json");
    words.retain(|word| !word.starts_with("--"));
    let mut figures = Figures::new(json, words);
    memory::idle(&mut figures);
    tables::planning(&mut figures);
    tables::lookups(&mut figures);
    requests::costs(&mut figures);
    requests::scale(&mut figures);
    memory::things(&mut figures);
    memory::peers(&mut figures);
}
