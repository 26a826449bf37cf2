//! Where changes are kept: in a file, or nowhere.

mod disk;
mod memory;
mod record;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::catalog::Record;

pub(crate) use disk::Disk;
pub(crate) use memory::Memory;

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is now this.
    Put { key: Arc<str>, record: Record },
    /// It is gone.
    Delete { key: Arc<str> },
}

/// Changes that become durable together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The catalog's revision after them.
    pub(crate) revision: u64,
    /// In the order in which they were made.
    pub(crate) list: Vec<Change>,
}

/// Everything that is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// The last revision; none in a store that was never written.
    pub(crate) revision: Option<u64>,
    /// Keys with their records.
    pub(crate) records: Vec<(String, Record)>,
}

/// Keeps changes. After a failed commit the caller loads anew and goes on from there.
pub(crate) trait Storage: fmt::Debug + Send {
    /// Reads everything, from the bottom up: what a failure left open is opened again.
    fn load(&mut self) -> Result<Loaded, StorageError>;
    /// Keeps all of `changes`, or none. When it returns they survive the end of the process and
    /// of the machine.
    fn commit(&mut self, changes: &Changes) -> Result<(), StorageError>;
}

/// The data file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// Another server uses the file, or this one a second time.
    #[error("another server uses it")]
    InUse,
    /// The file is of a later version, or none of ours. It is left as it is.
    #[error("not a data file of this program: {what}")]
    Foreign {
        /// What is not as it should be.
        what: String,
    },
    /// The operating system or the data base refused.
    #[error("cannot {action} it")]
    Io {
        /// What was being done.
        action: &'static str,
        /// Why it did not work.
        #[source]
        source: Box<redb::Error>,
    },
}
