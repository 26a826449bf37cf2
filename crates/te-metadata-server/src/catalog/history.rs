//! What happened lately, for those who watch.
//!
//! I1  Revisions rise strictly from one event to the next.
//! I2  Every event after `floor` is here; a watcher that stands before it is told so.

use std::collections::VecDeque;
use std::sync::Arc;

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// It has a new value or a new owner.
    Put,
    /// It is gone: deleted, or its time ran out.
    Delete,
}

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
}

/// The answer to "what came after this revision?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct News {
    /// Everything up to here has been told.
    pub(crate) revision: u64,
    /// Oldest first.
    pub(crate) events: Vec<Event>,
    /// Some of it is forgotten: the watcher must list again.
    pub(crate) reset: bool,
}

impl News {
    /// Whether there is something to tell.
    pub(crate) fn is_news(&self) -> bool {
        self.reset || !self.events.is_empty()
    }
}

/// The last events, at most `max_events` of them and [`MAX_BYTES`] of keys.
#[derive(Debug)]
pub(crate) struct History {
    events: VecDeque<Event>,
    floor: u64,
    bytes: usize,
    max_events: usize,
}

impl History {
    /// Knows nothing of what was at or before `floor`.
    pub(crate) fn new(floor: u64, max_events: usize) -> Self {
        Self { events: VecDeque::new(), floor, bytes: 0, max_events }
    }

    /// Adds the newest event, and forgets the oldest where there are too many.
    pub(crate) fn push(&mut self, event: Event) {
        self.bytes += event.key.len();
        self.events.push_back(event);
        while self.events.len() > self.max_events || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.key.len();
            self.floor = oldest.revision;
        }
    }

    /// Events after `since` on keys that begin with `prefix`; `revision` is that of the catalog.
    pub(crate) fn since(&self, since: u64, prefix: &str, revision: u64) -> News {
        if since < self.floor || since > revision {
            return News { revision, events: Vec::new(), reset: true };
        }
        let from = self.events.partition_point(|event| event.revision <= since);
        let matching = self.events.range(from..).filter(|event| event.key.starts_with(prefix));
        let mut events: Vec<Event> = matching.take(MAX_ANSWER + 1).cloned().collect();
        let mut told = revision;
        if events.len() > MAX_ANSWER {
            events.truncate(MAX_ANSWER);
            told = events.last().map_or(revision, |event| event.revision);
        }
        News { revision: told, events, reset: false }
    }

    /// How many events are kept.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }
}

/// Keys are up to 4 KiB long; this keeps the whole below what a person would call a leak.
const MAX_BYTES: usize = 16 << 20;

/// Events of one answer; the watcher asks again for the rest.
const MAX_ANSWER: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64, key: &str) -> Event {
        Event { kind: EventKind::Put, key: key.into(), revision }
    }

    fn revisions(news: &News) -> Vec<u64> {
        news.events.iter().map(|event| event.revision).collect()
    }

    #[test]
    fn what_is_forgotten_is_a_reset_and_the_rest_is_told_in_order() {
        let mut history = History::new(10, 3);
        for revision in 11..=15 {
            history.push(event(revision, if revision % 2 == 0 { "even/x" } else { "odd/x" }));
        }
        assert_eq!(history.len(), 3);
        assert!(history.since(11, "", 15).reset, "12 is forgotten");
        assert_eq!(revisions(&history.since(12, "", 15)), [13, 14, 15]);
        assert_eq!(revisions(&history.since(12, "even/", 15)), [14]);
        assert!(!history.since(15, "", 15).is_news());
    }

    #[test]
    fn a_revision_from_another_life_is_a_reset() {
        let history = History::new(10, 3);
        assert!(history.since(11, "", 10).reset, "nobody gave out 11");
        assert!(history.since(9, "", 10).reset);
        assert!(!history.since(10, "", 10).reset);
    }

    #[test]
    fn a_long_answer_is_cut_and_can_be_continued() {
        let mut history = History::new(0, 10_000);
        (1..=6000).for_each(|revision| history.push(event(revision, "k")));
        let first = history.since(0, "", 6000);
        assert_eq!((first.events.len(), first.revision), (MAX_ANSWER, 4096));
        let second = history.since(first.revision, "", 6000);
        assert_eq!((second.events.len(), second.revision), (6000 - MAX_ANSWER, 6000));
    }

    #[test]
    fn long_keys_are_forgotten_earlier() {
        let mut history = History::new(0, usize::MAX);
        let key = "k".repeat(1 << 20);
        (1..=40).for_each(|revision| history.push(event(revision, &key)));
        assert_eq!(history.len(), 16);
        assert!(history.since(23, "", 40).reset);
        assert!(!history.since(24, "", 40).reset);
    }
}
