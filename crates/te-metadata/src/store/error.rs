//! What can go wrong between us and a metadata service.

use std::error::Error as StdError;
use std::fmt;

use thiserror::Error;

/// Why a store did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The service could not be reached, or did not answer in time.
    #[error("metadata store {uri} is not reachable: {phase} {address} failed")]
    Unreachable {
        /// The store.
        uri: String,
        /// How far it came.
        phase: StorePhase,
        /// The address that was tried last.
        address: String,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The service was reached and refused.
    #[error("metadata store {uri} refused {}: {reason}", what(key))]
    Refused {
        /// The store.
        uri: String,
        /// The key; empty where it refused something that concerns no key.
        key: String,
        /// What the service said.
        reason: String,
    },
    /// The service wants other credentials: set user and password, or the token.
    #[error("metadata store {uri} does not accept our credentials: {reason}")]
    Unauthorised {
        /// The store.
        uri: String,
        /// What the service said.
        reason: String,
    },
    /// One side does not trust the other's certificate; the cause says what is wrong with it.
    #[error("metadata store {uri} at {address} failed the check of certificates")]
    BadCertificate {
        /// The store.
        uri: String,
        /// The address.
        address: String,
        /// What is wrong.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The service has no such operation.
    #[error("metadata store {uri} cannot {operation}")]
    NotSupported {
        /// The store.
        uri: String,
        /// What it was asked for: `list keys`, `watch keys`, `end records`.
        operation: &'static str,
    },
    /// The service answered what its protocol does not allow: it is probably another service.
    #[error("metadata store {uri} gave a wrong answer: {reason}")]
    Malformed {
        /// The store.
        uri: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    /// Whether asking again later may work without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Whether other credentials or certificates are needed.
    pub fn is_about_trust(&self) -> bool {
        matches!(self, Self::Unauthorised { .. } | Self::BadCertificate { .. })
    }

    /// Whether the service has no such operation.
    pub fn is_not_supported(&self) -> bool {
        matches!(self, Self::NotSupported { .. })
    }

    /// How far a failed call came.
    pub fn phase(&self) -> Option<StorePhase> {
        match self {
            Self::Unreachable { phase, .. } => Some(*phase),
            _ => None,
        }
    }
}

/// How far a call to a service came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorePhase {
    /// Finding the address of a host name, and connecting.
    Connect,
    /// Agreeing on encryption.
    Tls,
    /// Sending the request and waiting for the answer.
    Exchange,
}

impl fmt::Display for StorePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting to",
            Self::Tls => "encrypting to",
            Self::Exchange => "asking",
        })
    }
}

fn what(key: &str) -> String {
    if key.is_empty() { "to serve us".to_owned() } else { format!("key {key}") }
}
