//! What waits for one peer: batches take turns, and within a batch the order is that of submission.
//!
//! I1  An item is in the queue, with a transport, parked for a refresh, or gone.
//! I2  One thread at a time feeds a peer's transport; a wish to feed that comes meanwhile is
//!     honoured when it ends (no lost wake-up, no lock across `submit`).
//! I3  Of batches that wait, each gives as many bytes as the others, in turns of `GRANT`: a large one
//!     does not hold up a small one.
//! I4  Where a peer is given up that served nothing since, all that waits for it is given up.
//! I5  A request goes only to the process it was meant for: one whose peer is another process now
//!     is handed back instead.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use te_segment::{RemoteSegment, SegmentId, Slice, SlicePolicy, SliceToken};
use te_transport::{Clock, SliceSource, Transport};

use crate::batch::Batch;
use crate::id::BatchId;
use crate::retry::is_other_process;
use crate::slices::{Flight, SliceTable};
use crate::task::Piece;
use crate::turnstile::Turnstile;

/// A task to be cut, or one piece of it to be tried again.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) batch: Arc<Batch>,
    pub(crate) task: usize,
    pub(crate) piece: Option<Piece>,
}

/// Items of one batch.
struct Turn {
    batch: Arc<Batch>,
    items: VecDeque<Item>,
    /// Bytes it may still give in this turn; what it gave beyond is a debt for the next ones.
    credit: i64,
}

/// What a batch is granted each time its turn comes, bytes.
const GRANT: i64 = 64 << 10;

/// The batches that wait, and whose turn it is. A batch is in both or in neither.
#[derive(Default)]
struct Turns {
    order: VecDeque<BatchId>,
    by_batch: HashMap<BatchId, Turn>,
}

impl Turns {
    /// The items of a batch, which joins the end of the line where it has none yet.
    fn of(&mut self, batch: &Arc<Batch>) -> &mut VecDeque<Item> {
        let (id, order) = (batch.id(), &mut self.order);
        let turn = self.by_batch.entry(id).or_insert_with(|| {
            order.push_back(id);
            Turn { batch: Arc::clone(batch), items: VecDeque::new(), credit: GRANT }
        });
        &mut turn.items
    }

    fn take_first(&mut self) -> Option<Turn> {
        let id = self.order.pop_front()?;
        self.by_batch.remove(&id)
    }

    /// A batch with credit goes on, one without waits for its next turn.
    fn put_back(&mut self, turn: Turn) {
        if turn.credit > 0 && !turn.items.is_empty() {
            self.order.push_front(turn.batch.id());
            self.by_batch.insert(turn.batch.id(), turn);
        } else {
            self.put_last(turn);
        }
    }

    fn put_last(&mut self, turn: Turn) {
        if !turn.items.is_empty() {
            let id = turn.batch.id();
            if te_metadata::sabotage::is_off("turns") {
                self.order.push_front(id);
            } else {
                self.order.push_back(id);
            }
            self.by_batch.insert(id, turn);
        }
    }
}

/// The queue of one peer and the transport that serves it.
pub(crate) struct PeerQueue {
    pub(crate) id: SegmentId,
    pub(crate) transport: Arc<dyn Transport>,
    turns: Mutex<Turns>,
    feeding: Turnstile,
    /// When a slice last ended well.
    served: Mutex<Option<Instant>>,
}

impl PeerQueue {
    pub(crate) fn new(id: SegmentId, transport: Arc<dyn Transport>) -> Self {
        let (turns, feeding, served) = (Mutex::default(), Turnstile::default(), Mutex::default());
        Self { id, transport, turns, feeding, served }
    }

    /// Appends items, all of one batch.
    pub(crate) fn push_back(&self, batch: &Arc<Batch>, items: impl IntoIterator<Item = Item>) {
        self.turns.lock().of(batch).extend(items);
    }

    /// Puts an item before the others of its batch.
    pub(crate) fn push_front(&self, item: Item) {
        let batch = Arc::clone(&item.batch);
        self.turns.lock().of(&batch).push_front(item);
    }

    /// A slice ended well.
    pub(crate) fn on_served(&self, now: Instant) {
        *self.served.lock() = Some(now);
    }

    /// Takes out everything that waits, where no slice has ended well since then: the peer is
    /// silent, and would be so for each of them in turn.
    pub(crate) fn give_up(&self, since: Instant) -> Vec<Item> {
        if self.served.lock().is_some_and(|at| at >= since) {
            return Vec::new();
        }
        let mut turns = self.turns.lock();
        turns.order.clear();
        turns.by_batch.drain().flat_map(|(_, turn)| turn.items).collect()
    }

    /// Forgets items of a batch whose task is ending or final. A batch without items is taken out
    /// when its turn comes.
    pub(crate) fn purge(&self, batch: &Arc<Batch>) {
        let mut turns = self.turns.lock();
        let Some(turn) = turns.by_batch.get_mut(&batch.id()) else { return };
        let inner = batch.lock();
        turn.items.retain(|item| inner.tasks[item.task].open_work().is_some());
    }

    /// Feeds the transport until it has no room or nothing is left. `ends` counts how often tasks
    /// were told to end.
    pub(crate) fn pump(
        &self,
        slices: &SliceTable,
        clock: &dyn Clock,
        ends: &AtomicU64,
        peer: impl Fn() -> Option<Arc<RemoteSegment>>,
    ) -> Fed {
        let mut fed = Fed::default();
        self.feeding.pass(|| {
            // A peer that was forgotten meanwhile is the one that the first request was meant for.
            let Some(peer) = peer().or_else(|| self.meant()) else { return };
            let before = ends.load(Ordering::Acquire);
            let mut source = Source {
                queue: self,
                slices,
                peer: &peer,
                policy: self.transport.slices_to(&peer),
                since: clock.now(),
                orphans: &mut fed.orphans,
                given: Vec::new(),
                judged: None,
            };
            self.transport.submit(&peer, &mut source);
            if ends.load(Ordering::Acquire) != before {
                let given = source.given.into_iter();
                fed.ending.extend(given.filter(Given::is_ending).map(|given| given.token));
            }
        });
        fed
    }

    /// The peer that the first request was meant for.
    fn meant(&self) -> Option<Arc<RemoteSegment>> {
        let turns = self.turns.lock();
        let mut items = turns.order.iter().filter_map(|id| turns.by_batch[id].items.front());
        items.find_map(|item| {
            Some(Arc::clone(&item.batch.lock().tasks[item.task].open_work()?.peer))
        })
    }
}

impl fmt::Debug for PeerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerQueue({:?}, {} batches)", self.id, self.turns.lock().order.len())
    }
}

/// What feeding a transport left to be done.
#[derive(Default)]
pub(crate) struct Fed {
    /// Items that were meant for another process than the peer is now.
    pub(crate) orphans: Vec<Item>,
    /// Slices whose task was told to end while they were handed over.
    pub(crate) ending: Vec<SliceToken>,
}

/// A slice that was handed over.
struct Given {
    batch: Arc<Batch>,
    task: usize,
    token: SliceToken,
}

impl Given {
    fn is_ending(&self) -> bool {
        self.batch.lock().tasks[self.task].is_ending()
    }
}

struct Source<'a> {
    queue: &'a PeerQueue,
    slices: &'a SliceTable,
    peer: &'a Arc<RemoteSegment>,
    policy: SlicePolicy,
    since: Instant,
    orphans: &'a mut Vec<Item>,
    given: Vec<Given>,
    /// The last snapshot that was compared with `peer`, and whether it is of another process.
    judged: Option<(Arc<RemoteSegment>, bool)>,
}

impl SliceSource for Source<'_> {
    fn next_slice(&mut self) -> Option<Slice> {
        let mut turns = self.queue.turns.lock();
        loop {
            let mut turn = turns.take_first()?;
            let alone = turns.order.is_empty();
            if turn.credit <= 0 && !alone {
                turn.credit += GRANT;
                turns.put_last(turn);
                continue;
            }
            let slice = self.next_of(&mut turn);
            let given = slice.as_ref().map_or(0, Slice::len);
            turn.credit =
                if alone { GRANT } else { turn.credit - i64::try_from(given).unwrap_or(0) };
            turns.put_back(turn);
            if slice.is_some() {
                return slice;
            }
        }
    }
}

impl Source<'_> {
    /// Whether a request that was meant for `meant` must not go to the peer.
    fn is_orphan(&mut self, meant: &Arc<RemoteSegment>) -> bool {
        if Arc::ptr_eq(meant, self.peer) {
            return false;
        }
        match &self.judged {
            Some((known, verdict)) if Arc::ptr_eq(known, meant) => *verdict,
            _ => {
                let verdict = is_other_process(meant, self.peer);
                self.judged = Some((Arc::clone(meant), verdict));
                verdict
            }
        }
    }

    /// The next slice of a batch. Items that have none left are taken out.
    fn next_of(&mut self, turn: &mut Turn) -> Option<Slice> {
        let mut inner = turn.batch.lock();
        loop {
            let front = turn.items.front()?;
            let task = &mut inner.tasks[front.task];
            let meant = task.open_work().map(|work| Arc::clone(&work.peer));
            if meant.is_some_and(|meant| self.is_orphan(&meant)) {
                self.orphans.extend(turn.items.pop_front());
                continue;
            }
            let piece = front.piece.or_else(|| task.cut(&self.policy));
            let is_last = front.piece.is_some() || task.is_cut();
            let launched = piece.and_then(|piece| Some((piece, task.launch(piece)?)));
            let index = front.task;
            if is_last {
                turn.items.pop_front();
            }
            let Some((piece, launch)) = launched else { continue };
            let (batch, peer) = (Arc::clone(&turn.batch), Arc::clone(self.peer));
            let flight = Flight { batch, task: index, piece, peer, since: self.since, held: None };
            let token = self.slices.insert(flight);
            self.given.push(Given { batch: Arc::clone(&turn.batch), task: index, token });
            return Some(Slice {
                token,
                op: launch.op,
                local: launch.local,
                remote: launch.remote,
                peer: Arc::clone(self.peer),
                attempt: piece.attempt,
                checked: launch.checked,
            });
        }
    }
}
