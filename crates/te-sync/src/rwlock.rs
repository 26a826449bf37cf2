//! The reader-writer lock: a word with the number of readers and three bits.
//!
//! I1  The bits that say that somebody waits are set only while somebody holds the lock or is about to
//!     clear them, by a change that fails if that one is done meanwhile; so that one sees them, and wakes
//!     all.
#![allow(unsafe_code, reason = "the trait of lock_api is a promise; docs/memory-safety.md")]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lock_api::GuardNoSend;

use crate::futex;

const WRITER: u32 = 1 << 31;
const WRITERS_WAIT: u32 = 1 << 30;
const READERS_WAIT: u32 = 1 << 29;
const WAITED: u32 = WRITERS_WAIT | READERS_WAIT;
const READERS: u32 = READERS_WAIT - 1;

/// What a [`crate::RwLock`] is made of.
#[derive(Debug)]
pub struct RawRwLock(AtomicU32);

impl RawRwLock {
    /// Changes the word by `take` where that allows it; else sets `bit` and waits, if it may.
    fn acquire(&self, take: impl Fn(u32) -> Option<u32>, bit: Option<u32>) -> bool {
        let mut state = self.0.load(Relaxed);
        loop {
            if let Some(taken) = take(state) {
                match self.0.compare_exchange_weak(state, taken, Acquire, Relaxed) {
                    Ok(_) => return true,
                    Err(now) => state = now,
                }
                continue;
            }
            let Some(bit) = bit else { return false };
            let waited = state | bit;
            if waited != state
                && let Err(now) = self.0.compare_exchange(state, waited, Relaxed, Relaxed)
            {
                state = now;
                continue;
            }
            futex::wait(&self.0, waited, None);
            state = self.0.load(Relaxed);
        }
    }
}

/// One reader more, where no writer holds or awaits it.
fn read(state: u32) -> Option<u32> {
    let is_free = state & (WRITER | WRITERS_WAIT) == 0 && state & READERS != READERS;
    is_free.then(|| state + 1)
}

/// One reader more, where no writer holds it.
fn read_again(state: u32) -> Option<u32> {
    let is_free = state & WRITER == 0 && state & READERS != READERS;
    is_free.then(|| state + 1)
}

/// The writer, where nobody holds it.
fn write(state: u32) -> Option<u32> {
    (state & (WRITER | READERS) == 0).then_some(state | WRITER)
}

// SAFETY: `WRITER` is set only where there are no readers and no writer, and readers are added only where
// it is not set; each lasts until it leaves. Acquire and release order what is guarded.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self(AtomicU32::new(0));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.acquire(read, Some(READERS_WAIT));
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.acquire(read, None)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        let mut state = self.0.fetch_sub(1, Release) - 1;
        while state & (WRITER | READERS) == 0 && state & WAITED != 0 {
            match self.0.compare_exchange(state, 0, Relaxed, Relaxed) {
                Ok(_) => return futex::wake(&self.0, futex::ALL),
                Err(now) => state = now,
            }
        }
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.acquire(write, Some(WRITERS_WAIT));
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.acquire(write, None)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        if self.0.swap(0, Release) & WAITED != 0 {
            futex::wake(&self.0, futex::ALL);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.load(Relaxed) & (WRITER | READERS) != 0
    }
}

// SAFETY: as above; a writer that waits does not keep this reader out.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.acquire(read_again, Some(READERS_WAIT));
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.acquire(read_again, None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use crate::RwLock;

    #[test]
    fn readers_never_see_half_of_a_write() {
        let pair = Arc::new(RwLock::new((0_u64, 0_u64)));
        let writer = |pair: Arc<RwLock<(u64, u64)>>| {
            move || {
                for _ in 0..20_000 {
                    let mut both = pair.write();
                    both.0 += 1;
                    both.1 += 1;
                }
            }
        };
        let reader = |pair: Arc<RwLock<(u64, u64)>>, again: bool| {
            move || {
                for _ in 0..20_000 {
                    let both = if again { pair.read_recursive() } else { pair.read() };
                    assert_eq!(both.0, both.1);
                }
            }
        };
        let mut all = Vec::new();
        for index in 0..4 {
            all.push(thread::spawn(writer(Arc::clone(&pair))));
            all.push(thread::spawn(reader(Arc::clone(&pair), index % 2 == 0)));
        }
        all.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(*pair.read(), (80_000, 80_000));
        assert!(!pair.is_locked());
    }

    #[test]
    fn a_reader_may_read_again_while_a_writer_waits() {
        let lock = Arc::new(RwLock::new(1));
        let first = lock.read();
        let other = Arc::clone(&lock);
        let writer = thread::spawn(move || *other.write() = 2);
        // It waits, or will: new readers stay out as soon as it does.
        while lock.try_read().is_some() {
            thread::yield_now();
        }
        assert_eq!(*lock.read_recursive(), 1);
        assert!(lock.try_write().is_none());
        drop(first);
        writer.join().unwrap();
        assert_eq!(*lock.read(), 2);
    }
}
