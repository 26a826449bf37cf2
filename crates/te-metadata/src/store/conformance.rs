//! What every metadata store must do.

use std::time::{Duration, Instant};

use super::{
    Capabilities, ChangeKind, Claim, Lease, MetadataStore, Record, Release, Renewal, Revision,
    Watch,
};
use crate::Incarnation;

/// Checks the contract of [`MetadataStore`] on a store that can be reached. Takes up to half a
/// minute where records end by themselves.
///
/// # Panics
/// When the store breaks it. Keys under `te-conformance/` are used and removed again.
pub fn check_store(store: &dyn MetadataStore) {
    let suite = Suite::new(store);
    suite.values();
    suite.keys();
    suite.claims();
    suite.takes_over();
    suite.releases();
    suite.listing();
    suite.watching();
    suite.endings();
    assert!(!store.uri().is_empty(), "a store has a name for messages");
}

/// Life of a record; etcd rounds what is shorter up.
const TTL: Duration = Duration::from_secs(3);

/// How late an end may come: etcd revokes leases in rounds.
const LATE: Duration = Duration::from_secs(8);

struct Suite<'a> {
    store: &'a dyn MetadataStore,
    can: Capabilities,
    prefix: String,
}

fn lease() -> Lease {
    Lease { owner: Incarnation::random(), ttl: TTL }
}

fn value(lease: &Lease, n: u32) -> Vec<u8> {
    format!("{{\"n\":{n},\"te\":{{\"incarnation\":\"{}\"}}}}", lease.owner).into_bytes()
}

impl Suite<'_> {
    fn new(store: &dyn MetadataStore) -> Suite<'_> {
        let can = store.capabilities().expect("a store that is there tells what it can");
        Suite { store, can, prefix: format!("te-conformance/{}/", Incarnation::random()) }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn record(&self, key: &str) -> Option<Record> {
        self.store.get(key).expect("the store answers")
    }

    fn ask(&self, key: &str) -> Option<Vec<u8>> {
        self.record(key).map(|record| record.value)
    }

    fn revision(&self, key: &str) -> Option<Revision> {
        self.store.revision(key).expect("the store answers")
    }

    fn renew(&self, lease: &Lease) -> Renewal {
        self.store.renew(lease).expect("a renewal is answered")
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.store.put(key, value).expect("a key can be set");
    }

    fn remove(&self, key: &str) {
        self.store.remove(key).expect("a key can be removed, also when it is absent");
    }

    fn claim(&self, key: &str, n: u32, lease: &Lease, over: Option<&Revision>) -> Claim {
        self.store.claim(key, &value(lease, n), lease, over).expect("a claim is answered")
    }

    fn hold(&self, key: &str, n: u32, lease: &Lease) -> Revision {
        match self.claim(key, n, lease, None) {
            Claim::Held(revision) => revision,
            Claim::Taken(by) => panic!("{key} is taken by {by:?}"),
        }
    }

    fn values(&self) {
        let (key, other) = (self.key("ram/node-a:17001"), self.key("rpc_meta/node-a:17001"));
        self.remove(&key);
        assert_eq!(self.ask(&key), None, "an absent key has no value");
        assert_eq!(self.revision(&key), None, "an absent key has no version");
        self.put(&key, b"{\"a\":1}");
        self.put(&other, b"{\"b\":2}");
        assert_eq!(self.ask(&key).as_deref(), Some(&b"{\"a\":1}"[..]), "values are kept");
        self.put(&key, b"{\"a\":3}");
        assert_eq!(self.ask(&key).as_deref(), Some(&b"{\"a\":3}"[..]), "the last value counts");
        assert_eq!(self.ask(&other).as_deref(), Some(&b"{\"b\":2}"[..]), "keys are independent");
        let large = format!("\"{}\"", "x".repeat(1_000_000)).into_bytes();
        self.put(&key, &large);
        assert!(self.ask(&key) == Some(large), "a megabyte comes back unchanged");
        self.remove(&key);
        assert_eq!(self.ask(&key), None, "a removed key is absent");
        assert!(self.ask(&other).is_some(), "removing one key leaves the others");
        self.remove(&key);
        self.remove(&other);
    }

    /// Keys are any text; nothing in them has a meaning on the way.
    fn keys(&self) {
        let names = ["a b&key=c%20d", "ключ/日本", "q?x#y+z;w\"'\\", "[::1]:17001", "node-b@eth0"];
        for (n, name) in names.iter().enumerate() {
            self.put(&self.key(name), n.to_string().as_bytes());
        }
        for (n, name) in names.iter().enumerate() {
            let key = self.key(name);
            assert_eq!(self.ask(&key), Some(n.to_string().into_bytes()), "{name} is a key");
            self.remove(&key);
            assert_eq!(self.ask(&key), None, "{name} is gone");
        }
    }

    fn claims(&self) {
        let (ours, other) = (lease(), lease());
        let key = self.key("rpc_meta/claimed");
        let first = self.hold(&key, 1, &ours);
        assert_eq!(self.revision(&key), Some(first.clone()), "what was put stands");
        let again = self.hold(&key, 2, &ours);
        assert_ne!(first, again, "another value is another version");
        let record = self.record(&key).expect("the record stands");
        assert_eq!((record.value, &record.revision), (value(&ours, 2), &again));
        match self.claim(&key, 3, &other, None) {
            Claim::Taken(by) => assert!(by.belongs_to(ours.owner), "the owner is told"),
            held @ Claim::Held(_) => panic!("a second claimant got {held:?}"),
        }
        assert_eq!(self.ask(&key), Some(value(&ours, 2)), "a refused claim changes nothing");
        self.remove(&key);
    }

    fn takes_over(&self) {
        let (dead, heir) = (lease(), lease());
        let key = self.key("rpc_meta/taken-over");
        let old = self.hold(&key, 1, &dead);
        let stands = self.hold(&key, 2, &dead);
        let late = self.claim(&key, 3, &heir, Some(&old));
        assert!(matches!(late, Claim::Taken(_)), "what changed meanwhile is not overwritten");
        let held = self.claim(&key, 3, &heir, Some(&stands));
        assert!(matches!(held, Claim::Held(_)), "what was looked at is: {held:?}");
        assert_eq!(self.ask(&key), Some(value(&heir, 3)));
        // A peer that knows no owners puts over everything, and its record is nobody's.
        self.remove(&key);
        self.put(&key, b"{\"rpc_port\":1}");
        assert!(
            matches!(self.claim(&key, 4, &heir, None), Claim::Taken(_)),
            "a peer's is not ours"
        );
        self.remove(&key);
    }

    fn releases(&self) {
        let (ours, other) = (lease(), lease());
        let key = self.key("rpc_meta/released");
        let release = |lease: &Lease| self.store.release(&key, lease.owner).expect("an answer");
        assert_eq!(release(&ours), Release::Absent);
        self.hold(&key, 1, &ours);
        assert_eq!(release(&other), Release::Foreign, "a leaving twin deletes nothing of ours");
        assert_eq!(self.ask(&key), Some(value(&ours, 1)));
        assert_eq!(release(&ours), Release::Removed);
        assert_eq!(self.ask(&key), None);
    }

    fn listing(&self) {
        let prefix = self.key("list/");
        let listed = || self.store.list(&prefix);
        if !self.can.list {
            assert!(
                listed().expect_err("it cannot list").is_not_supported(),
                "what cannot list says so"
            );
            return;
        }
        assert_eq!(listed().expect("keys are listed"), []);
        let names: Vec<String> = (0..12).map(|n| format!("{prefix}{n:02}*[x]")).collect();
        names.iter().rev().for_each(|name| self.put(name, b"\"value\""));
        self.put(&self.key("listed-not"), b"\"x\"");
        let found = listed().expect("keys are listed");
        assert_eq!(
            found.iter().map(|info| &info.key).collect::<Vec<_>>(),
            names.iter().collect::<Vec<_>>()
        );
        let all = self.store.list("").expect("all keys are listed");
        assert!(names.iter().all(|name| all.iter().any(|info| info.key == *name)), "{all:?}");
        for info in &found {
            let stands = self.revision(&info.key);
            assert!(info.revision.is_none() || info.revision == stands, "{info:?} is {stands:?}");
            assert!(info.bytes.is_none_or(|bytes| bytes == 7), "{info:?} has 7 bytes");
            self.remove(&info.key);
        }
        self.remove(&self.key("listed-not"));
    }

    fn watching(&self) {
        let prefix = self.key("watch/");
        if !self.can.watch {
            let refused = self.store.watch(&prefix).expect_err("what cannot watch says so");
            assert!(refused.is_not_supported(), "{refused}");
            return;
        }
        drop(self.store.watch("").expect("all keys can be watched"));
        let mut watch = self.store.watch(&prefix).expect("a watch begins");
        let quiet = watch.wait(Duration::from_millis(50)).expect("silence is an answer");
        assert!(quiet.changes.is_empty() && !quiet.is_reset, "nothing happened: {quiet:?}");
        let key = format!("{prefix}a");
        self.put(&self.key("unwatched"), b"0");
        self.put(&key, b"1");
        self.put(&key, b"2");
        self.remove(&key);
        let seen = changes(&mut *watch, |kinds| kinds.contains(&ChangeKind::Removed));
        assert!(seen.iter().all(|(name, _)| *name == key), "only the prefix is watched: {seen:?}");
        assert!(seen.len() >= 2, "put and removal are told: {seen:?}");
        self.remove(&self.key("unwatched"));
    }

    fn endings(&self) {
        let (ours, silent) = (lease(), lease());
        let (kept, ended) = (self.key("rpc_meta/kept"), self.key("rpc_meta/ended"));
        if !self.can.expiry {
            assert!(
                self.store.renew(&ours).expect_err("it ends nothing").is_not_supported(),
                "it is told"
            );
            return;
        }
        assert_eq!(self.renew(&ours), Renewal::Lost, "there is nothing to renew");
        self.hold(&kept, 1, &ours);
        self.hold(&ended, 1, &silent);
        let deadline = now() + TTL + LATE;
        while self.ask(&ended).is_some() {
            assert!(now() < deadline, "a record of a silent owner ends");
            assert_eq!(self.renew(&ours), Renewal::Kept);
            pause();
        }
        assert_eq!(self.ask(&kept), Some(value(&ours, 1)), "what is renewed lives on");
        assert_eq!(self.renew(&silent), Renewal::Lost, "the end is told");
        self.hold(&ended, 2, &silent);
        assert_eq!(self.renew(&silent), Renewal::Kept, "and can be mended");
        self.remove(&kept);
        self.remove(&ended);
    }
}

/// Waits until a watch has seen what is wanted.
fn changes(
    watch: &mut dyn Watch,
    enough: impl Fn(&[ChangeKind]) -> bool,
) -> Vec<(String, ChangeKind)> {
    let deadline = now() + LATE;
    let mut seen = Vec::new();
    loop {
        let changes = watch.wait(Duration::from_millis(500)).expect("a watch goes on");
        assert!(!changes.is_reset, "nothing was missed");
        seen.extend(changes.changes.into_iter().map(|change| (change.key, change.kind)));
        let kinds: Vec<ChangeKind> = seen.iter().map(|(_, kind)| *kind).collect();
        if enough(&kinds) {
            return seen;
        }
        assert!(now() < deadline, "the changes are told in time: {seen:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the suite waits for a service")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the suite waits for a service, with a deadline")]
fn pause() {
    std::thread::sleep(Duration::from_millis(300));
}
