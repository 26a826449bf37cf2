//! A store in the memory of this process.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_sync::{Condvar, Mutex};

use super::record::names_owner;
use super::{
    Capabilities, Change, ChangeKind, Changes, Claim, KeyInfo, Lease, MetadataStore, Record,
    Release, Renewal, Revision, StoreError, Watch,
};
use crate::Incarnation;

/// A store in this process: for tests and for engines that live in one process. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    changed: Condvar,
}

/// Changes that are kept for watches.
const HISTORY: usize = 4096;

#[derive(Default)]
struct Table {
    entries: BTreeMap<String, Entry>,
    revision: u64,
    history: VecDeque<(u64, Change)>,
}

struct Entry {
    value: Vec<u8>,
    revision: u64,
    ends: Option<(Incarnation, Instant)>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.table(|table| table.entries.len())
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What happened after a revision, and up to which.
    #[cfg(all(test, feature = "http"))]
    pub(super) fn changes_since(
        &self,
        prefix: &str,
        seen: u64,
        timeout: Duration,
    ) -> (Changes, u64) {
        let mut watch = MemoryWatch { store: self.clone(), prefix: prefix.to_owned(), seen };
        let changes = watch.wait(timeout).expect("memory is always there");
        (changes, watch.seen)
    }

    /// The revision of the last change.
    #[cfg(all(test, feature = "http"))]
    pub(super) fn present(&self) -> u64 {
        self.table(|table| table.revision)
    }

    /// Does something with the table, from which ended records were taken.
    fn table<T>(&self, use_it: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.shared.table.lock();
        let before = table.revision;
        table.sweep(now());
        let result = use_it(&mut table);
        if table.revision != before {
            self.shared.changed.notify_all();
        }
        result
    }
}

#[expect(clippy::disallowed_methods, reason = "the store is the service, and its clock is ours")]
fn now() -> Instant {
    Instant::now()
}

impl Table {
    fn sweep(&mut self, now: Instant) {
        let over = |entry: &Entry| entry.ends.is_some_and(|(_, end)| end <= now);
        let ended: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, entry)| over(entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in ended {
            self.remove(&key);
        }
    }

    fn put(&mut self, key: &str, value: &[u8], lease: Option<&Lease>) -> Revision {
        self.revision += 1;
        let ends = lease.map(|lease| (lease.owner, now() + lease.ttl));
        let entry = Entry { value: value.to_owned(), revision: self.revision, ends };
        self.entries.insert(key.to_owned(), entry);
        self.note(key, ChangeKind::Put);
        revision_of(self.revision)
    }

    fn remove(&mut self, key: &str) {
        if self.entries.remove(key).is_some() {
            self.revision += 1;
            self.note(key, ChangeKind::Removed);
        }
    }

    fn note(&mut self, key: &str, kind: ChangeKind) {
        self.history.push_back((self.revision, Change { key: key.to_owned(), kind }));
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn since(&self, seen: u64, prefix: &str) -> Changes {
        let oldest = self.history.front().map_or(self.revision, |(revision, _)| revision - 1);
        let fresh = self.history.iter().filter(|(revision, _)| *revision > seen);
        let wanted = fresh.filter(|(_, change)| change.key.starts_with(prefix));
        Changes {
            changes: wanted.map(|(_, change)| change.clone()).collect(),
            is_reset: seen < oldest,
        }
    }
}

fn revision_of(number: u64) -> Revision {
    Revision::new(number.to_string())
}

impl Entry {
    fn record(&self) -> Record {
        Record { value: self.value.clone(), revision: revision_of(self.revision) }
    }
}

impl MetadataStore for MemoryStore {
    fn capabilities(&self) -> Result<Capabilities, StoreError> {
        Ok(Capabilities { ownership: true, expiry: true, list: true, watch: true })
    }

    fn get(&self, key: &str) -> Result<Option<Record>, StoreError> {
        Ok(self.table(|table| table.entries.get(key).map(Entry::record)))
    }

    fn revision(&self, key: &str) -> Result<Option<Revision>, StoreError> {
        Ok(self.table(|table| table.entries.get(key).map(|entry| revision_of(entry.revision))))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.table(|table| table.put(key, value, None));
        Ok(())
    }

    fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.table(|table| table.remove(key));
        Ok(())
    }

    fn claim(
        &self,
        key: &str,
        value: &[u8],
        lease: &Lease,
        over: Option<&Revision>,
    ) -> Result<Claim, StoreError> {
        Ok(self.table(|table| match table.entries.get(key) {
            Some(entry)
                if !names_owner(&entry.value, lease.owner)
                    && over != Some(&revision_of(entry.revision)) =>
            {
                Claim::Taken(entry.record())
            }
            _ => Claim::Held(table.put(key, value, Some(lease))),
        }))
    }

    fn renew(&self, lease: &Lease) -> Result<Renewal, StoreError> {
        let end = now() + lease.ttl;
        Ok(self.table(|table| {
            let ends = table.entries.values_mut().filter_map(|entry| entry.ends.as_mut());
            let ours = ends.filter(|(owner, _)| *owner == lease.owner);
            let n_kept = ours.map(|(_, ours)| *ours = end).count();
            if n_kept == 0 { Renewal::Lost } else { Renewal::Kept }
        }))
    }

    fn release(&self, key: &str, owner: Incarnation) -> Result<Release, StoreError> {
        Ok(self.table(|table| match table.entries.get(key) {
            None => Release::Absent,
            Some(entry) if !names_owner(&entry.value, owner) => Release::Foreign,
            Some(_) => {
                table.remove(key);
                Release::Removed
            }
        }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<KeyInfo>, StoreError> {
        Ok(self.table(|table| {
            let from = (Bound::Included(prefix), Bound::Unbounded);
            let range = table.entries.range::<str, _>(from);
            let wanted = range.take_while(|(key, _)| key.starts_with(prefix));
            wanted.map(|(key, entry)| entry.info(key)).collect()
        }))
    }

    fn watch(&self, prefix: &str) -> Result<Box<dyn Watch>, StoreError> {
        let seen = self.table(|table| table.revision);
        Ok(Box::new(MemoryWatch { store: self.clone(), prefix: prefix.to_owned(), seen }))
    }

    fn uri(&self) -> String {
        "memory".to_owned()
    }
}

impl Entry {
    fn info(&self, key: &str) -> KeyInfo {
        KeyInfo {
            key: key.to_owned(),
            revision: Some(revision_of(self.revision)),
            bytes: u64::try_from(self.value.len()).ok(),
        }
    }
}

#[derive(Debug)]
struct MemoryWatch {
    store: MemoryStore,
    prefix: String,
    seen: u64,
}

impl MemoryWatch {
    fn look(&mut self) -> Changes {
        let (changes, seen) =
            self.store.table(|table| (table.since(self.seen, &self.prefix), table.revision));
        self.seen = seen;
        changes
    }

    /// When the next record ends by itself, or `deadline` if that is sooner.
    fn next_look(table: &Table, deadline: Instant) -> Instant {
        let ends = table.entries.values().filter_map(|entry| entry.ends);
        ends.map(|(_, end)| end).fold(deadline, Instant::min)
    }
}

impl Watch for MemoryWatch {
    fn wait(&mut self, timeout: Duration) -> Result<Changes, StoreError> {
        let deadline = now() + timeout;
        loop {
            let seen = self.look();
            if seen.is_reset || !seen.changes.is_empty() || now() >= deadline {
                return Ok(seen);
            }
            let mut table = self.store.shared.table.lock();
            if table.revision == self.seen {
                let until = Self::next_look(&table, deadline);
                self.store.shared.changed.wait_until(&mut table, until);
            }
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("n_keys", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_store_keeps_the_contract() {
        super::super::check_store(&MemoryStore::new());
    }

    #[test]
    fn clones_share_their_keys() {
        let store = MemoryStore::new();
        store.clone().put("key", b"value").unwrap();
        assert_eq!((store.len(), store.is_empty()), (1, false));
        assert_eq!(format!("{store:?}"), "MemoryStore { n_keys: 1 }");
    }

    #[test]
    fn a_watch_that_missed_changes_says_so() {
        let store = MemoryStore::new();
        let mut watch = store.watch("a").unwrap();
        (0..=HISTORY).for_each(|_| store.put("b", b"").unwrap());
        assert!(watch.wait(Duration::ZERO).unwrap().is_reset);
        assert_eq!(watch.wait(Duration::ZERO).unwrap(), Changes::default());
    }
}
