//! An owner of records: what an engine publishes and answers, without the engine.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use te_metadata::{
    AddressFamily, Asker, BoundPeerServer, BufferDescriptor, Caretaker, Directory, EndpointMessage,
    EndpointQuestion, HostPort, Incarnation, KeySpace, Lease, ListenAddress, MetadataStore, Notify,
    NotifyRefused, OwnerState, PAGE_BYTES, PeerClient, PeerLimits, PeerServer, PeerService,
    PortChoice, Record, RpcMeta, SegmentDescriptor, SegmentName, Standing, StoreError, TcpEndpoint,
    TeObject, TenancyEvent, TenancyHost, TenancyTimes,
};
use te_suites::wait_for;

/// A living owner of a name.
pub(crate) struct Owner {
    pub(crate) care: Caretaker,
    pub(crate) server: PeerServer,
    seen: Arc<Mutex<Vec<String>>>,
    n_buffers: Arc<AtomicU64>,
}

/// What it publishes.
#[derive(Debug)]
struct Host {
    name: SegmentName,
    incarnation: Incarnation,
    own: HostPort,
    directory: Directory,
    n_buffers: Arc<AtomicU64>,
    seen: Arc<Mutex<Vec<String>>>,
}

struct Answers;

impl PeerService for Answers {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        None
    }

    fn notify(&self, _: Notify) -> Result<(), NotifyRefused> {
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        question.answer(EndpointMessage::default());
    }
}

/// The descriptor of `n_buffers` buffers.
pub(crate) fn descriptor(name: &str, owner: Incarnation, n_buffers: u64) -> SegmentDescriptor {
    let buffer = |n: u64| BufferDescriptor {
        name: name.to_owned(),
        addr: 0x7f00_0000_0000 + (n << 16),
        length: 1 << 16,
        ..BufferDescriptor::default()
    };
    let endpoint = TcpEndpoint { data_port: Some(15_001), ..TcpEndpoint::default() };
    let mut descriptor =
        SegmentDescriptor::tcp(name, endpoint, (0..n_buffers).map(buffer).collect());
    descriptor.te = Some(TeObject::new(owner));
    descriptor
}

pub(crate) fn directory(store: &Arc<dyn MetadataStore>) -> Directory {
    let client = PeerClient::new(PeerLimits::default(), AddressFamily::Any);
    Directory::store(Arc::clone(store), KeySpace::new(None), client)
}

pub(crate) fn name(text: &str) -> SegmentName {
    SegmentName::parse(text).unwrap()
}

/// A server that answers probes.
pub(crate) fn answering() -> (PeerServer, HostPort) {
    let lo = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
    let bound = BoundPeerServer::bind(&lo, PortChoice::Exact(0), PeerLimits::default()).unwrap();
    let address = HostPort::parse(&format!("127.0.0.1:{}", bound.port())).unwrap();
    (bound.start(Arc::new(Answers)).unwrap(), address)
}

impl Owner {
    /// Starts to publish under a name.
    pub(crate) fn start(store: &Arc<dyn MetadataStore>, name: &str, ttl: Duration) -> Self {
        let (server, own) = answering();
        let incarnation = Incarnation::random();
        let (seen, n_buffers) = (Arc::default(), Arc::new(AtomicU64::new(1)));
        let host = Host {
            name: self::name(name),
            incarnation,
            own,
            directory: directory(store),
            n_buffers: Arc::clone(&n_buffers),
            seen: Arc::clone(&seen),
        };
        let lease = Lease { owner: incarnation, ttl };
        let times = TenancyTimes::default();
        let care = Caretaker::start(Arc::clone(store), lease, times, Box::new(host)).unwrap();
        Self { care, server, seen, n_buffers }
    }

    pub(crate) fn register(&self, n_buffers: u64) {
        self.n_buffers.store(n_buffers, Ordering::Relaxed);
        self.care.touch();
    }

    #[track_caller]
    pub(crate) fn until(&self, limit: Duration, standing: Standing) {
        let reached = wait_for(limit, || (self.care.standing() == standing).then_some(()));
        let (is, seen) = (self.care.standing(), self.seen.lock().unwrap());
        assert!(
            reached.is_some(),
            "{standing:?}: not within {limit:?}; it is {is:?}, after {seen:?}"
        );
    }

    pub(crate) fn has_seen(&self, text: &str) -> bool {
        self.seen.lock().unwrap().iter().any(|event| event == text)
    }

    /// Ends as a killed process does: nothing is given back, nobody answers.
    pub(crate) fn die(self) {
        drop(self.care);
        drop(self.server);
    }

    /// Ends as it should.
    pub(crate) fn leave(self) {
        assert!(self.care.leave(Duration::from_secs(10)), "everything is given back");
        drop(self.server);
    }
}

impl TenancyHost for Host {
    fn compose(&mut self) -> Vec<(String, Arc<[u8]>)> {
        let rpc = RpcMeta {
            ip_or_host_name: self.own.host().to_owned(),
            rpc_port: self.own.port_or(0),
            te_incarnation: Some(self.incarnation),
        };
        let n_buffers = self.n_buffers.load(Ordering::Relaxed);
        let descriptor = descriptor(self.name.as_str(), self.incarnation, n_buffers);
        self.directory.records(&self.name, &rpc, &descriptor.paginate(PAGE_BYTES))
    }

    fn probe(&mut self, _: &str, _: &Record) -> Result<OwnerState, StoreError> {
        self.directory.owner_state(&self.name, &self.own, Duration::from_secs(1))
    }

    fn event(&mut self, event: TenancyEvent) {
        let text = match event {
            TenancyEvent::Taken { was_ours: true, .. } => "lost".to_owned(),
            TenancyEvent::Taken { .. } => "taken".to_owned(),
            other => format!("{other:?}"),
        };
        self.seen.lock().unwrap().push(text);
    }
}
