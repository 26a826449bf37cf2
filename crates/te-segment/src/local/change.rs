//! Changes in two steps: reserve and commit, retire and finish.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::LocalSegment;
use super::buffer::{Change, LocalBuffer};
use crate::error::UnregisterError;

/// Ranges that are taken but not open yet. Dropped without [`Reservation::commit`] it gives them
/// back, so that a retry can succeed (J44).
pub struct Reservation<'a> {
    segment: &'a LocalSegment,
    buffers: Vec<Arc<LocalBuffer>>,
    /// Addresses that this reservation put into the table.
    fresh: BTreeSet<u64>,
    settled: bool,
    /// One for each buffer that is new.
    changes: Vec<Change>,
}

impl<'a> Reservation<'a> {
    pub(super) fn new(
        segment: &'a LocalSegment,
        buffers: Vec<Arc<LocalBuffer>>,
        fresh: BTreeSet<u64>,
    ) -> Self {
        let mut new = Self { segment, buffers, fresh, settled: false, changes: Vec::new() };
        new.changes = new.fresh().map(Change::new).collect();
        new
    }

    /// The buffers, in the order asked for.
    pub fn buffers(&self) -> &[Arc<LocalBuffer>] {
        &self.buffers
    }

    /// Those that are new, not duplicates of an open buffer: transports must be asked about them.
    pub fn fresh(&self) -> impl Iterator<Item = &Arc<LocalBuffer>> {
        self.buffers.iter().filter(|b| self.fresh.contains(&b.region().address()))
    }

    /// Opens the buffers.
    pub fn commit(mut self) {
        self.segment.table.write().open(&self.fresh);
        self.settled = true;
    }

    /// Gives the ranges back, as dropping does, and hands over the duplicates whose other owners
    /// unregistered meanwhile: nobody wants those any more, so transports must let go of them as in
    /// an unregister. Almost always empty.
    #[must_use = "these buffers wait to be unregistered"]
    pub fn roll_back(mut self) -> Vec<Retiring<'a>> {
        self.give_back()
    }

    fn give_back(&mut self) -> Vec<Retiring<'a>> {
        self.settled = true;
        let mut orphans = Vec::new();
        let mut table = self.segment.table.write();
        for buffer in &self.buffers {
            let address = buffer.region().address();
            if self.fresh.contains(&address) {
                table.remove(buffer);
            } else if table.holds(buffer)
                && let Some(buffer) = table.give_back(address)
            {
                orphans.push(Retiring::new(self.segment, buffer));
            }
        }
        orphans
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        for orphan in self.give_back() {
            // One that is still in use stays closed, as after a Busy unregister.
            let _ = orphan.finish(Duration::ZERO);
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({:?})", self.buffers)
    }
}

/// A buffer on its way out: no new guard, waiting for the last one.
#[derive(Debug)]
pub struct Retiring<'a> {
    segment: &'a LocalSegment,
    buffer: Arc<LocalBuffer>,
    _change: Change,
}

impl<'a> Retiring<'a> {
    pub(super) fn new(segment: &'a LocalSegment, buffer: Arc<LocalBuffer>) -> Self {
        let change = Change::new(&buffer);
        Self { segment, buffer, _change: change }
    }

    /// The buffer.
    pub fn buffer(&self) -> &Arc<LocalBuffer> {
        &self.buffer
    }

    /// Waits until no guard is held, at most `patience`, and removes the buffer.
    ///
    /// # Errors
    /// [`UnregisterError::Busy`]: the buffer stays, closed to new work; call
    /// [`LocalSegment::retire`] again. [`UnregisterError::NotRegistered`]: another caller that
    /// unregistered the same buffer was faster.
    pub fn finish(self, patience: Duration) -> Result<(), UnregisterError> {
        let address = self.buffer.region().address();
        self.buffer
            .wait_idle(patience)
            .map_err(|in_flight| UnregisterError::Busy { address, in_flight })?;
        if self.segment.table.write().remove(&self.buffer) {
            Ok(())
        } else {
            Err(UnregisterError::NotRegistered { address })
        }
    }
}
