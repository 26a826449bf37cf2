//! What these calls cost beside those of the engine below: one synchronous write of 4 KiB, and 10 000
//! requests submitted. Run it as `cargo run --release -p te-compat --example overhead`.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement: the promise about memory, the clock, and what it prints"
)]

use std::error::Error;
use std::time::{Duration, Instant};

use te_compat::{
    CallerMemory, Engine, EngineConfig, OPCODE_WRITE, Opcode, Options, Piece, RemoteAccess, Request,
};
use te_engine::TransferRequest;

const LEN: u64 = 4096;
const ROUNDS: usize = 20_000;
const MANY: u64 = 10_000;
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    for transports in [&["tcp"][..], &["local", "shm", "tcp"]] {
        measure(transports)?;
    }
    Ok(())
}

fn measure(transports: &[&str]) -> Result<(), Box<dyn Error>> {
    let (a, b) = (engine(transports)?, engine(transports)?);
    let (ours, theirs) = (a.allocate(MANY * LEN)?, b.allocate(MANY * LEN)?);
    a.register_regions(std::slice::from_ref(&ours), "*", RemoteAccess::ReadWrite)?;
    b.register_regions(std::slice::from_ref(&theirs), "*", RemoteAccess::ReadWrite)?;
    let (host, target) = (b.local_name(), a.open_segment(b.local_name())?);
    let id = te_engine::SegmentId::from_u64(u64::try_from(target)?);
    let piece = Piece { local: ours.address(), remote: theirs.address(), len: LEN };
    let write = TransferRequest::write(ours.range(0, LEN)?, id, theirs.address());
    let transport = a.inner()?.transport_to(id).unwrap_or("none");
    // In turns, so that both see the same machine.
    let (mut below, mut here) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        a.inner()?.transfer(std::slice::from_ref(&write), LIMIT)?;
        below.push(begun.elapsed());
        let begun = Instant::now();
        a.transfer_sync(Opcode::Write, host, piece)?;
        here.push(begun.elapsed());
    }
    println!("{transport}: write of 4 KiB: engine {}, here {}", median(below), median(here));
    let mut times = Vec::new();
    for _ in 0..20 {
        let batch = a.allocate_batch(usize::try_from(MANY)?)?;
        let requests = (0..MANY).map(|i| Request {
            opcode: OPCODE_WRITE,
            source: ours.address() + i * LEN,
            target,
            offset: theirs.address() + i * LEN,
            len: 64,
        });
        let begun = Instant::now();
        a.submit(batch, requests)?;
        times.push(begun.elapsed());
        a.wait_batch(batch, LIMIT)?.outcome()?;
        a.free_batch(batch)?;
    }
    println!("{transport}: {MANY} requests submitted: {}", median(times));
    Ok(())
}

fn engine(transports: &[&str]) -> Result<Engine, Box<dyn Error>> {
    let names = transports.iter().map(|name| (*name).to_owned()).collect();
    let config = EngineConfig::default().adjust(|settings| settings.engine.transports = names)?;
    // SAFETY: nothing refers to the memory that is named here.
    let memory = unsafe { CallerMemory::promise() };
    Ok(Engine::new(&Options::new("P2PHANDSHAKE", "127.0.0.1").config(config), memory)?)
}

fn median(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    format!("{:.2} µs", times[times.len() / 2].as_secs_f64() * 1e6)
}
