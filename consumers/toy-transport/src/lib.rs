//! A transport between engines of one process: endpoints meet in a hub, and a thread copies.
//!
//! Each endpoint has one thread, which works through the slices that its own engine handed over.
//! The target does nothing: the initiator's thread takes a guard on the target's memory, copies,
//! and looks between two pieces whether the target wants its memory back.

mod work;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use te_metadata::SegmentDescriptor;
use te_segment::{
    LocalBuffer, LocalSegment, RemoteSegment, SegmentId, Slice, SlicePolicy, SliceToken,
};
use te_transport::{
    Capabilities, CloseReport, Driven, SliceSource, StartError, Transport, TransportContext,
    TransportRegisterError,
};

/// Slices that wait for one peer at most; more stay with the engine.
const QUEUE_LIMIT: usize = 32;

/// Where endpoints find one another, by port.
#[derive(Debug, Default)]
pub struct Hub {
    served: Mutex<BTreeMap<u16, Arc<LocalSegment>>>,
}

impl Hub {
    /// The memory that a port serves, while its endpoint lives.
    fn segment(&self, port: u16) -> Option<Arc<LocalSegment>> {
        lock(&self.served).get(&port).cloned()
    }

    /// Takes a port away from its endpoint, as if it had died.
    pub fn cut(&self, port: u16) {
        lock(&self.served).remove(&port);
    }
}

/// One endpoint.
#[derive(Debug)]
pub struct Channel {
    hub: Arc<Hub>,
    port: u16,
    shared: Arc<Shared>,
    /// Held by `submit`, and by `close` while it ends the endpoint: no slice can slip in behind it.
    submitting: Mutex<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the endpoint and its thread share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Slice>,
    /// The slice that the thread is copying now.
    moving: Option<SliceToken>,
    called_back: HashSet<SliceToken>,
    /// Slices taken and not ended, by peer.
    counts: HashMap<SegmentId, usize>,
    /// Peers for which slices had to be left with the engine.
    wants_room: HashSet<SegmentId>,
    running: bool,
    /// Slices that closing ended.
    settled: u64,
}

impl Channel {
    /// An endpoint that will serve `port` of the hub, once it is started.
    pub fn new(hub: &Arc<Hub>, port: u16) -> Self {
        let (hub, shared) = (Arc::clone(hub), Arc::default());
        Self { hub, port, shared, submitting: Mutex::default(), thread: Mutex::default() }
    }

    /// Whether one more slice for the peer may be taken. Where not, it is noted that the engine has
    /// to be told of room.
    fn has_place(&self, peer: SegmentId) -> bool {
        let mut state = lock(&self.shared.state);
        let is_full = state.counts.get(&peer).is_some_and(|count| *count >= QUEUE_LIMIT);
        if is_full {
            state.wants_room.insert(peer);
        }
        state.running && !is_full
    }
}

impl Transport for Channel {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "channel",
            slices: SlicePolicy { min_piece: 64 << 10, max_piece: 4 << 20, ways: 1 },
            needs_local_registration: false,
            can_cancel: true,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        let failed = |cause| StartError { transport: "channel", cause };
        let mut served = lock(&self.hub.served);
        if served.contains_key(&self.port) {
            return Err(failed(format!("port {} is taken", self.port).into()));
        }
        lock(&self.shared.state).running = true;
        let (hub, shared) = (Arc::clone(&self.hub), Arc::clone(&self.shared));
        let segment = Arc::clone(&context.segment);
        let thread = std::thread::Builder::new()
            .name(format!("channel-{}", self.port))
            .spawn(move || work::run(&hub, &shared, &*context.sink))
            .map_err(|error| failed(error.into()))?;
        *lock(&self.thread) = Some(thread);
        served.insert(self.port, segment);
        Ok(())
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        descriptor.tcp.data_port = Some(self.port);
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        peer.descriptor().tcp.data_port.is_some()
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, _buffer: &Arc<LocalBuffer>) {
        // Threads of peers look at their guard after each piece, so they let go by themselves.
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let _one_at_a_time = lock(&self.submitting);
        let mut taken = 0;
        while self.has_place(peer.id()) {
            // The source belongs to the engine, so the state is not locked while it is asked.
            let Some(slice) = source.next_slice() else { break };
            let mut state = lock(&self.shared.state);
            *state.counts.entry(peer.id()).or_default() += 1;
            state.queue.push_back(slice);
            taken += 1;
            drop(state);
            self.shared.changed.notify_all();
        }
        taken
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        let mut state = lock(&self.shared.state);
        let wanted: HashSet<&SliceToken> = tokens.iter().collect();
        let queued = state.queue.iter().map(|slice| slice.token);
        let ours = queued.chain(state.moving).filter(|token| wanted.contains(token));
        let ours: Vec<SliceToken> = ours.collect();
        state.called_back.extend(ours);
    }

    fn drive(&self, _until: Instant) -> Driven {
        Driven::Busy
    }

    fn close(&self, _deadline: Instant) -> CloseReport {
        self.hub.cut(self.port);
        let before = {
            let _no_submit = lock(&self.submitting);
            let mut state = lock(&self.shared.state);
            state.running = false;
            state.settled
        };
        self.shared.changed.notify_all();
        // The thread ends after the piece it is copying, which takes no time worth a deadline.
        let thread = lock(&self.thread).take();
        let joined = thread.is_none_or(|thread| thread.join().is_ok());
        CloseReport { settled: lock(&self.shared.state).settled - before, joined }
    }
}

impl State {
    /// One slice less for a peer. Whether the engine waits for that.
    fn ended(&mut self, peer: SegmentId) -> bool {
        if let Some(count) = self.counts.get_mut(&peer) {
            *count -= 1;
        }
        self.wants_room.remove(&peer)
    }
}

/// Locks; a thread that panicked leaves nothing half done behind our locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
