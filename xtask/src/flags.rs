//! The verbs and their flags: everything that can be said to `cargo xtask`.

use clap::{Args, Parser, Subcommand};

use crate::guest::GuestFlags;

/// Builds, tests and checks this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// One thing that can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Build `te` and move 1 GiB each way between two processes
    Demo,
    /// Run the suites of a level and print what each of them cost
    Test(TestFlags),
    /// Run one suite
    Suite(SuiteFlags),
    /// Try every interleaving of the lock-free parts: short for `suite loom`
    Loom,
    /// Check layers, unsafe places, file headers, sizes and document links
    Tidy,
    /// Everything that a change must pass: format, lints, tidy, licences, docs, build time, tests
    Ci(CiFlags),
    /// Check that each row id of an issue has a test that ran and passed
    Rows(RowsFlags),
    /// Render what people look at in a headless browser, check it, write pictures
    Shots(ShotsFlags),
    /// Measure against Mooncake, iperf3, memcpy and others, in turns; print the table with verdicts
    Bench(BenchFlags),
    /// Build the Python wheels and the archive of their sources into target/wheels, and check them
    Wheel(WheelFlags),
    /// Switch guards off one by one and check that a test notices each
    Sabotage(SabotageFlags),
    /// Run a program on an emulated machine with RDMA devices and NUMA nodes
    Guest(GuestFlags),
}

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What takes seconds once it is built.
    Quick,
    /// All that this machine can do in a coffee break.
    Default,
    /// Also what takes long: large sizes, many seeds, tools that must be compiled first.
    Full,
}

impl Level {
    /// In one word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Full => "full",
        }
    }
}

/// The two flags that choose a level.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LevelFlags {
    /// Only what takes seconds once it is built
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Also what takes long
    #[arg(long)]
    full: bool,
}

impl LevelFlags {
    /// The level that the flags name.
    pub(crate) fn level(self) -> Level {
        match (self.quick, self.full) {
            (true, _) => Level::Quick,
            (_, true) => Level::Full,
            _ => Level::Default,
        }
    }
}

/// Flags of `test`.
#[derive(Debug, Args)]
pub(crate) struct TestFlags {
    #[command(flatten)]
    pub(crate) level: LevelFlags,
    /// Fail on each skip whose reason does not begin with `cannot be had here:`
    #[arg(long)]
    pub(crate) no_skip: bool,
}

/// Flags of `suite`.
#[derive(Debug, Args)]
pub(crate) struct SuiteFlags {
    /// The suite; `cargo xtask suite list` prints their names
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) level: LevelFlags,
    /// Run only the tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Fail on each skip whose reason does not begin with `cannot be had here:`
    #[arg(long)]
    pub(crate) no_skip: bool,
}

impl SuiteFlags {
    /// A suite at its default level, with nothing left out.
    pub(crate) fn whole(name: &str) -> Self {
        let level = LevelFlags { quick: false, full: false };
        Self { name: name.to_owned(), level, filter: None, no_skip: false }
    }
}

/// Flags of `ci`.
#[derive(Debug, Args)]
pub(crate) struct CiFlags {
    #[command(flatten)]
    pub(crate) level: LevelFlags,
    /// Leave the tests out: format, lints, tidy, licences, docs, packages, build time
    #[arg(long)]
    pub(crate) no_test: bool,
}

/// Flags of `rows`.
#[derive(Debug, Args)]
pub(crate) struct RowsFlags {
    /// The issue whose row ids are checked, for example `skeleton`
    #[arg(long)]
    pub(crate) issue: String,
    /// Run the suites whose results are missing or older than the sources
    #[arg(long)]
    pub(crate) run: bool,
}

/// Flags of `shots`.
#[derive(Debug, Args)]
pub(crate) struct ShotsFlags {
    /// Only the pages whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Fail where there is no browser
    #[arg(long)]
    pub(crate) no_skip: bool,
}

/// Flags of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchFlags {
    /// Only the groups whose name contains this; `list` prints the names
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// How often everything is measured, in turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) rounds: u32,
    /// How long each measurement takes
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Also build this revision, and compare with it where both ends share a core
    #[arg(long, value_name = "REVISION")]
    pub(crate) against: Option<String>,
    /// Also write docs/performance.md and docs/performance-data
    #[arg(long)]
    pub(crate) keep: bool,
    /// Judge and draw the samples of the last run again; measure nothing
    #[arg(long)]
    pub(crate) again: bool,
}

/// Flags of `wheel`.
#[derive(Debug, Args)]
pub(crate) struct WheelFlags {
    /// Build quickly, for this machine only, and install into target/venv-te
    #[arg(long)]
    pub(crate) dev: bool,
}

/// Flags of `sabotage`.
#[derive(Debug, Args)]
pub(crate) struct SabotageFlags {
    /// Only the switches whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
}
