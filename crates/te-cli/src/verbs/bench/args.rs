//! The command line of `te bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::target::Memory;
use crate::error::{CliError, Failure};
use crate::units::{parse_length, parse_seconds};

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// The segment; its memory is overwritten [default: that of a second process]
    pub(crate) segment: Option<String>,

    /// What is measured
    #[arg(long, value_enum, value_name = "write|read|both", hide_possible_values = true)]
    #[arg(default_value = "both", help_heading = "Work")]
    pub(crate) op: Direction,
    /// Bytes of one request; a list is a sweep
    #[arg(long, value_name = "LENGTH,...", value_delimiter = ',', value_parser = parse_block)]
    #[arg(default_value = "4K,64K,1M,16M", help_heading = "Work")]
    pub(crate) block: Vec<u64>,
    /// Requests submitted together and waited for together
    #[arg(long, value_name = "N", default_value = "8", help_heading = "Work")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) batch: u32,
    /// Threads that submit, each its own batches
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Work")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// How long each row takes
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1")]
    #[arg(help_heading = "Work")]
    pub(crate) duration: Duration,
    /// The same before it, which is not counted
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "0.2")]
    #[arg(help_heading = "Work")]
    pub(crate) warm_up: Duration,
    /// Rest so long between batches, so that both sides fall asleep
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = "Work")]
    pub(crate) pause: Option<Duration>,
    /// Before, check the bytes of both directions in a pass of its own
    #[arg(long, help_heading = "Work")]
    pub(crate) verify: bool,
    /// Determines the bytes that are moved
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Work")]
    pub(crate) seed: u64,

    /// Take turns over so much memory: cold [default: one place, hot]
    #[arg(long, value_name = "LENGTH", value_parser = parse_length, help_heading = "Memory")]
    pub(crate) footprint: Option<u64>,
    /// Memory of the engine's allocator [default: private memory]
    #[arg(long, help_heading = "Memory")]
    pub(crate) engine_memory: bool,
    /// Memory on huge pages, where the system has some at hand
    #[arg(long, help_heading = "Memory")]
    pub(crate) huge_pages: bool,

    /// Only auto, tcp, shm, rdma or local (one process)
    #[arg(long, value_enum, value_name = "WAY", hide_possible_values = true)]
    #[arg(default_value = "auto", help_heading = "Ways")]
    pub(crate) transport: Way,
    /// Fall asleep at once instead of looking for more for a while
    #[arg(long, help_heading = "Ways")]
    pub(crate) low_cpu: bool,
    /// Look for more so long first [default: as configured]
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "low_cpu", help_heading = "Ways")]
    pub(crate) spin: Option<u32>,
    /// Sum the bytes at the source and compare at the destination
    #[arg(long, help_heading = "Ways")]
    pub(crate) checked: bool,
    /// Set this on both sides, like tcp.protocol_version=2
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting, help_heading = "Ways")]
    pub(crate) set: Vec<(String, String)>,

    /// Draw throughput and latency by block size into this file
    #[arg(long, value_name = "FILE.svg", help_heading = "Results")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchTarget {
    #[arg(value_parser = parse_length)]
    pub(crate) size: u64,
    #[arg(long)]
    pub(crate) engine_memory: bool,
    #[arg(long)]
    pub(crate) huge_pages: bool,
}

/// Which directions are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Direction {
    Write,
    Read,
    Both,
}

impl Direction {
    pub(super) fn both(self) -> Vec<Operation> {
        match self {
            Self::Write => vec![Operation::Write],
            Self::Read => vec![Operation::Read],
            Self::Both => vec![Operation::Write, Operation::Read],
        }
    }
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Read,
}

impl Operation {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

// Variants of the two have no words of their own: with them, the help would take a page.

/// What moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    Auto,
    Tcp,
    Shm,
    Rdma,
    Local,
}

impl Way {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Rdma => "rdma",
            Self::Local => "local",
        }
    }
}

impl Bench {
    /// What clap cannot say.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let wrong = |cause: &str| Err(CliError::new(Failure::Usage, "bench", cause));
        if self.is_local() && self.segment.is_some() {
            return wrong("--transport local moves within this process and takes no segment");
        }
        if self.most_memory() > MOST_MEMORY {
            return wrong("block, batch, threads and footprint need more than 1T of memory");
        }
        Ok(())
    }

    pub(super) fn is_local(&self) -> bool {
        self.transport == Way::Local
    }

    pub(super) fn memory(&self) -> Memory {
        Memory { is_engines: self.engine_memory, is_huge: self.huge_pages }
    }

    /// Bytes that one round of all threads moves.
    pub(super) fn round(&self, block: u64) -> u64 {
        let requests = u64::from(self.batch) * u64::from(self.threads);
        block.saturating_mul(requests)
    }

    /// How many places a batch takes turns over.
    pub(super) fn slots(&self, block: u64) -> u64 {
        (self.footprint.unwrap_or(0) / self.round(block)).max(1)
    }

    /// Memory that a block size needs on each side.
    pub(super) fn needs(&self, block: u64) -> u64 {
        self.round(block).saturating_mul(self.slots(block))
    }

    /// Memory that the bench needs on each side.
    pub(super) fn most_memory(&self) -> u64 {
        self.block.iter().map(|block| self.needs(*block)).max().unwrap_or(0)
    }
}

const MOST_MEMORY: u64 = 1 << 40;

fn parse_block(text: &str) -> Result<u64, String> {
    match parse_length(text)? {
        length if (1..=1 << 34).contains(&length) => Ok(length),
        _ => Err("a block has 1 to 16G bytes".to_owned()),
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if name.contains('.') => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a setting looks like tcp.protocol_version=2; `te config` lists them".to_owned()),
    }
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  te bench                                         two processes of this host, a sweep of blocks
  te bench --block 1M --batch 8 --op write --duration 5
  te bench --block 4K --batch 1 --transport tcp    one small request at a time: latency
  te bench --block 64K,1M --footprint 256M         cold: each batch at another place
  te bench 10.0.0.2:15501 --verify                 to a `te serve` elsewhere
  te bench --json | jq .gigabytes_per_second
  te bench --plot bench.svg

A block counts once its bytes are in place at the receiving side. Latency is that of a whole
batch, from before it is submitted until it is final. GB are 10^9 bytes. CPU is user and system
time of all threads while bytes moved; that of a target which is not ours is not known.

Where others use the machine, or its cores are moved, figures differ by more than a factor of
two: compare rows that were measured in turns.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn parse(line: &str) -> Bench {
        Line::try_parse_from(std::iter::once("x").chain(line.split_ascii_whitespace()))
            .unwrap()
            .bench
    }

    #[test]
    fn memory_is_that_of_the_largest_row() {
        let bench = parse("--block 4K,1M --batch 8 --threads 2");
        assert_eq!((bench.slots(4096), bench.most_memory()), (1, 16 << 20));
        let cold = parse("--block 4K,1M --batch 8 --footprint 64M");
        assert_eq!((cold.slots(4096), cold.slots(1 << 20)), (2048, 8));
        assert_eq!(cold.most_memory(), 64 << 20);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(parse("h:1 --transport local").check().is_err());
        assert!(parse("--block 16G --batch 65536").check().is_err());
        assert!(parse("--transport local").check().is_ok());
        for line in ["--block 0", "--block 17G", "--batch 0", "--set x=1", "--set tcp.x"] {
            let words = std::iter::once("x").chain(line.split_ascii_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
