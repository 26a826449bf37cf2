//! Engines without an engine: a transport, a segment, and what would be published of them.
#![allow(unreachable_pub, reason = "a module of each test, not of a crate")]

use std::sync::Arc;

use te_metadata::{
    BufferDescriptor, HostPort, Incarnation, SegmentDescriptor, SegmentName, TcpEndpoint, TeObject,
};
use te_segment::{LocalSegment, RemoteSegment, SegmentId};
use te_transport::{CompletionSink, SystemClock, Transport, TransportContext};

/// A started transport and its memory.
#[derive(Debug)]
pub struct Engine<T> {
    /// The transport.
    pub transport: Arc<T>,
    /// Its memory.
    pub segment: Arc<LocalSegment>,
    /// Which run of a process it pretends to be.
    pub incarnation: Incarnation,
}

impl<T: Transport> Engine<T> {
    /// Starts it.
    pub fn start(transport: T, incarnation: Incarnation, sink: Arc<dyn CompletionSink>) -> Self {
        let (transport, segment) = (Arc::new(transport), Arc::new(LocalSegment::new()));
        let clock = Arc::new(SystemClock);
        let name = SegmentName::parse("node").expect("a plain word is a name");
        let offered = Arc::clone(&segment);
        let context = TransportContext { name, segment: offered, sink, incarnation, clock };
        transport.start(context).expect("nothing is in its way");
        Self { transport, segment, incarnation }
    }
}

/// What others would learn of an engine at this moment.
pub fn remote<T: Transport>(engine: &Engine<T>) -> Arc<RemoteSegment> {
    let mut descriptor = descriptor(engine);
    engine.transport.describe(&mut descriptor);
    as_peer(descriptor)
}

/// The same before the transport wrote its part.
pub fn descriptor<T>(engine: &Engine<T>) -> SegmentDescriptor {
    let (_, open) = engine.segment.snapshot();
    let listed = open.iter().map(|buffer| BufferDescriptor {
        name: "target".into(),
        addr: buffer.region().address(),
        length: buffer.region().len(),
        te: Some(buffer.id().into()),
        ..BufferDescriptor::default()
    });
    let mut descriptor = SegmentDescriptor::tcp("target", TcpEndpoint::default(), listed.collect());
    descriptor.te = Some(TeObject::new(engine.incarnation));
    descriptor
}

/// A descriptor as a peer.
pub fn as_peer(descriptor: SegmentDescriptor) -> Arc<RemoteSegment> {
    let name = SegmentName::parse("target").expect("a good name");
    let rpc = HostPort::new("127.0.0.1", Some(1)).expect("a good address");
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
}
