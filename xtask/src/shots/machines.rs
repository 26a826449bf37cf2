//! What `te topo` draws of the machines in `crates/te-draw/tests/machines`: pages, and pictures in the
//! page of somebody who shows them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Subject, WIDTHS};
use crate::artifacts;
use crate::journal::Journal;
use crate::workspace::Workspace;

/// Where the machines are.
const MACHINES: &str = "crates/te-draw/tests/machines";

/// A picture keeps its size where there is room, so it is looked at there only.
pub(super) const WIDE: &[u32] = &[1280, 1920];

/// A page and a picture of each machine.
pub(super) fn subjects(
    workspace: &Workspace,
    journal: &mut Journal,
) -> anyhow::Result<Vec<Subject>> {
    artifacts::build_programs(workspace, journal, &["--package", "te-cli", "--bins"])?;
    let mut subjects = Vec::new();
    for file in files(&workspace.path(MACHINES))? {
        let name = file.file_stem().and_then(|name| name.to_str()).context("a name is UTF-8")?;
        let page = workspace.output(&format!("shots-machines/{name}.html"))?;
        let picture = page.with_extension("svg");
        draw(workspace, &file, &picture, &page)?;
        subjects.push(subject(format!("topo-{name}"), &page, WIDTHS));
        let shown = page.with_file_name(format!("{name}-svg.html"));
        show(&picture, &shown)?;
        subjects.push(subject(format!("topo-{name}-svg"), &shown, WIDE));
    }
    ensure!(!subjects.is_empty(), "there is no machine in {MACHINES}");
    Ok(subjects)
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let told = || format!("cannot read {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(told)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

fn draw(workspace: &Workspace, from: &Path, svg: &Path, html: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(workspace.target().join("debug/te"));
    command.args(["topo", "--from"]).arg(from).arg("--svg").arg(svg).arg("--html").arg(html);
    let output = command.output().context("cannot start te")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "te cannot draw {}: {errors}", from.display());
    Ok(())
}

/// A page around a picture, in which its text can be looked at.
pub(super) fn show(picture: &Path, page: &Path) -> anyhow::Result<()> {
    let svg = std::fs::read_to_string(picture).context("te wrote no picture")?;
    let html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>picture</title>\
         <style>:root{{color-scheme:light dark}}body{{margin:0}}svg{{display:block;max-width:100%;\
         height:auto}}</style>{svg}"
    );
    std::fs::write(page, html).with_context(|| format!("cannot write {}", page.display()))
}

pub(super) fn subject(name: String, page: &Path, widths: &'static [u32]) -> Subject {
    let url = format!("file://{}", page.display());
    Subject {
        name,
        origin: url.clone(),
        url,
        widths,
        ready: "document.readyState === 'complete' && document.querySelector('svg')".to_owned(),
        action: None,
        expected: &[],
    }
}
