//! From the text that names a store to the store.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use super::{MetadataStore, ParseStoreUriError, StoreOptions, StoreUri};

/// Opens a store. It is not contacted before the first call, so that a service that is down is the
/// same kind of answer at every time.
///
/// # Errors
/// See [`OpenStoreError`].
pub fn open_store(
    uri: &StoreUri,
    options: &StoreOptions,
) -> Result<Arc<dyn MetadataStore>, OpenStoreError> {
    match uri {
        StoreUri::P2p => Err(OpenStoreError::NoStore),
        #[cfg(feature = "etcd")]
        StoreUri::Etcd { endpoints, is_encrypted } => {
            let store = super::etcd::EtcdStore::open(endpoints, *is_encrypted, options)?;
            Ok(Arc::new(store))
        }
        #[cfg(feature = "http")]
        StoreUri::Http { is_encrypted, .. } if !is_encrypted || cfg!(feature = "tls") => {
            Ok(Arc::new(super::http::HttpStore::open(uri, options)?))
        }
        #[cfg(feature = "redis")]
        StoreUri::Redis { address } => {
            Ok(Arc::new(super::redis::RedisStore::open(address, options)?))
        }
        #[allow(unreachable_patterns, reason = "with every feature all patterns stand above")]
        other => {
            let _ = options;
            Err(OpenStoreError::NotBuilt { scheme: other.scheme(), available: available_stores() })
        }
    }
}

/// The kinds of stores that this build has, by scheme and separated by commas.
pub fn available_stores() -> &'static str {
    const HTTP: bool = cfg!(feature = "http");
    const TLS: bool = cfg!(feature = "tls");
    match (cfg!(feature = "etcd"), HTTP, cfg!(feature = "redis")) {
        (true, true, true) if TLS => "P2PHANDSHAKE, etcd, etcds, http, https, redis",
        (true, true, true) => "P2PHANDSHAKE, etcd, http, redis",
        (true, true, false) if TLS => "P2PHANDSHAKE, etcd, etcds, http, https",
        (true, true, false) => "P2PHANDSHAKE, etcd, http",
        (true, false, true) if TLS => "P2PHANDSHAKE, etcd, etcds, redis",
        (true, false, true) => "P2PHANDSHAKE, etcd, redis",
        (true, false, false) if TLS => "P2PHANDSHAKE, etcd, etcds",
        (true, false, false) => "P2PHANDSHAKE, etcd",
        (false, true, true) if TLS => "P2PHANDSHAKE, http, https, redis",
        (false, true, true) => "P2PHANDSHAKE, http, redis",
        (false, true, false) if TLS => "P2PHANDSHAKE, http, https",
        (false, true, false) => "P2PHANDSHAKE, http",
        (false, false, true) => "P2PHANDSHAKE, redis",
        (false, false, false) => "P2PHANDSHAKE",
    }
}

/// Why a store cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The text names no store.
    #[error(transparent)]
    Uri(#[from] ParseStoreUriError),
    /// `P2PHANDSHAKE` is no store.
    #[error("P2PHANDSHAKE is no store: segments are asked from their owners")]
    NoStore,
    /// The build has no such store: take one with the Cargo feature of that name.
    #[error("this build has no metadata store {scheme}; it has {available}")]
    NotBuilt {
        /// The kind that was asked for.
        scheme: &'static str,
        /// The kinds that there are.
        available: &'static str,
    },
    /// A file with certificates cannot be used.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A certificate of our own needs its key, and a key its certificate.
    #[error("our own certificate and its key must both be given")]
    HalfIdentity,
    /// Encryption cannot be set up.
    #[error("encryption cannot be set up")]
    Encryption {
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// An option is not usable.
    #[error("option {option} of the metadata store is not usable: {reason}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// What is wrong.
        reason: String,
    },
}
