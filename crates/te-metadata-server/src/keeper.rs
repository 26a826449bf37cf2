//! The one owner of the catalog: takes commands, makes changes durable, then answers.
//!
//! ```text
//!   connections ──▶ inbox ──▶ all commands that wait ──▶ catalog ──▶ one commit ──▶ answers
//!                 (bounded)                                              │
//!                                                              fails: the catalog is read anew
//! ```
//!
//! The thread `te-keeper` runs [`Keeper::run`]; nothing else touches the catalog, so that nothing
//! is locked. A commit covers everything that arrived during the one before, which keeps the
//! rate up when each costs a disk a few milliseconds.
//!
//! I1  An answer is sent after what it tells is durable, also an answer to a read.
//! I2  After a failed commit nothing of it is remembered, and everybody in it is told.

mod command;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tracing::{error, info};

use crate::catalog::{Catalog, Entry, News, Quota};
use crate::clock;
use crate::counters::Counters;
use crate::limits::Limits;
use crate::moment::{Moment, millis};
use crate::storage::{Storage, StorageError};
use crate::watchers::{Watcher, Watchers};

pub(crate) use command::{Census, Command, Handle, Listed, Listing, Reply, Unavailable};

/// Catalog, storage, and those who wait for news.
#[derive(Debug)]
pub(crate) struct Keeper {
    catalog: Catalog,
    storage: Box<dyn Storage>,
    watchers: Watchers<Reply<Option<News>>>,
    counters: Arc<Counters>,
    quota: Quota,
    /// When a storage that cannot be read is tried again.
    broken: Option<Instant>,
    /// Nobody waits for news any more.
    is_draining: bool,
}

/// Answers of one turn: told whether its commit succeeded, they go out.
type Answers = Vec<Box<dyn FnOnce(bool)>>;

impl Keeper {
    /// Reads what is stored.
    pub(crate) fn open(
        mut storage: Box<dyn Storage>,
        limits: &Limits,
        counters: Arc<Counters>,
        now: Moment,
    ) -> Result<Self, StorageError> {
        let quota = Quota {
            max_keys: limits.max_keys,
            max_bytes: limits.max_bytes,
            max_events: limits.max_events,
        };
        let catalog = Catalog::restore(storage.load()?, first_revision(now), quota, now);
        let watchers = Watchers::new(limits.max_watchers);
        let (broken, is_draining) = (None, false);
        let keeper = Self { catalog, storage, watchers, counters, quota, broken, is_draining };
        keeper.publish();
        Ok(keeper)
    }

    /// Works until every sender is gone.
    pub(crate) fn run(mut self, inbox: &Receiver<Command>) {
        loop {
            let now = clock::now();
            let first = match inbox.recv_timeout(self.rest(now)) {
                Ok(first) => Some(first),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let batch = first.into_iter().chain(inbox.try_iter()).take(MAX_BATCH).collect();
            self.turn(clock::now(), batch);
        }
    }

    /// Does all of `batch`, and whatever is due.
    pub(crate) fn turn(&mut self, now: Moment, batch: Vec<Command>) {
        if !self.is_readable(now) {
            batch.into_iter().for_each(|command| command.refuse(Unavailable::Storage));
            self.publish();
            return;
        }
        self.catalog.sweep(now);
        let mut answers = Answers::new();
        batch.into_iter().for_each(|command| self.perform(now, command, &mut answers));
        let is_good = self.commit(now);
        answers.into_iter().for_each(|answer| answer(is_good));
        self.tell_watchers(now);
        self.publish();
    }

    /// How long nothing is due.
    fn rest(&self, now: Moment) -> Duration {
        let due = [self.catalog.next_expiry(), self.watchers.next_deadline(), self.broken];
        due.into_iter()
            .flatten()
            .map(|at| now.until(at))
            .min()
            .unwrap_or(LONGEST_REST)
            .min(LONGEST_REST)
    }

    fn perform(&mut self, now: Moment, command: Command, answers: &mut Answers) {
        match command {
            Command::Put { key, value, terms, reply } => {
                later(answers, reply, self.catalog.put(now, &key, value, &terms));
            }
            Command::Delete { key, terms, reply } => {
                later(answers, reply, self.catalog.delete(now, &key, &terms));
            }
            Command::Renew { owner, ttl, reply } => {
                later(answers, reply, self.catalog.renew(now, &owner, ttl));
            }
            Command::Get { key, reply } => {
                later(answers, reply, self.catalog.get(now, &key).cloned());
            }
            Command::List { prefix, after, limit, reply } => {
                later(answers, reply, self.listing(now, &prefix, after.as_deref(), limit));
            }
            Command::Census { needle, limit, reply } => {
                later(answers, reply, self.census(&needle, limit));
            }
            Command::Watch { prefix, since, wait, reply } => {
                self.watch(now, (prefix, since), wait, reply);
            }
            Command::Drain => self.is_draining = true,
        }
    }

    fn listing(&self, now: Moment, prefix: &str, after: Option<&str>, limit: usize) -> Listing {
        let mut listing =
            Listing { revision: self.catalog.revision(), keys: Vec::new(), more: false };
        let mut bytes = 0;
        for (key, entry) in self.catalog.list(prefix, after) {
            if listing.keys.len() >= limit || bytes > MAX_LISTING {
                listing.more = true;
                break;
            }
            bytes += key.len();
            listing.keys.push(Listed {
                key: Arc::clone(key),
                revision: entry.record.revision,
                owner: entry.record.owner.clone(),
                expires_ms: entry.expires.map(|at| millis(now.until(at))),
                bytes: entry.record.value.len(),
            });
        }
        listing
    }

    fn census(&self, needle: &str, limit: usize) -> Census {
        let found = |key: &str| needle.is_empty() || key.contains(needle);
        let mut matching = self.catalog.list("", None).filter(|(key, _)| found(key));
        let first: Vec<(Arc<str>, Entry)> = matching
            .by_ref()
            .take(limit)
            .map(|(key, entry)| (Arc::clone(key), entry.clone()))
            .collect();
        Census { n_matching: first.len() + matching.count(), entries: first }
    }

    /// Whoever asks waits, also when there are news: these go out after the commit.
    fn watch(
        &mut self,
        now: Moment,
        (prefix, since): (String, Option<u64>),
        wait: Duration,
        reply: Reply<Option<News>>,
    ) {
        let since = since.unwrap_or_else(|| self.catalog.revision());
        let deadline = if self.is_draining { now.mono } else { now.mono + wait };
        if let Err(watcher) = self.watchers.add(Watcher { prefix, since, deadline, reply }) {
            let _ = watcher.reply.send(Ok(None));
        }
    }

    fn tell_watchers(&mut self, now: Moment) {
        for (reply, news) in self.watchers.woken(&self.catalog) {
            let _ = reply.send(Ok(Some(news)));
        }
        let revision = self.catalog.revision();
        let silent = |reply: Reply<Option<News>>| {
            let _ = reply.send(Ok(Some(News { revision, events: Vec::new(), reset: false })));
        };
        if self.is_draining {
            self.watchers.take_all().into_iter().for_each(silent);
        } else {
            self.watchers.due(now.mono).into_iter().for_each(silent);
            self.watchers.retain(|reply| !reply.is_closed());
        }
    }

    /// Makes the changes durable. If that fails, the catalog becomes again what storage holds.
    fn commit(&mut self, now: Moment) -> bool {
        let Some(changes) = self.catalog.take_changes() else { return true };
        let result = self.storage.commit(&changes);
        self.counters.committed(clock::now().mono.saturating_duration_since(now.mono));
        let Err(fault) = result else { return true };
        error!(fault = &fault as &dyn std::error::Error, "changes cannot be stored");
        self.counters.n_failed_commits.fetch_add(1, Relaxed);
        self.reload(now);
        false
    }

    fn is_readable(&mut self, now: Moment) -> bool {
        match self.broken {
            Some(retry_at) if retry_at > now.mono => false,
            Some(_) => self.reload(now),
            None => true,
        }
    }

    fn reload(&mut self, now: Moment) -> bool {
        // Revisions that a failed commit would have had must not be given out a second time.
        let first = first_revision(now).max(self.catalog.revision());
        match self.storage.load() {
            Ok(loaded) => {
                self.catalog = Catalog::restore(loaded, first, self.quota, now);
                if self.broken.take().is_some() {
                    info!("the data file can be used again");
                }
                true
            }
            Err(fault) => {
                error!(fault = &fault as &dyn std::error::Error, "the data file cannot be read");
                self.broken = Some(now.mono + RETRY);
                false
            }
        }
    }

    fn publish(&self) {
        self.counters.is_broken.store(self.broken.is_some(), Relaxed);
        self.counters.set_totals(&self.catalog.totals(), self.watchers.len());
    }
}

/// Keeps an answer until its turn's commit.
fn later<T: Send + 'static>(answers: &mut Answers, reply: Reply<T>, value: T) {
    answers.push(Box::new(move |is_good| {
        // Whoever asked may be gone.
        let _ = reply.send(if is_good { Ok(value) } else { Err(Unavailable::Storage) });
    }));
}

/// Where a store that knows nothing begins: microseconds since 1970. A server without a data file
/// that is started again is then always ahead of its former self, so that a revision which a
/// client remembers from before never names something else. It stays below 2^53 until 2255.
fn first_revision(now: Moment) -> u64 {
    now.unix_ms.saturating_mul(1000)
}

/// Commands of one turn. More would only make the first one wait.
const MAX_BATCH: usize = 1024;

/// Bytes of keys in one listing.
const MAX_LISTING: usize = 1 << 20;

/// Watchers who have hung up are noticed at the next turn.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How long a storage that failed is left alone.
const RETRY: Duration = Duration::from_secs(1);
