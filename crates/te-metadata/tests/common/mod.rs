//! A service to ask, a server on loopback, and raw clients.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use te_metadata::{
    AddressFamily, Asker, BoundPeerServer, EndpointMessage, EndpointQuestion, HostPort,
    ListenAddress, Notify, NotifyRefused, PeerClient, PeerLimits, PeerServer, PeerServerStats,
    PeerService, PortChoice,
};
use te_sync::Mutex;

/// Remembers notifications, refuses those from `nobody`, has no room for those from `late`, panics
/// on those from `panic`.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) descriptor: Mutex<Option<Vec<u8>>>,
    pub(crate) notes: Mutex<Vec<Notify>>,
    pub(crate) endpoints: Mutex<Vec<EndpointMessage>>,
}

impl PeerService for Desk {
    fn descriptor(&self, _asker: &Asker) -> Option<Vec<u8>> {
        self.descriptor.lock().clone()
    }

    fn notify(&self, notify: Notify) -> Result<(), NotifyRefused> {
        assert_ne!(notify.name, "panic", "asked to panic");
        if notify.name == "nobody" {
            return Err(NotifyRefused::Other { reason: "nobody is not known".to_owned() });
        }
        if notify.name == "late" {
            return Err(NotifyRefused::Full { waiting: 7 });
        }
        self.notes.lock().push(notify);
        Ok(())
    }

    fn endpoint(&self, question: EndpointQuestion) {
        self.endpoints.lock().push(question.request().clone());
        question.answer(EndpointMessage::default());
    }
}

/// A server on loopback.
pub(crate) struct Host {
    pub(crate) server: PeerServer,
    pub(crate) desk: Arc<Desk>,
}

impl Host {
    pub(crate) fn start() -> Self {
        Self::with(PeerLimits::default())
    }

    pub(crate) fn with(limits: PeerLimits) -> Self {
        let lo = ListenAddress::Ip(Ipv4Addr::LOCALHOST.into());
        let bound = BoundPeerServer::bind(&lo, PortChoice::Exact(0), limits).unwrap();
        let desk = Arc::new(Desk::default());
        let server = bound.start(Arc::clone(&desk) as Arc<dyn PeerService>).unwrap();
        Self { server, desk }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.server.port()).into()
    }

    pub(crate) fn peer(&self) -> HostPort {
        self.address().into()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may have closed before it took everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    /// Whether the server answers a probe, and how fast.
    pub(crate) fn probe(&self) -> Duration {
        client().probe(&self.peer(), PATIENCE).unwrap()
    }

    /// Waits until the counters are as wished.
    pub(crate) fn wait(&self, wished: impl Fn(&PeerServerStats) -> bool) -> PeerServerStats {
        let end = Instant::now() + PATIENCE;
        loop {
            let stats = self.server.stats();
            if wished(&stats) {
                return stats;
            }
            assert!(Instant::now() < end, "{stats:?}");
            pause(Duration::from_millis(2));
        }
    }
}

pub(crate) fn client() -> PeerClient {
    PeerClient::new(PeerLimits::default(), AddressFamily::Any)
}

/// A frame with this type byte.
pub(crate) fn frame(type_byte: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u64 + 1).to_le_bytes().to_vec();
    bytes.push(type_byte);
    bytes.extend_from_slice(body);
    bytes
}

/// Lets time pass: for clients that are slow by intent, never in place of a condition.
pub(crate) fn pause(time: Duration) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let _ = receiver.recv_timeout(time);
}

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
