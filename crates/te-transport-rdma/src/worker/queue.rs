//! The completion queue of a worker that fails, and another in its place.
//!
//! I1  Whatever says that the queue failed ends every link: their queue pairs report to it, and nothing
//!     of it can be trusted any more.
//! I2  No link has queue pairs that report to another queue than ours.

use std::sync::Arc;
use std::time::Instant;

use te_transport::{FaultClass, Phase, SliceFault};
use te_verbs::QueuePair;

use super::Worker;

impl Worker {
    /// The completion queue failed.
    pub(super) fn break_queue(&mut self, now: Instant, text: &str) {
        tracing::warn!(nic = self.name.as_str(), text, "the completion queue failed");
        self.broken = true;
        let why = SliceFault::new(FaultClass::Rail, Phase::Payload, text);
        self.each_link(|worker, slot| worker.retire(now, slot, &why));
        self.watch(now);
    }

    /// Makes another completion queue in the place of one that failed, once nothing is posted.
    pub(super) fn renew_queue(&mut self) {
        if !self.broken || self.posted > 0 {
            return;
        }
        let nic = self.common.nics.nic(self.nic);
        let Some(device) = nic.and_then(|nic| nic.device()) else { return };
        let entries = u32::try_from(self.queue_room).unwrap_or(u32::MAX);
        match device.completion_queue(entries) {
            Ok(queue) => {
                self.queue = Arc::clone(&queue);
                *self.told_queue.lock() = queue;
                self.broken = false;
            }
            Err(error) => tracing::debug!(%error, "no new completion queue"),
        }
    }

    /// Whether queue pairs report to our queue: they may have been made before it was replaced.
    pub(super) fn reports_here(&self, pairs: &[Arc<dyn QueuePair>]) -> bool {
        !self.broken && pairs.iter().all(|pair| Arc::ptr_eq(pair.queue(), &self.queue))
    }
}
