//! A sink that writes down what it is told.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{SegmentId, SliceToken};
use te_sync::{Condvar, Mutex};

use crate::clock::{Clock as _, SystemClock};
use crate::completion::{Completion, CompletionSink};

type Probe = dyn Fn(&Completion) + Send + Sync;

#[derive(Default)]
struct Log {
    completions: Vec<Completion>,
    rooms: Vec<SegmentId>,
}

/// A [`CompletionSink`] that keeps every completion, in order.
#[derive(Default)]
pub struct Recorder {
    log: Mutex<Log>,
    changed: Condvar,
    probe: Option<Box<Probe>>,
}

impl Recorder {
    /// An empty recorder.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// A recorder that calls `probe` with each completion, on the thread that reports it and
    /// before it is kept: whatever is promised of a completion must hold there already.
    pub fn with_probe(probe: impl Fn(&Completion) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { probe: Some(Box::new(probe)), ..Self::default() })
    }

    /// How many completions came.
    pub fn count(&self) -> usize {
        self.log.lock().completions.len()
    }

    /// How often a transport told of room.
    pub fn rooms(&self) -> usize {
        self.log.lock().rooms.len()
    }

    /// All completions, in the order they came.
    pub fn completions(&self) -> Vec<Completion> {
        self.log.lock().completions.clone()
    }

    /// The completions of one slice: one, where the transport is right.
    pub fn of(&self, token: SliceToken) -> Vec<Completion> {
        let log = self.log.lock();
        log.completions.iter().filter(|c| c.token == token).cloned().collect()
    }

    /// Waits until at least `n` completions came, at most `patience` of real time. Whether they did.
    pub fn wait_for(&self, n: usize, patience: Duration) -> bool {
        self.wait_until(deadline(patience), |log| log.completions.len() >= n)
    }

    /// Waits until more than `seen` completions and calls of `room` together came, at most
    /// `patience` of real time.
    pub fn wait_beyond(&self, seen: usize, patience: Duration) -> bool {
        self.wait_until(deadline(patience), |log| log.completions.len() + log.rooms.len() > seen)
    }

    /// Compares what came with the slices that were handed over: each must have ended once.
    ///
    /// # Errors
    /// [`Miscount`] names those that did not.
    pub fn check_exactly_once(&self, tokens: &[SliceToken]) -> Result<(), Miscount> {
        let mut counts: HashMap<SliceToken, usize> = HashMap::new();
        for completion in &self.log.lock().completions {
            *counts.entry(completion.token).or_default() += 1;
        }
        let mut miscount = Miscount::default();
        for token in tokens {
            match counts.remove(token) {
                None => miscount.missing.push(*token),
                Some(1) => {}
                Some(_) => miscount.repeated.push(*token),
            }
        }
        miscount.unknown.extend(counts.into_keys());
        if miscount == Miscount::default() { Ok(()) } else { Err(miscount) }
    }

    fn wait_until(&self, deadline: Instant, done: impl Fn(&Log) -> bool) -> bool {
        let mut log = self.log.lock();
        self.changed.wait_while_until(&mut log, |log| !done(log), deadline);
        done(&log)
    }
}

impl CompletionSink for Recorder {
    fn complete(&self, completion: Completion) {
        if let Some(probe) = &self.probe {
            probe(&completion);
        }
        self.log.lock().completions.push(completion);
        self.changed.notify_all();
    }

    fn room(&self, peer: SegmentId) {
        self.log.lock().rooms.push(peer);
        self.changed.notify_all();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} completions)", self.count())
    }
}

/// Slices that did not end exactly once.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error(
    "slices that never ended: {missing:?}, ended more than once: {repeated:?}, ended but were not handed over: {unknown:?}"
)]
pub struct Miscount {
    /// No completion came.
    pub missing: Vec<SliceToken>,
    /// More than one came.
    pub repeated: Vec<SliceToken>,
    /// A completion came for a slice that is not in the list.
    pub unknown: Vec<SliceToken>,
}

fn deadline(patience: Duration) -> Instant {
    SystemClock.now() + patience
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::RemoteSide;

    fn token(slot: u32) -> SliceToken {
        SliceToken::new(slot, 1)
    }

    fn complete(recorder: &Recorder, slot: u32) {
        let remote = RemoteSide::Settled;
        recorder.complete(Completion { token: token(slot), result: Ok(()), remote });
    }

    #[test]
    fn a_miscount_names_every_slice_that_did_not_end_once() {
        let recorder = Recorder::new();
        [1, 2, 2, 5].into_iter().for_each(|slot| complete(&recorder, slot));
        let wrong = recorder.check_exactly_once(&[token(1), token(2), token(3)]).unwrap_err();
        assert_eq!(wrong.missing, [token(3)]);
        assert_eq!(wrong.repeated, [token(2)]);
        assert_eq!(wrong.unknown, [token(5)]);
        let right = Recorder::new();
        complete(&right, 1);
        assert_eq!(right.check_exactly_once(&[token(1)]), Ok(()));
    }

    #[test]
    fn waiting_ends_with_the_completion_or_with_patience() {
        let recorder = Recorder::new();
        assert!(!recorder.wait_for(1, Duration::from_millis(1)));
        std::thread::scope(|scope| {
            scope.spawn(|| complete(&recorder, 1));
            assert!(recorder.wait_for(1, Duration::from_secs(60)));
        });
        assert!(recorder.wait_beyond(0, Duration::ZERO));
        recorder.room(SegmentId::from_u64(1));
        assert!(recorder.wait_beyond(1, Duration::ZERO));
        assert!(!recorder.wait_beyond(2, Duration::ZERO));
    }
}
