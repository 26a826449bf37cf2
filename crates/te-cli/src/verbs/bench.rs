//! `te bench`: moves blocks between this process and another one for a while, and tells how fast
//! that was.
//!
//! ```text
//!   this process                                 te bench-target, or any segment
//!   thread: submit a batch, wait, note the time ──▶ buffer
//! ```
//!
//! A block counts as moved when its batch is final: the bytes are in place then. Nothing is compared
//! while the clock runs; `--verify` does that in a pass of its own before.

mod args;
mod child;
mod idle;
mod lanes;
mod page;
mod plot;
mod row;
mod settings;
mod target;
mod verify;

pub(crate) use args::{Bench, BenchTarget, EXAMPLES};
pub(crate) use idle::{Idle, Peers, run as run_idle, run_peers};
pub(crate) use page::{Page, run as run_page};
pub(crate) use target::run as run_target;

use te_engine::{Region, TransferEngine};

use crate::args::Common;
use crate::error::{CliError, Failure, chain};
use crate::output;
use crate::session::{self, Opened};
use crate::units;

use args::Operation;
use child::Child;
use row::Row;

/// Begins the line of an error.
const ACTION: &str = "bench with";

pub(crate) fn run(common: &Common, args: &Bench) -> Result<(), CliError> {
    args.check()?;
    let settings = settings::all(args)?;
    let config = settings::config(common, &settings)?;
    // First this side, whose error is one line: what it lacks, the other one lacks too.
    let engine = settings::engine(common, args, config)?;
    let child = match &args.segment {
        None if !args.is_local() => Some(Child::start(common, args, &settings)?),
        _ => None,
    };
    let bench = Setup::new(args, &engine, child)?;
    if !common.json {
        output::text(&row::introduce(args, &bench))?;
    }
    let rows = bench.rows(common)?;
    if !common.json {
        output::text(&row::conclude(args, &bench))?;
    }
    if let Some(path) = &args.plot {
        plot::write(path, args, &rows)?;
    }
    let Setup { child, .. } = bench;
    if let Some(mut child) = child {
        child.end()?;
    }
    session::close(&engine);
    Ok(())
}

/// Both ends, ready to move.
struct Setup<'a> {
    args: &'a Bench,
    engine: &'a TransferEngine,
    /// The process that was started for this; none where a segment was named or is our own.
    child: Option<Child>,
    opened: Opened,
    /// Where the target's memory begins, in its own address space.
    remote: u64,
    region: Region,
    /// Keeps the target's memory where it is in this process.
    _own: Option<Region>,
}

/// What one row of the table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    op: Operation,
    block: u64,
}

impl<'a> Setup<'a> {
    fn new(
        args: &'a Bench,
        engine: &'a TransferEngine,
        child: Option<Child>,
    ) -> Result<Self, CliError> {
        let need = args.most_memory();
        let own = match (&args.segment, &child) {
            (None, None) => Some(target::expose(engine, args.memory(), need)?),
            _ => None,
        };
        let own_name = engine.local_name().as_str();
        let name = match (&args.segment, &child) {
            (Some(segment), _) => segment.as_str(),
            (None, Some(child)) => child.segment(),
            (None, None) => own_name,
        };
        let opened = session::open(engine, ACTION, name)?;
        let remote = match (&child, &own) {
            (Some(child), _) => child.address(),
            (None, Some(region)) => region.address(),
            (None, None) => room(&opened, need)?,
        };
        let region = target::allocate(engine, args.memory(), need)?;
        session::keep_to_ourselves(engine, &region)?;
        verify::fill(&region, args.seed, need)?;
        Ok(Self { args, engine, child, opened, remote, region, _own: own })
    }

    fn rows(&self, common: &Common) -> Result<Vec<Row>, CliError> {
        let mut rows = Vec::new();
        for block in &self.args.block {
            let mut verified = None;
            if self.args.verify {
                self.verify(*block)?;
                verified = Some(true);
            }
            for op in self.args.op.both() {
                let measured = self.measure(Cell { op, block: *block })?;
                let row = Row { verified, ..measured };
                if common.json {
                    output::json(&row.json(self.args))?;
                } else {
                    output::line(&row.line())?;
                }
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// What moves the bytes.
    fn transport(&self) -> &'static str {
        self.engine.transport_to(self.opened.id).unwrap_or("none")
    }

    fn failed(&self, error: &dyn std::error::Error) -> CliError {
        CliError::new(Failure::Other, ACTION, chain(error)).with_peer(&self.opened.name)
    }
}

/// The first buffer of a foreign segment that holds everything.
fn room(opened: &Opened, need: u64) -> Result<u64, CliError> {
    let buffers = opened.known.descriptor().buffers();
    if let Some(buffer) = buffers.iter().find(|buffer| buffer.length >= need) {
        return Ok(buffer.addr);
    }
    let most = buffers.iter().map(|buffer| buffer.length).max().unwrap_or(0);
    let cause = format!(
        "{} are needed, the longest of its buffers has {}",
        units::length(need),
        units::length(most)
    );
    Err(CliError::new(Failure::Refused, ACTION, cause)
        .with_peer(&opened.name)
        .hint("smaller blocks, batches or --footprint need less"))
}
