//! Figures as people see them: the report of `cargo xtask bench`, and a picture of `te bench`.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Subject, WIDTHS, machines};
use crate::artifacts;
use crate::bench;
use crate::journal::Journal;
use crate::workspace::Workspace;

/// A report of made-up samples, the last real one where there is one, and a plot.
pub(super) fn subjects(
    workspace: &Workspace,
    journal: &mut Journal,
) -> anyhow::Result<Vec<Subject>> {
    artifacts::build_programs(workspace, journal, &["--package", "te-cli", "--bins"])?;
    let te = workspace.target().join("debug/te");
    let page = workspace.output("shots-bench/report.html")?;
    let data = page.with_extension("json");
    std::fs::write(&data, bench::example().to_string()).context("cannot write a report")?;
    bench::draw(&te, &data, &page)?;
    let mut subjects = vec![machines::subject("bench-report".to_owned(), &page, WIDTHS)];
    let last = workspace.target().join("bench/report.html");
    if last.exists() {
        // A run of few groups has no chart.
        let ready = "document.readyState === 'complete' && document.querySelector('table')";
        let ready = ready.to_owned();
        subjects
            .push(Subject { ready, ..machines::subject("bench-last".to_owned(), &last, WIDTHS) });
    }
    let picture = page.with_file_name("plot.svg");
    let mut command = Command::new(&te);
    command.args(["bench", "--duration", "0.05", "--warm-up", "0.01", "--plot"]).arg(&picture);
    let output = command.output().context("cannot start te")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "te bench failed: {errors}");
    let shown = page.with_file_name("plot.html");
    machines::show(&picture, &shown)?;
    subjects.push(machines::subject("bench-plot".to_owned(), &shown, machines::WIDE));
    Ok(subjects)
}
