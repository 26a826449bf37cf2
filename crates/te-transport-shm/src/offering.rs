//! Our buffers as others see them, and what waits for others to let go.
//!
//! I1  A buffer that others may touch is kept from being unregistered by a hold of ours, until
//!     none of them holds it.
//! I2  An initiator is on the list before it is told of the guard table, so no hold is overlooked.
//! I3  A hold counts while the process that put it lives, and no longer.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use te_metadata::{BufferHandle, sabotage};
use te_segment::{BufferHold, BufferId, LocalBuffer, RemoteAccess};
use te_sync::Mutex;

use crate::server::Guest;
use crate::table::GuardTable;

/// Holds that nobody lets go of any more. They are named here, and not forgotten, so that whoever
/// looks for memory that got lost finds none.
static KEPT: Mutex<Vec<BufferHold>> = Mutex::new(Vec::new());

/// See the module.
pub(crate) struct Offering {
    table: GuardTable,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<BufferHandle, BufferHold>,
    /// How many of them are not lent.
    private: usize,
    /// Closed to new holds; somebody still has one.
    closing: Vec<(BufferId, BufferHold)>,
    guests: Vec<Arc<Guest>>,
    shut: bool,
}

impl State {
    fn is_held(&self, buffer: BufferId) -> bool {
        let slot = buffer.slot();
        self.guests.iter().any(|guest| guest.holds.names(slot) && !guest.is_dead())
            && !sabotage::is_off("shared-holds")
    }
}

impl Offering {
    pub(crate) fn new(table: GuardTable) -> Self {
        Self { table, state: Mutex::default() }
    }

    pub(crate) fn table(&self) -> &GuardTable {
        &self.table
    }

    /// Offers a buffer, unless it is for local use only.
    pub(crate) fn open(&self, buffer: &Arc<LocalBuffer>) {
        let remote = buffer.options().remote;
        if remote == RemoteAccess::None {
            return;
        }
        let region = buffer.region();
        let Ok(hold) = Arc::clone(buffer).keep(region.address(), region.len()) else { return };
        let mut state = self.state.lock();
        let lent = buffer.region().shared().is_some();
        if !state.shut && self.table.open(buffer.id(), remote, lent) {
            state.open.insert(buffer.id().into(), hold);
            state.private += usize::from(!lent);
            self.table.set_private(state.private);
        }
    }

    /// A buffer that is offered now.
    pub(crate) fn find(&self, buffer: BufferHandle) -> Option<Arc<LocalBuffer>> {
        self.state.lock().open.get(&buffer).map(|hold| Arc::clone(hold.buffer()))
    }

    /// Takes a buffer back. Says whether somebody still holds it: [`Offering::settle`] lets go of
    /// it later then.
    pub(crate) fn close(&self, buffer: BufferId) -> bool {
        let mut state = self.state.lock();
        self.table.close(buffer);
        let Some(hold) = state.open.remove(&buffer.into()) else { return false };
        state.private -= usize::from(hold.buffer().region().shared().is_none());
        self.table.set_private(state.private);
        let is_held = state.is_held(buffer);
        if is_held {
            state.closing.push((buffer, hold));
        }
        is_held
    }

    /// Lets go of what nobody holds any more. Gives how many buffers are still held.
    pub(crate) fn settle(&self) -> usize {
        let mut state = self.state.lock();
        let closing = std::mem::take(&mut state.closing);
        let (held, _free): (Vec<_>, Vec<_>) =
            closing.into_iter().partition(|(buffer, _)| state.is_held(*buffer));
        state.closing = held;
        state.closing.len()
    }

    /// Takes every buffer back, for good.
    pub(crate) fn shut(&self) {
        let mut state = self.state.lock();
        state.shut = true;
        self.table.shut();
        for hold in std::mem::take(&mut state.open).into_values() {
            let buffer = hold.buffer().id();
            self.table.close(buffer);
            state.closing.push((buffer, hold));
        }
    }

    /// Keeps what is held now for good: whoever holds it may go on copying, so its memory must not
    /// be used for anything else.
    pub(crate) fn keep_for_good(&self) {
        let closing = std::mem::take(&mut self.state.lock().closing);
        KEPT.lock().extend(closing.into_iter().map(|(_, hold)| hold));
    }

    pub(crate) fn add_guest(&self, guest: Arc<Guest>) {
        self.state.lock().guests.push(guest);
    }

    /// Forgets the initiators that are gone: dead, or without a hold after they hung up.
    pub(crate) fn remove_guests(&self, is_gone: impl Fn(&Guest) -> bool) {
        self.state.lock().guests.retain(|guest| !is_gone(guest));
    }

    pub(crate) fn guests(&self) -> Vec<Arc<Guest>> {
        self.state.lock().guests.clone()
    }
}

impl fmt::Debug for Offering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Offering")
            .field("open", &state.open.len())
            .field("closing", &state.closing.len())
            .field("guests", &state.guests.len())
            .finish()
    }
}

#[cfg(test)]
mod tests;
