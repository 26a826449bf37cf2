//! `cargo xtask VERB`: the one door to building, testing and checking this workspace.
//!
//! `flags.rs` declares the verbs, and each verb is one file. Nothing here depends on a product
//! crate, so a crate that does not compile cannot take the tools down with it.
//!
//! Every command that is started writes to `target/xtask/*.log`; a person sees one line per step,
//! and the log only when the step failed.

mod artifacts;
mod bench;
mod capi;
mod ci;
mod consumers;
mod debian;
mod demo;
mod deny;
mod features;
mod flags;
mod guest;
mod journal;
mod libtest;
mod licences;
mod loom;
mod memory;
mod needed;
mod oracles;
mod outcome;
mod pyenv;
mod python;
mod rdma;
mod results;
mod rows;
mod run;
mod runner;
mod rust_text;
mod sabotage;
mod shots;
mod skips;
mod spdx;
mod suite;
mod suites;
mod system;
mod test;
mod tidy;
mod topology;
mod ui;
mod unit;
mod wheel;
mod workspace;

use std::process::ExitCode;

use clap::Parser as _;

use crate::flags::{Cli, SuiteFlags, Verb};
use crate::workspace::Workspace;

fn main() -> ExitCode {
    if guest::is_first_process() {
        guest::first_process();
        return ExitCode::SUCCESS;
    }
    let ended = match Cli::parse().verb {
        Verb::Guest(flags) => guest::run(&flags),
        verb => dispatch(verb).map(|is_good| ExitCode::from(u8::from(!is_good))),
    };
    ended.unwrap_or_else(|error| {
        ui::error(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// Runs one verb. `Ok(false)` means that the verb did its work and what it looked at is not good;
/// an error means that it could not do its work.
fn dispatch(verb: Verb) -> anyhow::Result<bool> {
    let workspace = Workspace::open()?;
    match verb {
        Verb::Demo => demo::run(&workspace),
        Verb::Test(flags) => test::run(&workspace, &flags),
        Verb::Suite(flags) => suite::run(&workspace, &flags),
        Verb::Loom => suite::run(&workspace, &SuiteFlags::whole("loom")),
        Verb::Tidy => tidy::run(&workspace),
        Verb::Ci(flags) => ci::run(&workspace, &flags),
        Verb::Rows(flags) => rows::run(&workspace, &flags),
        Verb::Shots(flags) => shots::run(&workspace, &flags),
        Verb::Bench(flags) => bench::run(&workspace, &flags),
        Verb::Wheel(flags) => wheel::run(&workspace, &flags),
        Verb::Sabotage(flags) => sabotage::run(&workspace, &flags),
        // Its exit code is that of a program, and is told by the caller.
        Verb::Guest(flags) => Ok(guest::run(&flags)? == ExitCode::SUCCESS),
    }
}
