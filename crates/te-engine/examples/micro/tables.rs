//! Slices that are planned, and buffers that are looked up.

use std::hint::black_box;
use std::sync::Arc;

use te_metadata::{BufferDescriptor, HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{
    Access, LocalSegment, Region, RegisterOptions, RemoteRange, RemoteSegment, SegmentId,
    SlicePolicy,
};

use crate::figures::{Figures, nanos};

const LOOKUPS: u64 = 200_000;

/// How requests are cut.
pub(crate) fn planning(figures: &mut Figures) {
    let policy = SlicePolicy { min_piece: 64 << 10, max_piece: 64 << 10, ways: 4 };
    let pieces = 1 << 20;
    let sum =
        || policy.pieces(pieces << 16).map(|(offset, len)| offset ^ len).fold(0, |a, b| a ^ b);
    figures.print("plan: one slice", nanos(10, pieces, sum), "ns", None);
}

/// A peer with so many buffers of 4 KiB, 8 KiB apart.
pub(crate) fn peer(id: SegmentId, name: &str, buffers: u64) -> Arc<RemoteSegment> {
    let buffer = |i: u64| BufferDescriptor {
        name: "p:1".into(),
        addr: (i + 1) << 13,
        length: 4096,
        ..BufferDescriptor::default()
    };
    let endpoint = TcpEndpoint { data_host: None, data_port: Some(1), proto_version: 2 };
    let descriptor = SegmentDescriptor::tcp(name, endpoint, (0..buffers).map(buffer).collect());
    let rpc = HostPort::parse("127.0.0.1:1").unwrap();
    Arc::new(RemoteSegment::new(id, SegmentName::parse(name).unwrap(), rpc, descriptor, 1))
}

/// A number below `n` that jumps about.
pub(crate) fn scattered(i: u64, n: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % n
}

/// Which buffer holds a range, for peers' memory and for ours.
pub(crate) fn lookups(figures: &mut Figures) {
    for n in [10, 1000, 100_000] {
        if figures.wants("lookup") {
            let peer = peer(SegmentId::from_u64(1), "p:1", n);
            let locate = || {
                for i in 0..LOOKUPS {
                    let at = (scattered(i, n) + 1) << 13;
                    black_box(peer.locate(&RemoteRange::new(at + 8, 1000).unwrap()).unwrap());
                }
            };
            let name = format!("lookup: a peer's buffer among {n}");
            figures.print(&name, nanos(7, LOOKUPS, locate), "ns", Some(500.0));
            local(figures, n);
        }
    }
}

fn local(figures: &Figures, n: u64) {
    let (segment, regions) = (LocalSegment::new(), regions(n));
    for region in &regions {
        segment.register(region, RegisterOptions::default()).unwrap();
    }
    let base = regions[0].address();
    let find = || {
        for i in 0..LOOKUPS {
            black_box(segment.find(base + scattered(i, n) * 64 + 8, 16).unwrap());
        }
    };
    let name = format!("lookup: our buffer among {n}");
    figures.print(&name, nanos(7, LOOKUPS, find), "ns", Some(500.0));
    let acquire = || {
        for i in 0..LOOKUPS {
            let at = base + scattered(i, n) * 64 + 8;
            black_box(segment.acquire(at, 16, Access::Write).unwrap());
        }
    };
    let name = format!("lookup: a guard on our buffer among {n}");
    figures.print(&name, nanos(7, LOOKUPS, acquire), "ns", None);
}

/// So many small regions of one allocation, 64 bytes each.
pub(crate) fn regions(n: u64) -> Vec<Region> {
    let whole = te_segment::AlignedBuffer::zeroed(usize::try_from(n).unwrap() * 64).unwrap();
    let whole = Region::from(whole);
    (0..n).map(|i| whole.subregion(i * 64, 64).unwrap()).collect()
}
