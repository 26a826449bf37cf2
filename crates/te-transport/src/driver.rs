//! One loop, run by a thread of its own or by a caller that waits for a completion.
//!
//! ```text
//!   thread:  ── lock ── step step step ── a caller claims ── unlock ── look each tick ── lock ──
//!   caller:                                     claim ── lock ── step until something is done ──
//! ```
//!
//! The core is behind one lock, and whoever holds it runs the step; nobody else touches the core.
//! Others push into inboxes and wake. A caller that claims makes the thread leave. The thread comes
//! back when no caller drove for a whole tick, so that a caller who waits again and again pays for
//! no hand-over; what callers leave unfinished stands still for two ticks at most.
//!
//! Whoever runs the loop looks again and again for a bounded time before it sleeps (`spin.rs`), and
//! gives its core away between two looks where the other side seems to run on it. To give it away
//! always would keep both sides on one core: the system moves to another core who is kept waiting.
//!
//! I1  No wake-up is lost: the runner says that it sleeps, then looks at the inbox, then sleeps; a
//!     sender fills the inbox, then looks whether the runner sleeps.
//! I2  At most one caller claims. Others are told [`Driven::Busy`] at once.
//! I3  A panic in a step leaves its thread and the claim as if the step had ended.
//! I4  Without work the thread sleeps without a timeout.
//! I5  A caller that drives looks for news at least once, also when its time is up already.
//! I6  Steps that report, after which callers come out and in again, do not keep the loop from looking
//!     for events: it does so after a few steps at the latest.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use te_sync::{Condvar, Mutex};

use crate::clock::Clock;
use crate::spin::Spin;
use crate::transport::Driven;

/// How often the thread looks whether callers still drive.
const TICK: Duration = Duration::from_millis(1);

/// What a step did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Completions that were reported.
    pub reported: u64,
    /// Whether anything moved: bytes, or messages of others.
    pub moved: bool,
}

/// What a driver runs.
pub trait Core: Send + 'static {
    /// Does all that can be done now.
    fn step(&mut self, now: Instant) -> Step;
    /// Whether the next step must not wait.
    fn is_eager(&self) -> bool;
    /// Whether an event may come within microseconds, so that looking for it is cheaper than
    /// sleeping.
    fn expects(&self) -> bool;
    /// Whether whoever is waited for runs on the core of the calling thread, as far as can be told:
    /// looking again and again would keep it from its work. Asked before a row of looks.
    fn shares_core(&mut self) -> bool;
    /// When the next step is due without any event.
    fn deadline(&mut self) -> Option<Instant>;
    /// Waits for events. `None` waits without end; zero takes what is there.
    fn wait(&mut self, timeout: Option<Duration>);
    /// Settles everything; the last call.
    fn finish(&mut self, now: Instant);
}

/// How the loop of a driver may be woken from [`Core::wait`]. Called by any thread; must not block.
pub type Waker = Box<dyn Fn() + Send + Sync>;

/// Runs a [`Core`], on a thread that calls [`Driver::run_thread`] and on callers that wait.
pub struct Driver<C> {
    number: u64,
    turned: Mutex<Turned<C>>,
    waker: Waker,
    /// Whether the runner is in the poller, or about to be. A sender that finds it set clears it
    /// and wakes; pairs with the stores around `wait` in `run`.
    sleeps: AtomicBool,
    /// Set by the caller that drives or wants to.
    claimed: AtomicBool,
    stopping: AtomicBool,
    /// Completions reported so far.
    reported: AtomicU64,
    /// Times that a caller drove.
    driven: AtomicU64,
    parked: Mutex<()>,
    unpark: Condvar,
    clock: Arc<dyn Clock>,
}

/// Steps in a row without a look for events.
const MOST_BLIND: u32 = 4;

/// What whoever runs the loop has.
struct Turned<C> {
    core: C,
    spin: Spin,
    /// Steps since events were looked for.
    blind: u32,
    /// Whether the core is given away between two looks.
    gives_way: bool,
}

thread_local! {
    /// Whether this thread runs a step: it must not wait for one then.
    static IN_STEP: Cell<bool> = const { Cell::new(false) };
    /// How much of each driver's reports this thread had seen when it last came out of `drive`.
    static SEEN: RefCell<VecDeque<(u64, u64)>> = const { RefCell::new(VecDeque::new()) };
}

/// Numbers the drivers of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// How many drivers a thread remembers; forgetting one costs one look too many.
const REMEMBERED: usize = 16;

/// Whether the calling thread is inside a step of any driver.
pub fn is_in_step() -> bool {
    IN_STEP.get()
}

/// That this thread runs a step, until dropped.
struct InStep;

impl InStep {
    fn enter() -> Self {
        IN_STEP.set(true);
        Self
    }
}

impl Drop for InStep {
    fn drop(&mut self) {
        IN_STEP.set(false);
    }
}

/// A caller's claim, until dropped.
struct Claim<'a, C>(&'a Driver<C>);

impl<C> Drop for Claim<'_, C> {
    fn drop(&mut self) {
        self.0.driven.fetch_add(1, Ordering::Relaxed);
        self.0.claimed.store(false, Ordering::SeqCst);
    }
}

impl<C: Core> Driver<C> {
    /// A driver that looks for events for `spin` before it sleeps; zero for never.
    pub fn new(core: C, waker: Waker, clock: Arc<dyn Clock>, spin: Duration) -> Self {
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            turned: Mutex::new(Turned {
                core,
                spin: Spin::new(spin, clock.now()),
                blind: 0,
                gives_way: false,
            }),
            waker,
            sleeps: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            reported: AtomicU64::new(0),
            driven: AtomicU64::new(0),
            parked: Mutex::new(()),
            unpark: Condvar::new(),
            clock,
        }
    }

    /// Makes the runner look at its inbox. Called after the inbox was filled.
    pub fn wake(&self) {
        if self.sleeps.swap(false, Ordering::SeqCst) {
            (self.waker)();
        }
    }

    /// Makes the thread settle everything and end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
        let _parked = self.parked.lock();
        self.unpark.notify_all();
    }

    /// The thread: runs the step whenever no caller does, until [`Driver::stop`].
    pub fn run_thread(&self) {
        let mut driven = self.driven.load(Ordering::Relaxed);
        while !self.is_stopping() {
            let now_driven = self.driven.load(Ordering::Relaxed);
            if self.claimed.load(Ordering::SeqCst) || now_driven != driven {
                driven = now_driven;
                self.park_for_a_tick();
                continue;
            }
            self.run(&mut self.turned.lock(), None, 0);
        }
        // The caller that may hold the core leaves it, because it sees that we stop.
        let mut turned = self.turned.lock();
        let _in_step = InStep::enter();
        turned.core.finish(self.clock.now());
    }

    /// Runs the step on the calling thread until something was reported or `until` came.
    pub fn drive(&self, until: Instant) -> Driven {
        if IN_STEP.get() || self.is_stopping() {
            return Driven::Busy;
        }
        let (seen, news) = self.note_seen();
        if news {
            return Driven::Ran;
        }
        if self.claimed.swap(true, Ordering::SeqCst) {
            return Driven::Busy;
        }
        let claim = Claim(self);
        let entered = self.enter(until, seen);
        drop(claim);
        self.note_seen();
        entered
    }

    /// Runs one step on the calling thread where nobody else runs the loop, so that what was just
    /// handed over is on its way. Never waits, and keeps nobody from running the loop.
    pub fn nudge(&self) {
        if IN_STEP.get() || self.is_stopping() {
            return;
        }
        if let Some(mut turned) = self.turned.try_lock() {
            self.step(&mut turned, self.clock.now());
        }
    }

    fn enter(&self, until: Instant, seen: u64) -> Driven {
        if let Some(mut turned) = self.turned.try_lock() {
            self.run(&mut turned, Some(until), seen);
            return Driven::Ran;
        }
        self.wake();
        match self.turned.try_lock_until(until) {
            Some(mut turned) => {
                self.run(&mut turned, Some(until), seen);
                Driven::Ran
            }
            None => Driven::Busy,
        }
    }

    /// The loop. For a caller (`until` given) it ends with the first report that the caller has
    /// not `seen`, which may have come while it waited for the core; for the thread, when a caller
    /// claims.
    fn run(&self, turned: &mut Turned<C>, until: Option<Instant>, seen: u64) {
        let mut looked = false;
        loop {
            let now = self.clock.now();
            self.step(turned, now);
            let done = match until {
                Some(until) => {
                    (now >= until && looked) || self.reported.load(Ordering::Relaxed) != seen
                }
                None => self.claimed.load(Ordering::SeqCst),
            };
            if done || self.is_stopping() {
                return;
            }
            self.rest(turned, now, until);
            looked = true;
        }
    }

    fn step(&self, turned: &mut Turned<C>, now: Instant) {
        if turned.blind >= MOST_BLIND {
            turned.core.wait(Some(Duration::ZERO));
            turned.blind = 0;
        }
        turned.blind += 1;
        let in_step = InStep::enter();
        let step = turned.core.step(now);
        drop(in_step);
        if step.reported > 0 {
            self.reported.fetch_add(step.reported, Ordering::Release);
        }
        turned.spin.on_step(now, step.moved);
    }

    /// Looks for events, and sleeps until one comes where that is better.
    fn rest(&self, turned: &mut Turned<C>, now: Instant, until: Option<Instant>) {
        let Turned { core, spin, gives_way, blind } = turned;
        *blind = 0;
        if !core.is_eager() && core.expects() && spin.goes_on(now) {
            if spin.is_first_look() {
                *gives_way = core.shares_core();
            }
            if *gives_way {
                std::thread::yield_now();
            }
            return core.wait(Some(Duration::ZERO));
        }
        self.sleeps.store(true, Ordering::SeqCst);
        let called = until.is_none() && self.claimed.load(Ordering::SeqCst);
        let timeout = if core.is_eager() || called || self.is_stopping() {
            Some(Duration::ZERO)
        } else {
            let due = [core.deadline(), until].into_iter().flatten().min();
            due.map(|at| at.saturating_duration_since(now))
        };
        core.wait(timeout);
        self.sleeps.store(false, Ordering::SeqCst);
    }

    fn park_for_a_tick(&self) {
        let mut parked = self.parked.lock();
        if !self.is_stopping() {
            self.unpark.wait_for(&mut parked, TICK);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Remembers what this thread has seen, and tells whether that is more than it had seen
    /// before. A caller that looked at its own result in between would otherwise wait for a
    /// completion that another thread reported just then.
    fn note_seen(&self) -> (u64, bool) {
        let reported = self.reported.load(Ordering::Acquire);
        let news = SEEN.with_borrow_mut(|seen| {
            if let Some((_, last)) = seen.iter_mut().find(|(driver, _)| *driver == self.number) {
                return std::mem::replace(last, reported) != reported;
            }
            if seen.len() == REMEMBERED {
                seen.pop_front();
            }
            seen.push_back((self.number, reported));
            true
        });
        (reported, news)
    }
}

impl<C> fmt::Debug for Driver<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported = self.reported.load(Ordering::Relaxed);
        f.debug_struct("Driver").field("reported", &reported).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
