//! Who wants to be looked at when, for many owners whose deadlines move all the time.
//!
//! A deadline that moves back costs nothing: the old entry stays and fires, and its owner, asked
//! then, names the new one. So an owner that fires must be asked again, and may have nothing to do.
//!
//! I1  At most one live entry per key; it is never later than the last deadline armed.
//! I2  Dead entries are at most as many as live ones, and a few.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::time::Instant;

/// Dead entries that are not worth a clean-up.
const SLACK: usize = 64;

#[derive(Debug)]
pub(crate) struct Timers<K> {
    heap: BinaryHeap<Reverse<(Instant, K)>>,
    live: HashMap<K, Instant>,
}

impl<K: Copy + Ord + Hash> Timers<K> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), live: HashMap::new() }
    }

    /// Makes `key` fire at `at` or earlier.
    pub(crate) fn arm(&mut self, key: K, at: Instant) {
        if self.live.get(&key).is_some_and(|live| *live <= at) {
            return;
        }
        self.live.insert(key, at);
        self.heap.push(Reverse((at, key)));
        if self.heap.len() > 2 * self.live.len() + SLACK {
            let live = &self.live;
            self.heap.retain(|Reverse((at, key))| live.get(key) == Some(at));
        }
    }

    /// Forgets a key.
    pub(crate) fn forget(&mut self, key: K) {
        self.live.remove(&key);
    }

    /// When the next key fires.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, key))) = self.heap.peek() {
            if self.live.get(key) == Some(at) {
                return Some(*at);
            }
            self.heap.pop();
        }
        None
    }

    /// A key whose time has come.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, key)) = self.heap.pop()?;
        self.live.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn a_key_fires_once_and_never_after_its_earliest_deadline() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = Timers::new();
        timers.arm(1, at(50));
        timers.arm(1, at(90));
        timers.arm(2, at(70));
        timers.arm(2, at(10));
        timers.arm(3, at(5));
        timers.forget(3);
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop(at(9)), None);
        assert_eq!(timers.pop(at(100)), Some(2));
        assert_eq!(timers.pop(at(100)), Some(1));
        assert_eq!(timers.pop(at(100)), None);
        assert_eq!(timers.next(), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn forgotten_keys_leave_nothing_behind() {
        let later = Instant::now() + Duration::from_secs(60);
        let mut timers = Timers::new();
        for key in 0..10_000 {
            timers.arm(key, later);
            timers.forget(key);
        }
        assert!(timers.heap.len() <= SLACK + 1, "{}", timers.heap.len());
    }
}
