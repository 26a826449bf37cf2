//! What became of one test, and sums of that.

use std::fmt;
use std::time::Duration;

/// What became of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and held.
    Passed,
    /// It ran and did not hold, or never came to its end; the text says more where more is known.
    Failed(String),
    /// It could not run, for this reason.
    Skipped(String),
}

impl Outcome {
    /// The word in a results file.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The reason of a failure or a skip; empty if there is none.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Passed => "",
            Self::Failed(reason) | Self::Skipped(reason) => reason,
        }
    }
}

/// One test with its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestResult {
    /// Which test: `te_metadata::codec::tests::name`, `te_suites::faults::name`.
    pub(crate) id: String,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// How long it took, where that can be told: tests that run side by side say nothing of it.
    pub(crate) time: Option<Duration>,
}

impl TestResult {
    /// A result without a time.
    pub(crate) fn new(id: impl Into<String>, outcome: Outcome) -> Self {
        Self { id: id.into(), outcome, time: None }
    }
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that ran and held.
    pub(crate) n_passed: usize,
    /// Tests that did not hold.
    pub(crate) n_failed: usize,
    /// Tests that could not run.
    pub(crate) n_skipped: usize,
}

impl Tally {
    /// Counts `results`.
    pub(crate) fn of<'a>(results: impl IntoIterator<Item = &'a TestResult>) -> Self {
        let mut tally = Self::default();
        for result in results {
            match result.outcome {
                Outcome::Passed => tally.n_passed += 1,
                Outcome::Failed(_) => tally.n_failed += 1,
                Outcome::Skipped(_) => tally.n_skipped += 1,
            }
        }
        tally
    }

    /// Adds another sum to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.n_passed += other.n_passed;
        self.n_failed += other.n_failed;
        self.n_skipped += other.n_skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.n_passed, self.n_failed, self.n_skipped)
    }
}
