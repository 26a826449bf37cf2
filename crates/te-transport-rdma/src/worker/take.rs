//! What devices do not give back by themselves.
//!
//! A reset of the queue pair takes it. A device that refuses is asked again: one try may fail by
//! chance. Where it is known to be gone as well, and goes on refusing, the kernel has ended its queue
//! pairs and released their memory, which nobody will tell of: what was posted ends then, in doubt. As
//! long as that is not known nothing of it is told as ended, however long that is (I3 of the worker).

use std::sync::Arc;
use std::time::Instant;

use te_segment::{LocalRange, Opcode};
use te_transport::SliceFault;
use te_verbs::{DeviceEvent, QueuePair, VerbsError};

use super::Worker;
use super::link::{Link, State};

/// What was posted on a device that is gone, for good: not even its end gives the memory back.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pairs: Vec<Arc<dyn QueuePair>>,
    memory: Vec<LocalRange>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        std::mem::forget(std::mem::take(&mut self.pairs));
        std::mem::forget(std::mem::take(&mut self.memory));
    }
}

impl Worker {
    /// Takes what did not come back on a link from the device, as far as that gives it, and lets the
    /// link go where that was everything.
    pub(super) fn take_from_device(&mut self, now: Instant, slot: usize) {
        let Some(why) = self.links.get(slot).and_then(Link::ending).cloned() else { return };
        let mut refused = None;
        for lane in 0..self.links[slot].lanes.len() {
            let here = &self.links[slot].lanes[lane];
            if here.ring.is_empty() {
                continue;
            }
            match here.pair.to_reset() {
                Ok(()) => self.empty(slot, lane, &why),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            self.on_refused(now, slot, (&error, why));
        }
        self.finish_drain(now, slot);
    }

    /// Ends what is posted on a lane: the device does nothing of it any more.
    fn empty(&mut self, slot: usize, lane: usize, why: &SliceFault) {
        while let Some(request) = self.take_first(slot, lane) {
            for key in &request.jobs[..usize::from(request.n_jobs)] {
                if let Some(job) = self.jobs.get_mut(*key as usize) {
                    job.out -= 1;
                    job.in_doubt |= job.slice.op == Opcode::Write;
                    job.fault.get_or_insert_with(|| why.clone());
                }
                self.end_if_over(*key);
            }
        }
    }

    fn on_refused(&mut self, now: Instant, slot: usize, (error, why): (&VerbsError, SliceFault)) {
        let since = match &self.links[slot].state {
            State::Stuck { since, .. } => *since,
            _ => {
                tracing::error!(%error, "a device keeps work requests");
                now
            }
        };
        let limit = self.common.config.work.flush_limit;
        let is_final = now.saturating_duration_since(since) >= limit;
        if is_final && is_of_a_lost_device(error) && self.is_gone() {
            return self.give_up(slot, &why);
        }
        let link = &mut self.links[slot];
        link.state = State::Stuck { since, why };
        if is_final {
            // They have nothing here any more, and would wait for others.
            self.ends.extend(link.doubtful.drain(..));
        }
    }

    /// Ends what was posted on a device that is gone.
    fn give_up(&mut self, slot: usize, why: &SliceFault) {
        tracing::error!(nic = self.name.as_str(), "work requests went with their device");
        for lane in 0..self.links[slot].lanes.len() {
            let here = &self.links[slot].lanes[lane];
            let keys = here.ring.iter().flat_map(|r| &r.jobs[..usize::from(r.n_jobs)]);
            let jobs = keys.filter_map(|key| self.jobs.get(*key as usize));
            self.kept.memory.extend(jobs.map(|job| job.slice.local.clone()));
            self.kept.pairs.push(Arc::clone(&here.pair));
            self.empty(slot, lane, why);
        }
    }

    /// Whether our device is gone for good.
    fn is_gone(&mut self) -> bool {
        // Nobody else listens to it when everything ends.
        self.gone |= self.nics.is_gone(self.nic) || (self.closing && self.hears_of_its_end());
        self.gone
    }

    fn hears_of_its_end(&self) -> bool {
        let Some(device) = self.common.nics.nic(self.nic).and_then(|nic| nic.device()) else {
            return false;
        };
        let mut events = std::iter::from_fn(|| device.next_event().transpose());
        events.any(|event| matches!(event, Ok(DeviceEvent::DeviceFatal) | Err(_)))
    }
}

/// What every call is answered once the kernel has ended what was made of a device.
fn is_of_a_lost_device(error: &VerbsError) -> bool {
    matches!(error.errno, Some(libc::EIO | libc::ENODEV))
}
