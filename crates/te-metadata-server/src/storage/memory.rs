//! Keeps nothing: the catalog itself is the memory.

use crate::storage::{Changes, Loaded, Storage, StorageError};

/// A server without a data file.
#[derive(Debug, Default)]
pub(crate) struct Memory;

impl Storage for Memory {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        Ok(Loaded::default())
    }

    fn commit(&mut self, _changes: &Changes) -> Result<(), StorageError> {
        Ok(())
    }
}
