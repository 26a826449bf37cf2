//! What a copy around the caches is worth: GB/s of plain and of going around, by block, by pages, and
//! by whether the blocks are in the cache (one block again and again) or not (in turn over 256 MiB).
//!
//! "read" columns read each block right after it was copied, on the same core: what the target's
//! owner would do. Run it alone: `cargo run --release -p te-segment --example copies`.

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::error::Error;
use std::time::Duration;

use te_segment::{Allocation, Caching, Pages, Region};

/// Far more than any cache here.
const SPREAD: u64 = 256 << 20;
const BLOCKS: [u64; 6] = [4 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20];
const CELL: Duration = Duration::from_millis(60);
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let len = usize::try_from(SPREAD)?;
    let private = |pages| Allocation::new(len).pages(pages).populated();
    let kinds = [
        ("small pages", private(Pages::Usual), private(Pages::Usual)),
        ("huge pages", private(Pages::Transparent), private(Pages::Transparent)),
        ("huge to a file", private(Pages::Transparent), private(Pages::Usual).shareable()),
        (
            "huge to a huge file",
            private(Pages::Transparent),
            private(Pages::Transparent).shareable(),
        ),
    ];
    println!(
        "{:<20} {:>8} {:>5} {:>8} {:>8} {:>8} {:>8}",
        "memory", "KiB", "", "plain", "around", "read", "read"
    );
    for (name, from, to) in kinds {
        let pair = (Region::from(from.allocate()?), Region::from(to.allocate()?));
        for block in BLOCKS {
            for (heat, spread) in [("hot", block), ("cold", SPREAD)] {
                row(name, heat, &pair, (block, spread))?;
            }
        }
    }
    Ok(())
}

/// Medians of interleaved rounds.
fn row(
    name: &str,
    heat: &str,
    pair: &(Region, Region),
    (block, spread): (u64, u64),
) -> Result<(), Box<dyn Error>> {
    let ways = [
        (Caching::Keep, false),
        (Caching::Bypass, false),
        (Caching::Keep, true),
        (Caching::Bypass, true),
    ];
    let mut samples: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (way, samples) in ways.iter().zip(&mut samples) {
            samples.push(measure(pair, (block, spread), *way)?);
        }
    }
    print!("{name:<20} {:>8} {heat:>5}", block >> 10);
    for samples in &mut samples {
        samples.sort_by(f64::total_cmp);
        print!(" {:>8.1}", samples[samples.len() / 2]);
    }
    println!();
    Ok(())
}

/// GB/s of one way.
#[expect(clippy::disallowed_methods, reason = "measures time")]
fn measure(
    (from, to): &(Region, Region),
    (block, spread): (u64, u64),
    (caching, reads): (Caching, bool),
) -> Result<f64, Box<dyn Error>> {
    let mut back = vec![0; usize::try_from(block.min(16 << 10))?];
    let begin = std::time::Instant::now();
    let (mut at, mut bytes) = (0, 0u64);
    while begin.elapsed() < CELL {
        from.range(at, block)?.copy_to(&to.range(at, block)?, caching)?;
        for piece in (0..if reads { block } else { 0 }).step_by(back.len()) {
            to.read_into(at + piece, &mut back)?;
        }
        bytes += block;
        at = (at + block) % spread;
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    Ok(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9)
}
