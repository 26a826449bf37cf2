//! Samples in files, and docs/performance.md.

use std::fmt::Write as _;
use std::fs;

use anyhow::Context as _;

use super::micro::{self, Micro};
use super::sample::Sample;
use super::verdict::Verdict;
use crate::workspace::Workspace;

const LAST: &str = "bench/samples.jsonl";

/// Writes the samples of this run, a line each.
pub(crate) fn write(workspace: &Workspace, samples: &[Sample]) -> anyhow::Result<()> {
    let path = workspace.target().join(LAST);
    fs::write(&path, lines(samples)).with_context(|| format!("cannot write {}", path.display()))
}

/// The samples of the last run.
pub(crate) fn read(workspace: &Workspace) -> anyhow::Result<Vec<Sample>> {
    let path = workspace.target().join(LAST);
    let text = fs::read_to_string(&path).context("there was no run whose samples could be read")?;
    let read = |line: &str| Sample::read(&serde_json::from_str(line).ok()?);
    let samples: Option<Vec<Sample>> = text.lines().map(read).collect();
    samples.with_context(|| format!("{} holds a line that is no sample", path.display()))
}

/// Writes under which conditions they were taken.
pub(crate) fn write_conditions(workspace: &Workspace, lines: &[String]) -> anyhow::Result<()> {
    let path = workspace.target().join(CONDITIONS);
    fs::write(&path, lines.join("\n")).with_context(|| format!("cannot write {}", path.display()))
}

/// Those of the last run.
pub(crate) fn read_conditions(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(workspace.target().join(CONDITIONS));
    let text = text.context("there was no run whose conditions could be read")?;
    Ok(text.lines().map(str::to_owned).collect())
}

const CONDITIONS: &str = "bench/conditions.txt";

fn lines(samples: &[Sample]) -> String {
    samples.iter().map(|sample| format!("{}\n", sample.json())).collect()
}

/// Writes what is kept with the sources: the table, its conditions, the samples.
pub(crate) fn keep(
    workspace: &Workspace,
    (samples, micro): (&[Sample], &[Micro]),
    verdicts: &[Verdict],
    conditions: &[String],
) -> anyhow::Result<()> {
    let folder = workspace.path("docs/performance-data");
    fs::create_dir_all(&folder).context("cannot make docs/performance-data")?;
    fs::write(folder.join("samples.jsonl"), lines(samples)).context("cannot write samples")?;
    fs::write(folder.join("micro.jsonl"), micro::lines(micro)).context("cannot write figures")?;
    let path = workspace.path(DOCUMENT);
    let text = fs::read_to_string(&path).context(DOCUMENT)?;
    let text = replaced(&text, &table(verdicts, conditions))
        .with_context(|| format!("{DOCUMENT} has no place for the table"))?;
    fs::write(&path, text).context(DOCUMENT)
}

const DOCUMENT: &str = "docs/performance.md";
const BEGIN: &str = "<!-- the last table: written by cargo xtask bench --keep -->";
const END: &str = "<!-- end of the last table -->";

/// The text with another table in its place.
fn replaced(text: &str, table: &str) -> Option<String> {
    let from = text.find(BEGIN)? + BEGIN.len();
    let to = from + text[from..].find(END)?;
    Some(format!("{}\n\n{table}\n{}", &text[..from], &text[to..]))
}

fn table(verdicts: &[Verdict], conditions: &[String]) -> String {
    let mut text = String::new();
    for line in conditions {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {line}");
    }
    text.push_str("\n| work | at least | measured | verdict | aim |\n|---|---|---|---|---|\n");
    for verdict in verdicts {
        let Verdict { work, at_least, aim, measured, word } = verdict;
        let measured = measured.replace('|', "/");
        let _ = writeln!(text, "| {work} | {at_least} | {measured} | {} | {aim} |", word.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_table_is_replaced() {
        let text = format!("head\n{BEGIN}\nold\n{END}\nfoot\n");
        let new = replaced(&text, "new").unwrap();
        assert_eq!(new, format!("head\n{BEGIN}\n\nnew\n{END}\nfoot\n"));
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("none", "new"), None);
    }
}
