//! The target's memory, and `te bench-target`, which exposes it until standard input ends.

use std::io::{self, Read};

use serde_json::json;
use te_engine::{Allocation, Pages, Region, RegisterOptions, TransferEngine};

use super::args::BenchTarget;
use super::verify;
use crate::args::Common;
use crate::error::{CliError, Failure, chain, system_text};
use crate::output;
use crate::session;
use crate::units;

/// What kind of memory is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// From the engine's allocator, not private memory as a program's own.
    pub(super) is_engines: bool,
    /// On huge pages where there are some.
    pub(super) is_huge: bool,
}

impl Memory {
    pub(super) fn word(self) -> &'static str {
        if self.is_engines { "engine" } else { "private" }
    }
}

pub(crate) fn run(common: &Common, args: &BenchTarget) -> Result<(), CliError> {
    let engine = session::server(common, "127.0.0.1", None)?;
    let memory = Memory { is_engines: args.engine_memory, is_huge: args.huge_pages };
    let region = expose(&engine, memory, args.size)?;
    output::json(&json!({
        "segment": engine.local_name().as_str(),
        "address": region.address(),
    }))?;
    let ended = io::stdin().read_to_end(&mut Vec::new());
    ended.map_err(|cause| CliError::new(Failure::Other, "bench-target", system_text(&cause)))?;
    session::close(&engine);
    Ok(())
}

/// Registers memory whose pages are all there.
pub(super) fn expose(
    engine: &TransferEngine,
    memory: Memory,
    size: u64,
) -> Result<Region, CliError> {
    let region = allocate(engine, memory, size)?;
    verify::fill(&region, SEED, size)?;
    engine
        .register(&region, RegisterOptions::default())
        .map_err(|error| CliError::new(Failure::Local, "cannot register memory", chain(&error)))?;
    Ok(region)
}

pub(super) fn allocate(
    engine: &TransferEngine,
    memory: Memory,
    size: u64,
) -> Result<Region, CliError> {
    let length = usize::try_from(size).unwrap_or(usize::MAX);
    let kind = Allocation::new(length);
    let kind = if memory.is_huge { kind.pages(Pages::Transparent) } else { kind };
    // Only together with this does shareable memory get huge pages.
    let kind = if memory.is_engines { kind.shareable().populated() } else { kind };
    engine.allocate_as(kind).map_err(|error| {
        CliError::new(
            Failure::Local,
            format!("cannot allocate {}", units::length(size)),
            chain(&error),
        )
    })
}

/// What the target's memory holds until somebody writes it.
const SEED: u64 = 0;
