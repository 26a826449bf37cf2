//! The suite `python`: te_engine beside the published package, under code of others, and by itself.
//!
//! Its tests are Python; crates/te-python/tests/python/run.py prints their results as Rust's harness would,
//! and so they are read, counted and skipped like all others.

use std::process::Command;
use std::time::Duration;

use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::pyenv::{self, Peer};
use crate::runner::Runner;
use crate::suites::Order;
use crate::ui::{self, Stopwatch};
use crate::wheel;
use crate::workspace::Workspace;

/// What begins the names of its tests.
const PREFIX: &str = "te_python";

/// Checkers of types. The second brings its own interpreter of JavaScript.
const CHECKERS: &[&str] = &["mypy==2.4.1", "pyright[nodejs]==1.1.414", "numpy==2.4.6"];

/// Installs what is built, and runs the tests in it.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let watch = Stopwatch::start();
    let python = match wheel::install_dev(workspace, journal)? {
        Ok(python) => python,
        Err(missing) => {
            ui::say(&format!("  skipped: {missing}"));
            return Ok(vec![TestResult::new(
                format!("{PREFIX}::(all)"),
                Outcome::Skipped(missing),
            )]);
        }
    };
    let mut env = vec![("TE_OURS_PYTHON".to_owned(), python.display().to_string())];
    match pyenv::prepare(workspace, journal)? {
        Peer::Ready(theirs) => env.push(("TE_PEER_PYTHON".to_owned(), theirs)),
        Peer::Missing(reason) => ui::say(&format!("  without the peer: {reason}")),
    }
    match wheel::environment(workspace, journal, "venv-check", CHECKERS)? {
        Ok(checkers) => env.push(("TE_CHECK_PYTHON".to_owned(), checkers.display().to_string())),
        Err(missing) => ui::say(&format!("  without checkers of types: {missing}")),
    }
    if watch.elapsed() > Duration::from_secs(2) {
        ui::say(&format!("  te_engine built and installed in {}", watch.text()));
    }
    let mut command = Command::new(&python);
    command.arg("-B").arg(workspace.path("crates/te-python/tests/python/run.py"));
    command.args(order.filter.iter());
    let runner = Runner { env, one_by_one: true, ..Runner::new(workspace, order) };
    runner.run_cargo_test(journal, PREFIX, command)
}
