//! `suite NAME`: one rung of the ladder.

use crate::flags::SuiteFlags;
use crate::outcome::Tally;
use crate::suites::{self, Order, SUITES};
use crate::ui;
use crate::workspace::Workspace;

/// Runs one suite. It is good if nothing failed and something passed.
pub(crate) fn run(workspace: &Workspace, flags: &SuiteFlags) -> anyhow::Result<bool> {
    if flags.name == "list" {
        list();
        return Ok(true);
    }
    let suite = suites::find(&flags.name)?;
    let order = Order { level: flags.level.level(), filter: flags.filter.clone() };
    let tally = Tally::of(&suites::run(workspace, suite, &order)?);
    if tally.n_passed == 0 {
        ui::error(&format!("nothing passed in the suite {}", suite.name));
    }
    Ok(tally.n_failed == 0 && tally.n_passed > 0)
}

fn list() {
    let header = ["suite", "from", "what it proves"].map(str::to_owned).to_vec();
    let row = |suite: &suites::Suite| {
        vec![suite.name.to_owned(), suite.from.word().to_owned(), suite.about.to_owned()]
    };
    let rows: Vec<_> = std::iter::once(header).chain(SUITES.iter().map(row)).collect();
    ui::say(ui::table(&rows, &[]).trim_end());
}
