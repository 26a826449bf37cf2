//! The program `te`, for whoever starts it: exposes memory, reads and writes that of other processes,
//! tells what it knows.
//!
//! Standard output carries results, standard error everything else. An error is one line; what the
//! exit codes mean stands in `error.rs` and in `te help`.

mod args;
mod checksum;
mod clock;
mod cpu;
mod demo;
mod error;
mod logging;
mod mover;
mod output;
mod pattern;
mod place;
mod program;
mod progress;
mod session;
mod sink;
mod source;
mod stop;
mod units;
mod verbs;

use std::ffi::OsString;

use clap::Parser;

use args::{Cli, Verb};
use error::CliError;

pub use program::Program;

/// Runs the command line and gives the exit code. `words` begins with the name of the program;
/// `program` is what starts this program once more, for verbs that need a second process.
pub fn main(program: Program, words: impl IntoIterator<Item = OsString>) -> u8 {
    program.install();
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(told) => {
            // Where nobody reads it, there is nobody to tell that either.
            drop(told.print());
            return u8::try_from(told.exit_code()).unwrap_or(2);
        }
    };
    match run(&cli) {
        Ok(()) => 0,
        Err(error) => {
            error.report();
            error.exit_code()
        }
    }
}

fn run(cli: &Cli) -> Result<(), CliError> {
    match &cli.verb {
        Verb::Serve(args) => verbs::serve::run(&cli.common, args),
        Verb::Write(args) => verbs::write::run(&cli.common, args),
        Verb::Read(args) => verbs::read::run(&cli.common, args),
        Verb::Notify(args) => verbs::peer::notify(&cli.common, args),
        Verb::Probe(args) => verbs::peer::probe(&cli.common, args),
        Verb::Segment(args) => verbs::segment::run(&cli.common, args),
        Verb::Meta(args) => verbs::meta::run(&cli.common, args),
        Verb::MetadataServer(args) => verbs::metadata_server::run(&cli.common, args),
        Verb::Config(args) => verbs::config::run(&cli.common, args),
        Verb::Topo(args) => verbs::topo::run(&cli.common, args),
        Verb::Bench(args) => verbs::bench::run(&cli.common, args),
        Verb::BenchTarget(args) => verbs::bench::run_target(&cli.common, args),
        Verb::BenchIdle(args) => verbs::bench::run_idle(&cli.common, args),
        Verb::BenchPeers(args) => verbs::bench::run_peers(&cli.common, args),
        Verb::BenchPage(args) => verbs::bench::run_page(args),
        Verb::Demo(args) => demo::run(&cli.common, args),
        Verb::DemoTarget(args) => demo::target::run(&cli.common, args),
        Verb::Completions { shell } => verbs::completions::run(*shell),
    }
}
