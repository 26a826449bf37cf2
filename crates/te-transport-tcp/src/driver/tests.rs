//! A core that panics.
#![expect(clippy::disallowed_methods, reason = "tests are drivers")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use te_transport::SystemClock;

use super::*;

struct Bomb {
    left: u32,
}

impl Core for Bomb {
    fn step(&mut self, _now: Instant) -> u64 {
        assert!(is_in_step());
        if self.left > 0 {
            self.left -= 1;
            std::panic::resume_unwind(Box::new("a step that panics"));
        }
        1
    }

    fn is_eager(&self) -> bool {
        true
    }

    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    fn wait(&mut self, _timeout: Option<Duration>) {}

    fn finish(&mut self, _now: Instant) {}
}

/// A caller whose step panics is not in a step afterwards, and others may drive.
#[test]
fn a_panic_in_a_step_gives_the_claim_back() {
    let poll = mio::Poll::new().unwrap();
    let waker = Arc::new(mio::Waker::new(poll.registry(), mio::Token(0)).unwrap());
    let driver = Driver::new(Bomb { left: 2 }, waker, Arc::new(SystemClock));
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
