//! When the engine's timer thread looks next.

use std::time::Instant;

use te_sync::{Condvar, Mutex};

#[derive(Debug, Default)]
struct State {
    next: Option<Instant>,
    closed: bool,
}

/// A settable alarm; setting it later than it stands changes nothing.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    state: Mutex<State>,
    moved: Condvar,
}

impl Alarm {
    /// Rings at `at` or earlier.
    pub(crate) fn at(&self, at: Instant) {
        let mut state = self.state.lock();
        if state.next.is_none_or(|next| at < next) {
            state.next = Some(at);
            self.moved.notify_one();
        }
    }

    /// Waits until the alarm rings, and clears it. `false` once it is closed.
    pub(crate) fn wait(&self, now: impl Fn() -> Instant) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return false;
            }
            match state.next {
                Some(at) if at <= now() => break,
                Some(at) => drop(self.moved.wait_until(&mut state, at)),
                None => self.moved.wait(&mut state),
            }
        }
        state.next = None;
        true
    }

    /// Ends the waiting for good.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.moved.notify_all();
    }
}
