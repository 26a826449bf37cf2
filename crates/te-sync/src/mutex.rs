//! The mutex: a word that is 0 free, 1 held, 2 held with somebody waiting.
#![allow(unsafe_code, reason = "the trait of lock_api is a promise; docs/memory-safety.md")]

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use lock_api::GuardNoSend;

use crate::futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;

/// How often a thread looks before it sleeps: what is held is usually free again soon.
const LOOKS: u32 = 100;

/// What a [`crate::Mutex`] is made of.
#[derive(Debug)]
pub struct RawMutex(AtomicU32);

impl RawMutex {
    /// `false` where the time is up.
    #[cold]
    fn lock_slowly(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.look();
        if state == FREE {
            match self.0.compare_exchange(FREE, HELD, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        loop {
            // Whoever gets it here holds it as waited for: there may be others, and waking nobody is
            // all that a mistake costs.
            if state != WAITED && self.0.swap(WAITED, Acquire) == FREE {
                return true;
            }
            if !futex::wait(&self.0, WAITED, deadline) {
                // This thread may have been woken for the others that sleep: they are not forgotten.
                return self.0.swap(WAITED, Acquire) == FREE;
            }
            state = self.look();
        }
    }

    fn look(&self) -> u32 {
        for _ in 0..LOOKS {
            let state = self.0.load(Relaxed);
            if state != HELD {
                return state;
            }
            spin_loop();
        }
        HELD
    }
}

// SAFETY: the word is `HELD` or `WAITED` from the moment that one thread changed it from `FREE` until
// that one unlocks, and nobody else gets it meanwhile; acquire and release order what is guarded.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self(AtomicU32::new(FREE));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_slowly(None);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Release) == WAITED {
            futex::wake(&self.0, 1);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.load(Relaxed) != FREE
    }
}

// SAFETY: `true` only where `lock_slowly` or `try_lock` changed the word from `FREE`.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        lock_api::RawMutex::try_lock(self) || self.lock_slowly(futex::after(timeout))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        lock_api::RawMutex::try_lock(self) || self.lock_slowly(Some(timeout))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::Mutex;

    #[test]
    fn one_thread_at_a_time() {
        let count = Arc::new(Mutex::new(0_u64));
        let work = |count: Arc<Mutex<u64>>| {
            move || {
                for _ in 0..50_000 {
                    let mut guard = count.lock();
                    let seen = *guard;
                    *guard = seen + 1;
                }
            }
        };
        let all: Vec<_> = (0..8).map(|_| thread::spawn(work(Arc::clone(&count)))).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(*count.lock(), 400_000);
    }

    #[test]
    fn a_time_that_is_up_is_told_and_a_lock_that_comes_free_is_taken() {
        let lock = Arc::new(Mutex::new(()));
        let held = lock.lock();
        assert!(lock.is_locked() && lock.try_lock().is_none());
        let other = Arc::clone(&lock);
        let late = thread::spawn(move || other.try_lock_for(Duration::from_millis(20)).is_some());
        assert!(!late.join().unwrap());
        let other = Arc::clone(&lock);
        let waits = thread::spawn(move || other.try_lock_for(Duration::from_secs(60)).is_some());
        drop(held);
        assert!(waits.join().unwrap());
        assert!(lock.try_lock_for(Duration::ZERO).is_some());
        assert!(!lock.is_locked());
    }

    /// A thread is woken, another takes the lock before it, and its time is up: whoever sleeps on still
    /// has to be woken by the one who holds it now.
    #[test]
    fn who_gives_up_leaves_the_lock_as_waited_for() {
        use lock_api::RawMutexTimed as _;
        let lock = Arc::new(RawMutex(AtomicU32::new(HELD)));
        let other = Arc::clone(&lock);
        let late = thread::spawn(move || other.try_lock_for(Duration::from_millis(200)));
        while lock.0.load(Relaxed) != WAITED {
            thread::yield_now();
        }
        // It sleeps by now, or this proves nothing.
        thread::park_timeout(Duration::from_millis(50));
        // Given back, which woke the one thread that has a limit, and taken anew.
        lock.0.store(HELD, Relaxed);
        assert!(!late.join().unwrap());
        assert_eq!(lock.0.load(Relaxed), WAITED);
    }

    #[test]
    fn a_panic_releases_it() {
        let lock = Arc::new(Mutex::new(7));
        let other = Arc::clone(&lock);
        let ended = thread::spawn(move || {
            let _held = other.lock();
            panic!("on purpose");
        });
        assert!(ended.join().is_err());
        assert_eq!(*lock.lock(), 7);
    }
}
