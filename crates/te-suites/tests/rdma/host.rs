//! An engine's parts around one transport: memory, a handshake port, a descriptor.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use te_metadata::{
    AddressFamily, Asker, BoundPeerServer, BufferDescriptor, BufferHandle, EndpointMessage,
    EndpointQuestion, HostPort, Incarnation, ListenAddress, Notify, NotifyRefused, PeerClient,
    PeerLimits, PeerServer, PeerService, PortChoice, SegmentDescriptor, SegmentName, TcpEndpoint,
    TeObject,
};
use te_segment::{
    AlignedBuffer, LocalBuffer, LocalSegment, Opcode, Region, RegisterOptions, RemoteAccess,
    RemoteRange, RemoteSegment, SegmentId, Slice, SliceToken,
};
use te_suites::now;
use te_topology::NicName;
use te_transport::testing::Recorder;
use te_transport::{Completion, Driven, SystemClock, Transport, TransportContext};
use te_transport_rdma::{Rdma, RdmaConfig};

use crate::watched::Watched;

/// How long anything may take on an emulated machine that others hold up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// What the guest asks for: soft-RoCE gives up with 6 retries, and never with 7.
pub(crate) fn config(nics: Vec<NicName>) -> RdmaConfig {
    let mut config = RdmaConfig::default();
    config.nics = nics;
    config.connection.retries = 6;
    config.work.patience = Duration::from_secs(4);
    config
}

/// A transport with all that an engine has around it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) verbs: Watched,
    pub(crate) ends: Arc<Recorder>,
    parts: Arc<Parts>,
    server: PeerServer,
    next: AtomicU32,
}

/// What the handshake port answers from.
#[derive(Debug)]
struct Parts {
    name: String,
    rdma: Arc<Rdma>,
    segment: Arc<LocalSegment>,
    incarnation: Incarnation,
    /// Whether it says what only our own engines read.
    is_te: AtomicBool,
    /// The handshakes that peers began.
    questions: Mutex<Vec<EndpointMessage>>,
}

impl Host {
    /// A host with these devices, at a free port of 127.0.0.1.
    pub(crate) fn new(verbs: &Watched, config: RdmaConfig) -> Self {
        Self::at(verbs, config, 0, Recorder::new())
    }

    /// A host at a port, which reports to `ends`.
    pub(crate) fn at(verbs: &Watched, config: RdmaConfig, port: u16, ends: Arc<Recorder>) -> Self {
        let verbs = verbs.fresh();
        let address = ListenAddress::Ip([127, 0, 0, 1].into());
        let bound = BoundPeerServer::bind(&address, PortChoice::Exact(port), PeerLimits::default());
        let bound = bound.expect("the port is free");
        let name = format!("127.0.0.1:{}", bound.port());
        let rdma = Arc::new(Rdma::new(config, Arc::new(verbs.clone())));
        let (segment, incarnation) = (Arc::new(LocalSegment::new()), Incarnation::random());
        let context = TransportContext {
            name: SegmentName::parse(&name).expect("an address is a name"),
            segment: Arc::clone(&segment),
            sink: Arc::clone(&ends) as _,
            incarnation,
            clock: Arc::new(SystemClock),
        };
        rdma.start(context).unwrap_or_else(|error| panic!("no transport: {error:?}"));
        let is_te = AtomicBool::new(true);
        let questions = Mutex::default();
        let parts = Arc::new(Parts { name, rdma, segment, incarnation, is_te, questions });
        let server = bound.start(Arc::clone(&parts) as _).expect("there is a thread");
        Self { verbs, ends, parts, server, next: 0.into() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.parts.name
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) fn rdma(&self) -> &Arc<Rdma> {
        &self.parts.rdma
    }

    pub(crate) fn segment(&self) -> &Arc<LocalSegment> {
        &self.parts.segment
    }

    /// From now on it looks like an engine that is not one of ours.
    pub(crate) fn hide_what_only_ours_read(&self) {
        self.parts.is_te.store(false, Ordering::Relaxed);
    }

    /// Registers fresh memory that peers may use.
    pub(crate) fn offer(&self, len: usize) -> Arc<LocalBuffer> {
        let region = Region::from(AlignedBuffer::zeroed(len).expect("there is memory"));
        self.register(&region)
    }

    /// Registers memory.
    pub(crate) fn register(&self, region: &Region) -> Arc<LocalBuffer> {
        self.register_with(region, RegisterOptions::default())
    }

    /// Registers memory with a wish.
    pub(crate) fn register_with(
        &self,
        region: &Region,
        options: RegisterOptions,
    ) -> Arc<LocalBuffer> {
        let buffer = self.segment().register(region, options);
        let buffer = buffer.expect("it is not registered yet");
        self.rdma().register(&buffer).unwrap_or_else(|error| panic!("not registered: {error:?}"));
        buffer
    }

    /// What others learn of it now.
    pub(crate) fn descriptor(&self) -> SegmentDescriptor {
        self.parts.descriptor_now()
    }

    /// What `of` is known as.
    pub(crate) fn remote(&self) -> Arc<RemoteSegment> {
        segment_of(self.name(), self.descriptor())
    }

    /// A slice between the whole of `local` and `remote` of the peer.
    pub(crate) fn slice(
        &self,
        op: Opcode,
        local: te_segment::LocalRange,
        peer: &Arc<RemoteSegment>,
        remote: u64,
    ) -> Slice {
        // Relaxed: only that no number comes twice matters.
        let slot = self.next.fetch_add(1, Ordering::Relaxed);
        let remote = RemoteRange::new(remote, local.len()).expect("it does not wrap");
        let token = SliceToken::new(slot, 1);
        Slice { token, op, local, remote, peer: Arc::clone(peer), attempt: 0, checked: false }
    }

    /// The handshakes that peers began so far.
    pub(crate) fn questions(&self) -> Vec<EndpointMessage> {
        self.parts.questions.lock().unwrap().clone()
    }

    /// Drives it for a moment, or waits for whoever does.
    pub(crate) fn pump(&self) {
        const STEP: Duration = Duration::from_millis(5);
        let seen = self.ends.count() + self.ends.rooms();
        if self.rdma().drive(now() + STEP) == Driven::Busy {
            self.ends.wait_beyond(seen, STEP);
        }
    }

    /// Hands one slice over and waits for its end.
    #[track_caller]
    pub(crate) fn run(&self, slice: &Slice) -> Completion {
        let mut queue = std::collections::VecDeque::from([slice.clone()]);
        assert_eq!(self.rdma().submit(&slice.peer, &mut queue), 1);
        let until = now() + PATIENCE;
        loop {
            if let Some(end) = self.ends.of(slice.token).pop() {
                return end;
            }
            assert!(now() < until, "{:?} did not end", slice.token);
            self.pump();
        }
    }

    /// It dies as seen from outside: nothing is answered any more.
    pub(crate) fn die(&self) {
        let _ = self.server.close(PATIENCE);
        self.verbs.forget_all();
    }

    /// Ends it in an orderly way.
    pub(crate) fn close(self) {
        let report = self.rdma().close(now() + PATIENCE);
        assert!(report.joined, "threads are left");
        let _ = self.server.close(PATIENCE);
    }
}

impl Parts {
    fn descriptor_now(&self) -> SegmentDescriptor {
        let (_, open) = self.segment.snapshot();
        let open = open.iter().filter(|buffer| buffer.options().remote != RemoteAccess::None);
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
        let mut descriptor =
            SegmentDescriptor::tcp(&self.name, TcpEndpoint::default(), buffers.collect());
        let is_te = self.is_te.load(Ordering::Relaxed);
        descriptor.te = is_te.then(|| TeObject::new(self.incarnation));
        self.rdma.describe(&mut descriptor);
        descriptor
    }
}

impl PeerService for Parts {
    fn descriptor(&self, _: &Asker) -> Option<Vec<u8>> {
        Some(self.descriptor_now().encode())
    }

    fn notify(&self, _: Notify) -> Result<(), NotifyRefused> {
        Err(NotifyRefused::Other { reason: "nobody reads them here".to_owned() })
    }

    fn endpoint(&self, question: EndpointQuestion) {
        self.questions.lock().unwrap().push(question.request().clone());
        if let Some(question) = self.rdma.endpoint(question) {
            question.answer(EndpointMessage::refusal("not started"));
        }
    }
}

/// A descriptor as a peer's segment.
pub(crate) fn segment_of(name: &str, descriptor: SegmentDescriptor) -> Arc<RemoteSegment> {
    let rpc: HostPort = name.parse().expect("an address");
    let name = SegmentName::parse(name).expect("an address is a name");
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
}

/// What the engine at this address says of itself.
pub(crate) fn ask_for(name: &str) -> Result<Arc<RemoteSegment>, String> {
    let client = PeerClient::new(PeerLimits::default(), AddressFamily::Any);
    let rpc: HostPort = name.parse().map_err(|_| format!("{name} is no address"))?;
    let text = client.metadata(&rpc, b"{}").map_err(|error| error.to_string())?;
    let descriptor = SegmentDescriptor::decode(&text).map_err(|error| error.to_string())?;
    Ok(segment_of(name, descriptor))
}
