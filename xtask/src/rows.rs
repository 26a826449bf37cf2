//! `rows --issue NAME`: each row id that an issue names has a test that ran and passed.

mod required;
mod sources;
mod table;

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::flags::{Level, RowsFlags};
use crate::outcome::{Outcome, TestResult};
use crate::results::LastRun;
use crate::rows::table::Row;
use crate::suites::{self, Order};
use crate::ui;
use crate::workspace::Workspace;

/// Checks the rows. It is good if every id is proven by results that are newer than the sources.
pub(crate) fn run(workspace: &Workspace, flags: &RowsFlags) -> anyhow::Result<bool> {
    let known = || required::names().join(", ");
    let ids = required::ids(&flags.issue)
        .with_context(|| format!("there is no issue `{}`; there are {}", flags.issue, known()))?;
    let text = std::fs::read_to_string(workspace.path(table::PATH)).context(table::PATH)?;
    let rows = table::parse(&text)?;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.issue == flags.issue).collect();
    let results = results(workspace, &rows, flags.run)?;
    let problems = problems(&ids, &rows, &results);
    print(&flags.issue, &ids, &problems);
    Ok(problems.is_empty())
}

/// What is known of a suite.
#[derive(Debug)]
enum Known {
    /// The results of its last run.
    Results(Vec<TestResult>),
    /// None that count, and why.
    Nothing(String),
}

/// The results of every suite that a row names; runs those that have none if told to.
fn results(
    workspace: &Workspace,
    rows: &[Row],
    may_run: bool,
) -> anyhow::Result<BTreeMap<String, Known>> {
    let mut all = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.test.is_empty()) {
        if !all.contains_key(&row.suite) {
            all.insert(row.suite.clone(), known(workspace, &row.suite, may_run)?);
        }
    }
    Ok(all)
}

fn known(workspace: &Workspace, name: &str, may_run: bool) -> anyhow::Result<Known> {
    let suite = suites::find(name)?;
    let last = LastRun::read(workspace, name)?;
    let complaint = match &last {
        None => Some(format!("the suite {name} has not run")),
        Some(last) => sources::newer(workspace, suite.kind, last.started)?
            .map(|file| format!("the suite {name} ran before {file} was changed")),
    };
    match (complaint, last) {
        (None, Some(last)) => Ok(Known::Results(last.results)),
        (Some(why), _) if !may_run => Ok(Known::Nothing(format!("{why}; --run runs it"))),
        (why, _) => {
            ui::say(&format!("{}: running it", why.unwrap_or_default()));
            let order = Order { level: Level::Default, filter: None };
            Ok(Known::Results(suites::run(workspace, suite, &order)?))
        }
    }
}

/// An id that is not proven, and why.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    id: String,
    what: String,
}

fn problems(ids: &[String], rows: &[Row], results: &BTreeMap<String, Known>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for id in ids {
        let mine: Vec<&Row> = rows.iter().filter(|row| row.id == *id).collect();
        let mut tell = |what: String| problems.push(Problem { id: id.clone(), what });
        if mine.is_empty() {
            tell(format!("is missing in {}", table::PATH));
        }
        mine.iter().filter_map(|row| row_problem(row, results)).for_each(&mut tell);
    }
    let strangers = rows.iter().filter(|row| !ids.contains(&row.id));
    problems.extend(strangers.map(|row| Problem {
        id: row.id.clone(),
        what: "is no id of this issue; xtask/src/rows/required.rs has them".to_owned(),
    }));
    problems
}

fn row_problem(row: &Row, results: &BTreeMap<String, Known>) -> Option<String> {
    if row.test.is_empty() {
        return Some("has no test".to_owned());
    }
    let results = match results.get(&row.suite)? {
        Known::Nothing(why) => return Some(why.clone()),
        Known::Results(results) => results,
    };
    let named: Vec<&TestResult> = results.iter().filter(|result| is_named(result, row)).collect();
    match named[..] {
        [] => Some(format!("{} is no test of the suite {}", row.test, row.suite)),
        [one] if one.outcome == Outcome::Passed => None,
        [one] => Some(format!("{} {}: {}", row.test, one.outcome.word(), one.outcome.reason())),
        _ => Some(format!("{} names {} tests", row.test, named.len())),
    }
}

/// A row may leave out the front of a test's name.
fn is_named(result: &TestResult, row: &Row) -> bool {
    result.id.strip_suffix(&row.test).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
}

/// What is wrong, each with the ids of which it is true, in the order of the ids.
fn grouped(problems: &[Problem]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for Problem { id, what } in problems {
        match groups.iter_mut().find(|(known, _)| known == what) {
            Some((_, ids)) if ids.contains(&id.as_str()) => {}
            Some((_, ids)) => ids.push(id),
            None => groups.push((what, vec![id])),
        }
    }
    groups
}

fn print(issue: &str, ids: &[String], problems: &[Problem]) {
    for (what, ids) in grouped(problems) {
        ui::say(&format!("{}: {what}", ids.join(" ")));
    }
    let unproven = ids.iter().filter(|id| problems.iter().any(|problem| problem.id == **id));
    let n_unproven = unproven.count();
    let n_proven = ids.len() - n_unproven;
    ui::say(&format!("rows {issue}: {} of {} proven", n_proven, ui::count(ids.len(), "id")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, test: &str) -> Row {
        Row { issue: "i".into(), id: id.into(), suite: "unit".into(), test: test.into() }
    }

    fn whats(ids: &[&str], rows: &[Row]) -> Vec<String> {
        let results = vec![
            TestResult::new("te_a::m::good", Outcome::Passed),
            TestResult::new("te_a::m::bad", Outcome::Failed("no".into())),
            TestResult::new("te_a::m::away", Outcome::Skipped("far".into())),
            TestResult::new("te_a::x::twice", Outcome::Passed),
            TestResult::new("te_a::y::twice", Outcome::Passed),
        ];
        let known = BTreeMap::from([("unit".to_owned(), Known::Results(results))]);
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        problems(&ids, rows, &known).into_iter().map(|p| p.what).collect()
    }

    fn check(test: &str, expected: &[&str]) {
        assert_eq!(whats(&["J1"], &[row("J1", test)]), expected, "{test}");
    }

    #[test]
    fn only_a_test_that_ran_and_passed_proves_a_row() {
        check("te_a::m::good", &[]);
        check("good", &[]);
        check("te_a::m::bad", &["te_a::m::bad failed: no"]);
        check("away", &["away skipped: far"]);
        check("te_a::gone", &["te_a::gone is no test of the suite unit"]);
        check("ood", &["ood is no test of the suite unit"]);
        check("twice", &["twice names 2 tests"]);
        check("", &["has no test"]);
    }

    #[test]
    fn an_id_without_a_line_and_a_line_without_an_id_are_told() {
        assert_eq!(whats(&["J1"], &[]), ["is missing in docs/rows.tsv"]);
        assert_eq!(whats(&[], &[row("J9", "good")]).len(), 1);
    }

    #[test]
    fn each_line_of_an_id_must_hold() {
        assert_eq!(whats(&["J1"], &[row("J1", "good"), row("J1", "away")]).len(), 1);
    }

    #[test]
    fn a_suite_that_did_not_run_proves_nothing() {
        let known = BTreeMap::from([("unit".to_owned(), Known::Nothing("not run".into()))]);
        let found = problems(&["J1".to_owned()], &[row("J1", "good")], &known);
        assert_eq!(found[0].what, "not run");
    }

    #[test]
    fn what_is_true_of_many_ids_is_said_once() {
        let problem = |id: &str, what: &str| Problem { id: id.into(), what: what.into() };
        let all = [problem("J1", "a"), problem("J2", "b"), problem("J3", "a"), problem("J1", "a")];
        assert_eq!(grouped(&all), [("a", vec!["J1", "J3"]), ("b", vec!["J2"])]);
    }
}
