//! Threads of callers that run the transports' steps: those that wait, and those that poll.
//!
//! I1  A caller drives the transports that have slices of its batch; with several of them it stays
//!     with each for a bounded time only.
//! I2  No transport is driven from within its own report.

use std::time::{Duration, Instant};

use te_transport::Driven;

use super::Classic;
use super::landing::is_reporting;
use super::paths::{Via, Vias};
use crate::batch::Batch;

/// How long a caller stays with one of several transports, at first and at most.
const SHARE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(1));

impl Classic {
    /// See [`crate::data_path::DataPath::drive`].
    pub(super) fn drive_for(&self, batch: &Batch, until: Instant) -> Driven {
        if let [only] = &*self.transports {
            return only.drive(until);
        }
        let (vias, slices) = batch.on_way();
        let mut several = vias.iter();
        match (several.next(), several.next()) {
            // What it waits for is behind slices of others, or not with a transport at all.
            (None, _) => self.drive_all(self.slices.vias(), until),
            (Some(one), None) => self.transports[one.place()].drive(until),
            _ => self.alternate(batch, slices, until),
        }
    }

    /// Drives several transports in turn until a slice of the batch came back or `until` came.
    fn alternate(&self, batch: &Batch, slices: u32, until: Instant) -> Driven {
        let mut share = SHARE.0;
        loop {
            let now = self.shared.clock.now();
            let (vias, left) = batch.on_way();
            if left != slices || now >= until {
                return Driven::Ran;
            }
            if self.drive_all(vias, until.min(now + share)) == Driven::Busy {
                return Driven::Busy;
            }
            share = (share * 2).min(SHARE.1);
        }
    }

    /// Drives each of some transports once, together until `until`.
    fn drive_all(&self, vias: Vias, until: Instant) -> Driven {
        let now = self.shared.clock.now();
        let count = u32::try_from(vias.iter().count()).unwrap_or(1).max(1);
        let each = until.saturating_duration_since(now) / count;
        let ends = (1..).map(|n| until.min(now + each * n));
        let drive = |(via, end): (Via, Instant)| self.transports[via.place()].drive(end);
        let ran = vias.iter().zip(ends).map(drive).filter(|driven| *driven == Driven::Ran).count();
        if ran > 0 { Driven::Ran } else { Driven::Busy }
    }

    /// See [`crate::data_path::DataPath::poll`].
    pub(super) fn poll_for(&self, batch: &Batch) {
        let now = self.shared.clock.now();
        if is_reporting() || !batch.is_polled(now) {
            return;
        }
        let vias = if self.transports.len() == 1 {
            Via::all().take(1).collect()
        } else {
            batch.on_way().0
        };
        for via in vias.iter() {
            self.transports[via.place()].drive(now);
        }
    }
}
