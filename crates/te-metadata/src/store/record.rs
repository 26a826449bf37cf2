//! What stores are asked and answer.

use std::fmt;
use std::time::Duration;

use crate::Incarnation;

/// What stands at a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The value.
    pub value: Vec<u8>,
    /// Which version of it.
    pub revision: Revision,
}

impl Record {
    /// Whether the record belongs to `owner`: it names it. The text is 128 random bits in hex, so
    /// that nobody has it in a value by chance.
    pub fn belongs_to(&self, owner: Incarnation) -> bool {
        names_owner(&self.value, owner)
    }
}

/// Whether the text of `owner` stands in `value`.
pub(crate) fn names_owner(value: &[u8], owner: Incarnation) -> bool {
    let text = owner.to_string();
    value.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A version of a key's value, in the words of the service that gave it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Revision(Box<str>);

impl Revision {
    /// The version that a service calls so.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// As the service calls it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision({})", self.0)
    }
}

/// The life that records are given: they end when their owner has not renewed it in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Whose records they are.
    pub owner: Incarnation,
    /// How long they live after they were put or renewed. Services may round up to whole seconds.
    pub ttl: Duration,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The record stands, in this version.
    Held(Revision),
    /// The record of another stands there.
    Taken(Record),
}

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Its records live on; single ones may still be gone.
    Kept,
    /// It had ended, and its records with it.
    Lost,
}

/// What became of a record that was to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It was removed.
    Removed,
    /// Nothing stood there.
    Absent,
    /// The record of another stands there, and still does.
    Foreign,
}

/// What a service can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Claims and releases are one step: nobody can put in between.
    pub ownership: bool,
    /// Records end with their lease.
    pub expiry: bool,
    /// It can list keys.
    pub list: bool,
    /// It can tell what changes.
    pub watch: bool,
}

/// A key that is in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// The key.
    pub key: String,
    /// The version of its value; `None` where the service would have to read the value for it.
    pub revision: Option<Revision>,
    /// Length of its value in bytes, where the service tells it.
    pub bytes: Option<u64>,
}

/// A key that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// What happened to it.
    pub kind: ChangeKind,
}

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It has a value, old or new.
    Put,
    /// It is gone.
    Removed,
}

/// What a watch saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The changes, oldest first.
    pub changes: Vec<Change>,
    /// Changes were missed: whoever keeps a picture of the keys lists them anew.
    pub is_reset: bool,
}
