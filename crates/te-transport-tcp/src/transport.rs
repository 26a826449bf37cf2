//! The transport as the engine sees it.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use te_metadata::{BindError, HostPort, Incarnation, SegmentDescriptor, bind_listener};
use te_segment::{LocalBuffer, RemoteSegment, Slice, SlicePolicy, SliceToken};
use te_sync::{Mutex, RwLock};
use te_transport::{
    Capabilities, CloseReport, Driven, Driver, SliceSource, StartError, Threads, Transport,
    TransportContext, TransportRegisterError, Waker, is_in_step,
};

use crate::client::{Client, ClientParts};
use crate::config::{TcpConfig, TcpConfigError};
use crate::connection::Service;
use crate::frame::Version;
use crate::inbox::{Command, Destination, Inbox, Load};
use crate::paths::ADDRESSES;
use crate::pool::{Job, Place};
use crate::server::{Revocations, Server};
use crate::stats::{Counters, RailStats, TcpStats};

/// The name in configuration, logs and descriptors.
pub(crate) const NAME: &str = "tcp";
/// The version that the descriptor publishes.
const PROTO_VERSION: u32 = 2;
/// The key under which the descriptor offers version 3, and its value.
const OFFER: &str = "v3";
const OFFER_VERSION: u64 = 1;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Of many slices that come together so many leave before the others are made ready, so that the peer
/// works meanwhile. Measured with 128 of 4 KiB: a quarter more are read, and a tenth more written;
/// with half as many each gain is less.
const HEAD_START: usize = 32;
/// How long dropping a transport that was not closed waits for its threads.
const DROP_PATIENCE: Duration = Duration::from_secs(5);

/// TCP, in Mooncake's data protocol.
pub struct TcpTransport {
    config: TcpConfig,
    counters: Arc<Counters>,
    started: Mutex<Option<Arc<Started>>>,
}

/// What exists from `start` on.
struct Started {
    inbox: Arc<Inbox>,
    client: Driver<Client>,
    server: Driver<Server>,
    revocations: Arc<Revocations>,
    threads: Arc<Threads>,
    data_port: u16,
    closed: Arc<AtomicU64>,
    /// Shared by each `submit` for its time, so that closing comes before or after it.
    gate: RwLock<Gate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Closed,
}

/// Why the transport did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcpStartError {
    /// A setting is out of its range.
    #[error("the configuration is wrong")]
    Config(#[from] TcpConfigError),
    /// No port to serve peers on.
    #[error("no data port")]
    Bind(#[from] BindError),
    /// The system gave no poller or thread.
    #[error("no poller or thread")]
    System(#[from] io::Error),
    /// It was started before.
    #[error("it was started already")]
    Again,
}

impl TcpTransport {
    /// A transport that is not started yet.
    pub fn new(config: TcpConfig) -> Self {
        Self { config, counters: Arc::default(), started: Mutex::new(None) }
    }

    /// The port that peers connect to; `None` before the start.
    pub fn data_port(&self) -> Option<u16> {
        self.started().map(|started| started.data_port)
    }

    /// What happened so far.
    pub fn stats(&self) -> TcpStats {
        self.counters.snapshot()
    }

    /// What went over each rail so far, where there are several to a peer.
    pub fn rails(&self) -> Vec<RailStats> {
        self.counters.rails.snapshot()
    }

    fn started(&self) -> Option<Arc<Started>> {
        self.started.lock().clone()
    }

    fn try_start(&self, context: TransportContext) -> Result<(), TcpStartError> {
        self.config.validate()?;
        let mut started = self.started.lock();
        if started.is_some() {
            return Err(TcpStartError::Again);
        }
        let listener = bind_listener(&self.config.listen, self.config.port, BACKLOG)?;
        let new = Arc::new(self.build(listener, context)?);
        let (client, server) = (Arc::clone(&new), Arc::clone(&new));
        new.threads.spawn("te-tcp-server", move || server.server.run_thread())?;
        if let Err(error) = new.threads.spawn("te-tcp-client", move || client.client.run_thread()) {
            new.server.stop();
            return Err(error.into());
        }
        *started = Some(new);
        Ok(())
    }

    fn build(&self, listener: TcpListener, context: TransportContext) -> io::Result<Started> {
        let data_port = listener.local_addr()?.port();
        let inbox = Arc::new(Inbox::new(Load {
            slices: self.config.max_queued_per_peer,
            bytes: self.config.max_queued_bytes_per_peer,
        }));
        let threads = Arc::new(Threads::default());
        let closed = Arc::new(AtomicU64::new(0));
        let parts = ClientParts {
            config: self.config.clone(),
            inbox: Arc::clone(&inbox),
            sink: context.sink,
            counters: Arc::clone(&self.counters),
            threads: Arc::clone(&threads),
            incarnation: context.incarnation,
        };
        let (client, client_waker) = Client::new(parts, Arc::clone(&closed))?;
        let service = Arc::new(Service {
            segment: context.segment,
            counters: Arc::clone(&self.counters),
            chunk: self.config.io_chunk,
            header_timeout: self.config.header_timeout,
            progress_timeout: self.config.progress_timeout,
            incarnation: context.incarnation,
            credit: if self.config.max_version >= 3 { self.config.max_in_flight } else { 0 },
        });
        let revocations = Arc::new(Revocations::default());
        let config = self.config.clone();
        let (server, server_waker) =
            Server::new(listener, service, Arc::clone(&revocations), config)?;
        let (clock, spin) = (context.clock, self.config.spin);
        Ok(Started {
            inbox,
            client: Driver::new(client, waker(client_waker), Arc::clone(&clock), spin),
            server: Driver::new(server, waker(server_waker), clock, spin),
            revocations,
            threads,
            data_port,
            closed,
            gate: RwLock::new(Gate::Open),
        })
    }

    /// How a peer is spoken with.
    fn destination(&self, peer: &RemoteSegment) -> Option<Destination> {
        let offered = if self.config.max_version >= 3 { offer(peer) } else { None };
        Some(Destination { address: data_address(peer)?, v3: offered })
    }

    fn job(&self, slice: Slice, v3: bool) -> Job {
        let peer = slice.peer.descriptor();
        let v2 = peer.tcp.proto_version >= 2 && self.config.max_version >= 2;
        let version = if v2 { Version::V2 } else { Version::V1 };
        let place = v3.then(|| place(&slice));
        Job::new(slice, version, place)
    }

    /// Hands slices of a source to the driver while there is room, at most so many. How many they
    /// were.
    fn hand_over(
        &self,
        started: &Started,
        (to, peer): (&Destination, &RemoteSegment),
        source: &mut dyn SliceSource,
        most: usize,
    ) -> usize {
        let Some(room) = started.inbox.reserve(to, peer.id()) else { return 0 };
        if room == Load::default() {
            return 0;
        }
        let part = Load { slices: room.slices.min(most), ..room };
        let (jobs, used) = self.take(source, to.v3.is_some(), part);
        let more = (!used.is_below(room)).then(|| peer.id());
        started.inbox.take_up(to, used, more);
        if jobs.is_empty() {
            started.client.wake();
        } else {
            started.hand_over(Command::Submit(to.clone(), jobs));
        }
        used.slices
    }

    /// Takes slices until the room is used up, and gives how much that was.
    fn take(&self, source: &mut dyn SliceSource, v3: bool, room: Load) -> (Vec<Job>, Load) {
        // Usually a batch; a single one takes no more than it needs.
        const MANY: usize = 128;
        let (mut jobs, mut used) = (Vec::new(), Load::default());
        if used.is_below(room) {
            source.pour(&mut |slice| {
                used.add(&slice);
                if jobs.len() == 1 {
                    jobs.reserve(MANY);
                }
                jobs.push(self.job(slice, v3));
                used.is_below(room)
            });
        }
        (jobs, used)
    }
}

/// Wakes a driver out of its poller.
fn waker(poller: Arc<mio::Waker>) -> Waker {
    // An eventfd that is full wakes as well, so there is no failure to handle.
    Box::new(move || drop(poller.wake()))
}

/// The run of the peer's process that offers version 3, where one does and its buffers have
/// handles.
fn offer(peer: &RemoteSegment) -> Option<Incarnation> {
    let te = peer.descriptor().te.as_ref()?;
    let version = te.transports.get(NAME)?.as_object()?.get(OFFER)?.as_u64()?;
    let named = peer.descriptor().buffers().first().is_none_or(|buffer| buffer.te.is_some());
    (version == OFFER_VERSION && named).then_some(te.incarnation)
}

/// The buffer and offset of a slice. A range in no buffer that the peer has published goes to
/// nowhere: the peer says that it has no such buffer.
fn place(slice: &Slice) -> Place {
    let buffer = slice.peer.buffer_of(&slice.remote);
    match buffer.and_then(|buffer| Some((buffer.addr, buffer.te?))) {
        Some((start, buffer)) => Place { buffer, offset: slice.remote.address() - start },
        None => Place::NOWHERE,
    }
}

/// Where a peer takes data connections.
fn data_address(peer: &RemoteSegment) -> Option<HostPort> {
    let tcp = &peer.descriptor().tcp;
    let port = tcp.data_port?;
    match &tcp.data_host {
        Some(host) if !host.is_empty() => HostPort::new(host, Some(port)).ok(),
        _ => Some(peer.rpc().with_port(port)),
    }
}

impl Started {
    fn hand_over(&self, command: Command) {
        // Only what is of no use to a closed transport can fail to get in: slices are handed over
        // under the gate.
        if self.inbox.push(command).is_ok() {
            self.client.wake();
        }
    }

    fn close(&self, deadline: Instant) -> bool {
        *self.gate.write() = Gate::Closed;
        self.client.stop();
        self.server.stop();
        // Inside a step the thread to wait for is this one.
        !is_in_step() && self.threads.wait_until_none(deadline)
    }
}

impl Transport for TcpTransport {
    fn capabilities(&self) -> Capabilities {
        let ways = u32::try_from(self.config.lanes_per_peer).unwrap_or(1);
        Capabilities {
            name: NAME,
            slices: SlicePolicy {
                min_piece: self.config.min_piece,
                max_piece: self.config.max_piece,
                ways,
            },
            needs_local_registration: false,
            can_cancel: true,
        }
    }

    /// A connection of version 3 carries everything to its peer in order, so no piece may be long.
    fn slices_to(&self, peer: &RemoteSegment) -> SlicePolicy {
        let policy = self.capabilities().slices;
        match self.destination(peer).and_then(|to| to.v3) {
            Some(_) => SlicePolicy { max_piece: policy.min_piece, ways: 1, ..policy },
            None => policy,
        }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        self.try_start(context)
            .map_err(|error| StartError { transport: NAME, cause: Box::new(error) })
    }

    fn describe(&self, descriptor: &mut SegmentDescriptor) {
        if let Some(port) = self.data_port() {
            // A peer that knows no list of addresses takes the first.
            let first = || Some(self.config.local_addresses.first()?.ip().to_string());
            descriptor.tcp.data_host = self.config.data_host.clone().or_else(first);
            descriptor.tcp.data_port = Some(port);
            descriptor.tcp.proto_version = PROTO_VERSION;
            if let Some(te) = descriptor.te.as_mut().filter(|_| self.config.max_version >= 3) {
                let mut offer = serde_json::json!({ OFFER: OFFER_VERSION });
                if !self.config.local_addresses.is_empty() {
                    offer[ADDRESSES] = serde_json::json!(self.config.local_addresses);
                }
                te.transports.insert(NAME.into(), offer);
            }
        }
    }

    fn reaches(&self, peer: &RemoteSegment) -> bool {
        data_address(peer).is_some()
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, buffer: &Arc<LocalBuffer>) {
        if let Some(started) = self.started() {
            started.revocations.push(buffer.id());
            started.server.wake();
        }
    }

    fn submit(&self, peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let Some(started) = self.started() else { return 0 };
        let gate = started.gate.read_recursive();
        if *gate == Gate::Closed {
            return 0;
        }
        let Some(to) = self.destination(peer) else {
            let room = Load { slices: self.config.max_queued_per_peer, bytes: u64::MAX };
            let (jobs, used) = self.take(source, false, room);
            started.hand_over(Command::Unreachable(jobs));
            return used.slices;
        };
        let taken = self.hand_over(&started, (&to, peer), source, HEAD_START);
        if taken < HEAD_START {
            return taken;
        }
        started.client.nudge();
        taken + self.hand_over(&started, (&to, peer), source, usize::MAX)
    }

    fn cancel(&self, tokens: &[SliceToken]) {
        if let Some(started) = self.started() {
            started.hand_over(Command::Cancel(tokens.to_vec()));
        }
    }

    fn drive(&self, until: Instant) -> Driven {
        match self.started() {
            Some(started) => started.client.drive(until),
            None => Driven::Busy,
        }
    }

    fn close(&self, deadline: Instant) -> CloseReport {
        match self.started() {
            None => CloseReport { settled: 0, joined: true },
            Some(started) => {
                let joined = started.close(deadline);
                CloseReport { settled: started.closed.load(Ordering::Relaxed), joined }
            }
        }
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        if let Some(started) = self.started.lock().take() {
            #[expect(clippy::disallowed_methods, reason = "the edge: nobody can hand in a clock")]
            started.close(Instant::now() + DROP_PATIENCE);
        }
    }
}

impl fmt::Debug for TcpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpTransport")
            .field("data_port", &self.data_port())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
