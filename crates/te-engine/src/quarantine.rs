//! Local memory whose task has ended while a transport still holds a slice of it.
//!
//! I1  What is in quarantine stays registered and mapped: unregistering answers Busy.
//! I2  It leaves quarantine when its last slice comes back, and only then.
//! I3  What is left when the engine ends is kept on purpose, and counted in the close report.

use std::sync::Arc;
use std::time::Duration;

use te_sync::{Condvar, Mutex};

use crate::task::Work;

/// Counts what is in quarantine.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    bytes: Mutex<u64>,
    emptied: Condvar,
}

/// The memory of one task, shared by its slices that are still out.
#[derive(Debug)]
pub(crate) struct Held {
    work: Work,
    ward: Arc<Quarantine>,
}

impl Quarantine {
    /// Takes a task's memory in.
    pub(crate) fn admit(self: &Arc<Self>, work: Work) -> Arc<Held> {
        *self.bytes.lock() += work.local.len();
        Arc::new(Held { work, ward: Arc::clone(self) })
    }

    /// Bytes in quarantine now.
    pub(crate) fn bytes(&self) -> u64 {
        *self.bytes.lock()
    }

    /// Waits until nothing is in quarantine, at most `patience`; says whether that was reached.
    pub(crate) fn wait_empty(&self, patience: Duration) -> bool {
        let mut bytes = self.bytes.lock();
        self.emptied.wait_while_for(&mut bytes, |bytes| *bytes > 0, patience);
        *bytes == 0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut bytes = self.ward.bytes.lock();
        *bytes -= self.work.local.len();
        if *bytes == 0 {
            self.ward.emptied.notify_all();
        }
    }
}
