//! Tasks that failed before the engine had them: their local memory was not there (peer fault 28).
//!
//! In the engine each is a task of no bytes, so that the positions of the others are right; what a
//! caller is told of it comes from here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use te_engine::BatchId;
use te_sync::Mutex;

use crate::failure::Failure;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// How many batches are in the table. Whoever submitted to a batch sees its entry: the caller
    /// orders the calls on one batch, and the lock orders the rest.
    batches: AtomicUsize,
    table: Mutex<HashMap<BatchId, Vec<(usize, Failure)>>>,
}

impl Refused {
    pub(crate) fn add(&self, batch: BatchId, refused: Vec<(usize, Failure)>) {
        let mut table = self.table.lock();
        table.entry(batch).or_default().extend(refused);
        self.batches.store(table.len(), Ordering::Relaxed);
    }

    /// Why a task of the batch failed here.
    pub(crate) fn task(&self, batch: BatchId, index: usize) -> Option<Failure> {
        self.with(batch, |refused| {
            refused.iter().find(|(at, _)| *at == index).map(|(_, failure)| failure.clone())
        })?
    }

    /// How many tasks of the batch failed here, and why the first did.
    pub(crate) fn of(&self, batch: BatchId) -> Option<(usize, Failure)> {
        self.with(batch, |refused| Some((refused.len(), refused.first()?.1.clone())))?
    }

    /// The batch is no more.
    pub(crate) fn remove(&self, batch: BatchId) {
        if self.batches.load(Ordering::Relaxed) > 0 {
            let mut table = self.table.lock();
            table.remove(&batch);
            self.batches.store(table.len(), Ordering::Relaxed);
        }
    }

    fn with<T>(&self, batch: BatchId, look: impl FnOnce(&[(usize, Failure)]) -> T) -> Option<T> {
        if self.batches.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.table.lock().get(&batch).map(|refused| look(refused))
    }
}
