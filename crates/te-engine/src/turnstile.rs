//! One at a time, without a lock: whoever comes while another is inside leaves a wish, and the one
//! inside goes round again.
//!
//! I1  At most one caller is inside.
//! I2  A wish that was left is honoured: somebody goes round after it.

use crate::sync::{AtomicUsize, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    /// Wishes that are not honoured yet; the first of them is inside.
    wishes: AtomicUsize,
}

impl Turnstile {
    /// Runs `work` here, or leaves the wish to whoever is inside.
    pub(crate) fn pass(&self, mut work: impl FnMut()) {
        // Acquire pairs with the release below: what the last one inside did is seen by the next.
        if self.wishes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut honoured = 1;
        loop {
            let open = OpenOnPanic(self);
            work();
            std::mem::forget(open);
            // Release pairs with the acquire above.
            let left = self.wishes.fetch_sub(honoured, Ordering::AcqRel) - honoured;
            if left == 0 {
                return;
            }
            honoured = left;
        }
    }
}

/// Lets the next caller in where `work` panicked; wishes that were left meanwhile are its.
struct OpenOnPanic<'a>(&'a Turnstile);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        self.0.wishes.store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod tests {
    //! Every interleaving of three callers.

    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;

    #[test]
    fn no_wish_is_lost_and_nobody_is_inside_twice() {
        loom::model(|| {
            let shared =
                Arc::new((Turnstile::default(), AtomicBool::new(false), AtomicUsize::new(0)));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || call(&shared))
                })
                .collect();
            call(&shared);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(shared.2.load(Ordering::Acquire), 0, "work that was left is picked up");
        });
    }

    /// Leaves a piece of work and passes; whoever is inside takes all work there is.
    fn call(shared: &(Turnstile, AtomicBool, AtomicUsize)) {
        let (turnstile, inside, work) = shared;
        work.fetch_add(1, Ordering::AcqRel);
        turnstile.pass(|| {
            assert!(!inside.swap(true, Ordering::AcqRel), "two are inside");
            work.store(0, Ordering::Release);
            inside.store(false, Ordering::Release);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod panics {
    //! Work that panics.

    use super::*;

    #[test]
    fn after_a_panic_inside_the_next_caller_gets_in() {
        let turnstile = Turnstile::default();
        let broken = std::panic::AssertUnwindSafe(|| turnstile.pass(|| panic!("work of the test")));
        assert!(std::panic::catch_unwind(broken).is_err());
        let mut inside = false;
        turnstile.pass(|| inside = true);
        assert!(inside);
    }
}
