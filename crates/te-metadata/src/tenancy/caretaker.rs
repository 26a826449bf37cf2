//! The thread that looks after our records.
//!
//! Threads: `te-tenancy` owns the machine's steps and the host; others touch the machine under a
//! lock that is never held over a call to the store.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use te_sync::{Condvar, Mutex};
use thiserror::Error;

use super::carry::carry_out;
use super::{Standing, Tenancy, TenancyHost, TenancyTimes};
use crate::{Lease, MetadataStore};

/// Why a caretaker was not started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaretakerError {
    /// The system gives no thread.
    #[error("no thread for the published records could be started")]
    NoThread(#[source] io::Error),
}

/// Keeps records in a store until it is dropped or leaves.
#[derive(Debug)]
pub struct Caretaker {
    shared: Arc<Shared>,
    process: u32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Debug)]
struct Desk {
    machine: Tenancy,
    /// The host is being told what happened: whoever waits then finds what it was told.
    is_telling: bool,
    /// The thread ends at once.
    is_over: bool,
}

#[expect(clippy::disallowed_methods, reason = "the driver of the machine reads the clock")]
fn now() -> Instant {
    Instant::now()
}

impl Caretaker {
    /// Starts to publish what `host` composes, as `lease.owner` and for as long as
    /// `lease.ttl`, which replaces that of `times`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        store: Arc<dyn MetadataStore>,
        lease: Lease,
        times: TenancyTimes,
        host: Box<dyn TenancyHost>,
    ) -> Result<Self, CaretakerError> {
        let mut machine = Tenancy::new(TenancyTimes { ttl: lease.ttl, ..times });
        machine.touch(now());
        let desk = Mutex::new(Desk { machine, is_telling: false, is_over: false });
        let shared = Arc::new(Shared { desk, changed: Condvar::new() });
        let care = Care { shared: Arc::clone(&shared), store, lease, host };
        let thread = std::thread::Builder::new().name("te-tenancy".to_owned());
        let thread = thread.spawn(move || care.run()).map_err(CaretakerError::NoThread)?;
        Ok(Self { shared, process: std::process::id(), thread: Mutex::new(Some(thread)) })
    }

    /// What the host composes has changed. Costs a lock and no call.
    pub fn touch(&self) {
        if self.is_here() {
            self.shared.desk.lock().machine.touch(now());
            self.shared.changed.notify_all();
        }
    }

    /// What the host composes has changed, and is published. The first change after a quiet time
    /// is published at once and waited for, for at most `timeout`; others follow soon, together.
    pub fn publish(&self, timeout: Duration) -> Standing {
        if !self.is_here() {
            return Standing::Pending;
        }
        let present = now();
        let rounds = {
            let mut desk = self.shared.desk.lock();
            desk.machine.touch(present);
            desk.machine.composes_now(present)
        };
        self.shared.changed.notify_all();
        if let Some(rounds) = rounds {
            self.wait(present + timeout, |machine| {
                let is_stuck = matches!(machine.standing(), Standing::Taken | Standing::Failing);
                is_stuck || machine.stands_since(rounds)
            });
        }
        self.standing()
    }

    /// How the records stand.
    pub fn standing(&self) -> Standing {
        if self.is_here() { self.shared.desk.lock().machine.standing() } else { Standing::Pending }
    }

    /// Whether our records may have ended without our knowing, as after a long pause of the
    /// process; they are then put again, and whoever answers peers had better wait for that.
    pub fn may_have_ended(&self) -> bool {
        self.is_here() && self.shared.desk.lock().machine.may_have_ended(now())
    }

    /// Waits until the records stand as they are now, or cannot: [`Standing::Taken`],
    /// [`Standing::Failing`]. Returns how they stand after `timeout` at the latest.
    pub fn settle(&self, timeout: Duration) -> Standing {
        let deadline = now() + timeout;
        self.wait(deadline, |machine| {
            !matches!(machine.standing(), Standing::Pending | Standing::Outdated)
        });
        self.standing()
    }

    /// Gives everything back for good, for at most `timeout`; what is left then ends by itself where
    /// the service can end records. Returns whether everything was tried.
    pub fn leave(&self, timeout: Duration) -> bool {
        if !self.is_here() {
            return false;
        }
        self.shared.desk.lock().machine.leave();
        self.shared.changed.notify_all();
        let has_left = self.wait(now() + timeout, Tenancy::has_left);
        self.end(has_left);
        has_left
    }

    /// A forked child has neither the thread nor the right to the records.
    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    fn wait(&self, deadline: Instant, is_enough: impl Fn(&Tenancy) -> bool) -> bool {
        if !self.is_here() {
            return false;
        }
        let mut desk = self.shared.desk.lock();
        while (desk.is_telling || !is_enough(&desk.machine)) && !desk.is_over {
            if self.shared.changed.wait_until(&mut desk, deadline).timed_out() {
                break;
            }
        }
        is_enough(&desk.machine)
    }

    /// Ends the thread. One that hangs in a call is not waited for: its calls are bounded, and it
    /// ends after the one it is in.
    fn end(&self, is_idle: bool) {
        if !self.is_here() {
            return;
        }
        self.shared.desk.lock().is_over = true;
        self.shared.changed.notify_all();
        if let (true, Some(thread)) = (is_idle, self.thread.lock().take()) {
            // A panic in it was printed, and its records end by themselves.
            let _ = thread.join();
        }
    }
}

impl Drop for Caretaker {
    /// Stops looking after the records without giving them back.
    fn drop(&mut self) {
        self.end(false);
    }
}

/// What the thread works with.
#[derive(Debug)]
struct Care {
    shared: Arc<Shared>,
    store: Arc<dyn MetadataStore>,
    lease: Lease,
    host: Box<dyn TenancyHost>,
}

impl Care {
    fn run(mut self) {
        while let Some(step) = self.next_step() {
            let answer = carry_out(step, &*self.store, &self.lease, &mut *self.host);
            let handle = |desk: &mut Desk| {
                desk.machine.handle(now(), answer);
                desk.is_telling = true;
            };
            handle(&mut self.shared.desk.lock());
            self.tell();
            self.shared.desk.lock().is_telling = false;
            self.shared.changed.notify_all();
        }
    }

    /// Waits for the next step; `None` when it is over.
    fn next_step(&self) -> Option<super::Step> {
        let mut desk = self.shared.desk.lock();
        loop {
            if desk.is_over {
                return None;
            }
            let present = now();
            if let Some(step) = desk.machine.poll(present) {
                return Some(step);
            }
            match desk.machine.poll_timeout(present) {
                Some(at) => drop(self.shared.changed.wait_until(&mut desk, at)),
                None => self.shared.changed.wait(&mut desk),
            }
        }
    }

    fn tell(&mut self) {
        loop {
            let event = self.shared.desk.lock().machine.take_event();
            let Some(event) = event else { return };
            self.host.event(event);
        }
    }
}
