//! Results of the last run of each suite, kept in `target/xtask/results/NAME.tsv`.
//!
//! The first line is a comment that holds when the run started, in seconds since 1970; then one
//! line per test: name, result, seconds or `-`, reason.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};

use crate::artifacts::read_if_there;
use crate::outcome::{Outcome, TestResult};
use crate::workspace::Workspace;

/// What a suite's last run found.
#[derive(Debug, PartialEq)]
pub(crate) struct LastRun {
    /// When it started.
    pub(crate) started: SystemTime,
    /// What it found.
    pub(crate) results: Vec<TestResult>,
}

impl LastRun {
    /// Reads the last run of `suite`; `None` if there was none.
    pub(crate) fn read(workspace: &Workspace, suite: &str) -> anyhow::Result<Option<Self>> {
        let path = path(workspace, suite)?;
        let text = read_if_there(&path)?;
        if text.is_empty() {
            return Ok(None);
        }
        Self::parse(&text).map(Some).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Keeps it as the last run of `suite`.
    pub(crate) fn write(&self, workspace: &Workspace, suite: &str) -> anyhow::Result<()> {
        let path = path(workspace, suite)?;
        std::fs::write(&path, self.text())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn text(&self) -> String {
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut text = format!("{STARTED}{:.3}\n", since.as_secs_f64());
        for result in &self.results {
            let time =
                result.time.map_or_else(|| "-".to_owned(), |t| format!("{:.3}", t.as_secs_f64()));
            let reason = result.outcome.reason().replace(['\t', '\n'], " ");
            let word = result.outcome.word();
            writeln!(text, "{}\t{word}\t{time}\t{reason}", result.id).expect("a String takes all");
        }
        text
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let (head, rest) = text.split_once('\n').context("it is cut short")?;
        let since: f64 = head.strip_prefix(STARTED).context("its first line is wrong")?.parse()?;
        let since = Duration::try_from_secs_f64(since)?;
        let results = rest.lines().map(parse_line).collect::<anyhow::Result<_>>()?;
        Ok(Self { started: SystemTime::UNIX_EPOCH + since, results })
    }
}

const STARTED: &str = "# started ";

fn path(workspace: &Workspace, suite: &str) -> anyhow::Result<PathBuf> {
    workspace.output(&format!("results/{suite}.tsv"))
}

fn parse_line(line: &str) -> anyhow::Result<TestResult> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [id, word, time, reason] = cells[..] else { bail!("{} cells in `{line}`", cells.len()) };
    let outcome = match word {
        "passed" => Outcome::Passed,
        "failed" => Outcome::Failed(reason.to_owned()),
        "skipped" => Outcome::Skipped(reason.to_owned()),
        other => bail!("`{other}` is no result"),
    };
    let time = match time {
        "-" => None,
        seconds => Some(Duration::try_from_secs_f64(seconds.parse()?)?),
    };
    Ok(TestResult { id: id.to_owned(), outcome, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let mut timed = TestResult::new("te_x::a", Outcome::Passed);
        timed.time = Some(Duration::from_millis(1500));
        let run = LastRun {
            started: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            results: vec![
                timed,
                TestResult::new("te_x::src/a.rs - (line 3)", Outcome::Failed("not so".into())),
                TestResult::new("te_x::c", Outcome::Skipped("cannot be had here: x".into())),
            ],
        };
        assert_eq!(LastRun::parse(&run.text()).unwrap(), run);
    }

    #[test]
    fn a_reason_with_line_ends_stays_one_line() {
        let failed = TestResult::new("a", Outcome::Failed("x\n\ty".into()));
        let run = LastRun { started: SystemTime::UNIX_EPOCH, results: vec![failed] };
        assert_eq!(run.text().lines().count(), 2);
    }

    #[test]
    fn damage_is_told() {
        assert!(LastRun::parse("no head\n").is_err());
        assert!(LastRun::parse("# started 1.0\na\tpassed\n").is_err());
        assert!(LastRun::parse("# started 1.0\na\tmaybe\t-\t\n").is_err());
    }
}
