//! `suite NAME`: one rung of the ladder.

use crate::flags::SuiteFlags;
use crate::outcome::{Outcome, Tally, TestResult};
use crate::skips;
use crate::suites::{self, Order, SUITES};
use crate::ui;
use crate::workspace::Workspace;

/// Runs one suite. It is good if nothing failed, something passed and, with `--no-skip`, nothing was
/// skipped that could run here.
pub(crate) fn run(workspace: &Workspace, flags: &SuiteFlags) -> anyhow::Result<bool> {
    if flags.name == "list" {
        list();
        return Ok(true);
    }
    let suite = suites::find(&flags.name)?;
    let order = Order { level: flags.level.level(), filter: flags.filter.clone() };
    let results = suites::run(workspace, suite, &order)?;
    let tally = Tally::of(&results);
    let n_forbidden = results.iter().filter(|result| is_forbidden(result)).count();
    if flags.no_skip && n_forbidden > 0 {
        let skips = ui::count(n_forbidden, "skip");
        ui::error(&format!("{skips} that could run here, and --no-skip forbids that"));
        return Ok(false);
    }
    if tally.n_passed == 0 {
        ui::error(&format!("nothing passed in the suite {}", suite.name));
    }
    Ok(tally.n_failed == 0 && tally.n_passed > 0)
}

/// Whether it is a skip that something could be installed against; it is printed with its reason.
fn is_forbidden(result: &TestResult) -> bool {
    let Outcome::Skipped(reason) = &result.outcome else { return false };
    ui::say(&format!("  skipped  {}: {reason}", result.id));
    !skips::is_allowed(reason)
}

fn list() {
    let header = ["suite", "from", "what it proves"].map(str::to_owned).to_vec();
    let row = |suite: &suites::Suite| {
        vec![suite.name.to_owned(), suite.from.word().to_owned(), suite.about.to_owned()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(SUITES.iter().map(row)).collect();
    ui::say(ui::table(&rows, &[]).trim_end());
}
