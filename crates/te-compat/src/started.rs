//! Batches of the calls that begin a transfer and ask for it later (A159–A161).

use std::collections::HashMap;

use te_engine::BatchId;
use te_sync::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Started {
    batches: Mutex<HashMap<BatchId, Entry>>,
}

/// What is kept of such a batch.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Whom it goes to.
    pub(crate) host: Box<str>,
    /// Whether it was told that its time ran out.
    pub(crate) is_told: bool,
}

impl Started {
    pub(crate) fn add(&self, id: BatchId, host: &str) {
        self.batches.lock().insert(id, Entry { host: host.into(), is_told: false });
    }

    pub(crate) fn host(&self, id: BatchId) -> Option<Box<str>> {
        self.batches.lock().get(&id).map(|entry| entry.host.clone())
    }

    /// Says whether it was told before, and notes that it is now.
    pub(crate) fn tell(&self, id: BatchId) -> bool {
        let mut batches = self.batches.lock();
        batches.get_mut(&id).is_none_or(|entry| std::mem::replace(&mut entry.is_told, true))
    }

    pub(crate) fn remove(&self, id: BatchId) {
        self.batches.lock().remove(&id);
    }
}
