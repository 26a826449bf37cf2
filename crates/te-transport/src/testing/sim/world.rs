//! The state of the fabric and its one step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::{BufferDescriptor, HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{
    Access, BufferGuard, LocalBuffer, Opcode, RemoteAccess, SegmentId, Slice, SliceToken,
};

use super::config::Settings;
use super::copy::refused;
use super::endpoint::{Endpoint, Fate, Life, Link, Progress, Running, published};
use super::event::{Agenda, Ticket, What};
use super::moves::{in_doubt_if_moving, move_bytes, phase, stop_in_the_middle, unreachable};
use crate::clock::Clock as _;
use crate::completion::{Completion, CompletionSink, RemoteSide};
use crate::fault::{FaultClass, Phase, SliceFault};
use crate::testing::clock::VirtualClock;
use crate::testing::seeded::Seeded;
use crate::transport::TransportContext;

/// What a sink is told once the lock of the world is free.
pub(super) enum Delivery {
    Completion(u16, Arc<dyn CompletionSink>, Completion),
    Room(u16, Arc<dyn CompletionSink>, SegmentId),
}

impl Delivery {
    pub(super) fn endpoint(&self) -> u16 {
        match self {
            Self::Completion(number, ..) | Self::Room(number, ..) => *number,
        }
    }

    pub(super) fn deliver(self) {
        match self {
            Self::Completion(_, sink, completion) => sink.complete(completion),
            Self::Room(_, sink, peer) => sink.room(peer),
        }
    }
}

/// Places in an endpoint's queue that a `submit` may fill.
pub(super) struct Places {
    pub(super) free: usize,
    sink: Arc<dyn CompletionSink>,
}

impl Places {
    fn closed(&self, number: u16, token: SliceToken) -> Delivery {
        let result = Err(SliceFault::new(FaultClass::Closed, Phase::Queue, "closing"));
        let completion = Completion { token, result, remote: RemoteSide::Untouched };
        Delivery::Completion(number, Arc::clone(&self.sink), completion)
    }
}

pub(super) struct World {
    settings: Settings,
    clock: Arc<VirtualClock>,
    random: Seeded,
    agenda: Agenda,
    /// Endpoint n is at n − 1: numbers serve as ports, and 0 is none.
    endpoints: Vec<Endpoint>,
    running: BTreeMap<Ticket, Running>,
    last: Ticket,
}

impl World {
    pub(super) fn new(seed: u64, settings: Settings, clock: Arc<VirtualClock>) -> Self {
        Self {
            settings,
            clock,
            random: Seeded::new(seed),
            agenda: Agenda::default(),
            endpoints: Vec::new(),
            running: BTreeMap::new(),
            last: 0,
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn add_endpoint(&mut self, transport: &'static str, name: SegmentName) -> u16 {
        self.endpoints.push(Endpoint::new(transport, name));
        u16::try_from(self.endpoints.len()).expect("a fabric has at most 65535 endpoints")
    }

    pub(super) fn name_of(&self, number: u16) -> (&'static str, SegmentName) {
        let endpoint = &self.endpoints[usize::from(number) - 1];
        (endpoint.transport, endpoint.name.clone())
    }

    pub(super) fn start(&mut self, number: u16, context: TransportContext) -> bool {
        let endpoint = self.endpoint_mut(number);
        if endpoint.life != Life::New {
            return false;
        }
        endpoint.life = Life::Running;
        endpoint.context = Some(context);
        true
    }

    /// The youngest living endpoint of a name.
    pub(super) fn find(&self, name: &SegmentName) -> Option<u16> {
        let found = self.endpoints.iter().rposition(|e| e.name == *name && e.alive().is_some())?;
        u16::try_from(found + 1).ok()
    }

    /// Address and descriptor of a living endpoint.
    pub(super) fn describe(&self, number: u16) -> Option<(HostPort, SegmentDescriptor)> {
        let endpoint = self.endpoints.get(usize::from(number).checked_sub(1)?)?;
        let (_, open) = endpoint.alive()?.segment.snapshot();
        let shared = open.iter().filter(|b| b.options().remote != RemoteAccess::None);
        let buffers = shared.map(|b| BufferDescriptor {
            name: b.options().location.to_string(),
            addr: b.region().address(),
            length: b.region().len(),
            ..BufferDescriptor::default()
        });
        let tcp = TcpEndpoint { data_host: None, data_port: Some(number), proto_version: 2 };
        let descriptor = SegmentDescriptor::tcp(endpoint.name.as_str(), tcp, buffers.collect());
        let address = HostPort::new("127.0.0.1", Some(number)).ok()?;
        Some((address, descriptor))
    }

    pub(super) fn schedule_kill(&mut self, number: u16, at: Instant) {
        self.agenda.put(at, What::Kill(number));
    }

    /// Sets places aside for a peer; how many there are, and who is told of what takes them.
    pub(super) fn set_aside(&mut self, number: u16, peer: SegmentId) -> Option<Places> {
        let limit = self.settings.queue_limit;
        let endpoint = self.endpoint_mut(number);
        let sink = Arc::clone(&endpoint.alive()?.sink);
        let count = endpoint.queued.entry(peer).or_default();
        let free = limit.saturating_sub(*count);
        *count += free;
        Some(Places { free, sink })
    }

    /// Takes slices into the places that were set aside and gives the unused ones back. Gives what
    /// to report at once, where the endpoint ended meanwhile.
    pub(super) fn take(
        &mut self,
        number: u16,
        peer: SegmentId,
        places: Places,
        slices: Vec<Slice>,
    ) -> Vec<Delivery> {
        let now = self.clock.now();
        let endpoint = self.endpoint_mut(number);
        if endpoint.alive().is_none() {
            let closed = |slice: Slice| places.closed(number, slice.token);
            return slices.into_iter().map(closed).collect();
        }
        let unused = places.free - slices.len();
        let count = endpoint.queued.entry(peer).or_default();
        *count = count.saturating_sub(unused);
        if unused == 0 {
            // The source may hold more.
            endpoint.wants_room.insert(peer);
        } else if endpoint.wants_room.remove(&peer) {
            self.agenda.put(now, What::Room(number, peer));
        }
        for slice in slices {
            self.enqueue(number, slice, now);
        }
        Vec::new()
    }

    fn enqueue(&mut self, owner: u16, slice: Slice, now: Instant) {
        self.last += 1;
        let ticket = self.last;
        let transport = self.endpoint_mut(owner).transport;
        let target = published(transport, slice.peer.descriptor()).unwrap_or(0);
        let fate = self.draw_fate(slice.len());
        let mut running = Running {
            owner,
            target,
            fate,
            progress: Progress::Queued,
            guard: None,
            outcome: None,
            slice,
        };
        if self.alive(target).is_some() {
            self.schedule(ticket, &running, now);
        } else {
            running.end_with(Err(unreachable(Phase::Connect)), RemoteSide::Untouched);
            self.agenda.put(now + self.settings.detect, What::Settle(ticket));
        }
        self.endpoint_mut(owner).tickets.insert(running.slice.token.as_u64(), ticket);
        self.running.insert(ticket, running);
    }

    fn draw_fate(&mut self, len: u64) -> Fate {
        if !self.random.chance(self.settings.loss_per_million) {
            return Fate::Sound;
        }
        match self.random.below(4) {
            0 | 1 => Fate::AnswerLost,
            2 => Fate::LostAfter(0),
            _ => Fate::LostAfter(self.random.below(len)),
        }
    }

    /// Plans begin, landing and settling on the link; in order, unless this one may be overtaken.
    fn schedule(&mut self, ticket: Ticket, running: &Running, now: Instant) {
        let (least, most) = self.settings.latency;
        let (there, back) = (self.random.between(least, most), self.random.between(least, most));
        let straggles = self.random.chance(self.settings.reorder_per_million);
        let busy = self.settings.busy(running.slice.len());
        let links = &mut self.endpoint_mut(running.owner).links;
        let idle = Link { free_at: now, last_landing: now, last_settling: now };
        let link = links.entry(running.target).or_insert(idle);
        let begin = now.max(link.free_at);
        link.free_at = begin + busy;
        let (landing, settling) = if straggles {
            let landing = link.free_at + there * 4;
            (landing, landing + back * 4)
        } else {
            link.last_landing = link.last_landing.max(link.free_at + there);
            link.last_settling = link.last_settling.max(link.last_landing + back);
            (link.last_landing, link.last_settling)
        };
        self.agenda.put(begin, What::Begin(ticket));
        self.agenda.put(landing, What::Land(ticket));
        self.agenda.put(settling, What::Settle(ticket));
    }

    /// Runs the next event due by `until`.
    pub(super) fn advance(&mut self, until: Option<Instant>) -> Option<Vec<Delivery>> {
        let (at, what) = self.agenda.take(until)?;
        self.clock.advance_to(at);
        Some(match what {
            What::Begin(ticket) => self.begin(ticket),
            What::Land(ticket) => self.land(ticket),
            What::Settle(ticket) => self.settle(ticket),
            What::Kill(number) => self.end(number).1,
            What::Room(number, peer) => self.room(number, peer).into_iter().collect(),
        })
    }

    fn begin(&mut self, ticket: Ticket) -> Vec<Delivery> {
        let Some(running) = self.running.get(&ticket) else { return Vec::new() };
        let admitted = self.admit(running);
        if let Some(running) = self.running.get_mut(&ticket)
            && running.outcome.is_none()
        {
            running.progress = Progress::Moving;
            match admitted {
                Ok(guard) => running.guard = Some(guard),
                Err(fault) => running.end_with(Err(fault), RemoteSide::Untouched),
            }
        }
        Vec::new()
    }

    /// What the target says to a request.
    fn admit(&self, running: &Running) -> Result<BufferGuard, SliceFault> {
        let Some(context) = self.alive(running.target) else {
            return Err(unreachable(Phase::Request));
        };
        let access = match running.slice.op {
            Opcode::Read => Access::Read,
            Opcode::Write => Access::Write,
        };
        let remote = running.slice.remote;
        let guard = context.segment.acquire(remote.address(), remote.len(), access);
        guard.map_err(|error| refused(error.to_string()))
    }

    fn land(&mut self, ticket: Ticket) -> Vec<Delivery> {
        let Some(running) = self.running.get_mut(&ticket) else { return Vec::new() };
        if running.outcome.is_some() {
            return Vec::new();
        }
        let Some(guard) = running.guard.take() else { return Vec::new() };
        running.progress = Progress::Landed;
        let (result, remote) = move_bytes(running, &guard);
        running.end_with(result, remote);
        Vec::new()
    }

    fn settle(&mut self, ticket: Ticket) -> Vec<Delivery> {
        let Some(running) = self.running.remove(&ticket) else { return Vec::new() };
        let (result, remote) = running.outcome.unwrap_or_else(|| {
            // Begin and landing come before settling, so there always is an outcome by now.
            (Err(unreachable(Phase::Status)), RemoteSide::InDoubt)
        });
        let token = running.slice.token;
        let peer = running.slice.peer.id();
        let endpoint = self.endpoint_mut(running.owner);
        endpoint.tickets.remove(&token.as_u64());
        let wanted = endpoint.leave(peer);
        let Some(context) = &endpoint.context else { return Vec::new() };
        let sink = Arc::clone(&context.sink);
        let completion = Completion { token, result, remote };
        let mut out = vec![Delivery::Completion(running.owner, Arc::clone(&sink), completion)];
        if wanted && endpoint.life == Life::Running {
            out.push(Delivery::Room(running.owner, sink, peer));
        }
        out
    }

    fn room(&mut self, number: u16, peer: SegmentId) -> Option<Delivery> {
        let context = self.alive(number)?;
        Some(Delivery::Room(number, Arc::clone(&context.sink), peer))
    }

    /// Calls slices back; they end at the present moment. What landed whole stays as it ended.
    pub(super) fn cancel(&mut self, number: u16, tokens: &[SliceToken]) {
        let now = self.clock.now();
        for token in tokens {
            let Some(ticket) = self.endpoint_mut(number).tickets.get(&token.as_u64()).copied()
            else {
                continue;
            };
            let prefix = self.random.next_u64();
            let Some(running) = self.running.get_mut(&ticket) else { continue };
            let remote = stop_in_the_middle(running, prefix);
            let fault = SliceFault::new(FaultClass::Cancelled, phase(running), "called back");
            running.end_with(Err(fault), remote);
            self.agenda.put(now, What::Settle(ticket));
        }
    }

    /// Takes every guard off a buffer of an endpoint: what was moving there is refused.
    pub(super) fn revoke(&mut self, buffer: &Arc<LocalBuffer>) {
        for running in self.running.values_mut() {
            if running.guard.as_ref().is_some_and(|g| Arc::ptr_eq(g.buffer(), buffer)) {
                let fault = refused("the buffer is being unregistered");
                running.end_with(Err(fault), RemoteSide::Untouched);
            }
        }
    }

    /// Ends an endpoint: its own slices end now as closed, those of others in a fault of the peer.
    /// How many were closed, and what to report.
    pub(super) fn end(&mut self, number: u16) -> (u64, Vec<Delivery>) {
        if self.endpoint_mut(number).life != Life::Running {
            self.endpoint_mut(number).life = Life::Over;
            return (0, Vec::new());
        }
        self.endpoint_mut(number).life = Life::Over;
        let late = self.clock.now() + self.settings.detect;
        let mut own = Vec::new();
        for (ticket, running) in &mut self.running {
            if running.owner == number {
                own.push(*ticket);
            } else if running.target == number && running.progress != Progress::Landed {
                let remote = in_doubt_if_moving(running);
                let fault = unreachable(phase(running));
                running.end_with(Err(fault), remote);
                self.agenda.put(late, What::Settle(*ticket));
            }
        }
        let mut closed = 0;
        let mut out = Vec::new();
        for ticket in own {
            if let Some(running) = self.running.get_mut(&ticket) {
                closed += u64::from(running.outcome.is_none());
                let fault = SliceFault::new(FaultClass::Closed, phase(running), "closing");
                let remote = in_doubt_if_moving(running);
                running.end_with(Err(fault), remote);
            }
            out.extend(self.settle(ticket));
        }
        self.endpoint_mut(number).context = None;
        (closed, out)
    }

    pub(super) fn alive(&self, number: u16) -> Option<&TransportContext> {
        self.endpoints.get(usize::from(number).checked_sub(1)?)?.alive()
    }

    fn endpoint_mut(&mut self, number: u16) -> &mut Endpoint {
        &mut self.endpoints[usize::from(number) - 1]
    }
}
