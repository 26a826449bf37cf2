//! `te demo`: starts a second process of this program, moves bytes into it and out of it, and has
//! every byte compared on the side that received it.
//!
//! ```text
//!   this process                         te demo-target
//!   fill own buffer ── write ──────────▶ buffer        compare with the pattern
//!   compare         ◀───────── read ──── buffer        fill with another pattern
//! ```
//!
//! Only the transfers are timed and charged: filling and comparing happen in between. Buffers are
//! at most [`WINDOW`] long and are used again with a new pattern until all bytes were moved, so
//! that the demo runs on a small machine and no old byte can pass for a new one.

mod child;
mod report;
pub(crate) mod target;

use std::time::Duration;

use te_engine::{Opcode, Region, TransferEngine, TransferRequest};

use crate::args::{Common, Demo};
use crate::clock::Watch;
use crate::cpu;
use crate::error::{CliError, Failure, chain};
use crate::pattern::{Pattern, first_difference};
use crate::progress::Progress;
use crate::session::{self, Opened};
use crate::source::BLOCK;
use crate::units;

use child::Child;
use report::Leg;

/// Longest buffer on each side.
const WINDOW: u64 = 256 << 20;

/// Bytes of one request.
const REQUEST: u64 = 32 << 20;

const ACTION: &str = "demo with";

pub(crate) fn run(common: &Common, args: &Demo) -> Result<(), CliError> {
    if args.size == 0 {
        return Err(CliError::new(Failure::Usage, "demo", "there is nothing to move"));
    }
    let window = args.size.min(WINDOW);
    let engine = session::client(common, None)?;
    let child = Child::start(common, window)?;
    let opened = session::open(&engine, ACTION, child.segment())?;
    let region = engine.allocate(window).map_err(|error| CliError::memory(window, &error))?;
    let mut demo = Demonstration { engine: &engine, opened, child, region, window };
    report::introduce(args.size, &demo.child)?;
    demo.warm_up()?;
    let written = demo.leg(Opcode::Write, args.size)?;
    report::leg(&written)?;
    let read = demo.leg(Opcode::Read, args.size)?;
    report::leg(&read)?;
    let transport = engine.transport_to(demo.opened.id).unwrap_or("none");
    demo.child.end()?;
    session::close(&engine);
    report::conclude(transport)
}

struct Demonstration<'a> {
    engine: &'a TransferEngine,
    opened: Opened,
    child: Child,
    region: Region,
    window: u64,
}

impl Demonstration<'_> {
    /// Touches all memory and makes the connections, so that the figures are those of moving.
    fn warm_up(&mut self) -> Result<(), CliError> {
        self.fill_here(0, self.window)?;
        self.child.fill(0, self.window)?;
        let few = self.window.min(4 << 20);
        self.transfer(Opcode::Write, few).map(drop)
    }

    /// Moves `size` bytes one way, window by window.
    fn leg(&mut self, op: Opcode, size: u64) -> Result<Leg, CliError> {
        let word = if op == Opcode::Write { "writing" } else { "reading" };
        let progress = Progress::plain(word, size);
        let mut leg = Leg::new(op);
        while leg.bytes < size {
            let length = self.window.min(size - leg.bytes);
            // No two rounds of the two legs have the same bytes.
            let seed = 1 + leg.rounds * 2 + u64::from(op == Opcode::Read);
            self.round(&mut leg, seed, length)?;
            progress.set(leg.bytes);
        }
        Ok(leg)
    }

    fn round(&mut self, leg: &mut Leg, seed: u64, length: u64) -> Result<(), CliError> {
        match leg.op {
            Opcode::Write => self.fill_here(seed, length)?,
            Opcode::Read => self.child.fill(seed, length)?,
        }
        let before = (cpu::used(std::process::id()), cpu::used(self.child.pid()));
        leg.time += self.transfer(leg.op, length)?;
        let after = (cpu::used(std::process::id()), cpu::used(self.child.pid()));
        leg.charge(spent(before.0, after.0), spent(before.1, after.1));
        match leg.op {
            Opcode::Write => self.child.check(seed, length)?,
            Opcode::Read => self.check_here(seed, length)?,
        }
        leg.bytes += length;
        leg.rounds += 1;
        Ok(())
    }

    fn transfer(&self, op: Opcode, length: u64) -> Result<Duration, CliError> {
        let requests = self.requests(op, length)?;
        let limit = self.engine.config().engine.transfer_timeout;
        let watch = Watch::start();
        let moved = self.engine.transfer(&requests, limit).map_err(|error| {
            CliError::new(Failure::Other, ACTION, chain(&error)).with_peer(&self.opened.name)
        })?;
        let time = watch.elapsed();
        if moved == length {
            return Ok(time);
        }
        let cause = format!("{} of {} were moved", units::length(moved), units::length(length));
        Err(CliError::new(Failure::Other, ACTION, cause).with_peer(&self.opened.name))
    }

    fn requests(&self, op: Opcode, length: u64) -> Result<Vec<TransferRequest>, CliError> {
        let starts = (0..length).step_by(usize::try_from(REQUEST).unwrap_or(usize::MAX));
        starts
            .map(|at| {
                let local = self.region.range(at, REQUEST.min(length - at)).map_err(memory)?;
                let (target, offset) = (self.opened.id, self.child.address() + at);
                Ok(TransferRequest::new(op, local, target, offset))
            })
            .collect()
    }

    fn fill_here(&self, seed: u64, length: u64) -> Result<(), CliError> {
        fill(&self.region, seed, length)
    }

    fn check_here(&self, seed: u64, length: u64) -> Result<(), CliError> {
        match difference(&self.region, seed, length)? {
            None => Ok(()),
            Some(position) => Err(differs("read", position)),
        }
    }
}

/// Fills a region with a pattern.
fn fill(region: &Region, seed: u64, length: u64) -> Result<(), CliError> {
    let pattern = Pattern::new(seed);
    let mut block = vec![0; BLOCK];
    for (at, n) in blocks(length) {
        pattern.fill(at, &mut block[..n]);
        region.write_from(at, &block[..n]).map_err(memory)?;
    }
    Ok(())
}

/// Where a region first differs from a pattern.
fn difference(region: &Region, seed: u64, length: u64) -> Result<Option<u64>, CliError> {
    let pattern = Pattern::new(seed);
    let (mut expected, mut seen) = (vec![0; BLOCK], vec![0; BLOCK]);
    for (at, n) in blocks(length) {
        pattern.fill(at, &mut expected[..n]);
        region.read_into(at, &mut seen[..n]).map_err(memory)?;
        if let Some(into) = first_difference(&seen[..n], &expected[..n]) {
            return Ok(Some(at + into as u64));
        }
    }
    Ok(None)
}

/// Position and length of each block.
fn blocks(length: u64) -> impl Iterator<Item = (u64, usize)> {
    let last = move |at| usize::try_from(length - at).map_or(BLOCK, |left| left.min(BLOCK));
    (0..length).step_by(BLOCK).map(move |at| (at, last(at)))
}

fn differs(what: &str, position: u64) -> CliError {
    let cause = format!("byte {position} of what was {what} is wrong");
    CliError::new(Failure::Differs, "demo", cause)
}

fn memory(error: impl std::error::Error) -> CliError {
    CliError::new(Failure::Local, "demo", chain(&error))
}

fn spent(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    after?.checked_sub(before?)
}
