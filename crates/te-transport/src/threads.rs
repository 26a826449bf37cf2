//! Counts the threads of a transport, so that closing can wait for them with a bound.

use std::sync::Arc;
use std::time::Instant;

use te_sync::{Condvar, Mutex};

/// The threads of one transport.
#[derive(Debug, Default)]
pub struct Threads {
    alive: Mutex<usize>,
    ended: Condvar,
}

impl Threads {
    /// Starts a named thread that is counted until it ends, also by a panic.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        *self.alive.lock() += 1;
        let counted = Counted(Arc::clone(self));
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _counted = counted;
            body();
        })?;
        Ok(())
    }

    /// Waits until none is left; whether that was so by the deadline.
    pub fn wait_until_none(&self, deadline: Instant) -> bool {
        let mut alive = self.alive.lock();
        self.ended.wait_while_until(&mut alive, |n| *n > 0, deadline);
        *alive == 0
    }
}

struct Counted(Arc<Threads>);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.alive.lock() -= 1;
        self.0.ended.notify_all();
    }
}
