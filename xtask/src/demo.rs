//! `demo`: builds `te` as it is shipped and lets it show itself.

use std::process::Stdio;

use anyhow::{Context as _, bail};

use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// Builds and runs `te demo`, whose words and exit code are its own.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<bool> {
    let watch = Stopwatch::start();
    let mut build = workspace.cargo("build");
    build.args(["--release", "--package", "te-cli", "--bin", "te"]);
    // A first build takes minutes, and cargo's own progress is the best one.
    build.env_remove("CARGO_TERM_COLOR");
    if !build.status().context("cannot start cargo")?.success() {
        bail!("`te` does not build");
    }
    let built = watch.text();
    let program = workspace.target().join("release/te");
    ui::heading("te demo");
    let mut demo = std::process::Command::new(&program);
    demo.arg("demo").stdin(Stdio::null()).current_dir(workspace.root());
    let status = demo.status().with_context(|| format!("cannot start {}", program.display()))?;
    let verdict = if status.success() { "ok" } else { "FAILED" };
    ui::say(&format!("\ndemo: {verdict}, {} in all, of which {built} to build", watch.text()));
    Ok(status.success())
}
