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
//! I6  What waits goes to the best transport that does not rest; a piece that one transport may still
//!     apply goes to no other.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use te_segment::{RemoteSegment, SegmentId, Slice, SlicePolicy, SliceToken};
use te_transport::{Clock, SliceSource, Transport};

use super::paths::{Failed, Paths, Via, Vias};
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

    /// Takes everything out.
    fn clear(&mut self) -> impl Iterator<Item = Item> {
        self.order.clear();
        std::mem::take(&mut self.by_batch).into_values().flat_map(|turn| turn.items)
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

/// What waits: for any transport, and for a certain one.
#[derive(Default)]
struct Waiting {
    free: Turns,
    bound: Vec<(Via, Turns)>,
}

impl Waiting {
    /// Where an item belongs.
    fn of(&mut self, item: &Item) -> &mut Turns {
        let Some(via) = item.piece.and_then(|piece| piece.bound) else { return &mut self.free };
        let place = self.bound.iter().position(|(bound, _)| *bound == via).unwrap_or_else(|| {
            self.bound.push((via, Turns::default()));
            self.bound.len() - 1
        });
        &mut self.bound[place].1
    }

    fn bound_to(&mut self, via: Via) -> Option<&mut Turns> {
        self.bound.iter_mut().find(|(bound, _)| *bound == via).map(|(_, turns)| turns)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Turns> {
        std::iter::once(&mut self.free).chain(self.bound.iter_mut().map(|(_, turns)| turns))
    }
}

/// The queue of one peer, and the transports that may serve it.
pub(crate) struct PeerQueue {
    pub(crate) id: SegmentId,
    transports: Arc<[Arc<dyn Transport>]>,
    paths: Mutex<Paths>,
    /// Whether some transport rests, or has not served since.
    troubled: AtomicBool,
    waiting: Mutex<Waiting>,
    feeding: Turnstile,
    /// How many slices ended well.
    served: AtomicU64,
}

impl PeerQueue {
    pub(crate) fn new(id: SegmentId, transports: Arc<[Arc<dyn Transport>]>) -> Self {
        Self {
            id,
            transports,
            paths: Mutex::default(),
            troubled: AtomicBool::new(false),
            waiting: Mutex::default(),
            feeding: Turnstile::default(),
            served: AtomicU64::new(0),
        }
    }

    /// The transport to take now, by what the peer publishes and how the last tries went.
    pub(crate) fn choose(&self, peer: &Arc<RemoteSegment>, now: Instant) -> Option<Via> {
        let mut paths = self.paths.lock();
        if !paths.knows(peer) {
            drop(paths);
            let reach = Vias::reaching(&self.transports, peer);
            paths = self.paths.lock();
            paths.learn(peer, reach);
        }
        paths.choose(now)
    }

    /// A transport failed; see [`Paths::fail`].
    pub(crate) fn on_failed(&self, via: Via, now: Instant) -> Failed {
        let failed = self.paths.lock().fail(via, now);
        if matches!(failed, Failed::Rests(_)) {
            self.troubled.store(true, Ordering::Release);
        }
        failed
    }

    /// A slice that left at `since` ended well.
    pub(crate) fn on_served(&self, via: Via, since: Instant) {
        self.served.fetch_add(1, Ordering::AcqRel);
        if self.troubled.load(Ordering::Acquire) {
            let mut paths = self.paths.lock();
            let is_well = paths.serve(via, since);
            self.troubled.store(!is_well, Ordering::Release);
        }
    }

    /// Appends items, all of one batch.
    pub(crate) fn push_back(&self, batch: &Arc<Batch>, items: impl IntoIterator<Item = Item>) {
        self.waiting.lock().free.of(batch).extend(items);
    }

    /// Puts an item before the others of its batch.
    pub(crate) fn push_front(&self, item: Item) {
        let batch = Arc::clone(&item.batch);
        self.waiting.lock().of(&item).of(&batch).push_front(item);
    }

    /// Takes out everything that waits, where no more than `served` slices have ended well: the peer
    /// is silent since then, and would be so for each of them in turn.
    pub(crate) fn give_up(&self, served: u64) -> Vec<Item> {
        if self.served.load(Ordering::Acquire) != served {
            return Vec::new();
        }
        self.take_all()
    }

    fn take_all(&self) -> Vec<Item> {
        self.waiting.lock().all().flat_map(Turns::clear).collect()
    }

    /// Forgets items of a batch whose task is ending or final. A batch without items is taken out
    /// when its turn comes.
    pub(crate) fn purge(&self, batch: &Arc<Batch>) {
        let mut waiting = self.waiting.lock();
        for turns in waiting.all() {
            let Some(turn) = turns.by_batch.get_mut(&batch.id()) else { continue };
            let inner = batch.lock();
            turn.items.retain(|item| inner.tasks[item.task].open_work().is_some());
        }
    }

    /// Feeds the transports until they have no room or nothing is left. `ends` counts how often
    /// tasks were told to end.
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
            let since = clock.now();
            let Some(best) = self.choose(&peer, since) else {
                return fed.stranded.extend(self.take_all());
            };
            let feeding = Feeding { slices, ends, peer: &peer, since };
            self.feed(best, true, &feeding, &mut fed);
            for via in self.bound_elsewhere(best) {
                self.feed(via, false, &feeding, &mut fed);
            }
        });
        fed
    }

    fn feed(&self, via: Via, takes_free: bool, feeding: &Feeding<'_>, fed: &mut Fed) {
        let Feeding { slices, ends, peer, since } = *feeding;
        let transport = &self.transports[via.place()];
        let before = ends.load(Ordering::Acquire);
        let mut source = Source {
            queue: self,
            slices,
            peer,
            via,
            takes_free,
            policy: transport.slices_to(peer),
            since,
            served: self.served.load(Ordering::Acquire),
            orphans: &mut fed.orphans,
            given: Vec::new(),
            judged: None,
        };
        transport.submit(peer, &mut source);
        if ends.load(Ordering::Acquire) != before {
            let given = source.given.into_iter();
            let ending = given.filter(Given::is_ending).map(|given| given.token).collect();
            fed.ending.push((via, ending));
        }
    }

    /// Other transports that pieces wait for.
    fn bound_elsewhere(&self, best: Via) -> Vec<Via> {
        let mut waiting = self.waiting.lock();
        waiting.bound.retain(|(_, turns)| !turns.order.is_empty());
        waiting.bound.iter().map(|(via, _)| *via).filter(|via| *via != best).collect()
    }

    /// The peer that the first request was meant for.
    fn meant(&self) -> Option<Arc<RemoteSegment>> {
        let mut waiting = self.waiting.lock();
        let mut items = waiting
            .all()
            .flat_map(|turns| turns.order.iter().filter_map(|id| turns.by_batch[id].items.front()));
        items.find_map(|item| {
            Some(Arc::clone(&item.batch.lock().tasks[item.task].open_work()?.peer))
        })
    }
}

impl fmt::Debug for PeerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerQueue({:?}, {} batches)", self.id, self.waiting.lock().free.order.len())
    }
}

/// What feeding the transports left to be done.
#[derive(Default)]
pub(crate) struct Fed {
    /// Items that were meant for another process than the peer is now.
    pub(crate) orphans: Vec<Item>,
    /// Items that no transport can take any more.
    pub(crate) stranded: Vec<Item>,
    /// Slices whose task was told to end while they were handed over.
    pub(crate) ending: Vec<(Via, Vec<SliceToken>)>,
}

/// What every transport of one round is fed with.
#[derive(Clone, Copy)]
struct Feeding<'a> {
    slices: &'a SliceTable,
    ends: &'a AtomicU64,
    peer: &'a Arc<RemoteSegment>,
    since: Instant,
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
    via: Via,
    /// Whether it also takes what may go by any transport.
    takes_free: bool,
    policy: SlicePolicy,
    since: Instant,
    served: u64,
    orphans: &'a mut Vec<Item>,
    given: Vec<Given>,
    /// The last snapshot that was compared with `peer`, and whether it is of another process.
    judged: Option<(Arc<RemoteSegment>, bool)>,
}

impl SliceSource for Source<'_> {
    fn next_slice(&mut self) -> Option<Slice> {
        let mut waiting = self.queue.waiting.lock();
        if let Some(turns) = waiting.bound_to(self.via)
            && let Some(slice) = self.next_from(turns)
        {
            return Some(slice);
        }
        if self.takes_free { self.next_from(&mut waiting.free) } else { None }
    }
}

impl Source<'_> {
    fn next_from(&mut self, turns: &mut Turns) -> Option<Slice> {
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
            let front = turn.items.front_mut()?;
            let index = front.task;
            let task = &mut inner.tasks[index];
            let meant = task.open_work().map(|work| Arc::clone(&work.peer));
            if meant.is_some_and(|meant| self.is_orphan(&meant)) {
                self.orphans.extend(turn.items.pop_front());
                continue;
            }
            let (piece, is_last) = match front.piece {
                Some(piece) => {
                    let (piece, rest) = piece.split(self.policy.max_piece);
                    front.piece = rest;
                    (Some(piece), rest.is_none())
                }
                None => {
                    let piece = task.cut(&self.policy);
                    (piece, task.is_cut())
                }
            };
            let launched = piece.and_then(|piece| Some((piece, task.launch(piece, self.via)?)));
            if is_last {
                turn.items.pop_front();
            }
            let Some((piece, launch)) = launched else { continue };
            inner.leave(self.via);
            let token = self.slices.insert(self.flight(&turn.batch, index, piece));
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

    fn flight(&self, batch: &Arc<Batch>, task: usize, piece: Piece) -> Flight {
        Flight {
            batch: Arc::clone(batch),
            task,
            piece,
            peer: Arc::clone(self.peer),
            via: self.via,
            served: self.served,
            since: self.since,
            held: None,
        }
    }
}
