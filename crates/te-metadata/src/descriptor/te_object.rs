//! The object `te` of a descriptor: what our own engines say to each other.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

/// The version of the object that this crate writes.
pub const TE_OBJECT_VERSION: u32 = 1;

/// What one of our engines says to others of its kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TeObject {
    /// Optional abilities, by name. Unknown ones are kept and ignored.
    pub extensions: BTreeMap<String, Value>,
    /// Which run of the process this is.
    pub incarnation: Incarnation,
    /// What each transport says, by its name. Each transport owns its part.
    pub transports: BTreeMap<String, Value>,
    /// Version of this object, from 1.
    pub version: u32,
}

impl TeObject {
    /// An object of the current version without parts.
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            extensions: BTreeMap::new(),
            incarnation,
            transports: BTreeMap::new(),
            version: TE_OBJECT_VERSION,
        }
    }
}

/// One run of a process: drawn at random at its start, so that a descriptor of a dead process is
/// never taken for one of its successor.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(u128);

impl Incarnation {
    /// A fresh one.
    ///
    /// # Panics
    /// When the system has no source of randomness, which no supported system lacks.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        Self(u128::from_le_bytes(bytes))
    }

    /// The one with this number.
    pub const fn from_u128(number: u128) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl FromStr for Incarnation {
    type Err = ParseIncarnationError;

    /// Reads exactly 32 hex digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(Self).ok_or(ParseIncarnationError)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "incarnation({:08x}..)", self.0 >> 96)
    }
}

impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The text is not 32 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("an incarnation is 32 hex digits")]
pub struct ParseIncarnationError;
