//! The catalog against a naive oracle: arbitrary operations, the same answers, sound indices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Catalog, EventKind, Guard, Put, Quota, Refusal, Terms};
use crate::moment::Moment;
use crate::storage::{Change, Loaded};

/// One thing that is done to both.
#[derive(Debug, Clone)]
enum Op {
    Put {
        key: u8,
        value: u8,
        owner: Option<u8>,
        ttl: Option<u64>,
        guard: Pick,
    },
    Delete {
        key: u8,
        owner: Option<u8>,
        guard: Pick,
    },
    Renew {
        owner: u8,
        ttl: u64,
    },
    Wait {
        ms: u64,
    },
    Get {
        key: u8,
    },
    /// The process ends and another reads what was stored.
    Restart,
}

/// A guard that can hold, although revisions are not known beforehand.
#[derive(Debug, Clone, Copy)]
enum Pick {
    Always,
    Current,
    Stale,
    Absent,
    Present,
}

/// What the oracle knows of a key.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    value: u8,
    owner: Option<u8>,
    ttl: Option<u64>,
    expires: Option<u64>,
    revision: u64,
}

#[derive(Debug, Default)]
struct Oracle {
    now: u64,
    revision: u64,
    keys: BTreeMap<u8, Known>,
    events: Vec<(u64, EventKind, u8)>,
}

impl Oracle {
    fn sweep(&mut self) {
        let mut dead: Vec<(u64, u8)> = self
            .keys
            .iter()
            .filter_map(|(k, e)| Some((e.expires?, *k)))
            .filter(|(at, _)| *at <= self.now)
            .collect();
        dead.sort_by_key(|(at, key)| (*at, name(*key)));
        for (_, key) in dead {
            self.keys.remove(&key);
            self.event(EventKind::Delete, key);
        }
    }

    fn event(&mut self, kind: EventKind, key: u8) {
        self.revision += 1;
        self.events.push((self.revision, kind, key));
    }

    fn holds(&self, key: u8, guard: Pick) -> bool {
        match guard {
            Pick::Always => true,
            Pick::Current | Pick::Present => self.keys.contains_key(&key),
            Pick::Stale => false,
            Pick::Absent => !self.keys.contains_key(&key),
        }
    }

    fn put(&mut self, key: u8, value: u8, terms: (Option<u8>, Option<u64>), guard: Pick) -> Said {
        let (owner, ttl) = terms;
        if !self.holds(key, guard) {
            return Said::Unmet;
        }
        let old = self.keys.get(&key).cloned();
        if let (Some(old), Some(claimant)) = (old.as_ref().and_then(|old| old.owner), owner)
            && old != claimant
        {
            return Said::Owned(old);
        }
        if old.is_none() && self.keys.len() >= MAX_KEYS {
            return Said::Full;
        }
        let same = old.filter(|old| old.value == value && old.owner == owner);
        let changed = same.is_none();
        if changed {
            self.event(EventKind::Put, key);
        }
        let revision = same.map_or(self.revision, |same| same.revision);
        let expires = ttl.map(|ttl| self.now + ttl);
        self.keys.insert(key, Known { value, owner, ttl, expires, revision });
        Said::Put(revision, changed)
    }

    fn delete(&mut self, key: u8, owner: Option<u8>, guard: Pick) -> Said {
        let Some(old) = self.keys.get(&key) else { return Said::NotFound };
        if !self.holds(key, guard) || (owner.is_some() && owner != old.owner) {
            return Said::Unmet;
        }
        self.keys.remove(&key);
        self.event(EventKind::Delete, key);
        Said::Deleted(self.revision)
    }

    fn renew(&mut self, owner: u8, ttl: u64) -> Option<usize> {
        let mine = self.keys.values_mut().filter(|known| known.owner == Some(owner));
        let n = mine
            .map(|known| (known.ttl, known.expires) = (Some(ttl), Some(self.now + ttl)))
            .count();
        (n > 0).then_some(n)
    }

    fn restart(&mut self) {
        for known in self.keys.values_mut() {
            known.expires = known.ttl.map(|ttl| self.now + ttl);
        }
        self.events.clear();
    }
}

/// An answer, in words that both have.
#[derive(Debug, PartialEq)]
enum Said {
    Put(u64, bool),
    Deleted(u64),
    NotFound,
    Unmet,
    Owned(u8),
    Full,
}

const MAX_KEYS: usize = 5;

fn name(key: u8) -> String {
    format!("mooncake/ram/{key}")
}

fn owner_name(owner: u8) -> String {
    format!("owner-{owner}")
}

fn quota() -> Quota {
    Quota { max_keys: MAX_KEYS, max_bytes: 1 << 20, max_events: 1 << 16 }
}

fn guard(pick: Pick, catalog: &mut Catalog, now: Moment, key: &str) -> Guard {
    let revision = catalog.get(now, key).map(|entry| entry.record.revision);
    match pick {
        Pick::Always => Guard::Always,
        Pick::Current => Guard::Revision(revision.unwrap_or(u64::MAX)),
        Pick::Stale => Guard::Revision(revision.map_or(1, |revision| revision - 1)),
        Pick::Absent => Guard::Absent(true),
        Pick::Present => Guard::Absent(false),
    }
}

fn terms(owner: Option<u8>, ttl: Option<u64>, guard: Guard) -> Terms {
    let owner = owner.map(|owner| Arc::from(owner_name(owner)));
    Terms { owner, ttl: ttl.map(Duration::from_millis), guard }
}

fn said(refusal: &Refusal) -> Said {
    match refusal {
        Refusal::NotFound => Said::NotFound,
        Refusal::Unmet { .. } => Said::Unmet,
        Refusal::Owned { owner, .. } => {
            Said::Owned(owner.trim_start_matches("owner-").parse().unwrap())
        }
        Refusal::Full { .. } => Said::Full,
    }
}

/// Both, and what storage would hold.
struct Bench {
    catalog: Catalog,
    oracle: Oracle,
    stored: Loaded,
    start: Moment,
    first: u64,
}

impl Bench {
    fn new() -> Self {
        let (start, first) = (crate::clock::now(), 1000);
        let catalog = Catalog::restore(Loaded::default(), first, quota(), start);
        let oracle = Oracle { revision: first, ..Oracle::default() };
        Self { catalog, oracle, stored: Loaded::default(), start, first }
    }

    fn now(&self) -> Moment {
        self.start.after(Duration::from_millis(self.oracle.now))
    }

    fn step(&mut self, op: &Op) {
        self.oracle.sweep();
        let now = self.now();
        match *op {
            Op::Put { key, value, owner, ttl, guard: pick } => {
                let guard = guard(pick, &mut self.catalog, now, &name(key));
                let terms = terms(owner, ttl, guard);
                let value_bytes = Bytes::copy_from_slice(&[value]);
                let got = match self.catalog.put(now, &name(key), value_bytes, &terms) {
                    Ok(Put { revision, changed }) => Said::Put(revision, changed),
                    Err(refusal) => said(&refusal),
                };
                assert_eq!(got, self.oracle.put(key, value, (owner, ttl), pick));
            }
            Op::Delete { key, owner, guard: pick } => {
                let guard = guard(pick, &mut self.catalog, now, &name(key));
                let terms = terms(owner, None, guard);
                let got = match self.catalog.delete(now, &name(key), &terms) {
                    Ok(revision) => Said::Deleted(revision),
                    Err(refusal) => said(&refusal),
                };
                assert_eq!(got, self.oracle.delete(key, owner, pick));
            }
            Op::Renew { owner, ttl } => {
                let time = Duration::from_millis(ttl);
                let got = self.catalog.renew(now, &owner_name(owner), time);
                assert_eq!(got, self.oracle.renew(owner, ttl));
            }
            Op::Wait { ms } => self.oracle.now += ms,
            Op::Get { key } => {
                let got = self.catalog.get(now, &name(key)).map(|e| e.record.value.to_vec());
                assert_eq!(got, self.oracle.keys.get(&key).map(|known| vec![known.value]));
            }
            Op::Restart => self.restart(now),
        }
        self.store();
        self.compare();
    }

    /// Does to a list what storage would do to a file.
    fn store(&mut self) {
        let Some(changes) = self.catalog.take_changes() else { return };
        self.stored.revision = Some(changes.revision);
        for change in changes.list {
            let (Change::Put { key, .. } | Change::Delete { key }) = &change;
            self.stored.records.retain(|(name, _)| **name != **key);
            if let Change::Put { key, record } = change {
                self.stored.records.push((key.to_string(), record));
            }
        }
    }

    fn restart(&mut self, now: Moment) {
        self.catalog.sweep(now);
        self.store();
        self.catalog = Catalog::restore(self.stored.clone(), self.first, quota(), now);
        self.oracle.restart();
    }

    fn compare(&mut self) {
        self.oracle.sweep();
        let now = self.now();
        self.catalog.sweep(now);
        self.store();
        assert_eq!(self.catalog.revision(), self.oracle.revision);
        let listed: Vec<(String, u64, Option<u64>)> = self
            .catalog
            .list("mooncake/", None)
            .map(|(key, entry)| {
                let left = entry.expires.map(|at| crate::moment::millis(now.until(at)));
                (key.to_string(), entry.record.revision, left)
            })
            .collect();
        let known: Vec<(String, u64, Option<u64>)> = self
            .oracle
            .keys
            .iter()
            .map(|(key, known)| {
                (name(*key), known.revision, known.expires.map(|at| at - self.oracle.now))
            })
            .collect();
        assert_eq!(listed, known);
        let bytes: usize = self.oracle.keys.keys().map(|key| name(*key).len() + 1).sum();
        assert_eq!(self.catalog.totals().bytes, bytes as u64);
        let news = self.catalog.news(self.first.max(self.floor()), "");
        let told: Vec<(u64, EventKind, String)> =
            news.events.iter().map(|e| (e.revision, e.kind, e.key.to_string())).collect();
        let happened: Vec<(u64, EventKind, String)> =
            self.oracle.events.iter().map(|(r, kind, key)| (*r, *kind, name(*key))).collect();
        assert_eq!(told, happened);
    }

    /// The revision of the last restart.
    fn floor(&self) -> u64 {
        self.oracle.revision - self.oracle.events.len() as u64
    }
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![
        6 => Just(Pick::Always), 1 => Just(Pick::Current), 1 => Just(Pick::Stale),
        1 => Just(Pick::Absent), 1 => Just(Pick::Present),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let (key, owner) = (0..7_u8, || proptest::option::of(0..3_u8));
    let ttl = || proptest::option::of(1..200_u64);
    prop_oneof![
        6 => (key.clone(), 0..3_u8, owner(), ttl(), picks())
            .prop_map(|(key, value, owner, ttl, guard)| Op::Put { key, value, owner, ttl, guard }),
        3 => (key.clone(), owner(), picks())
            .prop_map(|(key, owner, guard)| Op::Delete { key, owner, guard }),
        2 => (0..3_u8, 1..200_u64).prop_map(|(owner, ttl)| Op::Renew { owner, ttl }),
        3 => (0..150_u64).prop_map(|ms| Op::Wait { ms }),
        1 => key.prop_map(|key| Op::Get { key }),
        1 => Just(Op::Restart),
    ]
}

proptest! {
    // I1 to I4, and that nothing is lost by a restart but a lease's age.
    #[test]
    fn the_catalog_answers_as_a_naive_one_does(ops in proptest::collection::vec(ops(), 1..80)) {
        let mut bench = Bench::new();
        ops.iter().for_each(|op| bench.step(op));
    }
}
