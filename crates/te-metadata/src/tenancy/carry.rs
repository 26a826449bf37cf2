//! Carrying a step out.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Answer, Step, TenancyEvent};
use crate::{Lease, MetadataStore, Record, StoreError};

/// Whether the owner of a record lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// Somebody answers where the record says.
    Alive,
    /// Nobody does, or it is ourselves.
    Gone,
}

/// Whose records they are. All is called on the caretaker's thread.
pub trait TenancyHost: Send + Debug {
    /// What is to stand in the store, in the order in which it is to be put. Each value names the
    /// lease's owner, see [`MetadataStore::claim`].
    fn compose(&mut self) -> Vec<(String, Arc<[u8]>)>;

    /// Whether the owner of a record that stands at one of our keys lives. Takes bounded time.
    ///
    /// # Errors
    /// The store had to be asked and could not be.
    fn probe(&mut self, key: &str, record: &Record) -> Result<OwnerState, StoreError>;

    /// Takes notice.
    fn event(&mut self, event: TenancyEvent);
}

/// Carries a step out.
pub(super) fn carry_out(
    step: Step,
    store: &dyn MetadataStore,
    lease: &Lease,
    host: &mut dyn TenancyHost,
) -> Answer {
    let answer = match step {
        Step::Survey => store.capabilities().map(Answer::Surveyed),
        Step::Compose => Ok(Answer::Composed(host.compose())),
        Step::Claim { key, value, over } => {
            store.claim(&key, &value, lease, over.as_ref()).map(Answer::Claimed)
        }
        Step::Probe { key, record } => host.probe(&key, &record).map(Answer::Probed),
        Step::Verify { key } => store.revision(&key).map(Answer::Verified),
        Step::Renew => store.renew(lease).map(Answer::Renewed),
        Step::Release { key } => store.release(&key, lease.owner).map(|_| Answer::Released),
    };
    answer.unwrap_or_else(Answer::Failed)
}
