//! A store in the memory of this process.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::{MetadataStore, StoreError};

/// A store in this process: for tests and for engines that live in one process. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    values: Arc<RwLock<HashMap<String, Vec<u8>>>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.values.read().len()
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MetadataStore for MemoryStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.values.read().get(key).cloned())
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.values.write().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.values.write().remove(key);
        Ok(())
    }

    fn uri(&self) -> String {
        "memory".to_owned()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("n_keys", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_store_keeps_the_contract() {
        super::super::check_store(&MemoryStore::new());
    }

    #[test]
    fn clones_share_their_keys() {
        let store = MemoryStore::new();
        store.clone().put("key", b"value").unwrap();
        assert_eq!((store.len(), store.is_empty()), (1, false));
        assert_eq!(format!("{store:?}"), "MemoryStore { n_keys: 1 }");
    }
}
