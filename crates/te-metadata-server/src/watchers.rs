//! Those who wait for news, without any I/O.
//!
//! I1  Who waits has been told everything up to the catalog's revision at his last turn.
//! I2  Nobody waits past his deadline, once [`Watchers::due`] was called.

use std::time::Instant;

use crate::catalog::{Catalog, News};

/// One who waits; `T` is where the answer goes.
#[derive(Debug)]
pub(crate) struct Watcher<T> {
    pub(crate) prefix: String,
    pub(crate) since: u64,
    pub(crate) deadline: Instant,
    pub(crate) reply: T,
}

/// All who wait, at most `max` of them.
#[derive(Debug)]
pub(crate) struct Watchers<T> {
    waiting: Vec<Watcher<T>>,
    max: usize,
}

impl<T> Watchers<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { waiting: Vec::new(), max }
    }

    /// Lets one wait; who is too many comes back.
    pub(crate) fn add(&mut self, watcher: Watcher<T>) -> Result<(), Watcher<T>> {
        if self.waiting.len() >= self.max {
            return Err(watcher);
        }
        self.waiting.push(watcher);
        Ok(())
    }

    /// Takes out those for whom the catalog has news.
    pub(crate) fn woken(&mut self, catalog: &Catalog) -> Vec<(T, News)> {
        let mut woken = Vec::new();
        let mut i = 0;
        while let Some(watcher) = self.waiting.get_mut(i) {
            let news = catalog.news(watcher.since, &watcher.prefix);
            if news.is_news() {
                woken.push((self.waiting.swap_remove(i).reply, news));
            } else {
                watcher.since = news.revision;
                i += 1;
            }
        }
        woken
    }

    /// Takes out those whose time is over, with `now` in the far future everybody.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<T> {
        self.waiting.extract_if(.., |watcher| watcher.deadline <= now).map(|w| w.reply).collect()
    }

    /// Takes out everybody.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        self.waiting.drain(..).map(|watcher| watcher.reply).collect()
    }

    /// Forgets those who are gone.
    pub(crate) fn retain(&mut self, mut is_there: impl FnMut(&T) -> bool) {
        self.waiting.retain(|watcher| is_there(&watcher.reply));
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|watcher| watcher.deadline).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}
