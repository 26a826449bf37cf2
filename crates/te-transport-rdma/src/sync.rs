//! The crate's locks. Test builds count how often a thread takes one, to prove that moving bytes
//! takes none.

use te_sync::{Mutex as Inner, MutexGuard};

/// A mutex.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Inner::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(any(test, feature = "testing"))]
        count::one();
        self.0.lock()
    }
}

#[cfg(any(test, feature = "testing"))]
mod count {
    use std::cell::Cell;

    thread_local! {
        static TAKEN: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn one() {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
    }

    pub(crate) fn taken() -> u64 {
        TAKEN.with(Cell::get)
    }
}

/// How many locks of this crate the calling thread has taken.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn locks_taken() -> u64 {
    count::taken()
}
