//! `sabotage`: a guard that no test misses is not tested.
//!
//! docs/sabotage.tsv names switches. With the feature `testing`, the variable `TE_SABOTAGE` turns
//! one guard off; at least one of the tests named beside the switch must then fail, and all of
//! them must pass without it.

mod programs;
mod table;

use anyhow::{Context as _, ensure};

use crate::flags::SabotageFlags;
use crate::journal::Journal;
use crate::sabotage::programs::{Programs, Run};
use crate::sabotage::table::Switch;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// Tries each switch. It is good if a test noticed every one.
pub(crate) fn run(workspace: &Workspace, flags: &SabotageFlags) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(workspace.path(table::PATH)).context(table::PATH)?;
    let mut switches = table::parse(&text)?;
    if let Some(part) = &flags.only {
        switches.retain(|switch| switch.name.contains(part));
    }
    ensure!(!switches.is_empty(), "no switch to try in {}", table::PATH);
    let _alone = workspace.exclusive()?;
    let mut journal = Journal::create(workspace, "sabotage")?;
    ui::say("building the tests with the feature `testing`");
    let programs = Programs::build(workspace, &mut journal, &switches)?;
    let mut lines = Vec::new();
    for switch in &switches {
        let watch = Stopwatch::start();
        let verdict = try_switch(&programs, &mut journal, switch)?;
        let word = if verdict.is_good() { "noticed" } else { "UNNOTICED" };
        ui::say(&format!("  {word:<9} {:>8}  {}", watch.text(), switch.name));
        lines.push((switch, verdict));
    }
    print(&lines);
    if lines.iter().any(|(_, verdict)| !verdict.is_good()) {
        ui::say(&format!("the whole output is in {}", journal.shown()));
    }
    Ok(lines.iter().all(|(_, verdict)| verdict.is_good()))
}

/// What became of one switch.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// These tests failed, as they should.
    Noticed(Vec<String>),
    /// The tests hung until they were killed.
    Hung,
    /// So many tests ran, and none failed.
    Unnoticed(usize),
    /// The tests fail, or do not run, without the switch.
    NoBasis(String),
}

impl Verdict {
    fn is_good(&self) -> bool {
        matches!(self, Self::Noticed(_) | Self::Hung)
    }

    fn text(&self) -> String {
        match self {
            Self::Noticed(tests) => {
                let first = tests.first().map_or("", String::as_str);
                match tests.len() {
                    0 | 1 => first.to_owned(),
                    n => format!("{first} and {} more", n - 1),
                }
            }
            Self::Hung => "the tests hung, and were killed".to_owned(),
            Self::Unnoticed(n) => format!("NOTHING FAILED in {}", ui::count(*n, "test")),
            Self::NoBasis(why) => format!("WITHOUT IT: {why}"),
        }
    }
}

fn try_switch(
    programs: &Programs<'_>,
    journal: &mut Journal,
    switch: &Switch,
) -> anyhow::Result<Verdict> {
    let basis = programs.run(journal, switch, false)?;
    if let Some(why) = basis.fault() {
        return Ok(Verdict::NoBasis(why));
    }
    Ok(judge(&programs.run(journal, switch, true)?))
}

fn judge(run: &Run) -> Verdict {
    if !run.failed.is_empty() {
        return Verdict::Noticed(run.failed.clone());
    }
    if run.hung { Verdict::Hung } else { Verdict::Unnoticed(run.n_tests) }
}

fn print(lines: &[(&Switch, Verdict)]) {
    let header = ["guard switched off", "what it proves", "noticed by"].map(str::to_owned).to_vec();
    let row = |(switch, verdict): &(&Switch, Verdict)| {
        vec![switch.name.clone(), switch.proves.clone(), verdict.text()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(lines.iter().map(row)).collect();
    ui::heading("sabotage");
    ui::say(ui::table(&rows, &[]).trim_end());
    let n_good = lines.iter().filter(|(_, verdict)| verdict.is_good()).count();
    ui::say(&format!("\nsabotage: {n_good} of {} noticed", ui::count(lines.len(), "guard")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_test_is_what_notices() {
        let mut run = Run { n_tests: 3, ..Run::default() };
        assert_eq!(judge(&run), Verdict::Unnoticed(3));
        run.hung = true;
        assert_eq!(judge(&run), Verdict::Hung);
        run.failed = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(judge(&run).text(), "a and 1 more");
    }
}
