//! The condition variable: a word that counts notifications, and how many wait.
//!
//! I1  A thread counts as waiting before it releases the mutex. Who changes the condition under that
//!     mutex and notifies afterwards therefore sees it, and may do nothing where nobody waits.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use crate::futex;
use crate::{MutexGuard, RawMutex};

/// A condition variable. A wait can end without a notification.
#[derive(Debug, Default)]
pub struct Condvar {
    notified: AtomicU32,
    waiting: AtomicU32,
}

/// How a wait with a limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time was up.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Self {
        Self { notified: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Wakes one thread that waits; says whether there was one.
    pub fn notify_one(&self) -> bool {
        self.notify(1) > 0
    }

    /// Wakes all threads that wait; gives how many there were.
    pub fn notify_all(&self) -> usize {
        self.notify(futex::ALL)
    }

    fn notify(&self, count: u32) -> usize {
        let waiting = self.waiting.load(SeqCst);
        if waiting > 0 {
            self.notified.fetch_add(1, SeqCst);
            futex::wake(&self.notified, count);
        }
        waiting as usize
    }

    /// Waits. The mutex is released meanwhile.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_once(guard, None);
    }

    /// Waits until `deadline` at most.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_once(guard, Some(deadline)))
    }

    /// Waits for `timeout` at most.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_once(guard, futex::after(timeout)))
    }

    /// Waits as long as the condition holds.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) {
        self.wait_loop(guard, condition, None);
    }

    /// Waits as long as the condition holds, until `deadline` at most; timed out where it still holds then.
    pub fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        self.wait_loop(guard, condition, Some(deadline))
    }

    /// Waits as long as the condition holds, for `timeout` at most; timed out where it still holds then.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_loop(guard, condition, futex::after(timeout))
    }

    fn wait_loop<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        let mut is_time_left = true;
        while condition(&mut **guard) {
            if !is_time_left {
                return WaitTimeoutResult(true);
            }
            is_time_left = self.wait_once(guard, deadline);
        }
        WaitTimeoutResult(false)
    }

    /// `false` where the time is up.
    fn wait_once<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> bool {
        self.waiting.fetch_add(1, SeqCst);
        let seen = self.notified.load(SeqCst);
        let in_time = lock_api::MutexGuard::<RawMutex, T>::unlocked(guard, || {
            let in_time = futex::wait(&self.notified, seen, deadline);
            // A notification that came with the end of the time counts.
            in_time || self.notified.load(SeqCst) != seen
        });
        self.waiting.fetch_sub(1, Relaxed);
        in_time
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::Mutex;

    #[test]
    fn every_item_is_handed_over() {
        let shared = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Condvar::new()));
        let other = Arc::clone(&shared);
        let taker = thread::spawn(move || {
            let (queue, filled, emptied) = &*other;
            let mut sum = 0_u64;
            for _ in 0..20_000 {
                let mut queue = queue.lock();
                filled.wait_while(&mut queue, |queue: &mut Vec<u64>| queue.is_empty());
                sum += queue.pop().unwrap();
                emptied.notify_one();
            }
            sum
        });
        let (queue, filled, emptied) = &*shared;
        for item in 0..20_000 {
            let mut queue = queue.lock();
            emptied.wait_while(&mut queue, |queue| queue.len() >= 2);
            queue.push(item);
            drop(queue);
            filled.notify_all();
        }
        assert_eq!(taker.join().unwrap(), 19_999 * 10_000);
    }

    #[test]
    fn a_limit_is_kept_and_told() {
        let (lock, never) = (Mutex::new(true), Condvar::new());
        let mut guard = lock.lock();
        let short = Duration::from_millis(10);
        assert!(never.wait_for(&mut guard, short).timed_out());
        assert!(never.wait_while_for(&mut guard, |it| *it, short).timed_out());
        assert!(never.wait_until(&mut guard, futex::after(short).unwrap()).timed_out());
        assert!(!never.wait_while_for(&mut guard, |it| !*it, short).timed_out());
        assert!(
            never.wait_while_until(&mut guard, |it| *it, futex::after(short).unwrap()).timed_out()
        );
        assert!(!never.notify_one());
        assert_eq!(never.notify_all(), 0);
        assert!(lock.is_locked(), "the guard holds it again");
    }
}
