//! What waits for one peer, in order of submission.
//!
//! I1  An item is in the queue, with a transport, parked for a refresh, or gone.
//! I2  One thread at a time feeds a peer's transport; a wish to feed that comes meanwhile is
//!     honoured when it ends (no lost wake-up, no lock across `submit`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use te_segment::{RemoteSegment, SegmentId, Slice};
use te_transport::{Clock, SliceSource, Transport};

use crate::batch::Batch;
use crate::slices::{Flight, SliceTable};
use crate::task::Piece;

/// A task to be cut, or one piece of it to be tried again.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) batch: Arc<Batch>,
    pub(crate) task: usize,
    pub(crate) piece: Option<Piece>,
}

/// The queue of one peer and the transport that serves it.
pub(crate) struct PeerQueue {
    pub(crate) id: SegmentId,
    pub(crate) transport: Arc<dyn Transport>,
    items: Mutex<VecDeque<Item>>,
    /// Wishes to feed that are not honoured yet.
    wishes: AtomicUsize,
}

impl PeerQueue {
    pub(crate) fn new(id: SegmentId, transport: Arc<dyn Transport>) -> Self {
        Self { id, transport, items: Mutex::default(), wishes: AtomicUsize::new(0) }
    }

    pub(crate) fn push_back(&self, items: impl IntoIterator<Item = Item>) {
        self.items.lock().extend(items);
    }

    pub(crate) fn push_front(&self, item: Item) {
        self.items.lock().push_front(item);
    }

    /// Forgets items whose task is ending or final.
    pub(crate) fn purge(&self) {
        let is_open = |item: &Item| item.batch.lock().tasks[item.task].open_work().is_some();
        self.items.lock().retain(is_open);
    }

    /// Feeds the transport until it has no room or nothing is left.
    pub(crate) fn pump(
        &self,
        slices: &SliceTable,
        clock: &dyn Clock,
        peer: impl Fn() -> Option<Arc<RemoteSegment>>,
    ) {
        if self.wishes.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        let mut honoured = 1;
        loop {
            if let Some(peer) = peer() {
                let mut source = Source { queue: self, slices, peer: &peer, since: clock.now() };
                self.transport.submit(&peer, &mut source);
            }
            let left = self.wishes.fetch_sub(honoured, Ordering::AcqRel) - honoured;
            if left == 0 {
                return;
            }
            honoured = left;
        }
    }

    /// The next piece and its task.
    fn next(&self, source: &Source<'_>) -> Option<Slice> {
        let (slices, peer) = (source.slices, source.peer);
        let mut items = self.items.lock();
        loop {
            let front = items.front()?;
            let mut inner = front.batch.lock();
            let task = &mut inner.tasks[front.task];
            let policy = self.transport.capabilities().slices;
            let piece = front.piece.or_else(|| task.cut(&policy));
            let is_last = front.piece.is_some() || task.is_cut();
            let launched = piece.and_then(|piece| Some((piece, task.launch(piece)?)));
            drop(inner);
            let item = if is_last { items.pop_front()? } else { front.clone() };
            if let Some((piece, (op, local, remote))) = launched {
                let Item { batch, task, .. } = item;
                let (since, attempt, peer) = (source.since, piece.attempt, Arc::clone(peer));
                let flight = Flight { batch, task, piece, peer: Arc::clone(&peer), since };
                let token = slices.insert(flight);
                return Some(Slice { token, op, local, remote, peer, attempt });
            }
        }
    }
}

impl fmt::Debug for PeerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerQueue({:?}, {} items)", self.id, self.items.lock().len())
    }
}

struct Source<'a> {
    queue: &'a PeerQueue,
    slices: &'a SliceTable,
    peer: &'a Arc<RemoteSegment>,
    since: Instant,
}

impl SliceSource for Source<'_> {
    fn next_slice(&mut self) -> Option<Slice> {
        self.queue.next(self)
    }
}
