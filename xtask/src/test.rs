//! `test`: the suites of a level in order, and what each of them cost.

use crate::flags::{Level, TestFlags};
use crate::outcome::{Outcome, Tally, TestResult};
use crate::skips;
use crate::suites::{self, Order, SUITES, Suite};
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// Runs the suites of the level and prints the budget table. It is good if nothing failed, each
/// suite passed something or says why it could not run, and, with `--no-skip`, nothing was skipped
/// that could run here.
pub(crate) fn run(workspace: &Workspace, flags: &TestFlags) -> anyhow::Result<bool> {
    let level = flags.level.level();
    let mut lines = Vec::new();
    for suite in SUITES.iter().filter(|suite| suite.from <= level) {
        lines.push(run_one(workspace, suite, level)?);
    }
    ui::heading("what it cost");
    ui::say(table(&lines).trim_end());
    let forbidden = print_skips(&lines);
    let mut total = Tally::default();
    lines.iter().for_each(|line| total.add(line.tally()));
    let good = total.n_failed == 0 && !(flags.no_skip && forbidden > 0);
    if flags.no_skip && forbidden > 0 {
        ui::say(&format!(
            "\n{} that could run here, and --no-skip forbids that",
            ui::count(forbidden, "skip")
        ));
    }
    ui::say(&format!("\n{total}"));
    Ok(good)
}

/// One suite in the budget table.
#[derive(Debug)]
struct Line {
    name: &'static str,
    seconds: f64,
    results: Vec<TestResult>,
}

impl Line {
    fn tally(&self) -> Tally {
        Tally::of(&self.results)
    }
}

/// A suite in which nothing ran at all is one failure.
fn run_one(workspace: &Workspace, suite: &'static Suite, level: Level) -> anyhow::Result<Line> {
    let watch = Stopwatch::start();
    let mut results = suites::run(workspace, suite, &Order { level, filter: None })?;
    if results.is_empty() {
        let why = Outcome::Failed("it has no test".to_owned());
        results.push(TestResult::new(format!("{}::(all)", suite.name), why));
    }
    Ok(Line { name: suite.name, seconds: watch.elapsed().as_secs_f64(), results })
}

fn table(lines: &[Line]) -> String {
    let header = ["suite", "seconds", "passed", "failed", "skipped"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    let mut total = Tally::default();
    for line in lines {
        total.add(line.tally());
        rows.push(row(line.name, line.seconds, line.tally()));
    }
    rows.push(row("all", lines.iter().map(|line| line.seconds).sum(), total));
    ui::table(&rows, &[1, 2, 3, 4])
}

fn row(name: &str, seconds: f64, tally: Tally) -> Vec<String> {
    let counts = [tally.n_passed, tally.n_failed, tally.n_skipped];
    let mut row = vec![name.to_owned(), format!("{seconds:.1}")];
    row.extend(counts.map(|n| n.to_string()));
    row
}

/// Prints each skip and each failure with its reason; returns how many skips could have run here.
fn print_skips(lines: &[Line]) -> usize {
    let results = || lines.iter().flat_map(|line| &line.results);
    let mut n_forbidden = 0;
    for result in results() {
        if let Outcome::Skipped(reason) = &result.outcome {
            n_forbidden += usize::from(!skips::is_allowed(reason));
            ui::say(&format!("  skipped  {}: {reason}", result.id));
        }
    }
    for result in results() {
        if let Outcome::Failed(reason) = &result.outcome {
            ui::say(&format!("  FAILED   {}: {reason}", result.id));
        }
    }
    n_forbidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_table_has_a_line_per_suite_and_a_sum() {
        let passed = TestResult::new("a", Outcome::Passed);
        let skipped = TestResult::new("b", Outcome::Skipped("r".into()));
        let lines = [
            Line { name: "unit", seconds: 1.25, results: vec![passed.clone(), passed] },
            Line { name: "faults", seconds: 10.0, results: vec![skipped] },
        ];
        let table = table(&lines);
        let rows: Vec<Vec<&str>> = table.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[2], ["unit", "1.2", "2", "0", "0"]);
        assert_eq!(rows[4], ["all", "11.2", "2", "0", "1"]);
    }
}
