//! Calling off every exchange of a client, from another thread.
//!
//! An exchange never blocks in a call on its socket: it sleeps in a poll of its own, which its
//! socket, its look-up and [`Interrupt::fire`] wake.
//!
//! I1  What has fired stays fired: a sleeper of later does not sleep.
//! I2  Firing wakes each sleeper there is, because a sleeper is listed under the lock that firing
//!     takes before it looks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use te_sync::Mutex;

use crate::sabotage;

/// Ends the sleep of everybody who asks it for a sleeper.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fired: bool,
    sleepers: Slab<Arc<Waker>>,
}

impl Interrupt {
    /// Wakes all sleepers, for good.
    pub(super) fn fire(&self) {
        if sabotage::is_off("close-interrupts") {
            return;
        }
        let mut state = self.state.lock();
        state.fired = true;
        for (_, sleeper) in &state.sleepers {
            // Only a full counter could refuse, and that has woken the sleeper.
            drop(sleeper.wake());
        }
    }

    pub(super) fn has_fired(&self) -> bool {
        self.state.lock().fired
    }

    /// A place to sleep; costs two file descriptors while it lives.
    pub(super) fn sleeper(&self) -> io::Result<Sleeper<'_>> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WOKEN)?);
        let key = self.state.lock().sleepers.insert(Arc::clone(&waker));
        Ok(Sleeper { interrupt: self, key, poll, events: Events::with_capacity(4), waker })
    }
}

/// Where one exchange waits.
#[derive(Debug)]
pub(super) struct Sleeper<'a> {
    interrupt: &'a Interrupt,
    key: usize,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
}

impl Sleeper<'_> {
    /// Wakes from now on when bytes can be moved through `source`.
    pub(super) fn watch(&self, source: &mut impl Source) -> io::Result<()> {
        self.poll.registry().register(source, MOVED, Interest::READABLE | Interest::WRITABLE)
    }

    /// What wakes this sleeper.
    pub(super) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.has_fired()
    }

    /// Sleeps until woken, at most `limit`; may wake for nothing.
    pub(super) fn sleep(&mut self, limit: Duration) -> io::Result<()> {
        if self.is_interrupted() {
            return Ok(());
        }
        match self.poll.poll(&mut self.events, Some(limit)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            slept => slept,
        }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.interrupt.state.lock().sleepers.remove(self.key);
    }
}

const WOKEN: Token = Token(0);
const MOVED: Token = Token(1);

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn firing_wakes_who_sleeps_and_who_would() {
        let interrupt = Interrupt::default();
        let begun = crate::peer::deadline::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut sleeper = interrupt.sleeper().unwrap();
                scope.spawn(move || {
                    while !sleeper.is_interrupted() {
                        sleeper.sleep(LONG).unwrap();
                    }
                });
            }
            interrupt.fire();
        });
        interrupt.sleeper().unwrap().sleep(LONG).unwrap();
        assert!(begun.elapsed() < LONG / 2);
        assert!(interrupt.state.lock().sleepers.is_empty(), "a sleeper is still listed");
    }

    #[test]
    fn a_sleeper_sleeps_for_its_limit() {
        let interrupt = Interrupt::default();
        let begun = crate::peer::deadline::now();
        interrupt.sleeper().unwrap().sleep(Duration::from_millis(20)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
}
