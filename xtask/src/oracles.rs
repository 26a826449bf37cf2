//! The crate `te-oracles`: what others read of a machine and of headers, against what we read. It is a
//! workspace of its own, since it links libraries of the system.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::runner::Runner;
use crate::{debian, ui, workspace};

/// One test program of the crate.
pub(crate) struct Oracle {
    /// What its results are found under.
    pub(crate) id: &'static str,
    /// The test program, and the features that it needs.
    pub(crate) test: &'static [&'static str],
    /// The Debian packages that it is built with.
    pub(crate) packages: &'static [&'static str],
    /// What is said to be missing where they are.
    pub(crate) what: &'static str,
}

const FOLDER: &str = "crates/te-oracles";

impl Oracle {
    /// Builds and runs it where its packages can be had; a skip otherwise. A filter chooses the whole of
    /// it or nothing.
    pub(crate) fn run(
        &self,
        runner: &Runner<'_>,
        journal: &mut Journal,
    ) -> anyhow::Result<Vec<TestResult>> {
        if runner.filter.as_ref().is_some_and(|text| !self.id.contains(text.as_str())) {
            return Ok(Vec::new());
        }
        if let Some(by_hand) = debian::install(journal, self.packages)? {
            let why = format!("there is no {}; `{by_hand}`", self.what);
            ui::say(&format!("  skipped: {why}"));
            return Ok(vec![TestResult::new(self.id, Outcome::Skipped(why))]);
        }
        let folder: PathBuf = runner.workspace.path(FOLDER);
        // The same versions as ours, and what else it needs.
        std::fs::copy(runner.workspace.path("Cargo.lock"), folder.join("Cargo.lock"))
            .context("cannot copy Cargo.lock to te-oracles")?;
        let mut command: Command = workspace::cargo(&folder, "test");
        command.args(self.test);
        command.env("CARGO_TARGET_DIR", runner.workspace.target().join("oracles"));
        let whole = Runner { env: Vec::new(), filter: None, ..*runner };
        let results = whole.run_cargo_test(journal, self.id, command)?;
        if !results.iter().any(|result| result.outcome == Outcome::Passed) {
            ui::say(&journal.tail(40)?);
        }
        Ok(results)
    }
}
