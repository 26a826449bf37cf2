//! Turns of the keeper, on storage that fails where it is told to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Command, Keeper, Unavailable};
use crate::catalog::{EventKind, Guard, News, Put, Refusal, Terms};
use crate::counters::Counters;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::storage::{Change, Changes, Loaded, Storage, StorageError};

/// A disk in memory.
#[derive(Debug, Default)]
struct State {
    loaded: Loaded,
    fails_commit: bool,
    fails_load: bool,
    n_commits: usize,
}

#[derive(Debug, Clone, Default)]
struct Faulty(Arc<Mutex<State>>);

fn fault(action: &'static str) -> StorageError {
    let full = redb::Error::Io(std::io::Error::from(std::io::ErrorKind::StorageFull));
    StorageError::Io { action, source: Box::new(full) }
}

impl Storage for Faulty {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        let state = self.0.lock();
        if state.fails_load { Err(fault("read")) } else { Ok(state.loaded.clone()) }
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), StorageError> {
        let mut state = self.0.lock();
        state.n_commits += 1;
        if state.fails_commit {
            return Err(fault("write"));
        }
        state.loaded.revision = Some(changes.revision);
        for change in changes.list.clone() {
            let (Change::Put { key, .. } | Change::Delete { key }) = &change;
            state.loaded.records.retain(|(name, _)| **name != **key);
            if let Change::Put { key, record } = change {
                state.loaded.records.push((key.to_string(), record));
            }
        }
        Ok(())
    }
}

struct Bench {
    keeper: Keeper,
    disk: Faulty,
    now: Moment,
}

type Answer<T> = oneshot::Receiver<Result<T, Unavailable>>;

impl Bench {
    fn new() -> Self {
        let (disk, now) = (Faulty::default(), crate::clock::now());
        let limits = Limits { max_watchers: 2, ..Limits::default() };
        let boxed = Box::new(disk.clone());
        let keeper = Keeper::open(boxed, &limits, Arc::new(Counters::default()), now).unwrap();
        Self { keeper, disk, now }
    }

    fn turn(&mut self, batch: Vec<Command>) {
        self.keeper.turn(self.now, batch);
    }

    fn get(&mut self, key: &str) -> Result<Option<Bytes>, Unavailable> {
        let (reply, mut answer) = oneshot::channel();
        self.turn(vec![Command::Get { key: key.to_owned(), reply }]);
        answer.try_recv().unwrap().map(|found| found.map(|entry| entry.record.value))
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.disk.0.lock());
    }
}

fn put(key: &str, value: &'static str) -> (Command, Answer<Result<Put, Refusal>>) {
    let (reply, answer) = oneshot::channel();
    let terms = Terms { owner: None, ttl: None, guard: Guard::Always };
    let value = Bytes::from_static(value.as_bytes());
    (Command::Put { key: key.to_owned(), value, terms, reply }, answer)
}

fn watch(prefix: &str, since: Option<u64>, ms: u64) -> (Command, Answer<Option<News>>) {
    let (reply, answer) = oneshot::channel();
    let wait = Duration::from_millis(ms);
    (Command::Watch { prefix: prefix.to_owned(), since, wait, reply }, answer)
}

#[test]
fn all_that_waits_is_one_commit() {
    let mut bench = Bench::new();
    let (batch, mut answers): (Vec<_>, Vec<_>) =
        (0..100).map(|n| put(&format!("k{n}"), "v")).unzip();
    bench.turn(batch);
    assert!(answers.iter_mut().all(|answer| answer.try_recv().unwrap().unwrap().is_ok()));
    assert_eq!(bench.disk.0.lock().n_commits, 1);
    assert_eq!(bench.disk.0.lock().loaded.records.len(), 100);
}

#[test]
fn what_cannot_be_stored_is_told_and_forgotten() {
    let mut bench = Bench::new();
    let (command, _) = put("k", "old");
    bench.turn(vec![command]);
    bench.set(|state| state.fails_commit = true);
    let ((lost, mut answer), (get, mut read)) = (put("k", "new"), oneshot::channel());
    bench.turn(vec![lost, Command::Get { key: "k".to_owned(), reply: get }]);
    assert_eq!(answer.try_recv().unwrap(), Err(Unavailable::Storage));
    assert!(read.try_recv().unwrap().is_err(), "it would have told what was never stored");
    assert_eq!(bench.get("k").unwrap().unwrap(), "old");
    bench.set(|state| state.fails_commit = false);
    let (command, mut answer) = put("k", "newer");
    bench.turn(vec![command]);
    assert!(answer.try_recv().unwrap().unwrap().is_ok());
    assert_eq!(bench.get("k").unwrap().unwrap(), "newer");
}

#[test]
fn a_store_that_cannot_be_read_is_tried_again() {
    let mut bench = Bench::new();
    let (command, _) = put("k", "v");
    bench.turn(vec![command]);
    bench.set(|state| (state.fails_commit, state.fails_load) = (true, true));
    let (command, _answer) = put("k", "w");
    bench.turn(vec![command]);
    assert_eq!(bench.get("k"), Err(Unavailable::Storage));
    bench.set(|state| (state.fails_commit, state.fails_load) = (false, false));
    assert_eq!(bench.get("k"), Err(Unavailable::Storage), "not at once");
    bench.now = bench.now.after(Duration::from_secs(2));
    assert_eq!(bench.get("k").unwrap().unwrap(), "v");
}

#[test]
fn a_watcher_hears_of_its_prefix_once_it_is_stored() {
    let mut bench = Bench::new();
    let (command, mut news) = watch("a/", None, 10_000);
    bench.turn(vec![command]);
    bench.turn(vec![put("b/1", "v").0]);
    assert!(news.try_recv().is_err(), "another prefix");
    bench.turn(vec![put("a/1", "v").0]);
    let news = news.try_recv().unwrap().unwrap().unwrap();
    assert_eq!((news.events.len(), news.events[0].kind), (1, EventKind::Put));
    assert_eq!((&*news.events[0].key, news.reset), ("a/1", false));
    let (again, mut none) = watch("a/", Some(news.revision), 50);
    bench.turn(vec![again]);
    assert!(none.try_recv().is_err());
    bench.now = bench.now.after(Duration::from_millis(50));
    bench.turn(Vec::new());
    assert!(!none.try_recv().unwrap().unwrap().unwrap().is_news());
}

#[test]
fn watchers_are_limited_forgotten_when_gone_and_sent_home_at_the_end() {
    let mut bench = Bench::new();
    let (one, gone) = watch("", None, 10_000);
    let (two, mut stays) = watch("", None, 10_000);
    let (three, mut too_many) = watch("", None, 10_000);
    bench.turn(vec![one, two, three]);
    assert_eq!(too_many.try_recv().unwrap(), Ok(None));
    drop(gone);
    bench.turn(Vec::new());
    let (four, mut taken) = watch("", None, 10_000);
    bench.turn(vec![four]);
    assert!(taken.try_recv().is_err(), "there is room again");
    bench.turn(vec![Command::Drain]);
    assert!(!stays.try_recv().unwrap().unwrap().unwrap().is_news());
    let (five, mut late) = watch("", None, 10_000);
    bench.turn(vec![five]);
    assert!(late.try_recv().unwrap().unwrap().is_some());
}

#[test]
fn revisions_of_a_failed_commit_are_not_told_to_watchers() {
    let mut bench = Bench::new();
    let (command, mut news) = watch("", None, 10_000);
    bench.turn(vec![command]);
    bench.set(|state| state.fails_commit = true);
    bench.turn(vec![put("k", "v").0]);
    // The store is as it was, and so is the watcher's place; whether it waits on or starts anew is
    // the same to it. An event of what was never stored would not be.
    assert!(news.try_recv().map_or(true, |news| news.unwrap().unwrap().events.is_empty()));
}
