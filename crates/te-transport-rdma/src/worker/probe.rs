//! Whether peers are there of which nothing is heard.
//!
//! A peer that dies without a word leaves its connections behind, and with one-sided transfers nobody
//! on this side would notice. A write of no bytes touches no memory and needs no key; a connection on which
//! it fails ends as one that broke.

use std::time::{Duration, Instant};

use te_segment::Opcode;
use te_transport::{FaultClass, Phase, SliceFault};
use te_verbs::{Payload, WorkRequest};

use super::Worker;
use super::link::{MAX_RANGES, Request};
use super::post::{NUMBER_MASK, id_of};

impl Worker {
    /// Asks on each connection on which nothing moved for so long.
    pub(super) fn probe(&mut self, now: Instant, idle: Duration) {
        if self.probes {
            self.each_link(|worker, slot| worker.probe_link(now, slot, idle));
        }
    }

    fn probe_link(&mut self, now: Instant, slot: usize, idle: Duration) {
        let Some(link) = self.links.get_mut(slot) else { return };
        let is_idle = link.is_open()
            && link.queue.is_empty()
            && link.lanes.iter().all(|lane| {
                lane.ring.is_empty() && now.saturating_duration_since(lane.progress) >= idle
            });
        // Where there is much to do the next time is early enough.
        if !is_idle || self.posted >= self.queue_room / 2 {
            return;
        }
        let Some(lane) = link.lanes.first_mut() else { return };
        let number = self.next_request & NUMBER_MASK;
        self.next_request += 1;
        let request = WorkRequest {
            id: id_of(slot, 0, number),
            op: Opcode::Write,
            payload: Payload::Inline(&[]),
            remote_address: 0,
            rkey: 0,
            signaled: true,
        };
        let outcome = lane.pair.post(&[request]);
        if let Err(error) = &outcome
            && error.posted == 0
        {
            // What is wrong with the connection its next use shows.
            tracing::debug!(nic = self.name.as_str(), %error, "a write of no bytes is refused");
            self.probes = false;
            return;
        }
        lane.progress = now;
        lane.ring.push_back(Request { number, jobs: [0; MAX_RANGES], n_jobs: 0 });
        self.posted += 1;
        self.watch(now);
        if let Err(error) = outcome {
            let why = SliceFault::new(FaultClass::Rail, Phase::Request, error.to_string());
            self.retire(now, slot, &why);
        }
    }
}
