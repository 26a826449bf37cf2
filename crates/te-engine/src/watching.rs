//! Descriptors of peers are asked for anew when the metadata service tells that they changed.
//!
//! ```text
//!   first opening ──▶ thread "te-watch": wait for changes ──▶ a fetch for each known segment that
//!                     changed, on the control threads
//! ```
//!
//! I1  Nobody who opens or reads a descriptor waits for this thread.
//! I2  However many changes come, of each segment one fetch is under way and one waits.
//! I3  Without a watch nothing is lost but time: a descriptor is still asked for when it fails to
//!     fit, and at a period where one is set.
//!
//! Threads: one, of an engine that has opened a segment of a store that can tell changes. It is not
//! joined: its call is bounded, it holds nothing of the engine meanwhile, and it ends after it.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use te_metadata::{ChangeKind, Changes, MetadataStore, Watch};
use te_segment::SegmentId;
use te_sync::{Condvar, Mutex};

use crate::peers::Peers;
use crate::workers::Workers;

/// The handle.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    stage: Mutex<Stage>,
    changed: Condvar,
    /// Segments whose fetch waits for a thread.
    waiting: Mutex<HashSet<SegmentId>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Started,
    Over,
}

/// One question to the service. A thread of an engine that is gone stays as long.
const ROUND: Duration = Duration::from_secs(5);
/// After a failure the next try is made so much later, and later each time.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

impl Watching {
    /// Begins to watch, at the first call only. A store that cannot tell changes ends it at once.
    pub(crate) fn start(&self, peers: &Arc<Peers>, workers: &Arc<Workers>) {
        let Some(store) = peers.directory().metadata_store() else { return };
        let mut stage = self.state.stage.lock();
        if *stage != Stage::Idle || !peers.is_cached() || matches!(**workers, Workers::Inline) {
            return;
        }
        let watcher = Watcher {
            store: Arc::downgrade(store),
            peers: Arc::downgrade(peers),
            workers: Arc::downgrade(workers),
            state: Arc::clone(&self.state),
        };
        let thread = std::thread::Builder::new().name("te-watch".into());
        match thread.spawn(move || watcher.run()) {
            Ok(_) => *stage = Stage::Started,
            // The next opening tries again.
            Err(error) => tracing::warn!(%error, "no thread for changes of peers"),
        }
    }

    /// The thread ends as soon as it can.
    pub(crate) fn close(&self) {
        *self.state.stage.lock() = Stage::Over;
        self.state.changed.notify_all();
    }
}

/// What the thread works with. It keeps nothing of the engine alive while it waits.
#[derive(Debug)]
struct Watcher {
    store: Weak<dyn MetadataStore>,
    peers: Weak<Peers>,
    workers: Weak<Workers>,
    state: Arc<State>,
}

impl Watcher {
    fn run(&self) {
        let mut pause = PAUSE_MIN;
        while let Some(opened) = self.open() {
            match opened {
                Ok(watch) => {
                    pause = PAUSE_MIN;
                    // What changed before it began.
                    self.refresh(None);
                    self.follow(watch);
                }
                Err(error) if error.is_not_supported() => return,
                Err(error) => tracing::debug!(%error, "changes of peers cannot be watched"),
            }
            if !self.rest(pause) {
                return;
            }
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// A watch over the cluster's keys; `None` when it is over.
    fn open(&self) -> Option<Result<Box<dyn Watch>, te_metadata::StoreError>> {
        let (store, peers) = (self.store.upgrade()?, self.peers.upgrade()?);
        let prefix = peers.directory().key_prefix()?;
        let opened = match store.capabilities() {
            Ok(can) if !can.watch => return None,
            Ok(_) => store.watch(prefix),
            Err(error) => Err(error),
        };
        Some(opened)
    }

    /// Takes changes until that is over; a watch outlives failures.
    fn follow(&self, mut watch: Box<dyn Watch>) {
        let mut pause = PAUSE_MIN;
        loop {
            let goes_on = match watch.wait(ROUND) {
                Ok(Changes { changes, is_reset }) => {
                    pause = PAUSE_MIN;
                    // A descriptor that is gone tells nothing; its successor is put.
                    let puts = changes.iter().filter(|change| change.kind == ChangeKind::Put);
                    let keys = (!is_reset).then(|| puts.map(|put| put.key.as_str()).collect());
                    self.refresh(keys.as_ref())
                }
                Err(error) if error.is_not_supported() => return,
                Err(error) => {
                    tracing::debug!(%error, "changes of peers could not be watched");
                    let rests = self.rest(pause);
                    pause = (2 * pause).min(PAUSE_MAX);
                    rests
                }
            };
            if !goes_on || *self.state.stage.lock() == Stage::Over {
                return;
            }
        }
    }

    /// Asks anew for the known segments whose keys are among these, or for all; false when the
    /// engine is gone.
    fn refresh(&self, keys: Option<&HashSet<&str>>) -> bool {
        let (Some(peers), Some(workers)) = (self.peers.upgrade(), self.workers.upgrade()) else {
            return false;
        };
        if keys.is_some_and(HashSet::is_empty) {
            return true;
        }
        for (id, name) in peers.known() {
            let key = peers.directory().segment_key(&name).unwrap_or_default();
            let has_changed = keys.is_none_or(|keys| keys.contains(key.as_str()));
            if has_changed && self.state.waiting.lock().insert(id) {
                self.fetch(id, Arc::clone(&peers), &workers);
            }
        }
        true
    }

    fn fetch(&self, id: SegmentId, peers: Arc<Peers>, workers: &Workers) {
        let state = Arc::clone(&self.state);
        let job = move || {
            // What changes from here on needs another fetch.
            state.waiting.lock().remove(&id);
            peers.fetch_newer(id);
        };
        if workers.run(Box::new(job)).is_err() {
            // Too much waits already: the peer is asked when something does not fit.
            self.state.waiting.lock().remove(&id);
        }
    }

    /// Waits; false when it is over.
    fn rest(&self, pause: Duration) -> bool {
        let mut stage = self.state.stage.lock();
        self.state.changed.wait_while_for(&mut stage, |stage| *stage != Stage::Over, pause);
        *stage != Stage::Over
    }
}
