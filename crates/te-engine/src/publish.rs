//! What this engine tells others about itself: one descriptor, as a snapshot.
//!
//! I1  Every reader gets a descriptor that was whole at one moment (FB28).
//! I2  A buffer that peers may not use is not in it.
//! I3  A Mooncake engine without NICs that asks gets what it can use: TCP, whatever else there is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use te_metadata::{
    Asker, BufferDescriptor, BufferHandle, HostPort, Incarnation, PAGE_BYTES, PagedDescriptor,
    SegmentDescriptor, SegmentName, TcpEndpoint, TeObject,
};
use te_segment::{LocalBuffer, LocalSegment, RemoteAccess, RemoteSegment, SegmentId};
use te_sync::Mutex;
use te_transport::Transport;

/// One descriptor in the forms that were asked for. With many buffers each form takes much memory,
/// so that none is made before.
#[derive(Default)]
struct Snapshot {
    version: u64,
    paged: Option<Arc<PagedDescriptor>>,
    plain: Option<Arc<PagedDescriptor>>,
    remote: Option<Arc<RemoteSegment>>,
}

/// Who reads a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Our own engines, and Mooncake's with NICs: all ways that there are.
    Any,
    /// A Mooncake engine without NICs, which can use no descriptor but one of TCP.
    TcpOnly,
}

impl Reader {
    /// What transports say of their ways to this one.
    fn listens_to(self, transport: &dyn Transport) -> bool {
        self == Self::Any || transport.capabilities().name != "rdma"
    }
}

/// Makes the descriptor from the local segment and the transports.
pub(crate) struct Publisher {
    name: SegmentName,
    rpc: HostPort,
    incarnation: Incarnation,
    segment: Arc<LocalSegment>,
    transports: Vec<Arc<dyn Transport>>,
    last: Mutex<Snapshot>,
    /// Whether it was said that not everybody sees every buffer.
    told: AtomicBool,
}

impl Publisher {
    pub(crate) fn new(
        name: SegmentName,
        rpc: HostPort,
        incarnation: Incarnation,
        segment: Arc<LocalSegment>,
        transports: Vec<Arc<dyn Transport>>,
    ) -> Self {
        let last = Mutex::default();
        let told = AtomicBool::new(false);
        Self { name, rpc, incarnation, segment, transports, last, told }
    }

    pub(crate) fn name(&self) -> &SegmentName {
        &self.name
    }

    pub(crate) fn transports(&self) -> &[Arc<dyn Transport>] {
        &self.transports
    }

    pub(crate) fn rpc(&self) -> &HostPort {
        &self.rpc
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The descriptor as JSON, in parts where it is long.
    pub(crate) fn paged(&self) -> Arc<PagedDescriptor> {
        let mut last = self.last.lock();
        let made = self.describe(&mut last, |last| last.paged.is_some());
        if let Some((_, buffers)) = made {
            let descriptor = self.describe_all(&buffers, Reader::Any);
            let paged = descriptor.paginate(PAGE_BYTES);
            self.tell_what_is_left_out(&descriptor, &paged);
            return Arc::clone(last.paged.insert(Arc::new(paged)));
        }
        last.paged.clone().expect("nothing was made because it is there")
    }

    /// The same for whoever asks.
    pub(crate) fn paged_for(&self, asker: &Asker) -> Arc<PagedDescriptor> {
        match self.reader(asker) {
            Reader::Any => self.paged(),
            Reader::TcpOnly => self.plain(),
        }
    }

    /// Whether what transports say has changed shows in this number, which only rises.
    pub(crate) fn ways_version(&self) -> u64 {
        self.transports.iter().map(|transport| transport.description_version()).sum()
    }

    fn reader(&self, asker: &Asker) -> Reader {
        let has = |name| self.transports.iter().any(|t| t.capabilities().name == name);
        let is_plain = asker.protocol() == Some("tcp") && !asker.is_ours();
        if is_plain && has("tcp") && has("rdma") { Reader::TcpOnly } else { Reader::Any }
    }

    /// The descriptor of a segment without NICs.
    fn plain(&self) -> Arc<PagedDescriptor> {
        let mut last = self.last.lock();
        if let Some((_, buffers)) = self.describe(&mut last, |last| last.plain.is_some()) {
            let descriptor = self.describe_all(&buffers, Reader::TcpOnly);
            return Arc::clone(last.plain.insert(Arc::new(descriptor.paginate(PAGE_BYTES))));
        }
        last.plain.clone().expect("nothing was made because it is there")
    }

    /// This engine as its own peer.
    pub(crate) fn as_remote(&self) -> Arc<RemoteSegment> {
        let mut last = self.last.lock();
        if let Some((version, buffers)) = self.describe(&mut last, |last| last.remote.is_some()) {
            let descriptor = self.describe_all(&buffers, Reader::Any);
            let (name, rpc) = (self.name.clone(), self.rpc.clone());
            let remote = RemoteSegment::new(SegmentId::LOCAL, name, rpc, descriptor, version + 1);
            return Arc::clone(last.remote.insert(Arc::new(remote)));
        }
        last.remote.clone().expect("nothing was made because it is there")
    }

    pub(crate) fn descriptor(&self) -> SegmentDescriptor {
        let (_, buffers) = self.segment.snapshot();
        self.describe_all(&buffers, Reader::Any)
    }

    /// The buffers as of now with the number of the whole, unless that is what `last` is of and the
    /// form that is wanted is there. Forgets what is older.
    fn describe(
        &self,
        last: &mut Snapshot,
        is_there: impl Fn(&Snapshot) -> bool,
    ) -> Option<(u64, Vec<Arc<LocalBuffer>>)> {
        // Both only rise, so their sum is a number of the whole.
        let ways = self.ways_version();
        if last.version == self.segment.version() + ways && is_there(last) {
            return None;
        }
        let (version, buffers) = self.segment.snapshot();
        let version = version + ways;
        if last.version != version {
            *last = Snapshot { version, ..Snapshot::default() };
        }
        Some((version, buffers))
    }

    fn describe_all(&self, buffers: &[Arc<LocalBuffer>], reader: Reader) -> SegmentDescriptor {
        let open = buffers.iter().filter(|b| b.options().remote != RemoteAccess::None);
        let listed = open.map(|buffer| self.describe_buffer(buffer)).collect();
        let mut descriptor = SegmentDescriptor::tcp(
            self.name.as_str(),
            TcpEndpoint { data_host: Some(self.rpc.host().into()), ..TcpEndpoint::default() },
            listed,
        );
        descriptor.timestamp = te_metadata::format_timestamp(written_at());
        descriptor.te = Some(TeObject::new(self.incarnation));
        for transport in self.transports.iter().filter(|t| reader.listens_to(&***t)) {
            transport.describe(&mut descriptor);
        }
        descriptor
    }

    /// A Mooncake peer sees the first part only. That is said once.
    fn tell_what_is_left_out(&self, descriptor: &SegmentDescriptor, paged: &PagedDescriptor) {
        let (total, seen) = (descriptor.buffers().len(), paged.n_main_buffers);
        if seen < total && !self.told.swap(true, Ordering::Relaxed) {
            let name = self.name.as_str();
            tracing::warn!(name, total, seen, "Mooncake peers see only the first buffers");
        }
    }

    fn describe_buffer(&self, buffer: &LocalBuffer) -> BufferDescriptor {
        BufferDescriptor {
            name: self.name.as_str().into(),
            addr: buffer.region().address(),
            length: buffer.region().len(),
            rkeys: Vec::new(),
            lkeys: Vec::new(),
            te: Some(BufferHandle {
                slot: buffer.id().slot(),
                generation: buffer.id().generation(),
            }),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the descriptor's timestamp is wall-clock time")]
fn written_at() -> SystemTime {
    SystemTime::now()
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Publisher({})", self.name.as_str())
    }
}
