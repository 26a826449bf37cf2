//! What waits for one peer: batches take turns, and within a batch the order is that of submission.
//!
//! I1  An item is in the queue, with a transport, parked for a refresh, or gone.
//! I2  One thread at a time feeds a peer's transport; a wish to feed that comes meanwhile is
//!     honoured when it ends (no lost wake-up, no lock across `submit`).
//! I3  Of batches that wait, each gives as many bytes as the others, in turns of `GRANT`: a large one
//!     does not hold up a small one.
//! I4  Where a peer is given up that served nothing that left later, all that waits for it is given up.
//! I5  A request goes only to the process and to the registration it was meant for: one whose peer
//!     is another process now, or has registered the range anew, is handed back instead.
//! I6  What waits goes to the best transport that does not rest; a piece that one transport may still
//!     apply goes to no other.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use te_segment::{RemoteSegment, SegmentId, Slice, SlicePolicy, SliceToken};
use te_sync::Mutex;
use te_transport::{Clock, SliceSource, Transport};

use super::paths::Via;
use super::turns::{Entries, Entry, Turn, Turns};
use super::ways::{Route, Ways};
use crate::batch::{Batch, Inner};
use crate::retry::{is_other_process, is_other_registration};
use crate::slices::{Flight, OpenTable, SliceTable};
use crate::task::{Piece, Work};
use crate::turnstile::Turnstile;

/// A task to be cut, or one piece of it to be tried again.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) batch: Arc<Batch>,
    pub(crate) task: usize,
    pub(crate) piece: Option<Piece>,
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

/// The queue of one peer.
pub(crate) struct PeerQueue {
    pub(crate) ways: Arc<Ways>,
    waiting: Mutex<Waiting>,
    feeding: Turnstile,
    /// The route by which everything went last that might go by any, and [`Ways::looks`] then.
    route: Mutex<Option<(Arc<Route>, u32)>>,
    /// Whether pieces may wait for a certain transport.
    binds: AtomicBool,
}

impl PeerQueue {
    pub(crate) fn new(id: SegmentId, transports: Arc<[Arc<dyn Transport>]>) -> Self {
        Self {
            ways: Arc::new(Ways::new(id, transports)),
            waiting: Mutex::default(),
            feeding: Turnstile::default(),
            route: Mutex::default(),
            binds: AtomicBool::new(false),
        }
    }

    /// Appends tasks of one batch.
    pub(crate) fn push_back(&self, batch: &Arc<Batch>, tasks: Range<u32>) {
        self.waiting.lock().free.push_back(batch, tasks);
    }

    /// Puts an item before the others of its batch.
    pub(crate) fn push_front(&self, item: &Item) {
        let mut waiting = self.waiting.lock();
        waiting.of(item).push_front(item);
        self.binds.store(!waiting.bound.is_empty(), Ordering::Release);
    }

    /// Takes out everything that waits, unless a slice ended well that left later than the one at
    /// `order`, which failed: the peer is silent, and would be so for each of them in turn.
    pub(crate) fn give_up(&self, order: u32) -> Vec<Item> {
        if self.ways.has_served_after(order) {
            return Vec::new();
        }
        self.take_all()
    }

    fn take_all(&self) -> Vec<Item> {
        self.waiting.lock().all().flat_map(Turns::clear).collect()
    }

    /// Forgets what waits of tasks that are ending or final.
    pub(crate) fn purge(&self, batch: &Arc<Batch>) {
        self.waiting.lock().all().for_each(|turns| turns.purge(batch));
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
            let Some(route) = self.route(&peer, since) else {
                return fed.stranded.extend(self.take_all());
            };
            let feeding = Feeding { slices, ends, since };
            self.feed(&route, true, &feeding, &mut fed);
            for via in self.bound_elsewhere(route.via) {
                self.feed(&self.route_by(&peer, via), false, &feeding, &mut fed);
            }
        });
        fed
    }

    /// The route of this round, usually that of the last.
    fn route(&self, peer: &Arc<RemoteSegment>, now: Instant) -> Option<Arc<Route>> {
        let looks = self.ways.looks();
        let last = self.route.lock().clone();
        let last = last.filter(|(route, _)| Arc::ptr_eq(&route.peer, peer));
        if let Some((route, _)) = last.as_ref().filter(|(_, then)| *then == looks)
            && self.ways.is_well()
        {
            return Some(Arc::clone(route));
        }
        let via = self.ways.choose(peer, now)?;
        let route = match last {
            Some((route, _)) if route.via == via => route,
            _ => self.route_by(peer, via),
        };
        *self.route.lock() = Some((Arc::clone(&route), looks));
        Some(route)
    }

    fn route_by(&self, peer: &Arc<RemoteSegment>, via: Via) -> Arc<Route> {
        let (ways, peer) = (Arc::clone(&self.ways), Arc::clone(peer));
        Arc::new(Route { ways, peer, via })
    }

    fn feed(&self, route: &Arc<Route>, takes_free: bool, feeding: &Feeding<'_>, fed: &mut Fed) {
        let Feeding { slices, ends, since } = *feeding;
        let transport = &self.ways.transports[route.via.place()];
        let before = ends.load(Ordering::Acquire);
        let mut source = Source {
            queue: self,
            slices,
            route,
            takes_free,
            policy: transport.slices_to(&route.peer),
            since,
            orphans: &mut fed.orphans,
            judged: None,
        };
        transport.submit(&route.peer, &mut source);
        if ends.load(Ordering::Acquire) != before {
            let gone = slices.gone_since(route, since).into_iter();
            let is_ending = |batch: &Arc<Batch>, task: usize| batch.lock().tasks[task].is_ending();
            let ending = gone.filter(|(batch, task, _)| is_ending(batch, *task));
            fed.ending.push((route.via, ending.map(|(.., token)| token).collect()));
        }
    }

    /// Other transports that pieces wait for.
    fn bound_elsewhere(&self, best: Via) -> Vec<Via> {
        if !self.binds.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        waiting.bound.retain(|(_, turns)| !turns.is_empty());
        self.binds.store(!waiting.bound.is_empty(), Ordering::Release);
        waiting.bound.iter().map(|(via, _)| *via).filter(|via| *via != best).collect()
    }

    /// The peer that the first request was meant for.
    fn meant(&self) -> Option<Arc<RemoteSegment>> {
        let mut waiting = self.waiting.lock();
        waiting.all().find_map(|turns| {
            turns.firsts().find_map(|(batch, task)| {
                Some(Arc::clone(&batch.lock().tasks[task].open_work()?.peer))
            })
        })
    }
}

impl fmt::Debug for PeerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerQueue({:?}, {} batches)", self.ways.id, self.waiting.lock().free.len())
    }
}

/// What feeding the transports left to be done.
#[derive(Default)]
pub(crate) struct Fed {
    /// Items that were meant for what is not there any more.
    pub(crate) orphans: Vec<(Item, Gone)>,
    /// Items that no transport can take any more.
    pub(crate) stranded: Vec<Item>,
    /// Slices whose task was told to end while they were handed over.
    pub(crate) ending: Vec<(Via, Vec<SliceToken>)>,
}

/// What a request that waited was meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Another process than the peer is now.
    Process,
    /// A buffer that the peer does not offer any more as it was.
    Registration,
}

/// What every transport of one round is fed with.
#[derive(Clone, Copy)]
struct Feeding<'a> {
    slices: &'a SliceTable,
    ends: &'a AtomicU64,
    since: Instant,
}

struct Source<'a> {
    queue: &'a PeerQueue,
    slices: &'a SliceTable,
    route: &'a Arc<Route>,
    /// Whether it also takes what may go by any transport.
    takes_free: bool,
    policy: SlicePolicy,
    since: Instant,
    orphans: &'a mut Vec<(Item, Gone)>,
    /// The last snapshot that was compared with the peer, and whether it is of another process.
    judged: Option<(Arc<RemoteSegment>, bool)>,
}

impl SliceSource for Source<'_> {
    fn next_slice(&mut self) -> Option<Slice> {
        let mut next = None;
        self.pour(&mut |slice| {
            next = Some(slice);
            false
        });
        next
    }

    fn pour(&mut self, take: &mut dyn FnMut(Slice) -> bool) {
        let queue = self.queue;
        let mut waiting = queue.waiting.lock();
        if let Some(turns) = waiting.bound_to(self.route.via)
            && !self.pour_from(turns, take)
        {
            return;
        }
        if self.takes_free {
            self.pour_from(&mut waiting.free, take);
        }
    }
}

impl Source<'_> {
    /// Gives what waits, batch after batch as their turns come. Whether more is wanted.
    fn pour_from(&mut self, turns: &mut Turns, take: &mut dyn FnMut(Slice) -> bool) -> bool {
        while let Some((Turn { batch, entries, credit }, is_alone)) = turns.current() {
            let (mut inner, mut wants) = (batch.lock(), true);
            let mut table = self.slices.open();
            while let Some(slice) = self.next_of((batch, entries), (&mut inner, &mut table)) {
                credit.spend(slice.len(), is_alone);
                wants = take(slice);
                if !wants || credit.is_spent() {
                    break;
                }
            }
            drop(table);
            drop(inner);
            turns.end_empty();
            if !wants {
                return false;
            }
        }
        true
    }

    /// Why a request must not go to the peer as it is known now.
    fn orphaned(&mut self, work: &Work) -> Option<Gone> {
        let meant = &work.peer;
        if Arc::ptr_eq(meant, &self.route.peer) {
            return None;
        }
        if self.is_other_process(meant) {
            return Some(Gone::Process);
        }
        is_other_registration((meant, &self.route.peer), &work.remote).then_some(Gone::Registration)
    }

    fn is_other_process(&mut self, meant: &Arc<RemoteSegment>) -> bool {
        match &self.judged {
            Some((known, verdict)) if Arc::ptr_eq(known, meant) => *verdict,
            _ => {
                let verdict = is_other_process(meant, &self.route.peer);
                self.judged = Some((Arc::clone(meant), verdict));
                verdict
            }
        }
    }

    /// The next slice of a batch. Entries that have none left are taken out.
    fn next_of(
        &mut self,
        (batch, entries): (&Arc<Batch>, &mut Entries),
        (inner, table): (&mut Inner, &mut OpenTable<'_>),
    ) -> Option<Slice> {
        loop {
            let entry = entries.front_mut()?;
            let Some((index, again)) = entry.first() else {
                entries.pop_front();
                continue;
            };
            let task = &mut inner.tasks[index];
            if let Some(gone) = task.open_work().and_then(|work| self.orphaned(work)) {
                let batch = Arc::clone(batch);
                self.orphans.push((Item { batch, task: index, piece: again }, gone));
                step(entry, None);
                continue;
            }
            let (piece, rest) = match again {
                Some(piece) => {
                    let (piece, rest) = piece.split(self.policy.max_piece);
                    (Some(piece), rest)
                }
                None => (task.cut(&self.policy), None),
            };
            let launched =
                piece.and_then(|piece| Some((piece, task.launch(piece, self.route.via)?)));
            if again.is_some() || task.is_cut() {
                step(entry, rest);
            }
            let Some((piece, launch)) = launched else { continue };
            inner.leave(self.route.via);
            let token = table.insert(self.flight(batch, index, piece));
            if entry.first().is_none() {
                entries.pop_front();
            }
            return Some(Slice {
                token,
                op: launch.op,
                local: launch.local,
                remote: launch.remote,
                peer: Arc::clone(&self.route.peer),
                attempt: piece.attempt,
                checked: launch.checked,
            });
        }
    }

    fn flight(&self, batch: &Arc<Batch>, task: usize, piece: Piece) -> Flight {
        Flight {
            batch: Arc::clone(batch),
            route: Arc::clone(self.route),
            since: self.since,
            piece,
            held: None,
            task: u32::try_from(task).expect("a batch has fewer than 2^32 tasks"),
            order: self.queue.ways.next_order(),
        }
    }
}

/// Goes on to the next task of an entry, or to the rest of its piece.
fn step(entry: &mut Entry, rest: Option<Piece>) {
    match (&mut *entry, rest) {
        (Entry::Fresh(tasks), _) => tasks.start += 1,
        (Entry::Again(task, _), Some(rest)) => *entry = Entry::Again(*task, rest),
        (Entry::Again(..), None) => *entry = Entry::Fresh(0..0),
    }
}
