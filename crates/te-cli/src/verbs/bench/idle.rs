//! `te bench-idle` and `te bench-peers`: what an engine costs that has many peers and nothing to do.

use std::io::{self, BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use te_engine::{AlignedBuffer, Region, RegisterOptions, TransferEngine, TransferRequest};

use super::target::{Memory, expose};
use crate::args::Common;
use crate::clock::Watch;
use crate::cpu;
use crate::error::{CliError, Failure, chain, system_text};
use crate::output;
use crate::program::Program;
use crate::session;
use crate::units::parse_seconds;

#[derive(Debug, Args)]
pub(crate) struct Idle {
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    peers: u32,
    #[arg(value_parser = parse_seconds)]
    time: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Peers {
    number: u32,
}

const BLOCK: u64 = 4096;

/// So many buffers are registered to see what one costs.
const BUFFERS: u64 = 10_000;

/// So long after the last transfer everything sleeps.
const SETTLING: Duration = Duration::from_millis(500);

pub(crate) fn run(common: &Common, args: &Idle) -> Result<(), CliError> {
    let mut command = Program::command().map_err(|cause| lost(system_text(&cause)))?;
    command.arg("bench-peers").arg(args.peers.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|cause| lost(system_text(&cause)))?;
    let measured = match child.stdout.take() {
        Some(output) => measure(common, args, BufReader::new(output)),
        None => Err(lost("it has no output")),
    };
    // Its standard input ends with this, at which it ends.
    drop(child.stdin.take());
    child.wait().map_err(|cause| lost(system_text(&cause)))?;
    output::json(&measured?)
}

/// The other process: engines that others open.
pub(crate) fn run_peers(common: &Common, args: &Peers) -> Result<(), CliError> {
    let config = session::load_config(common)?;
    let mut engines = Vec::new();
    for _ in 0..args.number {
        let builder = TransferEngine::builder().config(config.clone()).named_by_address();
        let engine = builder.name("127.0.0.1").build().map_err(|error| CliError::build(&error))?;
        let memory = Memory { is_engines: false, is_huge: false };
        let region = expose(&engine, memory, BLOCK)?;
        engines.push((engine, region));
    }
    let told = engines.iter().map(|(engine, region)| {
        json!({"segment": engine.local_name().as_str(), "address": region.address()})
    });
    output::json(&told.collect())?;
    let ended = io::stdin().read_to_end(&mut Vec::new());
    ended.map(drop).map_err(|cause| lost(system_text(&cause)))
}

fn measure(common: &Common, args: &Idle, mut peers: impl BufRead) -> Result<Value, CliError> {
    let mut line = String::new();
    peers.read_line(&mut line).map_err(|cause| lost(system_text(&cause)))?;
    let told: Vec<Value> = serde_json::from_str(&line).map_err(|_| lost("it did not start"))?;
    let config = session::load_config(common)?;
    let engine = session::server_with(common, config, "127.0.0.1")?;
    let idle = memory();
    for peer in &told {
        greet(&engine, peer)?;
    }
    Watch::start().rest(SETTLING);
    let open = memory();
    let before = cpu::used(std::process::id());
    let watch = Watch::start();
    watch.rest(args.time);
    let spent = cpu::used(std::process::id()).and_then(|after| after.checked_sub(before?));
    let share = spent.map(|spent| spent.as_secs_f64() / watch.elapsed().as_secs_f64() * 100.0);
    let buffers = register_many(&engine)?;
    session::close(&engine);
    Ok(json!({
        "peers": told.len(),
        "cpu_percent": share,
        "idle_rss_bytes": idle,
        "open_peer_bytes": (open - idle).max(0) / i64::from(args.peers),
        "registered_buffer_bytes": buffers,
    }))
}

/// Opens a peer and writes to it, so that there is a connection.
fn greet(engine: &TransferEngine, peer: &Value) -> Result<(), CliError> {
    let (Some(name), Some(address)) = (peer["segment"].as_str(), peer["address"].as_u64()) else {
        return Err(lost("it tells no segment"));
    };
    let opened = session::open(engine, ACTION, name)?;
    let region = private(BLOCK)?;
    let request = TransferRequest::write(region.whole(), opened.id, address);
    let limit = engine.config().engine.transfer_timeout;
    let moved = engine
        .transfer(&[request], limit)
        .map_err(|error| CliError::new(Failure::Other, ACTION, chain(&error)).with_peer(name))?;
    if moved == BLOCK { Ok(()) } else { Err(lost("not all was moved")) }
}

/// Bytes that a registered buffer costs.
fn register_many(engine: &TransferEngine) -> Result<i64, CliError> {
    let whole = private(BUFFERS * BLOCK)?;
    let failed = |error: &dyn std::error::Error| lost(chain(error));
    let parts = (0..BUFFERS).map(|at| whole.subregion(at * BLOCK, BLOCK));
    let parts = parts.collect::<Result<Vec<_>, _>>().map_err(|error| failed(&error))?;
    let wanted: Vec<_> = parts.into_iter().map(|part| (part, RegisterOptions::default())).collect();
    let before = memory();
    engine.register_batch(&wanted).map_err(|error| failed(&error))?;
    Watch::start().rest(SETTLING);
    Ok((memory() - before).max(0) / i64::try_from(BUFFERS).unwrap_or(i64::MAX))
}

fn private(length: u64) -> Result<Region, CliError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    AlignedBuffer::zeroed(length).map(Region::from).map_err(|error| lost(chain(&error)))
}

/// Bytes of this process that are in memory; 0 where the system does not tell.
fn memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |kilobytes: i64| kilobytes * 1024)
}

const ACTION: &str = "bench-idle with";

fn lost(cause: impl std::fmt::Display) -> CliError {
    CliError::new(Failure::Other, "bench-idle", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_memory() {
        assert!(memory() > 1 << 20);
    }
}
