//! Who runs the steps of a core, when events are looked for, and a step that panics.
#![expect(clippy::disallowed_methods, reason = "tests are drivers")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::clock::SystemClock;

/// Panics in its first steps, and has something to report in each later one.
#[derive(Default)]
struct Bomb {
    left: u32,
    /// How often it was asked to look for events.
    looks: u64,
}

impl Core for Bomb {
    fn step(&mut self, _now: Instant) -> Step {
        assert!(is_in_step());
        if self.left > 0 {
            self.left -= 1;
            std::panic::resume_unwind(Box::new("a step that panics"));
        }
        Step { reported: 1, moved: true }
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn expects(&self) -> bool {
        true
    }

    fn shares_core(&mut self) -> bool {
        false
    }

    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    fn wait(&mut self, _timeout: Option<Duration>) {
        self.looks += 1;
    }

    fn finish(&mut self, _now: Instant) {}
}

fn driver<C: Core>(core: C) -> Driver<C> {
    Driver::new(core, Box::new(|| {}), Arc::new(SystemClock), Duration::ZERO)
}

/// A caller whose step panics is not in a step afterwards, and others may drive.
#[test]
fn a_panic_in_a_step_gives_the_claim_back() {
    let driver = driver(Bomb { left: 2, looks: 0 });
    let until = Instant::now() + Duration::from_secs(30);
    // The first look of a thread is never a drive.
    driver.note_seen();
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| driver.drive(until))).is_err());
        assert!(!is_in_step() && !driver.claimed.load(Ordering::SeqCst));
    }
    assert_eq!(driver.drive(until), Driven::Ran);
    assert_eq!(driver.reported.load(Ordering::SeqCst), 1);
}

/// Counts how often it was asked to look for events.
#[derive(Default)]
struct Looker {
    looks: u64,
}

impl Core for Looker {
    fn step(&mut self, _now: Instant) -> Step {
        Step::default()
    }

    fn is_eager(&self) -> bool {
        false
    }

    fn expects(&self) -> bool {
        false
    }

    fn shares_core(&mut self) -> bool {
        false
    }

    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        assert_eq!(timeout, Some(Duration::ZERO));
        self.looks += 1;
    }

    fn finish(&mut self, _now: Instant) {}
}

/// Who asks without waiting, as callers do that poll a status, still gets what is there.
#[test]
fn a_drive_without_time_looks_once() {
    let driver = driver(Looker::default());
    driver.note_seen();
    assert_eq!(driver.drive(Instant::now()), Driven::Ran);
    assert_eq!(driver.turned.lock().core.looks, 1);
}

/// A nudge steps where nobody else does, without looking for events, and leaves others alone.
#[test]
fn a_nudge_steps_unless_somebody_runs_the_loop() {
    let driver = driver(Bomb::default());
    driver.nudge();
    assert_eq!(driver.reported.load(Ordering::SeqCst), 1);
    let runner = driver.turned.lock();
    driver.nudge();
    drop(runner);
    let in_step = InStep::enter();
    driver.nudge();
    drop(in_step);
    driver.stopping.store(true, Ordering::SeqCst);
    driver.nudge();
    assert_eq!(driver.reported.load(Ordering::SeqCst), 1);
    assert!(!driver.claimed.load(Ordering::SeqCst));
}

/// A core that always has something to report does not keep what else happens from being seen.
#[test]
fn steps_that_report_do_not_keep_events_from_being_looked_for() {
    let driver = driver(Bomb::default());
    let until = Instant::now() + Duration::from_secs(30);
    driver.note_seen();
    for _ in 0..10 * MOST_BLIND {
        assert_eq!(driver.drive(until), Driven::Ran);
    }
    assert!(driver.turned.lock().core.looks >= 9);
}
