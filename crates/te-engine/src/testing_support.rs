//! Small values that several unit tests need.

use std::sync::Arc;

use te_metadata::{
    BufferDescriptor, HostPort, Incarnation, SegmentDescriptor, SegmentName, TcpEndpoint, TeObject,
};
use te_segment::{RemoteSegment, SegmentId};

use crate::batch::{Batch, BatchTable};
use crate::classic::{Route, Via, Ways};

/// An empty batch with room for 16 tasks.
pub(crate) fn a_batch() -> Arc<Batch> {
    let table = BatchTable::default();
    let id = table.allocate(16).unwrap();
    table.find(id).unwrap()
}

/// The only transport of an engine.
pub(crate) fn a_via() -> Via {
    Via::all().next().unwrap()
}

/// A route to a peer.
pub(crate) fn a_route() -> Arc<Route> {
    let ways = Arc::new(Ways::new(SegmentId::from_u64(1), Arc::new([])));
    Arc::new(Route { ways, peer: a_peer(1), via: a_via() })
}

/// A peer with one buffer of 1 MiB at 0x10000.
pub(crate) fn a_peer(epoch: u64) -> Arc<RemoteSegment> {
    peer(epoch, None)
}

/// The same name, another process.
pub(crate) fn a_restarted_peer(epoch: u64) -> Arc<RemoteSegment> {
    peer(epoch, Some(Incarnation::random()))
}

/// A peer without an incarnation.
pub(crate) fn a_mooncake_peer(port: u16, buffers: &[u64]) -> Arc<RemoteSegment> {
    let buffer = |addr: &u64| BufferDescriptor {
        name: "p:1".into(),
        addr: *addr,
        length: 4096,
        ..Default::default()
    };
    let endpoint = TcpEndpoint { data_host: None, data_port: Some(port), proto_version: 2 };
    let descriptor = SegmentDescriptor::tcp("p:1", endpoint, buffers.iter().map(buffer).collect());
    snapshot(1, descriptor)
}

fn peer(epoch: u64, incarnation: Option<Incarnation>) -> Arc<RemoteSegment> {
    let buffer = BufferDescriptor {
        name: "p:1".into(),
        addr: 0x10000,
        length: 1 << 20,
        ..Default::default()
    };
    let endpoint = TcpEndpoint { data_host: None, data_port: Some(1), proto_version: 2 };
    let mut descriptor = SegmentDescriptor::tcp("p:1", endpoint, vec![buffer]);
    descriptor.te = incarnation.map(TeObject::new);
    snapshot(epoch, descriptor)
}

fn snapshot(epoch: u64, descriptor: SegmentDescriptor) -> Arc<RemoteSegment> {
    let name = SegmentName::parse("p:1").unwrap();
    let rpc = HostPort::parse("p:1").unwrap();
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, epoch))
}
