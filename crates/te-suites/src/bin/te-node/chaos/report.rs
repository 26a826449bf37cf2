//! What callers found.

use serde_json::{Value, json};
use te_engine::{RemoteSide, TaskState};

use crate::transfer::{side, state};

/// So many sentences are kept; the number of all is told.
const KEPT: usize = 20;

/// Counts and findings.
#[derive(Debug, Default)]
pub(crate) struct Report {
    submitted: u64,
    ends: [u64; 5],
    in_doubt: u64,
    quarantined: u64,
    refused: u64,
    slowest_ms: u64,
    n_wrong: u64,
    wrong: Vec<String>,
}

impl Report {
    /// Something that must not be.
    pub(crate) fn wrong(&mut self, what: String) {
        self.n_wrong += 1;
        if self.wrong.len() < KEPT {
            self.wrong.push(what);
        }
    }

    pub(crate) fn submitted(&mut self, n: u64) {
        self.submitted += n;
    }

    /// A call that was refused, so that there was no task.
    pub(crate) fn refused(&mut self) {
        self.refused += 1;
    }

    pub(crate) fn ended(&mut self, state: TaskState, remote: RemoteSide, late_ms: u64) {
        self.ends[place(state)] += 1;
        self.in_doubt += u64::from(remote == RemoteSide::InDoubt);
        self.slowest_ms = self.slowest_ms.max(late_ms);
    }

    pub(crate) fn quarantined(&mut self) {
        self.quarantined += 1;
    }

    pub(crate) fn and(&mut self, other: Self) {
        self.submitted += other.submitted;
        self.ends.iter_mut().zip(other.ends).for_each(|(sum, n)| *sum += n);
        self.in_doubt += other.in_doubt;
        self.quarantined += other.quarantined;
        self.refused += other.refused;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.n_wrong += other.n_wrong;
        self.wrong.extend(other.wrong);
        self.wrong.truncate(KEPT);
    }

    pub(crate) fn told(&self) -> Value {
        let mut told = json!({
            "submitted": self.submitted, "in_doubt": self.in_doubt, "wrong": self.n_wrong,
            "quarantined": self.quarantined, "refused": self.refused,
            "late_ms": self.slowest_ms, "what": self.wrong,
        });
        for (n, end) in self.ends.iter().zip(ENDS) {
            told[state(end)] = json!(n);
        }
        told
    }
}

/// The final states.
const ENDS: [TaskState; 5] = [
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Timeout,
    TaskState::Canceled,
    TaskState::Invalid,
];

fn place(state: TaskState) -> usize {
    ENDS.iter().position(|end| *end == state).unwrap_or(ENDS.len() - 1)
}

/// The word for the remote side, for sentences.
pub(crate) fn word(remote: RemoteSide) -> &'static str {
    side(remote)
}
