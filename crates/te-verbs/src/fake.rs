//! A fabric inside this process: hosts, devices and their faults.
//!
//! ```text
//!   Fake ──host("a")──▶ FakeHost (a Verbs)      Fake ──nic("a", "rxe0")──▶ FakeNic (its faults)
//! ```
//!
//! By itself every request is carried out, and completed, inside the call that posts it. Whoever
//! holds traffic or completions gets them back step by step, in an order that the seed decides and
//! that keeps the order of each queue pair. There is no clock and no thread: what waits, waits for
//! a call. Waiting on descriptors works as with the system.
//!
//! I1  One lock; nothing waits under it but the moving of INIT to RTR, which gives it up.
//! I2  Without faults, posting and polling allocate nothing.

mod completion;
mod control;
mod device;
mod moving;
mod pair;
mod queue;
mod signal;
mod spec;
mod state;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use te_topology::NicName;

pub use self::control::FakeNic;
pub use self::device::FakeHost;
pub use self::spec::{FakeDevice, FakePort};
pub use self::state::Timers;
use self::state::{Nic, State};

/// A fabric. A cheap handle: clones name the same fabric.
#[derive(Debug, Clone)]
pub struct Fake {
    fabric: Arc<Fabric>,
}

#[derive(Debug)]
pub(crate) struct Fabric {
    state: Mutex<State>,
    changed: Condvar,
}

impl Fabric {
    /// A panic of a test's thread leaves nothing half done that others could not stand.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while addresses may not be looked for.
    fn wait_for_routes<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.routing += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_while(state, |state| state.routes_held);
        state = waited.unwrap_or_else(PoisonError::into_inner);
        state.routing -= 1;
        state
    }

    /// Waits until an address is there, as long as it is looked for.
    fn wait_for_address<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        is_there: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let limit = state.resolve_limit;
        state.routing += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, limit, |state| !is_there(state));
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.routing -= 1;
        state
    }
}

impl Fake {
    /// An empty fabric. Two with the same seed do the same.
    pub fn new(seed: u64) -> Self {
        let state = Mutex::new(State::new(seed));
        Self { fabric: Arc::new(Fabric { state, changed: Condvar::new() }) }
    }

    /// Adds a device to a host.
    pub fn add(&self, host: &str, device: FakeDevice) -> FakeNic {
        let mut state = self.fabric.lock();
        state.nics.push(Nic::new(host, device));
        state.epoch += 1;
        let index = state.nics.len() - 1;
        drop(state);
        self.fabric.changed.notify_all();
        FakeNic::new(&self.fabric, index)
    }

    /// The devices of a host. A host without devices has an empty list.
    pub fn host(&self, name: &str) -> Arc<FakeHost> {
        Arc::new(FakeHost { fabric: Arc::clone(&self.fabric), name: name.into() })
    }

    /// A device that was added, to change it and to make it fail.
    pub fn nic(&self, host: &str, name: &NicName) -> Option<FakeNic> {
        let state = self.fabric.lock();
        let mut nics = state.nics.iter();
        let index = nics.position(|nic| *nic.host == *host && nic.spec.name == *name)?;
        Some(FakeNic::new(&self.fabric, index))
    }

    /// When timers for acknowledgements run out. [`Timers::AtOnce`] where it was never set.
    pub fn set_timers(&self, timers: Timers) {
        let mut state = self.fabric.lock();
        state.timers = timers;
        state.run_all();
    }

    /// Whether payload is copied, as it is where this was never set. Without, requests are checked
    /// and completed, and the bytes stay where they are: for measuring everything else.
    pub fn set_copies(&self, copies: bool) {
        self.fabric.lock().copies = copies;
    }

    /// From now on nothing that is posted is carried out, until [`Fake::step`] or [`Fake::release`].
    pub fn hold_traffic(&self) {
        self.fabric.lock().traffic_held = true;
    }

    /// From now on completions are not shown, until [`Fake::step`] or [`Fake::release`]. Those of
    /// flushed requests neither.
    pub fn hold_completions(&self) {
        self.fabric.lock().completions_held = true;
    }

    /// Carries out one request, or shows one completion, of a queue pair that the seed picks; false
    /// where there was nothing to do.
    pub fn step(&self) -> bool {
        self.fabric.lock().step()
    }

    /// Holds nothing back any more, and carries out and shows what was held.
    pub fn release(&self) {
        let mut state = self.fabric.lock();
        while state.step() {}
        state.traffic_held = false;
        state.completions_held = false;
        state.run_all();
    }

    /// The timer of every request that waits for an answer runs out. Where tries are endless, it
    /// waits on.
    pub fn expire(&self) {
        let mut state = self.fabric.lock();
        for slot in 0..state.pairs.len() {
            if state.pairs[slot].is_some() && !state.step_pair(slot) {
                state.expire_pair(slot);
            }
        }
        state.run_all();
    }

    /// How long a call INIT to RTR looks for an address that nobody has, before it answers
    /// `ETIMEDOUT`. No time where this was never set.
    pub fn set_resolve_limit(&self, limit: Duration) {
        self.fabric.lock().resolve_limit = limit;
    }

    /// Calls INIT to RTR wait, until this is taken back.
    pub fn hold_routes(&self, held: bool) {
        self.fabric.lock().routes_held = held;
        self.fabric.changed.notify_all();
    }

    /// Waits until so many calls wait in INIT to RTR; false where they did not in time.
    pub fn wait_for_routing(&self, calls: usize, limit: Duration) -> bool {
        let state = self.fabric.lock();
        let is_fewer = |state: &mut State| state.routing < calls;
        let waited = self.fabric.changed.wait_timeout_while(state, limit, is_fewer);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Queue pairs that exist, of all devices.
    pub fn queue_pairs(&self) -> usize {
        self.fabric.lock().pairs.iter().flatten().count()
    }
}

#[cfg(test)]
mod tests;
