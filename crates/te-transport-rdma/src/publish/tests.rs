//! Descriptors as peers read them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use te_metadata::{BufferHandle, HostPort, Incarnation, SegmentName, TcpEndpoint};
use te_segment::{
    AlignedBuffer, LocalBuffer, LocalSegment, Region, RegisterOptions, RemoteSegment, SegmentId,
};
use te_topology::MemoryLocation;
use te_verbs::{Fake, FakeDevice, FakeNic};

use super::*;
use crate::config::RdmaConfig;
use crate::memory::MemoryTable;
use crate::nic::Nics;
use crate::peer::{PeerNicIndex, PeerView};

/// What the wheel published with two NICs, keys and order of keys as captured.
const WHEEL: &[u8] = include_bytes!("../../tests/fixtures/descriptor-wheel-two-nics.json");

const OPPOSED: &str = r#"{"cpu:0":[["rxe1"],["rxe0"]],"cpu:1":[["rxe0"],["rxe1"]]}"#;
const FACTS: TeFacts = TeFacts { fences: true, queue_pairs: 2 };

#[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
fn begin() -> Instant {
    Instant::now()
}

struct World {
    devices: Vec<FakeNic>,
    nics: Arc<Nics>,
    memory: Arc<MemoryTable>,
    segment: LocalSegment,
    matrix: Option<PriorityMatrix>,
}

fn world(matrix: Option<&str>, max_region: u64) -> World {
    let fake = Fake::new(1);
    let add = |number: u8| {
        let name = NicName::parse(&format!("rxe{number}")).unwrap();
        fake.add("a", FakeDevice::new(name, Ipv4Addr::new(192, 168, 77, number + 1)))
    };
    let devices = (0..2).map(add).collect();
    let matrix = matrix.map(|text| PriorityMatrix::parse(text).unwrap());
    let mut config = RdmaConfig { matrix: matrix.clone(), ..RdmaConfig::default() };
    config.memory.max_region = max_region;
    let nics = Arc::new(Nics::open(&*fake.host("a"), &config, begin()).unwrap());
    let memory = Arc::new(MemoryTable::new(Arc::clone(&nics), config.memory));
    World { devices, nics, memory, segment: LocalSegment::new(), matrix }
}

impl World {
    fn register(&self, len: usize, location: &str, remote: RemoteAccess) -> Arc<LocalBuffer> {
        let region = Region::from(AlignedBuffer::zeroed(len).unwrap());
        let options = RegisterOptions { location: MemoryLocation::from(location), remote };
        let buffer = self.segment.register(&region, options).unwrap();
        self.memory.register(&buffer).unwrap();
        buffer
    }

    /// As the engine describes a segment, without anything of TCP.
    fn describe(&self, buffers: &[&LocalBuffer]) -> (SegmentDescriptor, Option<Preferences>) {
        let listed = buffers.iter().map(|buffer| BufferDescriptor {
            name: "127.0.0.1:16770".into(),
            addr: buffer.region().address(),
            length: buffer.region().len(),
            te: Some(BufferHandle::from(buffer.id())),
            ..BufferDescriptor::default()
        });
        let endpoint = TcpEndpoint::default();
        let mut descriptor = SegmentDescriptor::tcp("127.0.0.1:16770", endpoint, listed.collect());
        descriptor.te = Some(TeObject::new(Incarnation::from_u128(1)));
        let nics = (&*self.nics.snapshot(), self.matrix.as_ref());
        let told = describe(nics, &self.memory.view(), FACTS, &mut descriptor);
        (descriptor, told)
    }

    /// rxe0 or rxe1 loses its link.
    fn down(&self, nic: usize) {
        self.devices[nic].port_down(1);
        let index = self.nics.named(&format!("rxe{nic}")).unwrap().index();
        self.nics.advance(index, begin());
    }
}

/// What a peer that numbers NICs by its walk takes for them: for each number the device's name, its
/// key, and the name that the matrix has there.
fn by_walk(descriptor: &SegmentDescriptor, backwards: bool) -> Vec<(String, u32, String)> {
    let ProtocolPart::Rdma { devices, buffers, priority_matrix } = &descriptor.part else {
        panic!("not RDMA")
    };
    let mut rows: Vec<_> = priority_matrix.as_ref().unwrap().rows().collect();
    if backwards {
        rows.reverse();
    }
    let mut walked: Vec<&NicName> = Vec::new();
    for nic in rows.iter().flat_map(|(_, row)| row.preferred.iter().chain(&row.available)) {
        if !walked.contains(&nic) {
            walked.push(nic);
        }
    }
    let numbered = walked.iter().enumerate();
    let read = |(number, name): (usize, &&NicName)| {
        (devices[number].name.to_string(), buffers[0].rkeys[number].value(), name.to_string())
    };
    numbered.map(read).collect()
}

/// rdma fault 2: with opposed preferences, both NICs up and then the first one down, every walk
/// reaches the NIC that it means, with its key, and never the dead one.
#[test]
fn rdma_fault02_no_walk_finds_a_wrong_key_or_the_dead_nic() {
    for (dead, living) in [(None, 2), (Some(0), 1), (Some(1), 1)] {
        let world = world(Some(OPPOSED), 1 << 40);
        let buffer = world.register(4096, "cpu:0", RemoteAccess::ReadWrite);
        let memory = world.memory.view();
        let chunk = memory.chunk(buffer.region().address()).unwrap();
        let key = |nic: &str| {
            let index = world.nics.named(nic).unwrap().index();
            chunk.keys[index.position()].unwrap().rkey.value()
        };
        dead.into_iter().for_each(|nic| world.down(nic));
        let (descriptor, _) = world.describe(&[&buffer]);
        for backwards in [false, true] {
            let walked = by_walk(&descriptor, backwards);
            assert_eq!(walked.len(), living, "{walked:?}");
            for (device, rkey, meant) in walked {
                assert_eq!((&device, rkey), (&meant, key(&meant)));
                assert_ne!(Some(meant), dead.map(|nic| format!("rxe{nic}")));
            }
        }
    }
}

/// §3.1: what a wheel host with two NICs publishes, key for key, is what we publish for one like it;
/// local keys are zeros.
#[test]
fn rdma_3_1_the_descriptor_is_that_of_the_wheel() {
    let world = world(Some(r#"{"cpu:0":[[],["rxe0","rxe1"]]}"#), 1 << 40);
    let buffer = world.register(8192, "*", RemoteAccess::ReadWrite);
    let (mut ours, told) = world.describe(&[&buffer]);
    assert_eq!(told, Some(Preferences::Kept));
    ours.te = None;
    let wheel = SegmentDescriptor::decode(WHEEL).unwrap();
    let ProtocolPart::Rdma { buffers, .. } = &mut ours.part else { panic!("not RDMA") };
    let theirs = &wheel.buffers()[0];
    assert_eq!(buffers[0].lkeys, [0, 0]);
    assert_eq!(buffers[0].rkeys.len(), 2);
    buffers[0] = theirs.clone();
    ours.timestamp.clone_from(&wheel.timestamp);
    assert_eq!(ours, wheel);
    assert_eq!(String::from_utf8(ours.encode()), String::from_utf8(wheel.encode()));
}

/// C32, C26, B-rows: one entry for each chunk, as many local as remote keys, no remote key where
/// nobody may touch it, names never empty; a handle only where it says the truth.
#[test]
fn c32_each_chunk_is_an_entry_with_a_key_for_each_device() {
    let world = world(None, 8192);
    let cut = world.register(20_000, "", RemoteAccess::ReadWrite);
    let closed = world.register(4096, "cpu:1", RemoteAccess::None);
    let (descriptor, _) = world.describe(&[&cut, &closed]);
    let entries = descriptor.buffers();
    assert_eq!(
        entries.iter().map(|entry| entry.length).collect::<Vec<_>>(),
        [8192, 8192, 3616, 4096]
    );
    let keys: Vec<_> = entries.iter().map(|e| (e.rkeys.len(), e.lkeys.len())).collect();
    assert_eq!(keys, [(2, 2), (2, 2), (2, 2), (0, 0)]);
    assert_eq!(entries[0].name, "*");
    assert_eq!(entries[3].name, "cpu:1");
    assert!(entries[..3].iter().all(|entry| entry.te.is_none()) && entries[3].te.is_some());
    assert_eq!(entries[1].addr, cut.region().address() + 8192);
    SegmentDescriptor::decode(&descriptor.encode()).expect("peers read it");
}

/// While no NIC is active the lists are empty, so that a peer asks again; a buffer that is not
/// registered with us has no key.
#[test]
fn while_every_nic_is_away_the_lists_are_empty() {
    let world = world(None, 1 << 40);
    let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
    let unknown = world.segment.register(&region, RegisterOptions::default()).unwrap();
    let (descriptor, _) = world.describe(&[&unknown]);
    assert_eq!(
        (descriptor.buffers()[0].name.as_str(), descriptor.buffers()[0].rkeys.len()),
        ("*", 0)
    );
    world.down(0);
    world.down(1);
    let (descriptor, told) = world.describe(&[&unknown]);
    assert_eq!((descriptor.protocol_name(), told), ("rdma", Some(Preferences::Kept)));
    let descriptor = SegmentDescriptor::decode(&descriptor.encode()).expect("peers read it");
    let ProtocolPart::Rdma { devices, buffers, .. } = &descriptor.part else { panic!("not RDMA") };
    assert_eq!((devices.len(), buffers.len()), (0, 1));
    assert!(PeerView::is_awaited(&a_peer(descriptor)));
}

/// Before the first port came nothing of RDMA is told but to our own engines, which ask again.
#[test]
fn before_the_first_port_comes_only_our_own_engines_are_told() {
    let world = World { nics: Arc::new(down_from_the_start()), ..world(None, 1 << 40) };
    let (descriptor, told) = world.describe(&[]);
    assert_eq!((descriptor.protocol_name(), told), ("tcp", None));
    let peer = a_peer(SegmentDescriptor::decode(&descriptor.encode()).unwrap());
    assert!(PeerView::check(&peer).is_err() && PeerView::is_awaited(&peer));
    let foreign = SegmentDescriptor { te: None, ..descriptor };
    assert!(!PeerView::is_awaited(&a_peer(foreign)));
}

fn down_from_the_start() -> Nics {
    let fake = Fake::new(1);
    let device = FakeDevice::new(NicName::parse("rxe0").unwrap(), Ipv4Addr::new(192, 168, 77, 1));
    fake.add("a", device).port_down(1);
    Nics::open(&*fake.host("a"), &RdmaConfig::default(), begin()).unwrap()
}

fn a_peer(descriptor: SegmentDescriptor) -> Arc<RemoteSegment> {
    let (name, rpc) = (SegmentName::parse("a").unwrap(), HostPort::new("10.0.0.1", None).unwrap());
    Arc::new(RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1))
}

/// Our own engines get the preferences that others cannot be told, and the facts.
#[test]
fn our_own_engines_keep_the_preferences() {
    let world = world(Some(OPPOSED), 1 << 40);
    let buffer = world.register(4096, "cpu:0", RemoteAccess::ReadWrite);
    let (descriptor, told) = world.describe(&[&buffer]);
    assert_eq!(told, Some(Preferences::Lost));
    let descriptor = SegmentDescriptor::decode(&descriptor.encode()).unwrap();
    let view = PeerView::read(&a_peer(descriptor)).unwrap();
    assert_eq!(view.facts(), Some(FACTS));
    let mut picker = te_topology::Picker::random(1);
    for (location, nic) in [("cpu:0", "rxe1"), ("cpu:1", "rxe0")] {
        let pick = view.selector().select(&location.into(), 0, &mut picker).unwrap();
        assert_eq!(pick.name.as_str(), nic);
        let index = PeerNicIndex::new(pick.index.position()).unwrap();
        let piece = view.remote_piece(index, buffer.region().address(), 8).unwrap();
        let own = world.nics.named(nic).unwrap().index().position();
        let memory = world.memory.view();
        assert_eq!(Some(piece.rkey), memory.chunks()[0].keys[own].map(|keys| keys.rkey));
    }
}

/// What a peer writes into our part is hostile.
#[test]
fn facts_of_a_wrong_shape_are_none() {
    let read = |part: Value| {
        let mut te = TeObject::new(Incarnation::from_u128(1));
        te.transports.insert("rdma".into(), part);
        (TeFacts::read(&te), TeFacts::matrix(&te))
    };
    for part in [
        json!(null),
        json!([]),
        json!({}),
        json!({ "queue_pairs": "2", "matrix": "x" }),
        json!({ "queue_pairs": 0, "matrix": { "cpu:0": [] } }),
        json!({ "queue_pairs": 1025, "matrix": 7 }),
        json!({ "queue_pairs": -1, "matrix": null }),
    ] {
        assert_eq!(read(part.clone()), (None, None), "{part}");
    }
    let facts = TeFacts { fences: false, queue_pairs: 8 };
    assert_eq!(read(json!({ "queue_pairs": 8, "fences": 1 })).0, Some(facts));
}
