//! Tasks and pieces that wait for a fresh descriptor of their peer.
//!
//! I1  Whatever is parked is looked at when the fetch ends, well or badly.
//! I2  A fetch that began before something was parked does not decide over it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{FetchTicket, RemoteSegment, SegmentId};
use te_transport::{FaultClass, Phase, SliceFault};

use super::paths::Via;
use super::queue::Item;
use super::{Classic, MAX_PAUSE, run, unreached};
use crate::batch::Batch;
use crate::peers::{Freshness, Peers};
use crate::retry::{Second, is_refused};
use crate::slices::Flight;
use crate::status::TaskState;
use crate::task::Piece;

/// A task whose range is not known, or a piece that failed.
#[derive(Debug)]
pub(super) struct Parked {
    batch: Arc<Batch>,
    task: usize,
    target: SegmentId,
    failure: Option<Failure>,
    /// When it was parked first; a descriptor must be at least as fresh.
    since: Option<Instant>,
}

#[derive(Debug)]
struct Failure {
    piece: Piece,
    fault: SliceFault,
    peer: Arc<RemoteSegment>,
    via: Via,
    /// The place of the failed slice in the order in which slices left for the peer.
    order: u32,
}

/// A piece that is tried again at a later time.
#[derive(Debug)]
pub(super) struct Delayed {
    at: Instant,
    target: SegmentId,
    item: Item,
}

impl Parked {
    pub(super) fn unlocated(batch: &Arc<Batch>, task: usize, target: SegmentId) -> Self {
        Self { batch: Arc::clone(batch), task, target, failure: None, since: None }
    }

    pub(super) fn faulted(flight: &Flight, fault: SliceFault) -> Self {
        let (peer, via) = (Arc::clone(flight.peer()), flight.via());
        let Flight { piece, order, .. } = *flight;
        let failure = Failure { piece, fault, peer, via, order };
        Self {
            batch: Arc::clone(&flight.batch),
            task: flight.index(),
            target: flight.peer().id(),
            failure: Some(failure),
            // A descriptor that was fetched after the failed try began is fresh enough: a burst of
            // faults costs one fetch, and a try too many where the peer left in between.
            since: Some(flight.since),
        }
    }
}

/// A fetch under way. However its job ends, the ticket is given back when this is dropped.
struct Errand {
    peers: Arc<Peers>,
    ticket: Option<FetchTicket>,
}

impl Errand {
    fn run(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            drop(self.peers.fetch(ticket));
        }
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.peers.abandon(ticket);
        }
    }
}

impl Classic {
    /// Parks, and sees to it that a fresh descriptor comes.
    pub(super) fn park(&self, mut parked: Parked) {
        let (target, since) = (parked.target, self.shared.clock.now());
        let since = *parked.since.get_or_insert(since);
        self.parked.lock().entry(target).or_default().push(parked);
        self.ask(target, since);
    }

    fn ask(&self, target: SegmentId, since: Instant) {
        match self.shared.peers.refresh(target, since) {
            Freshness::Newer(known) => self.unpark(target, since, Some(&known)),
            Freshness::Failed => self.unpark(target, since, None),
            Freshness::NotBefore(at) => {
                self.end_refused(target);
                self.asks.lock().push((at, target, since));
                self.shared.alarm.at(at);
            }
            Freshness::Fetch(ticket) => self.fetch(ticket),
            Freshness::Pending => {}
        }
    }

    /// Where nobody listens and a look a moment ago was in vain, another one is not waited for.
    fn end_refused(&self, target: SegmentId) {
        let refused = |parked: &Parked| {
            parked.failure.as_ref().is_some_and(|failure| is_refused(&failure.fault))
        };
        let mut parked = self.parked.lock();
        let Some(list) = parked.get_mut(&target) else { return };
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(list).into_iter().partition(refused);
        *list = kept;
        drop(parked);
        gone.into_iter().for_each(|parked| self.give_up(parked));
    }

    /// After a refusal the cache is stale; nobody waits for the result.
    pub(super) fn refresh_in_background(&self, target: SegmentId, since: Instant) {
        self.ask(target, since);
    }

    /// Fetches on a control thread; [`Classic::unpark`] is told by the cache when it ends.
    fn fetch(&self, ticket: FetchTicket) {
        self.shared.counters.refreshes.add(1);
        let mut errand = Errand { peers: Arc::clone(&self.shared.peers), ticket: Some(ticket) };
        // A job that is not taken is dropped, and gives the ticket back like any other.
        drop(self.shared.workers.run(Box::new(move || errand.run())));
    }

    /// Looks at everything parked for a peer up to `begun`, and asks again for what came later.
    pub(super) fn unpark(
        &self,
        target: SegmentId,
        begun: Instant,
        fresh: Option<&Arc<RemoteSegment>>,
    ) {
        let mut parked = self.parked.lock();
        let Some(list) = parked.remove(&target) else {
            drop(parked);
            return self.feed(target);
        };
        let (due, later): (Vec<_>, Vec<_>) =
            list.into_iter().partition(|p| p.since.is_none_or(|since| since <= begun));
        let again = later.iter().filter_map(|p| p.since).max();
        if !later.is_empty() {
            parked.insert(target, later);
        }
        drop(parked);
        for parked in due {
            match fresh {
                Some(fresh) => self.resume(parked, fresh),
                None => self.give_up(parked),
            }
        }
        if let Some(since) = again {
            self.ask(target, since);
        }
    }

    /// A peer that is known again may have requests waiting that nothing else would feed.
    fn feed(&self, target: SegmentId) {
        let queue = self.known_queue(target);
        if let Some(queue) = queue {
            self.pump(&queue);
        }
    }

    fn resume(&self, parked: Parked, fresh: &Arc<RemoteSegment>) {
        let located = {
            let inner = parked.batch.lock();
            let Some(work) = inner.tasks[parked.task].open_work() else { return };
            fresh.covers(&work.remote)
        };
        let Parked { batch, task, target, failure, .. } = parked;
        let Some(failure) = failure else {
            batch.lock().tasks[task].retarget(fresh);
            if !located {
                let cause = "the range is not inside one buffer that the peer offers";
                let fault = SliceFault::new(FaultClass::Refused, Phase::Metadata, cause);
                return self.end_one(&batch, task, TaskState::Failed, fault);
            }
            return self.enqueue(fresh, Item { batch, task, piece: None }, Duration::ZERO);
        };
        let (old, attempt) = (&failure.peer, failure.piece.attempt);
        let second = self.policy.after_refresh(attempt, &failure.fault, (old, fresh));
        match second {
            Second::Again(pause) if located => {
                self.shared.counters.retries.add(1);
                let piece = Piece { attempt: attempt + 1, ..failure.piece };
                self.enqueue(fresh, Item { batch, task, piece: Some(piece) }, pause);
            }
            Second::Restarted => {
                let mut fault = failure.fault;
                fault.class = FaultClass::Peer;
                fault.cause = format!("{}; the peer is another process since", fault.cause).into();
                self.end_one(&batch, task, TaskState::Failed, fault);
            }
            _ => {
                self.end_waiting(target, (failure.via, failure.order), &failure.fault);
                self.end_one(&batch, task, TaskState::Failed, failure.fault);
            }
        }
    }

    fn give_up(&self, parked: Parked) {
        let fault = match parked.failure {
            Some(failure) => {
                self.end_waiting(parked.target, (failure.via, failure.order), &failure.fault);
                failure.fault
            }
            None => {
                let cause = "the range is not in the known descriptor, and no newer one can be had";
                SliceFault::new(FaultClass::Refused, Phase::Metadata, cause)
            }
        };
        self.end_one(&parked.batch, parked.task, TaskState::Failed, fault);
    }

    fn enqueue(&self, peer: &Arc<RemoteSegment>, item: Item, pause: Duration) {
        let Some(queue) = self.queue(peer) else {
            return self.end_one(&item.batch, item.task, TaskState::Failed, unreached());
        };
        if pause.is_zero() {
            match item.piece {
                Some(_) => queue.push_front(&item),
                None => queue.push_back(&item.batch, run(item.task..item.task + 1)),
            }
            return self.pump(&queue);
        }
        let at = self.shared.clock.now() + pause.min(MAX_PAUSE);
        self.delayed.lock().push(Delayed { at, target: peer.id(), item });
        self.shared.alarm.at(at);
    }

    /// Asks again for the descriptors whose time has come; says when the next is.
    pub(super) fn ask_again(&self, now: Instant) -> Option<Instant> {
        let mut asks = self.asks.lock();
        let (due, later): (Vec<_>, Vec<_>) = asks.drain(..).partition(|(at, ..)| *at <= now);
        asks.extend(later);
        drop(asks);
        due.into_iter().for_each(|(_, target, since)| self.ask(target, since));
        self.asks.lock().iter().map(|(at, ..)| *at).min()
    }

    /// Queues what is due; says when the next is.
    pub(super) fn release_delayed(&self, now: Instant) -> Option<Instant> {
        let mut delayed = self.delayed.lock();
        let (due, later): (Vec<_>, Vec<_>) = delayed.drain(..).partition(|d| d.at <= now);
        let next = later.iter().map(|d| d.at).min();
        *delayed = later;
        drop(delayed);
        for Delayed { target, item, .. } in due {
            let queue = self.known_queue(target);
            if let Some(queue) = queue {
                queue.push_front(&item);
                self.pump(&queue);
            }
        }
        next
    }
}
