//! What the suite found.

use std::fmt;

/// How one check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As it should.
    Passed,
    /// Not as it should; what was seen.
    Failed(String),
    /// It cannot run on this transport; the rig's reason.
    Skipped(&'static str),
}

/// One check and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What holds when it passes.
    pub name: &'static str,
    /// How it ended.
    pub verdict: Verdict,
}

/// Every check and how it ended; prints as a table.
#[derive(Debug, Clone)]
pub struct Report {
    rig: String,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(rig: &str) -> Self {
        Self { rig: rig.to_owned(), rows: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &'static str, verdict: Verdict) {
        self.rows.push(Row { name, verdict });
    }

    /// All rows, in the order they ran.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Failed(_)))
    }

    /// The rows that could not run, which a test prints as skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Skipped(_)))
    }

    /// How many checks passed.
    pub fn passed(&self) -> usize {
        self.rows.iter().filter(|row| row.verdict == Verdict::Passed).count()
    }

    /// Fails the test that calls it where a check failed, or none passed.
    ///
    /// # Panics
    /// In that case, with the whole table.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.failed().next().is_none() && self.passed() > 0, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.rig)?;
        for row in &self.rows {
            match &row.verdict {
                Verdict::Passed => writeln!(f, "  passed   {}", row.name)?,
                Verdict::Failed(seen) => writeln!(f, "  FAILED   {}: {seen}", row.name)?,
                Verdict::Skipped(reason) => writeln!(f, "  skipped  {}: {reason}", row.name)?,
            }
        }
        let (failed, skipped) = (self.failed().count(), self.skipped().count());
        write!(f, "{} passed, {failed} failed, {skipped} skipped", self.passed())
    }
}
