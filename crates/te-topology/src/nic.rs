//! NICs: a name that travels between hosts, and an index that is good in one process only.
//!
//! Two lists of NICs are never joined by position: a peer may order or shorten its own.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use thiserror::Error;

/// Longest NIC name that is accepted, in bytes. The kernel's own limit for verbs devices is 64.
pub const MAX_NIC_NAME_BYTES: usize = 255;

/// The name of a NIC on its host, such as `mlx5_0`: 1 to 255 bytes without control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NicName(Box<str>);

impl NicName {
    /// Takes a name as it is written.
    ///
    /// # Errors
    /// An empty name, one above [`MAX_NIC_NAME_BYTES`], or one with a control character.
    pub fn parse(text: &str) -> Result<Self, ParseNicNameError> {
        if text.is_empty() {
            return Err(ParseNicNameError::Empty);
        }
        if text.len() > MAX_NIC_NAME_BYTES {
            return Err(ParseNicNameError::TooLong { bytes: text.len() });
        }
        if text.chars().any(char::is_control) {
            return Err(ParseNicNameError::ControlCharacter);
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NicName {
    type Err = ParseNicNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Debug for NicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nic({})", self.0)
    }
}

impl fmt::Display for NicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for NicName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Why a text is no NIC name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseNicNameError {
    /// The text is empty.
    #[error("a NIC name is empty")]
    Empty,
    /// The text is longer than [`MAX_NIC_NAME_BYTES`].
    #[error("a NIC name has {bytes} bytes, at most {MAX_NIC_NAME_BYTES} are allowed")]
    TooLong {
        /// Length of the text in bytes.
        bytes: usize,
    },
    /// The text holds a control character.
    #[error("a NIC name holds a control character")]
    ControlCharacter,
}

/// The position of a NIC in one process's own list. It never goes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NicIndex(u16);

impl NicIndex {
    /// The index of the NIC at `position`; `None` above 65535.
    pub fn new(position: usize) -> Option<Self> {
        u16::try_from(position).ok().map(Self)
    }

    /// The position in the list.
    pub const fn position(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for NicIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nic#{}", self.0)
    }
}

/// What a NIC's port speaks below the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum LinkLayer {
    /// InfiniBand: peers are found by their LID.
    InfiniBand,
    /// Ethernet: peers are found by their GID.
    Ethernet,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nic_names_are_checked_and_kept() {
        assert_eq!(NicName::parse("mlx5_0").unwrap().as_str(), "mlx5_0");
        assert_eq!(NicName::parse(""), Err(ParseNicNameError::Empty));
        assert_eq!(NicName::parse("a\nb"), Err(ParseNicNameError::ControlCharacter));
        assert_eq!(
            NicName::parse(&"x".repeat(256)),
            Err(ParseNicNameError::TooLong { bytes: 256 })
        );
        assert!(NicName::parse(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn nic_index_prints_its_kind_and_is_bounded() {
        assert_eq!(format!("{:?}", NicIndex::new(2).unwrap()), "nic#2");
        assert_eq!(NicIndex::new(65_536), None);
    }
}
