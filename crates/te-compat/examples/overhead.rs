//! What one synchronous write of 4 KiB by host name takes, and submitting 10 000 requests: the figures
//! beside which those of the surfaces above are read. `crates/te-python/benches/overhead.py` does the same.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures time and tells it"
)]

use std::time::{Duration, Instant};

use te_compat::{
    Buffer, CallerMemory, Engine, Failure, OPCODE_WRITE, Opcode, Options, Piece, Region, Request,
};

const SIZE: u64 = 4096;
const PER_ROUND: u32 = 200;
const N: u32 = 10_000;

fn main() -> Result<(), Failure> {
    let rounds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(30);
    let (a, b) = (engine()?, engine()?);
    let (ours, theirs) = (memory(&a, SIZE)?, memory(&b, SIZE)?);
    let piece = Piece { local: ours.address(), remote: theirs.address(), len: SIZE };
    let host = b.local_name().to_owned();
    let one = median_of_rounds(rounds, || a.transfer_sync(Opcode::Write, &host, piece))?;
    println!("rust one {one:.0}");
    println!("rust submit10000 {:.0}", submit(&a, &b)?);
    Ok(())
}

fn engine() -> Result<Engine, Failure> {
    // SAFETY: the only memory that it moves is of engines, below.
    #[allow(unsafe_code, reason = "the promise that every surface makes")]
    let memory = unsafe { CallerMemory::promise() };
    Engine::new(&Options::new("P2PHANDSHAKE", "127.0.0.1"), memory)
}

fn memory(engine: &Engine, len: u64) -> Result<Region, Failure> {
    let region = engine.allocate(len)?;
    engine.register(Buffer { address: region.address(), len }, "*", true)?;
    Ok(region)
}

/// Nanoseconds of one call: the median over rounds of the mean within a round.
fn median_of_rounds<T>(
    rounds: u32,
    mut call: impl FnMut() -> Result<T, Failure>,
) -> Result<f64, Failure> {
    let mut found = Vec::new();
    for _ in 0..=rounds {
        let begun = Instant::now();
        for _ in 0..PER_ROUND {
            call()?;
        }
        found.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(PER_ROUND));
    }
    // The first round warms up.
    Ok(median(found.split_off(1)))
}

/// Nanoseconds until a call with many requests has returned.
fn submit(a: &Engine, b: &Engine) -> Result<f64, Failure> {
    let room = u64::from(N) * 64;
    let (ours, theirs) = (memory(a, room)?, memory(b, room)?);
    let target = a.open_segment(b.local_name())?;
    let request = |at: u64| Request {
        opcode: OPCODE_WRITE,
        source: ours.address() + at * 64,
        target,
        offset: theirs.address() + at * 64,
        len: 64,
    };
    let mut found = Vec::new();
    for _ in 0..15 {
        let batch = a.allocate_batch(N as usize)?;
        let begun = Instant::now();
        a.submit(batch, (0..u64::from(N)).map(request))?;
        found.push(begun.elapsed().as_secs_f64() * 1e9);
        a.wait_batch(batch, Duration::from_secs(30))?;
        a.free_batch(batch)?;
    }
    Ok(median(found))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
