//! What the transport adds to the bare copy, by the way the bytes go: GB/s of a batch between two
//! engines, beside a plain copy into the same mapped memory and one around the caches. "helped" is "mapped" with
//! a second thread while a core is free.
//!
//! Run it alone: `cargo run --release -p te-transport-shm --example ways`. "hot" uses the same
//! blocks again and again, "cold" takes them in turn over 256 MiB on either side.
#![allow(clippy::disallowed_methods, reason = "measures time")]
#![allow(clippy::print_stdout, reason = "a program that prints a table")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Engine, remote};
use te_metadata::Incarnation;
use te_segment::{
    Allocation, Caching, Opcode, Pages, Region, RegisterOptions, RemoteRange, RemoteSegment,
    SegmentId, Slice, SliceToken,
};
use te_transport::{Completion, CompletionSink, Transport};
use te_transport_shm::{ShmConfig, ShmTransport};

const SPREAD: u64 = 256 << 20;
const SHAPES: [(u64, u64); 5] =
    [(4 << 10, 1), (4 << 10, 128), (64 << 10, 8), (1 << 20, 8), (64 << 20, 1)];
const CELL: Duration = Duration::from_millis(60);
const ROUNDS: usize = 5;

/// Counts the ends; a slice that failed ends the program.
#[derive(Debug, Default)]
struct Counter(AtomicUsize);

impl CompletionSink for Counter {
    fn complete(&self, completion: Completion) {
        completion.result.expect("nothing is in its way");
        self.0.fetch_add(1, Ordering::Release);
    }

    fn room(&self, _peer: SegmentId) {}
}

/// An initiator and the peer it writes to.
struct Road {
    engine: Engine<ShmTransport>,
    _target: Engine<ShmTransport>,
    peer: Arc<RemoteSegment>,
    counter: Arc<Counter>,
    address: u64,
}

impl Road {
    fn new(config: &ShmConfig, offered: &Region) -> Result<Self, Box<dyn Error>> {
        let counter = Arc::new(Counter::default());
        let start = |sink: Arc<Counter>| {
            Engine::start(ShmTransport::new(config.clone()), Incarnation::random(), sink)
        };
        let (engine, target) = (start(Arc::clone(&counter)), start(Arc::default()));
        let buffer = target.segment.register(offered, RegisterOptions::default())?;
        target.transport.register(&buffer).map_err(|error| error.to_string())?;
        let (peer, address) = (remote(&target), offered.address());
        Ok(Self { engine, _target: target, peer, counter, address })
    }

    fn write(
        &self,
        local: &Region,
        at: u64,
        (block, batch): (u64, u64),
    ) -> Result<(), Box<dyn Error>> {
        let slice = |n: u64| {
            let offset = at + n * block;
            let remote = RemoteRange::new(self.address + offset, block)?;
            let token = SliceToken::new(u32::try_from(n)?, 1);
            let (local, peer) = (local.range(offset, block)?, Arc::clone(&self.peer));
            let op = Opcode::Write;
            Ok(Slice { token, op, local, remote, peer, attempt: 0, checked: false })
        };
        let mut source = (0..batch).map(slice).collect::<Result<VecDeque<_>, Box<dyn Error>>>()?;
        let goal = self.counter.0.load(Ordering::Acquire) + source.len();
        while self.counter.0.load(Ordering::Acquire) < goal {
            self.engine.transport.submit(&self.peer, &mut source);
            self.engine.transport.drive(Instant::now() + Duration::from_millis(10));
        }
        Ok(())
    }
}

type Way<'a> = Box<dyn Fn(u64, (u64, u64)) -> Result<(), Box<dyn Error>> + 'a>;

fn main() -> Result<(), Box<dyn Error>> {
    let len = usize::try_from(SPREAD)?;
    for pages in [Pages::Usual, Pages::Transparent] {
        let kind = || Allocation::new(len).pages(pages).populated();
        let local = Region::from(kind().allocate()?);
        let offered = Region::from(kind().shareable().allocate()?);
        let window = Region::map_shared(offered.shared().ok_or("shareable")?.file(), true)?;
        let ways = |kernel, mapped, parallel| {
            let config = ShmConfig { kernel, mapped, parallel, ..ShmConfig::default() };
            Road::new(&config, &offered)
        };
        let (mapped, kernel) = (ways(false, true, false)?, ways(true, false, false)?);
        let helped = ways(false, true, true)?;
        let all: [(&str, Way<'_>); 5] = [
            ("plain", bare(&local, &window, Caching::Keep)),
            ("around", bare(&local, &window, Caching::Bypass)),
            ("mapped", Box::new(|at, shape| mapped.write(&local, at, shape))),
            ("helped", Box::new(|at, shape| helped.write(&local, at, shape))),
            ("kernel", Box::new(|at, shape| kernel.write(&local, at, shape))),
        ];
        print!("{:>12} {:>9}", format!("{pages:?}"), "");
        all.iter().for_each(|(name, _)| print!(" {name:>8}"));
        println!("  mapped / plain");
        for shape in SHAPES {
            for (heat, spread) in [("hot", shape.0 * shape.1), ("cold", SPREAD)] {
                row(&all, shape, (heat, spread))?;
            }
        }
    }
    Ok(())
}

/// Copies without a transport.
fn bare<'a>(local: &'a Region, window: &'a Region, caching: Caching) -> Way<'a> {
    Box::new(move |at, (block, batch)| {
        for n in 0..batch {
            let to = window.range(at + n * block, block)?;
            local.range(at + n * block, block)?.copy_to(&to, caching)?;
        }
        Ok(())
    })
}

/// Medians of interleaved rounds.
fn row(
    all: &[(&str, Way<'_>); 5],
    shape: (u64, u64),
    (heat, spread): (&str, u64),
) -> Result<(), Box<dyn Error>> {
    let mut samples: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, way), samples) in all.iter().zip(&mut samples) {
            samples.push(measure(way, shape, spread)?);
        }
    }
    let mut medians = samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        samples[ROUNDS / 2]
    });
    print!("{:>6} KiB x {:<3} {heat:>5}", shape.0 >> 10, shape.1);
    medians.iter_mut().for_each(|median| print!(" {median:>8.1}"));
    println!("  {:.2}", medians[2] / medians[0]);
    Ok(())
}

/// GB/s.
fn measure(way: &Way<'_>, shape: (u64, u64), spread: u64) -> Result<f64, Box<dyn Error>> {
    let total = shape.0 * shape.1;
    let begin = Instant::now();
    let (mut at, mut bytes) = (0, 0u64);
    while begin.elapsed() < CELL {
        way(at, shape)?;
        bytes += total;
        at = (at + total) % spread;
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    Ok(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9)
}
