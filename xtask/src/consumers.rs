//! The suite `consumers`: an outside workspace, `consumers/`, uses the crates as a stranger would.
//!
//! Each package there depends on one crate of ours and passes that crate's features on, so that
//! each crate is used alone, with each feature. It has its own lock file, which starts as a copy of
//! ours: the same versions, and nothing to ask a registry for.

use anyhow::Context as _;

use crate::features::{Build, builds};
use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::runner::Runner;
use crate::suites::Order;
use crate::ui;
use crate::workspace::{self, Workspace};

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let folder = workspace.path("consumers");
    std::fs::copy(workspace.path("Cargo.lock"), folder.join("Cargo.lock"))
        .context("cannot copy Cargo.lock to consumers/")?;
    let metadata = workspace::metadata(&folder, &["--no-deps"])?;
    let runner = Runner { filter: None, ..Runner::new(workspace, order) };
    let mut results = Vec::new();
    for build in workspace::packages(&metadata).flat_map(builds) {
        if order.filter.as_ref().is_none_or(|text| build.id().contains(text)) {
            results.extend(test(&runner, journal, &build)?);
        }
    }
    Ok(results)
}

fn test(
    runner: &Runner<'_>,
    journal: &mut Journal,
    build: &Build,
) -> anyhow::Result<Vec<TestResult>> {
    let mut command = workspace::cargo(&runner.workspace.path("consumers"), "test");
    command.args(build.flags());
    // A target folder of its own: features of ours must not leak into theirs, nor theirs into ours.
    command.env("CARGO_TARGET_DIR", runner.workspace.target().join("consumers"));
    let results = runner.run_cargo_test(journal, &build.id(), command)?;
    if results.is_empty() {
        let why = "no test of it ran".to_owned();
        return Ok(vec![TestResult::new(build.id(), Outcome::Failed(why))]);
    }
    if !results.iter().any(|result| result.outcome == Outcome::Passed) {
        ui::say(&journal.tail(40)?);
    }
    Ok(results)
}
