//! Where descriptors are kept between engines that do not ask each other.

#[cfg(any(test, feature = "testing"))]
mod conformance;
mod memory;

use std::error::Error as StdError;
use std::fmt::Debug;

use thiserror::Error;

#[cfg(any(test, feature = "testing"))]
pub use conformance::check_store;
pub use memory::MemoryStore;

/// A key-value store that engines share.
///
/// Absent and unreachable are different answers: an absent key is `Ok(None)`. Each call has a
/// bound on its time that the store documents.
pub trait MetadataStore: Send + Sync + Debug {
    /// The value of a key; `None` when there is none.
    ///
    /// # Errors
    /// The store could not be asked or did not answer.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The store could not be reached or refused; the key may then have either value.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key; one that is not there is no error.
    ///
    /// # Errors
    /// The store could not be reached or refused.
    fn remove(&self, key: &str) -> Result<(), StoreError>;

    /// What the store is called in messages, without secrets.
    fn uri(&self) -> String;
}

/// Why a store did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store could not be reached.
    #[error("metadata store {uri} is not reachable")]
    Unreachable {
        /// The store.
        uri: String,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The store was reached and refused.
    #[error("metadata store {uri} refused key {key}: {reason}")]
    Refused {
        /// The store.
        uri: String,
        /// The key.
        key: String,
        /// What the store said.
        reason: String,
    },
}

impl StoreError {
    /// Whether asking again later may work without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
