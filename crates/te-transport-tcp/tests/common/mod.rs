//! Two ends on loopback, and what their slices came to.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

pub mod fake;
pub mod proxy;
pub mod raw3;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use te_metadata::{
    BufferDescriptor, HostPort, Incarnation, ListenAddress, SegmentDescriptor, SegmentName,
    TcpEndpoint, TeObject,
};
use te_segment::{
    AlignedBuffer, LocalBuffer, LocalRange, LocalSegment, Opcode, Region, RegisterOptions,
    RemoteRange, RemoteSegment, SegmentId, Slice, SliceToken,
};
use te_sync::{Condvar, Mutex};
use te_transport::{
    Completion, CompletionSink, Driven, SliceSource, SystemClock, Transport, TransportContext,
};
use te_transport_tcp::{TcpConfig, TcpTransport};

/// Longer than anything here takes, on a machine that does other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Remembers every completion, and that there was only one per slice.
#[derive(Default)]
pub struct Recorder {
    state: Mutex<Recorded>,
    changed: Condvar,
}

#[derive(Default)]
pub struct Recorded {
    pub ends: HashMap<u64, Completion>,
    pub twice: Vec<u64>,
    pub rooms: u64,
}

impl CompletionSink for Recorder {
    fn complete(&self, completion: Completion) {
        let mut state = self.state.lock();
        let token = completion.token.as_u64();
        if state.ends.insert(token, completion).is_some() {
            state.twice.push(token);
        }
        self.changed.notify_all();
    }

    fn room(&self, _peer: SegmentId) {
        self.state.lock().rooms += 1;
        self.changed.notify_all();
    }
}

impl Recorder {
    /// Waits until `token` has ended and gives how.
    pub fn wait(&self, token: SliceToken) -> Completion {
        let key = token.as_u64();
        self.wait_for(|state| state.ends.contains_key(&key));
        self.state.lock().ends[&key].clone()
    }

    pub fn try_take(&self, token: SliceToken) -> Option<Completion> {
        self.state.lock().ends.remove(&token.as_u64())
    }

    pub fn wait_for(&self, done: impl Fn(&Recorded) -> bool) {
        let mut state = self.state.lock();
        let deadline = Instant::now() + PATIENCE;
        self.changed.wait_while_until(&mut state, |state| !done(state), deadline);
        assert!(done(&state), "nothing happened in {PATIENCE:?}");
    }

    pub fn look_mut<T>(&self, at: impl FnOnce(&mut Recorded) -> T) -> T {
        at(&mut self.state.lock())
    }

    pub fn look<T>(&self, at: impl FnOnce(&Recorded) -> T) -> T {
        at(&self.state.lock())
    }
}

/// One process's worth: a segment, a transport, a recorder.
pub struct Node {
    pub segment: Arc<LocalSegment>,
    pub transport: Arc<TcpTransport>,
    pub ends: Arc<Recorder>,
    pub incarnation: Incarnation,
    next: AtomicU32,
}

/// Loopback only, and no version above 2.
pub fn config() -> TcpConfig {
    TcpConfig { max_version: 2, ..v3() }
}

/// Loopback only, with version 3.
pub fn v3() -> TcpConfig {
    TcpConfig { listen: ListenAddress::Ip(Ipv4Addr::LOCALHOST.into()), ..TcpConfig::default() }
}

impl Node {
    pub fn new() -> Self {
        Self::with(config())
    }

    pub fn with(config: TcpConfig) -> Self {
        Self::with_sink(config, |ends| ends)
    }

    /// One whose completions go another way to the recorder.
    pub fn with_sink(
        config: TcpConfig,
        wrap: impl FnOnce(Arc<Recorder>) -> Arc<dyn CompletionSink>,
    ) -> Self {
        let segment = Arc::new(LocalSegment::new());
        let transport = Arc::new(TcpTransport::new(config));
        let ends = Arc::new(Recorder::default());
        let incarnation = Incarnation::random();
        let context = TransportContext {
            name: SegmentName::parse("node").unwrap(),
            segment: Arc::clone(&segment),
            sink: wrap(Arc::clone(&ends)),
            incarnation,
            clock: Arc::new(SystemClock),
        };
        transport.start(context).unwrap();
        Self { segment, transport, ends, incarnation, next: AtomicU32::new(1) }
    }

    pub fn port(&self) -> u16 {
        self.transport.data_port().unwrap()
    }

    /// Registers zeroed memory of the engine's.
    pub fn register(&self, len: usize) -> Arc<LocalBuffer> {
        let region = Region::from(AlignedBuffer::zeroed(len).unwrap());
        self.segment.register(&region, RegisterOptions::default()).unwrap()
    }

    /// This node as others see it.
    pub fn as_peer(&self) -> Arc<RemoteSegment> {
        self.as_peer_at(Ipv4Addr::LOCALHOST.into())
    }

    /// This node as others see it at one of its addresses.
    pub fn as_peer_at(&self, ip: IpAddr) -> Arc<RemoteSegment> {
        self.as_peer_behind(SocketAddr::from((ip, self.port())))
    }

    /// This node as others see it who reach it at `address`.
    pub fn as_peer_behind(&self, address: SocketAddr) -> Arc<RemoteSegment> {
        let mut descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), self.listed());
        descriptor.te = Some(TeObject::new(self.incarnation));
        self.transport.describe(&mut descriptor);
        descriptor.tcp.data_host = Some(address.ip().to_string());
        descriptor.tcp.data_port = Some(address.port());
        segment_of(descriptor)
    }

    fn listed(&self) -> Vec<BufferDescriptor> {
        let (_, open) = self.segment.snapshot();
        let list = open.iter().map(|buffer| BufferDescriptor {
            name: "peer".into(),
            addr: buffer.region().address(),
            length: buffer.region().len(),
            te: Some(buffer.id().into()),
            ..BufferDescriptor::default()
        });
        list.collect()
    }

    pub fn token(&self) -> SliceToken {
        SliceToken::new(self.next.fetch_add(1, Ordering::Relaxed), 1)
    }

    pub fn slice(
        &self,
        op: Opcode,
        local: LocalRange,
        address: u64,
        peer: &Arc<RemoteSegment>,
    ) -> Slice {
        let remote = RemoteRange::new(address, local.len()).unwrap();
        let (token, peer) = (self.token(), Arc::clone(peer));
        Slice { token, op, local, remote, peer, attempt: 0, checked: false }
    }

    pub fn submit(&self, peer: &Arc<RemoteSegment>, slices: Vec<Slice>) -> Vec<SliceToken> {
        let tokens: Vec<_> = slices.iter().map(|slice| slice.token).collect();
        let mut list = List(slices.into());
        let deadline = Instant::now() + PATIENCE;
        while !list.0.is_empty() {
            let rooms = self.ends.look(|state| state.rooms);
            self.transport.submit(peer, &mut list);
            if !list.0.is_empty() {
                self.ends.wait_for(|state| state.rooms > rooms);
            }
            assert!(Instant::now() < deadline, "no room");
        }
        tokens
    }

    /// Moves one slice and waits for its end.
    pub fn run(
        &self,
        op: Opcode,
        local: LocalRange,
        address: u64,
        peer: &Arc<RemoteSegment>,
    ) -> Completion {
        let slice = self.slice(op, local, address, peer);
        let token = self.submit(peer, vec![slice])[0];
        self.ends.wait(token)
    }

    /// As [`Node::run`], checked end to end.
    pub fn run_checked(
        &self,
        op: Opcode,
        local: LocalRange,
        address: u64,
        peer: &Arc<RemoteSegment>,
    ) -> Completion {
        let slice = Slice { checked: true, ..self.slice(op, local, address, peer) };
        let token = self.submit(peer, vec![slice])[0];
        self.ends.wait(token)
    }

    /// As [`Node::run`], by a caller that drives.
    pub fn run_driving(
        &self,
        op: Opcode,
        local: LocalRange,
        address: u64,
        peer: &Arc<RemoteSegment>,
    ) -> Completion {
        let slice = self.slice(op, local, address, peer);
        let token = self.submit(peer, vec![slice])[0];
        self.drive_to_end(token)
    }

    pub fn drive_to_end(&self, token: SliceToken) -> Completion {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.ends.try_take(token) {
                return end;
            }
            assert!(Instant::now() < deadline, "no end");
            if self.transport.drive(deadline) == Driven::Busy {
                std::thread::yield_now();
            }
        }
    }
}

pub struct List(pub std::collections::VecDeque<Slice>);

impl SliceSource for List {
    fn next_slice(&mut self) -> Option<Slice> {
        self.0.pop_front()
    }
}

/// A peer that published this data address and protocol version, as a Mooncake peer does.
pub fn peer_at(address: SocketAddr, proto_version: u32) -> Arc<RemoteSegment> {
    let endpoint = TcpEndpoint {
        data_host: Some(address.ip().to_string()),
        data_port: Some(address.port()),
        proto_version,
    };
    segment_of(SegmentDescriptor::tcp("peer", endpoint, Vec::new()))
}

pub fn segment_of(descriptor: SegmentDescriptor) -> Arc<RemoteSegment> {
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
}

/// Bytes that tell their position, different for each seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let byte = |i: u64| {
        let mixed = (i / 8 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_left(23).to_le_bytes()[usize::try_from(i % 8).unwrap()]
    };
    (0..len as u64).map(byte).collect()
}

pub fn bytes_of(region: &Region) -> Vec<u8> {
    part_of(region, 0, usize::try_from(region.len()).unwrap())
}

pub fn part_of(region: &Region, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    region.read_into(offset, &mut bytes).unwrap();
    bytes
}

/// Waits until something holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
