//! Where descriptors are kept between engines that do not ask each other.
//!
//! ```text
//!   StoreUri ──open_store──▶ dyn MetadataStore ◀── MemoryStore, http, etcd, redis (Cargo features)
//! ```
//!
//! A value is what the peers agreed on, byte for byte; what a service adds (leases, revisions) is
//! kept beside it. A record belongs to the [`Incarnation`] whose text stands in its value, so that
//! the owner can be told on services that know no owners, and by everybody who reads the record.
//!
//! Threads: every method blocks its caller for at most [`StoreOptions::call_timeout`] a round trip.
//! The asynchronous clients run on one thread of their store; in a forked child, which does not
//! have that thread, the first call starts another.

#[cfg(any(feature = "http", feature = "etcd"))]
mod cause;
#[cfg(any(test, feature = "conformance"))]
mod conformance;
#[cfg(any(feature = "http", feature = "etcd"))]
mod driver;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "http")]
mod http;
mod memory;
mod open;
mod options;
mod record;
#[cfg(feature = "redis")]
mod redis;
#[cfg(all(feature = "tls", feature = "http"))]
mod tls;
mod uri;

use std::fmt::Debug;
use std::time::Duration;

#[cfg(any(test, feature = "conformance"))]
pub use conformance::check_store;
pub use error::{StoreError, StorePhase};
pub use memory::MemoryStore;
pub use open::{OpenStoreError, available_stores, open_store};
pub use options::{Credentials, Secret, StoreOptions, TlsFiles};
pub use record::{
    Capabilities, Change, ChangeKind, Changes, Claim, KeyInfo, Lease, Record, Release, Renewal,
    Revision,
};
pub use uri::{ParseStoreUriError, StoreUri};

use crate::Incarnation;

/// A key-value store that engines share.
///
/// Absent and unreachable are different answers: an absent key is `Ok(None)`. Each call has a
/// bound on its time, see [`StoreOptions`].
pub trait MetadataStore: Send + Sync + Debug {
    /// What the service can do. A store that does not know yet asks the service.
    ///
    /// # Errors
    /// The service could not be asked.
    fn capabilities(&self) -> Result<Capabilities, StoreError>;

    /// What stands at a key; `None` when nothing does.
    ///
    /// # Errors
    /// The store could not be asked or did not answer.
    fn get(&self, key: &str) -> Result<Option<Record>, StoreError>;

    /// Which version stands at a key; without its value where the service can.
    ///
    /// # Errors
    /// As for [`Self::get`].
    fn revision(&self, key: &str) -> Result<Option<Revision>, StoreError>;

    /// Sets the value of a key, whoever it belongs to, for ever.
    ///
    /// # Errors
    /// The store could not be reached or refused; the key may then have either value.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, whoever it belongs to; one that is not there is no error.
    ///
    /// # Errors
    /// The store could not be reached or refused.
    fn remove(&self, key: &str) -> Result<(), StoreError>;

    /// Puts a record that belongs to the lease's owner, whose text must stand in `value`, where
    /// nothing stands or the owner's own record does, or where `over` still stands. It ends with
    /// the lease where the service can end it ([`Capabilities::expiry`]).
    ///
    /// On a service without [`Capabilities::ownership`] this is a look before the put, and another
    /// that puts in between is overwritten.
    ///
    /// # Errors
    /// The store could not be reached or refused; the key may then have either value.
    fn claim(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Claim, StoreError>;

    /// Prolongs the life of all that was claimed through this store with the lease.
    ///
    /// # Errors
    /// The store could not be reached; it cannot end records, which is
    /// [`StoreError::NotSupported`].
    fn renew(&self, lease: &Lease) -> Result<Renewal, StoreError>;

    /// Removes a key if its record belongs to `owner`.
    ///
    /// On a service without [`Capabilities::ownership`] this is a look before the removal, and
    /// what another puts in between is removed.
    ///
    /// # Errors
    /// The store could not be reached or refused.
    fn release(&self, key: &str, owner: Incarnation) -> Result<Release, StoreError>;

    /// The keys that begin with `prefix`, in their order. At most [`MAX_LISTED`].
    ///
    /// # Errors
    /// The store could not be reached; it cannot list; there are too many keys.
    fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, StoreError>;

    /// Tells what changes under `prefix` from now on. Who lists after this call has missed
    /// nothing.
    ///
    /// # Errors
    /// The store could not be reached; it cannot watch.
    fn watch(&self, prefix: &str) -> Result<Box<dyn Watch>, StoreError>;

    /// What the store is called in messages, without secrets.
    fn uri(&self) -> String;
}

/// A watch over some keys of a store.
pub trait Watch: Send + Debug {
    /// Waits for changes, for at most `timeout`; none by then is an answer without any.
    ///
    /// # Errors
    /// The store could not be reached. The watch stays usable; the next answer that is good tells
    /// by [`Changes::is_reset`] whether changes were missed.
    fn wait(&mut self, timeout: Duration) -> Result<Changes, StoreError>;
}

/// Most keys that [`MetadataStore::list`] returns.
pub const MAX_LISTED: usize = 1 << 20;

/// Largest value that a store takes or gives, in bytes.
pub const MAX_VALUE_BYTES: usize = 8 << 20;
