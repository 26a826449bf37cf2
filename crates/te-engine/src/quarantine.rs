//! Local memory whose task has ended while a transport still holds a slice of it.
//!
//! I1  What is in quarantine stays registered and mapped: unregistering answers Busy.
//! I2  It leaves quarantine when its last slice comes back, and only then.
//! I3  What is left when the engine ends is kept on purpose, and counted in the close report.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use te_sync::{Condvar, Mutex};

use crate::task::Work;

/// Knows what is in quarantine.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    held: Mutex<Ranges>,
    emptied: Condvar,
}

/// Local memory of tasks.
#[derive(Debug, Default)]
struct Ranges {
    bytes: u64,
    /// By address and length: of how many tasks it is. Ranges may overlap.
    counts: BTreeMap<(u64, u64), usize>,
}

impl Ranges {
    fn add(&mut self, work: &Work) {
        self.bytes += work.local.len();
        *self.counts.entry(key(work)).or_default() += 1;
    }

    fn remove(&mut self, work: &Work) {
        self.bytes -= work.local.len();
        if let Entry::Occupied(mut count) = self.counts.entry(key(work)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn key(work: &Work) -> (u64, u64) {
    (work.local.address(), work.local.len())
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
        self.held.lock().add(&work);
        Arc::new(Held { work, ward: Arc::clone(self) })
    }

    /// Bytes in quarantine now.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.lock().bytes
    }

    /// Whether some of these bytes are in quarantine.
    pub(crate) fn uses(&self, bytes: &Range<u64>) -> bool {
        let held = self.held.lock();
        let mut below = held.counts.range(..(bytes.end, 0)).map(|(range, _)| *range);
        below.any(|(start, len)| bytes.start < start.saturating_add(len))
    }

    /// Waits until nothing is in quarantine, at most `patience`; says whether that was reached.
    pub(crate) fn wait_empty(&self, patience: Duration) -> bool {
        let mut held = self.held.lock();
        self.emptied.wait_while_for(&mut held, |held| held.bytes > 0, patience);
        held.bytes == 0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.ward.held.lock();
        held.remove(&self.work);
        if held.bytes == 0 {
            self.ward.emptied.notify_all();
        }
    }
}
