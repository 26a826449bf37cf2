//! Why the server does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::storage::StorageError;

/// Why the server does not start. Nothing is left running then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Choose another port, or end who has it.
    #[error("cannot listen at {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The data file cannot be used; it is left as it is.
    #[error("cannot use the data file {}", path.display())]
    Data {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: StorageError,
    },
    /// A limit makes no sense.
    #[error("the limit {name}: {reason}")]
    Limit {
        /// Which, as it is called in [`Limits`](crate::Limits).
        name: &'static str,
        /// Why not.
        reason: String,
    },
    /// A certificate or its key cannot be used.
    #[error("cannot use {}", path.display())]
    Tls {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// TLS was asked for, and this build is without the feature `tls`.
    #[error("this build has no TLS")]
    NoTls,
    /// The system gives no threads.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It has fewer than 16 characters, and could be guessed.
    #[error("a token has at least 16 characters")]
    TooShort,
    /// It has more than 4096 characters.
    #[error("a token has at most 4096 characters")]
    TooLong,
    /// It has a character that cannot stand in a header.
    #[error("a token has no blanks, and only ASCII characters that can be seen")]
    Character,
}
