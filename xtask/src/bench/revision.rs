//! Another revision of this repository, built beside this one.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::tools::Maybe;
use crate::journal::Journal;
use crate::run;
use crate::ui;
use crate::workspace::{Workspace, cargo};

/// Checks the revision out into `target/bench/rev` and builds its `te`.
pub(crate) fn build(
    workspace: &Workspace,
    journal: &mut Journal,
    name: &str,
) -> anyhow::Result<Maybe<PathBuf>> {
    let folder = workspace.target().join("bench/rev");
    let tree = folder.join("tree");
    ui::say(&format!("  building te of {name} in target/bench/rev"));
    std::fs::create_dir_all(&folder).context("cannot make target/bench/rev")?;
    let mut steps = Vec::new();
    if tree.exists() {
        steps.push(git(&tree, &["checkout", "--quiet", "--detach", "--force", name]));
    } else {
        let mut add = git(workspace.root(), &["worktree", "add", "--quiet", "--detach", "--force"]);
        add.arg(&tree).arg(name);
        steps.push(add);
    }
    let mut build = cargo(&tree, "build");
    build.args(["--release", "--package", "te-cli", "--bins"]);
    build.arg("--target-dir").arg(folder.join("target"));
    steps.push(build);
    for step in steps {
        if !run::quietly(step, journal, LIMIT)?.is_good() {
            return Ok(Err(format!("{name} cannot be built; see {}", journal.shown())));
        }
    }
    Ok(Ok(folder.join("target/release/te")))
}

fn git(folder: &std::path::Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(words);
    command
}

const LIMIT: Duration = Duration::from_secs(1800);
