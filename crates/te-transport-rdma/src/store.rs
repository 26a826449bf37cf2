//! The connections of one NIC, by the path of the peer's: bounded, with one that leaves when another
//! comes (E35).
//!
//! ```text
//!   FIFO   oldest ──▶ leaves
//!   SIEVE  the hand goes from old to new and round again: one that was used since it last passed
//!          stays and is marked unused, the first that was not leaves
//! ```
//!
//! I1  There are never more than the bound, nor do they weigh more than theirs.
//! I2  Looking never moves the hand; only one that comes does.

mod pause;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use self::pause::ConnectPauses;
use crate::config::StorePolicy;

/// That a connection was used; set by whoever posts on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used(Arc<AtomicBool>);

impl Used {
    /// Costs a load where it is set already.
    pub(crate) fn mark(&self) {
        // A hint that nothing else depends on.
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Store<K, V> {
    policy: StorePolicy,
    bounds: Bounds,
    weight: usize,
    by_key: HashMap<K, u64>,
    /// By arrival.
    slots: BTreeMap<u64, Slot<K, V>>,
    next: u64,
    /// The hand looks at this arrival or the first after it.
    hand: u64,
}

/// What there is room for; at least one, whatever it weighs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) entries: usize,
    pub(crate) weight: usize,
}

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    used: Used,
    weight: usize,
}

impl<K: Hash + Eq + Clone, V> Store<K, V> {
    pub(crate) fn new(policy: StorePolicy, bounds: Bounds) -> Self {
        let (by_key, slots) = (HashMap::new(), BTreeMap::new());
        Self { policy, bounds, weight: 0, by_key, slots, next: 0, hand: 0 }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        Some(&self.slots.get(self.by_key.get(key)?)?.value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        Some(&mut self.slots.get_mut(self.by_key.get(key)?)?.value)
    }

    /// All, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots.values().map(|slot| (&slot.key, &slot.value))
    }

    /// Takes out one that has to leave where another of that weight comes; none where there is room.
    pub(crate) fn evict_for(&mut self, weight: usize) -> Option<(K, V)> {
        let Bounds { entries, weight: most } = self.bounds;
        let is_full = self.slots.len() >= entries || self.weight + weight > most;
        if is_full { self.evict() } else { None }
    }

    /// Puts one in, for which room was made. One of the same key has left before.
    pub(crate) fn insert(&mut self, key: K, value: V, (used, weight): (Used, usize)) {
        self.remove(&key);
        self.weight += weight;
        self.by_key.insert(key.clone(), self.next);
        self.slots.insert(self.next, Slot { key, value, used, weight });
        self.next += 1;
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let arrival = self.by_key.remove(key)?;
        let slot = self.slots.remove(&arrival)?;
        self.weight -= slot.weight;
        Some(slot.value)
    }

    /// Takes out the one that has to leave first.
    pub(crate) fn evict(&mut self) -> Option<(K, V)> {
        let arrival = match self.policy {
            StorePolicy::Fifo => *self.slots.first_key_value()?.0,
            StorePolicy::Sieve => self.sieve()?,
        };
        let key = self.slots.get(&arrival)?.key.clone();
        let value = self.remove(&key)?;
        Some((key, value))
    }

    /// Moves the hand to the first that was not used. Ends in the second round at the latest.
    fn sieve(&mut self) -> Option<u64> {
        for _ in 0..=2 * self.slots.len() {
            let found = self.slots.range(self.hand..).next().or_else(|| self.slots.iter().next());
            let (arrival, slot) = found.map(|(arrival, slot)| (*arrival, slot))?;
            self.hand = arrival + 1;
            if !slot.used.take() {
                return Some(arrival);
            }
        }
        // Others kept using all of them while the hand went round twice.
        self.slots.first_key_value().map(|(arrival, _)| *arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(entries: usize, weight: usize) -> Bounds {
        Bounds { entries, weight }
    }

    /// Puts one in that weighs 1; gives those that left for it.
    fn put(store: &mut Store<u32, u32>, key: u32, used: &Used) -> Vec<u32> {
        let gone: Vec<u32> =
            std::iter::from_fn(|| store.evict_for(1)).map(|(_, value)| value).collect();
        store.insert(key, key, (used.clone(), 1));
        gone
    }

    fn filled(policy: StorePolicy, n: u32) -> (Store<u32, u32>, Vec<Used>) {
        let mut store = Store::new(policy, bounds(n as usize, 1000));
        let mut marks = Vec::new();
        for i in 0..n {
            let used = Used::default();
            assert!(put(&mut store, i, &used).is_empty());
            marks.push(used);
        }
        (store, marks)
    }

    #[test]
    fn fifo_lets_the_oldest_go_used_or_not() {
        let (mut store, marks) = filled(StorePolicy::Fifo, 3);
        marks.iter().for_each(Used::mark);
        assert_eq!(put(&mut store, 9, &Used::default()), [0]);
        assert_eq!(put(&mut store, 10, &Used::default()), [1]);
        assert_eq!((store.len(), store.get(&2), store.get(&0)), (3, Some(&2), None));
    }

    #[test]
    fn sieve_spares_what_was_used_since_the_hand_passed() {
        let (mut store, marks) = filled(StorePolicy::Sieve, 4);
        marks[0].mark();
        marks[2].mark();
        assert_eq!(put(&mut store, 4, &Used::default()), [1]);
        // The hand goes on behind 1: 2 was used, 3 was not.
        assert_eq!(put(&mut store, 5, &Used::default()), [3]);
        assert_eq!(put(&mut store, 6, &Used::default()), [4]);
        marks[0].mark();
        assert_eq!(put(&mut store, 7, &Used::default()), [5]);
        assert_eq!(put(&mut store, 8, &Used::default()), [6]);
    }

    #[test]
    fn a_store_of_used_ones_still_finds_one_and_the_same_key_replaces() {
        let (mut store, marks) = filled(StorePolicy::Sieve, 3);
        marks.iter().for_each(Used::mark);
        assert_eq!(store.remove(&1), Some(1));
        assert!(put(&mut store, 1, &Used::default()).is_empty(), "it left before");
        assert_eq!(put(&mut store, 3, &Used::default()).len(), 1);
        assert_eq!(store.len(), 3);
        assert_eq!(store.remove(&77), None);
        let mut empty: Store<u32, u32> = Store::new(StorePolicy::Sieve, bounds(1, 1));
        assert!(put(&mut empty, 1, &Used::default()).is_empty());
        assert_eq!(put(&mut empty, 2, &Used::default()), [1]);
        *empty.get_mut(&2).unwrap() = 5;
        assert_eq!(empty.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>(), [(2, 5)]);
    }

    #[test]
    fn as_many_leave_as_one_that_is_heavy_needs() {
        let mut store: Store<u32, u32> = Store::new(StorePolicy::Fifo, bounds(10, 8));
        for (key, weight) in [(0, 2), (1, 3), (2, 1)] {
            assert_eq!(store.evict_for(weight), None);
            store.insert(key, key, (Used::default(), weight));
        }
        assert_eq!(store.evict_for(5), Some((0, 0)));
        assert_eq!(store.evict_for(5), Some((1, 1)));
        assert_eq!(store.evict_for(5), None);
        store.insert(3, 3, (Used::default(), 5));
        assert_eq!((store.weight, store.len()), (6, 2));
        assert_eq!(store.remove(&3), Some(3));
        assert_eq!(store.weight, 1);
    }
}
