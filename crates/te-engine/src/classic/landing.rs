//! What comes back from the transports: the end of each slice, and where a failed one goes next.
//!
//! I1  A piece whose path failed before any byte of it moved goes over to the next transport that
//!     reaches the peer, at once.
//!     So does one whose local memory is not registered, where the next transport takes it as it is.
//! I2  A piece that a transport may still apply at the peer goes to that transport again, or nowhere.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use te_segment::SegmentId;
use te_transport::{Completion, CompletionSink, FaultClass, Phase, RemoteSide, SliceFault};

use super::park::Parked;
use super::paths::{Failed, Via, Vias};
use super::queue::Item;
use super::{Classic, Sealed};
use crate::batch::Inner;
use crate::data_path::DataPath as _;
use crate::retry::Verdict;
use crate::slices::{Flight, OpenTable};
use crate::status::TaskState;
use crate::task::{Landing, Piece};

/// How often a piece may go over to another transport.
const MAX_DETOURS: u8 = 32;

impl Classic {
    /// Takes the ends of slices, those of one batch under its lock together.
    fn land_all(&self, ends: &mut VecDeque<Completion>) {
        let mut next = self.next_end(&mut self.slices.open(), ends);
        while let Some(end) = next {
            next = if end.1.result.is_ok() {
                self.land_run(&end, ends)
            } else {
                self.land(end.0, &end.1);
                self.next_end(&mut self.slices.open(), ends)
            };
        }
    }

    /// The next end of a slice that is in flight.
    fn next_end(
        &self,
        table: &mut OpenTable<'_>,
        ends: &mut VecDeque<Completion>,
    ) -> Option<(Flight, Completion)> {
        loop {
            let end = ends.pop_front()?;
            if let Some(flight) = table.take(end.token) {
                return Some((flight, end));
            }
            self.shared.counters.stale_completions.add(1);
        }
    }

    /// Lands slices of one batch that ended well. Gives the first end that is of another kind.
    fn land_run(
        &self,
        first: &(Flight, Completion),
        ends: &mut VecDeque<Completion>,
    ) -> Option<(Flight, Completion)> {
        let batch = &first.0.batch;
        let (mut inner, mut sealed) = (batch.lock(), Sealed::default());
        self.land_well(&mut inner, first, &mut sealed);
        let mut table = self.slices.open();
        let next = loop {
            match self.next_end(&mut table, ends) {
                Some(end) if end.1.result.is_ok() && Arc::ptr_eq(&end.0.batch, batch) => {
                    self.land_well(&mut inner, &end, &mut sealed);
                }
                other => break other,
            }
        };
        drop(table);
        self.seal(batch, inner, &sealed);
        next
    }

    fn land_well(&self, inner: &mut Inner, end: &(Flight, Completion), sealed: &mut Sealed) {
        let (flight, end) = end;
        let task = flight.index();
        inner.arrive(flight.via());
        let len = inner.tasks[task].len();
        match inner.tasks[task].land(flight.piece, end) {
            Landing::Final => self.note_end(inner, task, len, sealed),
            _ => inner.look_at(task),
        }
        flight.route.ways.on_served(flight.via(), flight.since, flight.order);
    }

    fn land(&self, flight: Flight, completion: &Completion) {
        let (task, via, piece) = (flight.index(), flight.via(), flight.piece);
        let landing = self.apply(&flight.batch, task, |inner| {
            inner.arrive(via);
            inner.tasks[task].land(piece, completion)
        });
        if let Landing::Fault(fault) = landing {
            self.fail(flight, fault, completion.remote);
        }
    }

    fn fail(&self, mut flight: Flight, fault: SliceFault, remote: RemoteSide) {
        if let Some(via) = self.without_registration(&flight, &fault) {
            flight.piece.bound = Some(via);
            return self.detour(&flight);
        }
        let has_other = self.leave_path(&flight, &fault, remote);
        if remote == RemoteSide::InDoubt && !te_metadata::sabotage::is_off("doubt-binds") {
            flight.piece.bound = Some(flight.via());
        }
        let may_go = flight.piece.bound.is_none() && flight.piece.detours < MAX_DETOURS;
        if has_other && may_go {
            return self.detour(&flight);
        }
        match self.policy.judge(flight.piece.attempt, &fault) {
            Verdict::Refresh => self.park(Parked::faulted(&flight, fault)),
            Verdict::GiveUp => {
                let state = match fault.class {
                    FaultClass::Cancelled | FaultClass::Closed => TaskState::Canceled,
                    _ => TaskState::Failed,
                };
                if matches!(fault.class, FaultClass::Refused | FaultClass::Peer) {
                    self.refresh_in_background(flight.peer().id(), flight.since);
                }
                self.end_waiting(flight.peer().id(), (flight.via(), flight.order), &fault);
                self.end_one(&flight.batch, flight.index(), state, fault);
            }
        }
    }

    /// Where a transport could not begin because local memory is not registered, as it needs: the best
    /// one that reaches the peer and takes memory as it is (peer fault 28).
    fn without_registration(&self, flight: &Flight, fault: &SliceFault) -> Option<Via> {
        let needs = |via: Via| self.transports[via.place()].capabilities().needs_local_registration;
        let is_that = fault.class == FaultClass::Local && fault.phase == Phase::Queue;
        if !is_that || flight.piece.bound.is_some() || !needs(flight.via()) {
            return None;
        }
        Vias::reaching(&self.transports, flight.peer()).iter().find(|via| !needs(*via))
    }

    /// Where the fault is one of the path, rests its transport; says whether another can be taken.
    fn leave_path(&self, flight: &Flight, fault: &SliceFault, remote: RemoteSide) -> bool {
        let is_early = matches!(fault.phase, Phase::Queue | Phase::Connect | Phase::Handshake);
        let is_path = match fault.class {
            FaultClass::Peer => true,
            FaultClass::Rail => is_early || remote == RemoteSide::Untouched,
            _ => false,
        };
        if !is_path || self.transports.len() == 1 {
            return false;
        }
        let failed = flight.route.ways.on_failed(flight.via(), self.shared.clock.now());
        if let Failed::Rests(lasts) = failed {
            let transport = self.name_of(flight.via());
            let peer = flight.peer().name().as_str();
            tracing::info!(transport, peer, %fault, ?lasts, "a transport failed; another is taken");
        }
        failed != Failed::Alone
    }

    /// A piece of which no byte moved goes by another transport.
    fn detour(&self, flight: &Flight) {
        let Some(queue) = self.known_queue(flight.peer().id()) else { return };
        self.shared.counters.detours.add(1);
        let piece = Piece { detours: flight.piece.detours + 1, ..flight.piece };
        let batch = Arc::clone(&flight.batch);
        queue.push_front(&Item { batch, task: flight.index(), piece: Some(piece) });
        self.pump(&queue);
    }

    /// Ends what waits behind a request that failed because its peer is silent or gone, so that not
    /// each one finds that out in its turn; unless the peer has served one that left after `order`,
    /// or can be reached by another transport.
    pub(super) fn end_waiting(
        &self,
        target: SegmentId,
        (via, order): (Via, u32),
        fault: &SliceFault,
    ) {
        if fault.class != FaultClass::Peer {
            return;
        }
        let Some(queue) = self.known_queue(target) else { return };
        if queue.ways.on_failed(via, self.shared.clock.now()) != Failed::Alone {
            return self.pump(&queue);
        }
        for Item { batch, task, .. } in queue.give_up(order) {
            let cause = format!("it waited behind a request that failed: {}", fault.cause);
            let mut behind = SliceFault::new(FaultClass::Peer, Phase::Queue, cause);
            behind.address = fault.address;
            self.end_one(&batch, task, TaskState::Failed, behind);
        }
    }
}

impl CompletionSink for Classic {
    fn complete(&self, completion: Completion) {
        self.land_all(&mut VecDeque::from([completion]));
    }

    fn complete_all(&self, completions: &mut VecDeque<Completion>) {
        self.land_all(completions);
    }

    fn room(&self, peer: SegmentId) {
        if let Some(queue) = self.known_queue(peer) {
            self.pump(&queue);
        }
    }
}

thread_local! {
    /// Whether this thread brings news of a transport. It may hold that one's locks.
    static REPORTS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread brings news of a transport just now.
pub(super) fn is_reporting() -> bool {
    REPORTS.get()
}

/// The time in which a thread brings news.
struct Report(bool);

impl Report {
    fn begin() -> Self {
        Self(REPORTS.replace(true))
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        REPORTS.set(self.0);
    }
}

/// What transports report to. They do not keep the engine alive, which owns them.
#[derive(Debug, Default)]
pub(crate) struct Sink(OnceLock<Weak<Classic>>);

impl Sink {
    /// Names the one who is told. Transports start before, and have nothing to report by then.
    pub(crate) fn report_to(&self, classic: &Arc<Classic>) {
        drop(self.0.set(Arc::downgrade(classic)));
    }

    fn classic(&self) -> Option<Arc<Classic>> {
        self.0.get()?.upgrade()
    }
}

impl CompletionSink for Sink {
    fn complete(&self, completion: Completion) {
        if let Some(classic) = self.classic() {
            let _report = Report::begin();
            classic.complete(completion);
        }
    }

    fn complete_all(&self, completions: &mut VecDeque<Completion>) {
        match self.classic() {
            Some(classic) => {
                let _report = Report::begin();
                classic.complete_all(completions);
            }
            None => completions.clear(),
        }
    }

    fn room(&self, peer: SegmentId) {
        if let Some(classic) = self.classic() {
            let _report = Report::begin();
            classic.room(peer);
        }
    }
}
