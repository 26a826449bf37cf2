//! What this engine tells others about itself: one descriptor, as a snapshot.
//!
//! I1  Every reader gets a descriptor that was whole at one moment (FB28).
//! I2  A buffer that peers may not use is not in it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use te_metadata::{
    BufferDescriptor, BufferHandle, HostPort, Incarnation, PAGE_BYTES, PagedDescriptor,
    SegmentDescriptor, SegmentName, TcpEndpoint, TeObject,
};
use te_segment::{LocalBuffer, LocalSegment, RemoteAccess, RemoteSegment, SegmentId};
use te_transport::Transport;

/// One descriptor in the forms that are asked for.
struct Snapshot {
    version: u64,
    paged: Arc<PagedDescriptor>,
    remote: Arc<RemoteSegment>,
}

/// Makes the descriptor from the local segment and the transports.
pub(crate) struct Publisher {
    name: SegmentName,
    rpc: HostPort,
    incarnation: Incarnation,
    segment: Arc<LocalSegment>,
    transports: Vec<Arc<dyn Transport>>,
    last: Mutex<Option<Snapshot>>,
    /// Whether it was said that not everybody sees every buffer.
    told: AtomicBool,
}

impl Publisher {
    pub(crate) fn new(
        name: SegmentName,
        rpc: HostPort,
        segment: Arc<LocalSegment>,
        transports: Vec<Arc<dyn Transport>>,
    ) -> Self {
        let incarnation = Incarnation::random();
        let (last, told) = (Mutex::default(), AtomicBool::new(false));
        Self { name, rpc, incarnation, segment, transports, last, told }
    }

    pub(crate) fn name(&self) -> &SegmentName {
        &self.name
    }

    pub(crate) fn rpc(&self) -> &HostPort {
        &self.rpc
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The descriptor as JSON, in parts where it is long.
    pub(crate) fn paged(&self) -> Arc<PagedDescriptor> {
        self.with_snapshot(|snapshot| Arc::clone(&snapshot.paged))
    }

    /// This engine as its own peer.
    pub(crate) fn as_remote(&self) -> Arc<RemoteSegment> {
        self.with_snapshot(|snapshot| Arc::clone(&snapshot.remote))
    }

    pub(crate) fn descriptor(&self) -> SegmentDescriptor {
        self.with_snapshot(|snapshot| snapshot.remote.descriptor().clone())
    }

    fn with_snapshot<T>(&self, use_it: impl FnOnce(&Snapshot) -> T) -> T {
        let mut last = self.last.lock();
        let version = self.segment.version();
        match last.as_ref() {
            Some(snapshot) if snapshot.version == version => use_it(snapshot),
            _ => {
                let (version, buffers) = self.segment.snapshot();
                use_it(last.insert(self.take_snapshot(version, &buffers)))
            }
        }
    }

    fn take_snapshot(&self, version: u64, buffers: &[Arc<LocalBuffer>]) -> Snapshot {
        let open = buffers.iter().filter(|b| b.options().remote != RemoteAccess::None);
        let listed = open.map(|buffer| self.describe_buffer(buffer)).collect();
        let mut descriptor = SegmentDescriptor::tcp(
            self.name.as_str(),
            TcpEndpoint { data_host: Some(self.rpc.host().into()), ..TcpEndpoint::default() },
            listed,
        );
        descriptor.timestamp = te_metadata::format_timestamp(written_at());
        descriptor.te = Some(TeObject::new(self.incarnation));
        for transport in &self.transports {
            transport.describe(&mut descriptor);
        }
        let paged = Arc::new(descriptor.paginate(PAGE_BYTES));
        self.tell_what_is_left_out(&descriptor, &paged);
        let (name, rpc) = (self.name.clone(), self.rpc.clone());
        let remote = RemoteSegment::new(SegmentId::LOCAL, name, rpc, descriptor, version + 1);
        Snapshot { version, paged, remote: Arc::new(remote) }
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
