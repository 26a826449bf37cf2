//! What can be wrong with a descriptor.

use te_topology::MatrixError;
use thiserror::Error;

use crate::ShapeError;

/// Why bytes are no descriptor or record that we can use.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// More bytes than a descriptor may have.
    #[error("the descriptor has {bytes} bytes, at most {limit} are allowed")]
    TooLarge {
        /// How many there are.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The bytes are no JSON, or nested too deeply.
    #[error("the text is no JSON")]
    Json(#[source] serde_json::Error),
    /// A field is missing or has the wrong type or value.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A buffer's keys do not match the devices.
    #[error("{path} has {keys} keys, expected {expected}")]
    KeyCount {
        /// The key list.
        path: String,
        /// How many keys it has.
        keys: usize,
        /// How many devices or counterparts there are.
        expected: usize,
    },
    /// A chunk of the buffer list is not the one that the descriptor names: it was published
    /// anew meanwhile, and reading the descriptor again helps.
    #[error("chunk {chunk} of the buffer list is not what the descriptor says: {reason}")]
    Chunk {
        /// The digest by which the descriptor names it.
        chunk: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The affinity matrix is wrong.
    #[error("priority_matrix is wrong")]
    Matrix(#[source] MatrixError),
    /// A protocol that this engine does not speak.
    #[error("protocol {protocol} is not supported")]
    NotSupported {
        /// The protocol as published.
        protocol: String,
    },
}

impl DecodeError {
    /// The field that is wrong, such as `buffers[3].addr`, where one field is.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Shape(shape) => Some(shape.path()),
            Self::KeyCount { path, .. } => Some(path),
            Self::Matrix(_) => Some("priority_matrix"),
            Self::NotSupported { .. } => Some("protocol"),
            Self::Chunk { .. } | Self::TooLarge { .. } | Self::Json(_) => None,
        }
    }

    /// Whether the owner published anew while this was read: reading again helps.
    pub fn is_outdated(&self) -> bool {
        matches!(self, Self::Chunk { .. })
    }

    /// Whether the descriptor may be fine, but for engines that speak another protocol.
    pub fn is_not_supported(&self) -> bool {
        matches!(self, Self::NotSupported { .. })
    }
}
