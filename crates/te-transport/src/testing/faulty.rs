//! Wraps a transport and spoils what it is told to, so that others can prove that they notice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{EndpointQuestion, SegmentDescriptor};
use te_segment::{LocalBuffer, RemoteSegment, SegmentId, Slice, SlicePolicy, SliceToken};
use te_sync::Mutex;

use crate::capability::Capabilities;
use crate::completion::{Completion, CompletionSink, RemoteSide};
use crate::fault::SliceFault;
use crate::transport::{
    CloseReport, Driven, SliceSource, StartError, Transport, TransportContext,
    TransportRegisterError,
};

/// What happens to the end of one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Twist {
    /// It is reported as this fault, however it really ended; the peer's side is in doubt.
    Fault(SliceFault),
    /// It ends in this fault before the transport sees it; nothing of it reached the peer.
    Unsent(SliceFault),
    /// It is kept back until [`FaultyTransport::release`], or until the transport closes.
    Hold,
    /// It is reported twice.
    Duplicate,
    /// It is never reported.
    Lose,
    /// It is reported as done the moment the slice is taken, and its real end never.
    Early,
}

#[derive(Default)]
struct Plan {
    registers: u64,
    submits: u64,
    taken: u64,
    refused_registers: BTreeSet<u64>,
    empty_submits: BTreeSet<u64>,
    twists: BTreeMap<u64, Twist>,
    twist_of_all: Option<Twist>,
    /// Whether it says that it reaches nobody.
    hidden: bool,
    /// The twists of slices that are on their way.
    on_the_way: HashMap<SliceToken, Twist>,
    held: Vec<Completion>,
    rooms: Vec<SegmentId>,
    sink: Option<Arc<dyn CompletionSink>>,
}

/// A transport that fails where a test says so. Calls and slices are counted from 1.
///
/// ```
/// use te_transport::testing::{FaultyTransport, SimFabric, Twist};
///
/// let inner = SimFabric::builder(1).build().endpoint("a");
/// let transport = FaultyTransport::new(inner);
/// transport.refuse_register(2);
/// transport.twist_slice(5, Twist::Duplicate);
/// ```
pub struct FaultyTransport<T> {
    inner: T,
    plan: Arc<Mutex<Plan>>,
}

impl<T: Transport> FaultyTransport<T> {
    /// Wraps a transport that was not started yet. Nothing is spoiled until told.
    pub fn new(inner: T) -> Self {
        Self { inner, plan: Arc::default() }
    }

    /// The wrapped transport.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Refuses the `n`-th call of `register`.
    pub fn refuse_register(&self, n: u64) {
        self.plan.lock().refused_registers.insert(n);
    }

    /// Lets the `n`-th call of `submit` take nothing. There is room again at the next call of
    /// `drive`, `submit` or at the next completion.
    pub fn take_nothing(&self, n: u64) {
        self.plan.lock().empty_submits.insert(n);
    }

    /// Spoils the end of the `n`-th slice that is taken.
    pub fn twist_slice(&self, n: u64, twist: Twist) {
        self.plan.lock().twists.insert(n, twist);
    }

    /// Spoils the end of every slice that no other word names.
    pub fn twist_every_slice(&self, twist: Twist) {
        self.plan.lock().twist_of_all = Some(twist);
    }

    /// Lets it say that it reaches nobody, or the truth again.
    pub fn hide(&self, hidden: bool) {
        self.plan.lock().hidden = hidden;
    }

    /// Spoils no slice that is taken from now on.
    pub fn heal(&self) {
        let mut plan = self.plan.lock();
        plan.twists.clear();
        plan.twist_of_all = None;
    }

    /// How many slices were taken.
    pub fn taken(&self) -> u64 {
        self.plan.lock().taken
    }

    /// How many completions are kept back.
    pub fn held(&self) -> usize {
        self.plan.lock().held.len()
    }

    /// Reports what was kept back; how many.
    pub fn release(&self) -> usize {
        let (held, sink) = {
            let mut plan = self.plan.lock();
            (std::mem::take(&mut plan.held), plan.sink.clone())
        };
        let Some(sink) = sink else { return 0 };
        let count = held.len();
        held.into_iter().for_each(|completion| sink.complete(completion));
        count
    }
}

impl<T: Transport> Transport for FaultyTransport<T> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn slices_to(&self, peer: &RemoteSegment) -> SlicePolicy {
        self.inner.slices_to(peer)
    }

    fn start(&self, mut context: TransportContext) -> Result<(), StartError> {
        self.plan.lock().sink = Some(Arc::clone(&context.sink));
        context.sink = Arc::new(TwistingSink { plan: Arc::clone(&self.plan), sink: context.sink });
        self.inner.start(context)
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        self.inner.describe(descriptor);
    }

    fn description_version(&self) -> u64 {
        self.inner.description_version()
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        !self.plan.lock().hidden && self.inner.reaches(peer)
    }

    fn register(&self, buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        let refused = {
            let mut plan = self.plan.lock();
            plan.registers += 1;
            let n = plan.registers;
            plan.refused_registers.remove(&n)
        };
        if refused { Err("refused by the test".into()) } else { self.inner.register(buffer) }
    }

    fn deregister(&self, buffer: &Arc<LocalBuffer>) {
        self.inner.deregister(buffer);
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        tell_rooms(&self.plan);
        let empty = {
            let mut plan = self.plan.lock();
            plan.submits += 1;
            let n = plan.submits;
            plan.empty_submits.remove(&n)
        };
        if empty {
            self.plan.lock().rooms.push(peer.id());
            return 0;
        }
        let mut early = Vec::new();
        let mut watched = Watched { plan: &self.plan, source, early: &mut early };
        let taken = self.inner.submit(peer, &mut watched);
        let sink = self.plan.lock().sink.clone();
        if let Some(sink) = sink {
            early.into_iter().for_each(|completion| sink.complete(completion));
        }
        taken
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        self.inner.cancel(tokens);
    }

    fn endpoint(&self, question: EndpointQuestion) -> Option<EndpointQuestion> {
        self.inner.endpoint(question)
    }

    fn drive(&self, until: Instant) -> Driven {
        if tell_rooms(&self.plan) { Driven::Ran } else { self.inner.drive(until) }
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        let report = self.inner.close(deadline);
        self.release();
        self.plan.lock().sink = None;
        report
    }
}

impl<T: fmt::Debug> fmt::Debug for FaultyTransport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyTransport({:?})", self.inner)
    }
}

/// Notes the twist of each slice that is taken.
struct Watched<'a> {
    plan: &'a Mutex<Plan>,
    source: &'a mut dyn SliceSource,
    early: &'a mut Vec<Completion>,
}

impl SliceSource for Watched<'_> {
    fn next_slice(&mut self) -> Option<Slice> {
        loop {
            let slice = self.source.next_slice()?;
            let mut plan = self.plan.lock();
            plan.taken += 1;
            let n = plan.taken;
            let Some(twist) = plan.twists.remove(&n).or_else(|| plan.twist_of_all.clone()) else {
                return Some(slice);
            };
            if let Twist::Unsent(fault) = twist {
                self.early.push(unsent(slice.token, fault));
                continue;
            }
            if twist == Twist::Early {
                self.early.push(done(slice.token));
            }
            plan.on_the_way.insert(slice.token, twist);
            return Some(slice);
        }
    }
}

struct TwistingSink {
    plan: Arc<Mutex<Plan>>,
    sink: Arc<dyn CompletionSink>,
}

impl CompletionSink for TwistingSink {
    fn complete(&self, mut completion: Completion) {
        tell_rooms(&self.plan);
        let twist = self.plan.lock().on_the_way.remove(&completion.token);
        match twist {
            None => self.sink.complete(completion),
            Some(Twist::Fault(fault)) => {
                completion.result = Err(fault);
                completion.remote = RemoteSide::InDoubt;
                self.sink.complete(completion);
            }
            Some(Twist::Hold) => self.plan.lock().held.push(completion),
            Some(Twist::Duplicate) => {
                self.sink.complete(completion.clone());
                self.sink.complete(completion);
            }
            Some(Twist::Lose | Twist::Early | Twist::Unsent(_)) => {}
        }
    }

    fn room(&self, peer: SegmentId) {
        self.sink.room(peer);
    }
}

fn tell_rooms(plan: &Mutex<Plan>) -> bool {
    let (rooms, sink) = {
        let mut plan = plan.lock();
        (std::mem::take(&mut plan.rooms), plan.sink.clone())
    };
    let Some(sink) = sink.filter(|_| !rooms.is_empty()) else { return false };
    rooms.into_iter().for_each(|peer| sink.room(peer));
    true
}

fn unsent(token: SliceToken, fault: SliceFault) -> Completion {
    Completion { token, result: Err(fault), remote: RemoteSide::Untouched }
}

fn done(token: SliceToken) -> Completion {
    Completion { token, result: Ok(()), remote: RemoteSide::Settled }
}

#[cfg(test)]
mod tests;
