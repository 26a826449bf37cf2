//! Why a segment could not be found.

use std::fmt;

use thiserror::Error;

use crate::{DecodeError, ParseAddressError, PeerError, SegmentName, StoreError};

/// Why a segment could not be found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// Nobody published it, or the peer has none.
    #[error("segment {name} is not known")]
    NotFound {
        /// The segment.
        name: SegmentName,
    },
    /// What was published is wrong; the cause names the field.
    #[error("segment {name} has a malformed descriptor")]
    Malformed {
        /// The segment.
        name: SegmentName,
        /// What is wrong.
        #[source]
        source: DecodeError,
    },
    /// The segment has a protocol that this engine does not speak.
    #[error("segment {name} has protocol {protocol}, which is not supported")]
    NotSupported {
        /// The segment.
        name: SegmentName,
        /// The protocol as published.
        protocol: String,
    },
    /// The owner publishes so often that its descriptor, which has several parts, was never seen
    /// whole.
    #[error("segment {name} changes while it is read")]
    Outdated {
        /// The segment.
        name: SegmentName,
    },
    /// The name, or the address in its record, is no address.
    #[error("segment {name} tells no usable address")]
    BadAddress {
        /// The segment.
        name: SegmentName,
        /// What is wrong.
        #[source]
        source: ParseAddressError,
    },
    /// The store could not be asked.
    #[error("segment {name} could not be looked up")]
    Store {
        /// The segment.
        name: SegmentName,
        /// Why.
        #[source]
        source: StoreError,
    },
    /// The peer could not be asked.
    #[error("segment {name} could not be asked for its descriptor")]
    Peer {
        /// The segment.
        name: SegmentName,
        /// Why.
        #[source]
        source: PeerError,
    },
}

impl ResolveError {
    /// The segment.
    pub fn name(&self) -> &SegmentName {
        match self {
            Self::NotFound { name }
            | Self::Outdated { name }
            | Self::Malformed { name, .. }
            | Self::NotSupported { name, .. }
            | Self::BadAddress { name, .. }
            | Self::Store { name, .. }
            | Self::Peer { name, .. } => name,
        }
    }

    /// Whether there is no such segment.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether what was published cannot be used, whoever asks again.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed { .. })
    }

    /// Whether the owner published anew while this was read.
    pub fn is_outdated(&self) -> bool {
        match self {
            Self::Outdated { .. } => true,
            Self::Malformed { source, .. } => source.is_outdated(),
            _ => false,
        }
    }

    /// Whether the store or the peer did not answer, so that asking later may work.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Store { source, .. } => source.is_retryable(),
            Self::Peer { source, .. } => source.is_retryable(),
            Self::Outdated { .. } => true,
            _ => false,
        }
    }

    /// The whole chain of causes as one line.
    pub fn chain(&self) -> impl fmt::Display + '_ {
        Chain(self)
    }
}

struct Chain<'a>(&'a dyn std::error::Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
