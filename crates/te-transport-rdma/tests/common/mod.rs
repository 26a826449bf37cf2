//! Hosts on a fake fabric, each with a transport, and a hub that carries their handshakes.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

pub(crate) mod gated;
#[cfg(feature = "testing")]
pub(crate) mod hot;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use te_metadata::{
    BufferDescriptor, BufferHandle, EndpointMessage, EndpointQuestion, HostPort, Incarnation,
    PeerError, PeerPhase, SegmentDescriptor, SegmentName, TcpEndpoint, TeObject,
};
use te_segment::{
    LocalBuffer, LocalSegment, Opcode, Region, RegisterOptions, RemoteAccess, RemoteRange,
    RemoteSegment, SegmentId, Slice, SliceToken,
};
use te_topology::NicName;
use te_transport::testing::Recorder;
use te_transport::{Completion, CompletionSink, Driven, SystemClock, Transport, TransportContext};
use te_transport_rdma::{Handshakes, Rdma, RdmaConfig};
use te_verbs::{Fake, FakeDevice, FakeNic, Verbs};

/// How long anything may take here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Where transports find one another.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    by_name: Mutex<HashMap<String, Weak<Rdma>>>,
    /// Every question with its answer.
    pub(crate) log: Mutex<Vec<(EndpointMessage, EndpointMessage)>>,
    /// What a test makes of an answer before it arrives.
    pub(crate) twist: Mutex<Option<Twist>>,
}

pub(crate) type Twist = fn(&EndpointMessage, EndpointMessage) -> EndpointMessage;

impl Hub {
    pub(crate) fn add(&self, name: &str, transport: &Arc<Rdma>) {
        self.by_name.lock().unwrap().insert(name.to_owned(), Arc::downgrade(transport));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.by_name.lock().unwrap().remove(name);
    }

    /// What the transport of that name answers.
    pub(crate) fn question(&self, to: &str, question: &EndpointMessage) -> Option<EndpointMessage> {
        let transport = self.by_name.lock().unwrap().get(to)?.upgrade()?;
        let (sender, answer) = mpsc::channel();
        let asked = EndpointQuestion::new(question.clone(), move |message| {
            let _ = sender.send(message);
        });
        assert!(transport.endpoint(asked).is_none(), "it takes handshakes");
        drop(transport);
        answer.recv_timeout(PATIENCE).ok()
    }
}

/// A host's way to the hub.
#[derive(Debug)]
struct Line(Arc<Hub>);

impl Handshakes for Line {
    fn ask(&self, to: &HostPort, question: &EndpointMessage) -> Result<EndpointMessage, PeerError> {
        let Some(answer) = self.0.question(to.host(), question) else {
            return Err(PeerError::Io {
                peer: to.clone(),
                address: SocketAddr::from(([127, 0, 0, 1], 1)),
                phase: PeerPhase::Connect,
                source: io::ErrorKind::ConnectionRefused.into(),
            });
        };
        let twist = *self.0.twist.lock().unwrap();
        let answer = match twist {
            Some(twist) => twist(question, answer),
            None => answer,
        };
        self.0.log.lock().unwrap().push((question.clone(), answer.clone()));
        Ok(answer)
    }

    fn interrupt(&self) {}
}

/// One host with its engine's parts.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) rdma: Arc<Rdma>,
    pub(crate) segment: Arc<LocalSegment>,
    pub(crate) ends: Arc<Recorder>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) incarnation: Incarnation,
    /// Whether it says what only our own engines read.
    pub(crate) is_te: bool,
    next: Mutex<u32>,
}

/// Quick in everything that a test waits for.
pub(crate) fn config() -> RdmaConfig {
    let mut config = RdmaConfig::default();
    config.work.patience = Duration::from_millis(400);
    config.work.flush_limit = Duration::from_millis(300);
    config.work.fence_limit = Duration::from_millis(500);
    config.connection.ready_ack_limit = Duration::from_millis(300);
    config.connection.first_backoff = Duration::from_millis(5);
    config.faults.recover_after = Duration::from_millis(50);
    config.faults.rail_pause = Duration::from_millis(300);
    config
}

/// A device of a host on the fabric.
pub(crate) fn add_nic(fake: &Fake, host: &str, nic: &str, last: u8) -> FakeNic {
    let name = NicName::parse(nic).unwrap();
    fake.add(host, FakeDevice::new(name, Ipv4Addr::new(192, 168, 77, last)))
}

impl Host {
    /// A host whose devices are on the fabric already.
    pub(crate) fn new(fake: &Fake, hub: &Arc<Hub>, name: &str, config: RdmaConfig) -> Self {
        Self::reporting(fake, hub, name, config, Recorder::new())
    }

    pub(crate) fn reporting(
        fake: &Fake,
        hub: &Arc<Hub>,
        name: &str,
        config: RdmaConfig,
        ends: Arc<Recorder>,
    ) -> Self {
        let sink = Arc::clone(&ends) as _;
        let host = Self::telling(fake, hub, name, config, sink);
        Self { ends, ..host }
    }

    /// As [`Host::new`], with the devices that a provider has.
    pub(crate) fn on(
        verbs: Arc<dyn Verbs>,
        hub: &Arc<Hub>,
        name: &str,
        config: RdmaConfig,
    ) -> Self {
        let ends = Recorder::new();
        let host = Self::over(verbs, hub, name, config, Arc::clone(&ends) as _);
        Self { ends, ..host }
    }

    pub(crate) fn telling(
        fake: &Fake,
        hub: &Arc<Hub>,
        name: &str,
        config: RdmaConfig,
        sink: Arc<dyn CompletionSink>,
    ) -> Self {
        Self::over(fake.host(name), hub, name, config, sink)
    }

    /// A host of that name with the devices that a provider has.
    pub(crate) fn over(
        verbs: Arc<dyn Verbs>,
        hub: &Arc<Hub>,
        name: &str,
        config: RdmaConfig,
        sink: Arc<dyn CompletionSink>,
    ) -> Self {
        let line = Arc::new(Line(Arc::clone(hub)));
        let rdma = Arc::new(Rdma::with_handshakes(config, verbs, line));
        let segment = Arc::new(LocalSegment::new());
        let incarnation = Incarnation::random();
        let context = TransportContext {
            name: SegmentName::parse(name).unwrap(),
            segment: Arc::clone(&segment),
            sink,
            incarnation,
            clock: Arc::new(SystemClock),
        };
        rdma.start(context).expect("its devices are there");
        hub.add(name, &rdma);
        let (name, hub, next) = (name.to_owned(), Arc::clone(hub), Mutex::new(0));
        let ends = Recorder::new();
        Self { name, rdma, segment, ends, hub, incarnation, is_te: true, next }
    }

    /// Registers memory that peers may use.
    pub(crate) fn offer(&self, len: usize, byte: u8) -> Arc<LocalBuffer> {
        let region = Region::from(te_segment::AlignedBuffer::zeroed(len).unwrap());
        region.write_from(0, &vec![byte; len]).unwrap();
        let buffer = self.segment.register(&region, RegisterOptions::default()).unwrap();
        self.rdma.register(&buffer).unwrap();
        buffer
    }

    /// What others learn of it now.
    pub(crate) fn remote(&self) -> Arc<RemoteSegment> {
        let descriptor = self.descriptor();
        let name = SegmentName::parse(&self.name).unwrap();
        let rpc = HostPort::new(&self.name, Some(1)).unwrap();
        Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
    }

    pub(crate) fn descriptor(&self) -> SegmentDescriptor {
        let (_, open) = self.segment.snapshot();
        let open = open.iter().filter(|b| b.options().remote != RemoteAccess::None);
        let buffers = open.map(|buffer| BufferDescriptor {
            name: self.name.clone(),
            addr: buffer.region().address(),
            length: buffer.region().len(),
            te: Some(BufferHandle {
                slot: buffer.id().slot(),
                generation: buffer.id().generation(),
            }),
            ..BufferDescriptor::default()
        });
        let buffers = buffers.collect();
        let mut descriptor = SegmentDescriptor::tcp(&self.name, TcpEndpoint::default(), buffers);
        descriptor.te = self.is_te.then(|| TeObject::new(self.incarnation));
        self.rdma.describe(&mut descriptor);
        descriptor
    }

    /// A slice between the whole of `local` and the start of `remote`.
    pub(crate) fn slice(
        &self,
        op: Opcode,
        local: &LocalBuffer,
        peer: &Arc<RemoteSegment>,
        remote: u64,
    ) -> Slice {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        Slice {
            token: SliceToken::new(*next, 1),
            op,
            local: local.region().whole(),
            remote: RemoteRange::new(remote, local.region().len()).unwrap(),
            peer: Arc::clone(peer),
            attempt: 0,
            checked: false,
        }
    }

    /// Hands a slice over.
    pub(crate) fn submit(&self, slice: &Slice) {
        let mut queue = std::collections::VecDeque::from([slice.clone()]);
        assert_eq!(self.rdma.submit(&slice.peer, &mut queue), 1);
    }

    /// The end of a slice.
    #[track_caller]
    pub(crate) fn end(&self, slice: &Slice) -> Completion {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(end) = self.ends.of(slice.token).pop() {
                return end;
            }
            assert!(Instant::now() < until, "{:?} did not end", slice.token);
            let soon = Instant::now() + Duration::from_millis(5);
            if self.rdma.drive(soon) == Driven::Busy {
                self.ends
                    .wait_beyond(self.ends.count() + self.ends.rooms(), Duration::from_millis(5));
            }
        }
    }

    /// Hands a slice over and waits for its end.
    #[track_caller]
    pub(crate) fn run(&self, slice: &Slice) -> Completion {
        self.submit(slice);
        self.end(slice)
    }

    /// Tries as an engine does: again, with what the peer says then, until it goes well.
    #[track_caller]
    pub(crate) fn run_until_done(&self, make: impl Fn() -> Slice, within: Duration) -> u32 {
        let until = Instant::now() + within;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut slice = make();
            slice.attempt = u16::try_from(tries - 1).unwrap();
            let end = self.run(&slice);
            if end.result.is_ok() {
                return tries;
            }
            assert!(Instant::now() < until, "{tries} tries, the last: {end:?}");
        }
    }

    /// Lets the worker do what can be done now.
    pub(crate) fn pump(&self) {
        let mut ran = 0;
        while ran < 2 {
            ran += usize::from(self.rdma.drive(Instant::now()) == Driven::Ran);
        }
    }

    pub(crate) fn close(&self) {
        let report = self.rdma.close(Instant::now() + PATIENCE);
        assert!(report.joined, "threads are left");
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The bytes of a buffer.
pub(crate) fn bytes(buffer: &LocalBuffer) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(buffer.region().len()).unwrap()];
    buffer.region().read_into(0, &mut bytes).unwrap();
    bytes
}

/// Two hosts, each with a NIC, and their fabric.
pub(crate) struct Two {
    pub(crate) fake: Fake,
    pub(crate) hub: Arc<Hub>,
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) nic_a: FakeNic,
    pub(crate) nic_b: FakeNic,
}

impl Two {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: RdmaConfig) -> Self {
        let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
        let (nic_a, nic_b) = (add_nic(&fake, "a", "rxe0", 1), add_nic(&fake, "b", "rxe1", 2));
        let a = Host::new(&fake, &hub, "a", config.clone());
        let b = Host::new(&fake, &hub, "b", config);
        Self { fake, hub, a, b, nic_a, nic_b }
    }
}
