//! What the engine costs alone: the figures of te-engine's example `micro`, and those of the RDMA
//! transport over a fabric that moves nothing, its example `hot`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::python;
use super::sample::digits;
use super::verdict::{Verdict, Word};
use crate::artifacts;
use crate::flags::BenchFlags;
use crate::journal::Journal;
use crate::run;
use crate::ui;
use crate::workspace::Workspace;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Micro {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    /// The most that it should be.
    limit: Option<f64>,
}

/// Runs the example, unless other groups only are wanted; `--again` reads what it last said.
pub(crate) fn figures(
    workspace: &Workspace,
    journal: &mut Journal,
    flags: &BenchFlags,
) -> anyhow::Result<Vec<Micro>> {
    let last = workspace.target().join("bench/micro.jsonl");
    if flags.again {
        return read(&last);
    }
    let wanted = |name: &str| flags.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let mut found = Vec::new();
    if wanted(NAME) {
        found.extend(of_examples(workspace, journal)?);
    }
    if wanted(python::NAME) {
        found.extend(python::figures(workspace, journal)?);
    }
    if !found.is_empty() {
        std::fs::write(&last, lines(&found)).context("cannot write micro.jsonl")?;
    }
    Ok(found)
}

/// Whether a choice of groups means any of these figures.
pub(crate) fn is_asked_for(part: &str) -> bool {
    [NAME, python::NAME].iter().any(|name| name.contains(part))
}

fn of_examples(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<Vec<Micro>> {
    ui::say("  what the engine costs alone");
    let mut found = Vec::new();
    for (package, example, features) in EXAMPLES {
        let flags = ["--release", "--package", package, "--example", example];
        artifacts::build_programs(workspace, journal, &[&flags, *features].concat())?;
        let mut command = Command::new(workspace.target().join("release/examples").join(example));
        command.arg("--json");
        let ended = run::stream(command, journal, LIMIT, |line| found.extend(Micro::read(line)))?;
        ensure!(ended.is_good(), "{example} failed ({}); see {}", ended.text(), journal.shown());
    }
    Ok(found)
}

/// Its name, also as a group.
pub(crate) const NAME: &str = "micro";

/// Package, example, and what else building it needs.
const EXAMPLES: &[(&str, &str, &[&str])] = &[
    ("te-engine", NAME, &[]),
    ("te-transport-rdma", "hot", &["--features", "te-transport-rdma/testing"]),
];

const LIMIT: Duration = Duration::from_secs(300);

fn read(path: &Path) -> anyhow::Result<Vec<Micro>> {
    let text = artifacts::read_if_there(path)?;
    Ok(text.lines().filter_map(Micro::read).collect())
}

pub(crate) fn lines(figures: &[Micro]) -> String {
    let line = |one: &Micro| {
        let Micro { name, value, unit, limit } = one;
        format!("{}\n", json!({"figure": name, "value": value, "unit": unit, "limit": limit}))
    };
    figures.iter().map(line).collect()
}

impl Micro {
    pub(crate) fn new(name: &str, value: f64, unit: &str, limit: Option<f64>) -> Self {
        Self { name: name.to_owned(), value, unit: unit.to_owned(), limit }
    }

    pub(crate) fn read(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        Some(Self {
            name: value["figure"].as_str()?.to_owned(),
            value: value["value"].as_f64()?,
            unit: value["unit"].as_str()?.to_owned(),
            limit: value["limit"].as_f64(),
        })
    }

    /// None where there is no bar.
    pub(crate) fn judge(&self) -> Option<Verdict> {
        let limit = self.limit?;
        let word = if self.value <= limit { Word::Met } else { Word::Missed };
        Some(Verdict {
            work: self.name.clone(),
            at_least: format!("≤ {} {}", digits(limit), self.unit).trim_end().to_owned(),
            aim: String::new(),
            measured: format!("{} {}", digits(self.value), self.unit).trim_end().to_owned(),
            word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_own_limit() {
        let line = r#"{"figure":"lookup","value":612.0,"unit":"ns","limit":500,"kept":false}"#;
        let one = Micro::read(line).unwrap();
        let verdict = one.judge().unwrap();
        assert_eq!((verdict.word, verdict.measured.as_str()), (Word::Missed, "612 ns"));
        assert_eq!(Micro::read(lines(std::slice::from_ref(&one)).trim()), Some(one.clone()));
        assert_eq!(Micro { limit: None, ..one }.judge(), None);
        assert_eq!(Micro::read("words"), None);
    }
}
