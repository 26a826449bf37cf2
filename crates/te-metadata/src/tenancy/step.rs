//! What the machine asks for, and what comes of it.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use super::OwnerState;
use crate::{Capabilities, Claim, Record, Renewal, Revision, StoreError};

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Tell what the store can.
    Survey,
    /// Tell what is to stand in the store, in the order in which it is to be put.
    Compose,
    /// Put a record.
    Claim { key: String, value: Arc<[u8]>, over: Option<Revision> },
    /// Find out whether the owner of a record lives.
    Probe { key: String, record: Record },
    /// Tell which version stands at a key.
    Verify { key: String },
    /// Prolong the lease.
    Renew,
    /// Remove a record if it is ours.
    Release { key: String },
}

/// What came of a step. A store's error may come of every one of them.
#[derive(Debug)]
pub(crate) enum Answer {
    Surveyed(Capabilities),
    Composed(Vec<(String, Arc<[u8]>)>),
    Claimed(Claim),
    Probed(OwnerState),
    Verified(Option<Revision>),
    Renewed(Renewal),
    Released,
    Failed(StoreError),
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct Failing {
    step: Discriminant<Step>,
    /// The service answers, and refuses.
    is_refusal: bool,
}

impl Failing {
    pub(super) fn new(step: &Step, error: &StoreError) -> Self {
        Self { step: discriminant(step), is_refusal: !error.is_retryable() }
    }

    /// Whether a success of `step` shows that it is over.
    pub(super) fn is_over_with(&self, step: &Step) -> bool {
        *step != Step::Compose && (!self.is_refusal || discriminant(step) == self.step)
    }
}
