//! Keys, their revisions, owners and times: what the server knows, without any I/O.
//!
//! ```text
//!            put                       put by the same owner, renew: a fresh time
//!   absent ───────▶ kept ◀──────────────────────────────────────────┐
//!      ▲              ├─────────────────────────────────────────────┘
//!      ├── delete ────┤ put by another owner: refused while the first one lives
//!      └── time over ─┘ put without owner: taken, the key belongs to nobody
//! ```
//!
//! Every operation takes `now` and first removes what has expired, so that an answer never shows a
//! key whose time is over. Changes gather until [`Catalog::take_changes`] hands them to storage.
//!
//! I1  The revision rises by one with every event, and never falls.
//! I2  An equal put by the same owner changes nothing but the time (FB19): no event, same revision.
//! I3  `owned`, `expiries` and `bytes` agree with `entries` after every operation.
//! I4  The limits of keys and bytes hold after every operation.

mod entry;
mod history;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::moment::Moment;
use crate::storage::{Change, Changes, Loaded};

use entry::cost;
pub(crate) use entry::{Entry, Record};
use history::History;
pub(crate) use history::{Event, EventKind, News};

/// What must hold for a change to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Nothing.
    Always,
    /// The key has this revision.
    Revision(u64),
    /// The key is absent, or with `false` present.
    Absent(bool),
}

/// The terms of a put or a delete.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) owner: Option<Arc<str>>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) guard: Guard,
}

/// A put that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) revision: u64,
    /// Whether value or owner are new.
    pub(crate) changed: bool,
}

/// Why a change was not made. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such key.
    NotFound,
    /// A condition does not hold; this is what the key has.
    Unmet { revision: Option<u64>, owner: Option<Arc<str>> },
    /// The key has a living owner who is another.
    Owned { owner: Arc<str>, expires: Option<Duration> },
    /// A limit is reached.
    Full { what: &'static str, limit: u64 },
}

/// How much the catalog takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) max_keys: usize,
    pub(crate) max_bytes: u64,
    pub(crate) max_events: usize,
}

/// Sums about the catalog.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) revision: u64,
    pub(crate) n_keys: usize,
    pub(crate) bytes: u64,
    pub(crate) n_owners: usize,
    pub(crate) n_events: usize,
    pub(crate) n_expired: u64,
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Catalog {
    entries: BTreeMap<Arc<str>, Entry>,
    owned: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    expiries: BTreeSet<(Instant, Arc<str>)>,
    history: History,
    revision: u64,
    bytes: u64,
    n_expired: u64,
    quota: Quota,
    changes: Vec<Change>,
}

impl Catalog {
    /// What was stored, each lease with one fresh time: its owner could not renew it while the
    /// server was away. A store that has never been used begins at `first`.
    pub(crate) fn restore(loaded: Loaded, first: u64, quota: Quota, now: Moment) -> Self {
        let revision = loaded.revision.unwrap_or(first);
        let mut catalog = Self {
            entries: BTreeMap::new(),
            owned: HashMap::new(),
            expiries: BTreeSet::new(),
            history: History::new(revision, quota.max_events),
            revision,
            bytes: 0,
            n_expired: 0,
            quota,
            changes: Vec::new(),
        };
        for (key, record) in loaded.records {
            catalog.insert(key.into(), Entry::new(record, now.mono));
        }
        catalog
    }

    /// Takes a value. What was there is replaced.
    pub(crate) fn put(
        &mut self,
        now: Moment,
        key: &str,
        value: Bytes,
        terms: &Terms,
    ) -> Result<Put, Refusal> {
        self.sweep(now);
        let old = self.entries.get(key);
        check_guard(old, terms.guard)?;
        if let Some(stranger) = old.and_then(|old| stranger(old, terms.owner.as_ref(), now)) {
            return Err(stranger);
        }
        let same = old.filter(|old| old.record.value == value && old.record.owner == terms.owner);
        let changed = same.is_none();
        if changed {
            self.check_room(key, &value, old)?;
        }
        let revision = same.map_or(self.revision + 1, |same| same.record.revision);
        let kept_summary = same.map(|same| Arc::clone(&same.summary));
        let stored_anew = same.is_none_or(|same| same.record.ttl != terms.ttl);
        let (owner, ttl) = (terms.owner.clone(), terms.ttl);
        let put_at = same.map_or(now.unix_ms, |same| same.record.put_at);
        let mut entry = Entry::new(Record { value, revision, owner, ttl, put_at }, now.mono);
        if let Some(summary) = kept_summary {
            entry.summary = summary;
        }
        let record = entry.record.clone();
        let key = self.insert(key.into(), entry);
        if changed {
            self.note(EventKind::Put, &key);
        }
        if stored_anew {
            self.changes.push(Change::Put { key, record });
        }
        Ok(Put { revision, changed })
    }

    /// Removes a key; the answer is the revision of its removal. With an owner among the terms
    /// only that owner's key is removed: one that a stranger has overwritten is the stranger's.
    pub(crate) fn delete(&mut self, now: Moment, key: &str, terms: &Terms) -> Result<u64, Refusal> {
        self.sweep(now);
        let old = self.entries.get(key).ok_or(Refusal::NotFound)?;
        check_guard(Some(old), terms.guard)?;
        if terms.owner.is_some() && terms.owner != old.record.owner {
            return Err(unmet(Some(old)));
        }
        self.drop_key(key);
        Ok(self.revision)
    }

    /// Lets all keys of `owner` live for `ttl` from now. Returns how many keys that are.
    pub(crate) fn renew(&mut self, now: Moment, owner: &str, ttl: Duration) -> Option<usize> {
        self.sweep(now);
        let keys: Vec<Arc<str>> = self.owned.get(owner)?.iter().cloned().collect();
        let expires = now.mono.checked_add(ttl);
        for key in &keys {
            let Some(entry) = self.entries.get_mut(key) else { continue };
            if let Some(old) = entry.expires {
                self.expiries.remove(&(old, Arc::clone(key)));
            }
            entry.expires = expires;
            self.expiries.extend(expires.map(|at| (at, Arc::clone(key))));
            if entry.record.ttl != Some(ttl) {
                entry.record.ttl = Some(ttl);
                let record = entry.record.clone();
                self.changes.push(Change::Put { key: Arc::clone(key), record });
            }
        }
        Some(keys.len())
    }

    /// Removes what has expired.
    pub(crate) fn sweep(&mut self, now: Moment) {
        while let Some((at, key)) = self.expiries.first() {
            if *at > now.mono {
                return;
            }
            let key = Arc::clone(key);
            self.n_expired += 1;
            self.drop_key(&key);
        }
    }

    /// What has changed since this was last called, if anything has.
    pub(crate) fn take_changes(&mut self) -> Option<Changes> {
        let list = std::mem::take(&mut self.changes);
        (!list.is_empty()).then_some(Changes { revision: self.revision, list })
    }

    /// One key.
    pub(crate) fn get(&mut self, now: Moment, key: &str) -> Option<&Entry> {
        self.sweep(now);
        self.entries.get(key)
    }

    /// Keys that begin with `prefix` and come after `after`, in order.
    pub(crate) fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Entry)> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = self.entries.range::<str, _>((from, Bound::Unbounded));
        range.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// What happened after `since` to keys that begin with `prefix`.
    pub(crate) fn news(&self, since: u64, prefix: &str) -> News {
        self.history.since(since, prefix, self.revision)
    }

    /// When the next key expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(at, _)| *at)
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            revision: self.revision,
            n_keys: self.entries.len(),
            bytes: self.bytes,
            n_owners: self.owned.len(),
            n_events: self.history.len(),
            n_expired: self.n_expired,
        }
    }

    fn check_room(&self, key: &str, value: &[u8], old: Option<&Entry>) -> Result<(), Refusal> {
        if old.is_none() && self.entries.len() >= self.quota.max_keys {
            return Err(Refusal::Full { what: "keys", limit: self.quota.max_keys as u64 });
        }
        let freed = old.map_or(0, |old| cost(key, &old.record.value));
        if self.bytes - freed + cost(key, value) > self.quota.max_bytes {
            return Err(Refusal::Full { what: "bytes", limit: self.quota.max_bytes });
        }
        Ok(())
    }

    /// Puts an entry in the place of what was there, in all indices.
    fn insert(&mut self, key: Arc<str>, entry: Entry) -> Arc<str> {
        self.unlink(&key);
        self.bytes += cost(&key, &entry.record.value);
        if let Some(owner) = entry.owner() {
            self.owned.entry(Arc::clone(owner)).or_default().insert(Arc::clone(&key));
        }
        self.expiries.extend(entry.expires.map(|at| (at, Arc::clone(&key))));
        self.entries.insert(Arc::clone(&key), entry);
        key
    }

    /// Takes an entry out of all indices.
    fn unlink(&mut self, key: &str) -> Option<(Arc<str>, Entry)> {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.bytes -= cost(&key, &entry.record.value);
        if let Some(at) = entry.expires {
            self.expiries.remove(&(at, Arc::clone(&key)));
        }
        if let Some(owner) = entry.owner()
            && let Some(keys) = self.owned.get_mut(owner)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.owned.remove(owner);
            }
        }
        Some((key, entry))
    }

    fn drop_key(&mut self, key: &str) {
        if let Some((key, _)) = self.unlink(key) {
            self.note(EventKind::Delete, &key);
            self.changes.push(Change::Delete { key });
        }
    }

    fn note(&mut self, kind: EventKind, key: &Arc<str>) {
        self.revision += 1;
        self.history.push(Event { kind, key: Arc::clone(key), revision: self.revision });
    }
}

fn check_guard(old: Option<&Entry>, guard: Guard) -> Result<(), Refusal> {
    let holds = match guard {
        Guard::Always => true,
        Guard::Absent(absent) => old.is_none() == absent,
        Guard::Revision(revision) => old.is_some_and(|old| old.record.revision == revision),
    };
    if holds { Ok(()) } else { Err(unmet(old)) }
}

fn unmet(old: Option<&Entry>) -> Refusal {
    let revision = old.map(|old| old.record.revision);
    Refusal::Unmet { revision, owner: old.and_then(|old| old.record.owner.clone()) }
}

/// The refusal of an owner who comes second. Who says no owner is a Mooncake client, which has
/// never been refused anything by a store.
fn stranger(old: &Entry, claimant: Option<&Arc<str>>, now: Moment) -> Option<Refusal> {
    let (owner, claimant) = (old.owner()?, claimant?);
    let expires = old.expires.map(|at| now.until(at));
    (owner != claimant).then(|| Refusal::Owned { owner: Arc::clone(owner), expires })
}
