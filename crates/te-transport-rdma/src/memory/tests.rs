//! Memory on the NICs of a fake fabric.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use te_segment::{AlignedBuffer, LocalSegment, Region, RegisterOptions, RemoteAccess};
use te_topology::NicName;
use te_verbs::{Fake, FakeDevice, FakeNic, VerbsCall};

use super::*;
use crate::config::RdmaConfig;
use crate::sync::locks_taken;

const KIB: u64 = 1024;

struct World {
    devices: Vec<FakeNic>,
    table: Arc<MemoryTable>,
    segment: LocalSegment,
}

fn world(devices: Vec<FakeDevice>, settings: MemorySettings) -> World {
    let fake = Fake::new(1);
    let devices = devices.into_iter().map(|device| fake.add("a", device)).collect();
    let config = RdmaConfig { memory: settings.clone(), ..RdmaConfig::default() };
    let nics = Arc::new(Nics::open(&*fake.host("a"), &config, begin()).unwrap());
    let table = Arc::new(MemoryTable::new(nics, settings));
    World { devices, table, segment: LocalSegment::new() }
}

fn devices(count: u8) -> Vec<FakeDevice> {
    let name = |number| NicName::parse(&format!("rxe{number}")).unwrap();
    let device = |number| FakeDevice::new(name(number), Ipv4Addr::new(192, 168, 77, number + 1));
    (0..count).map(device).collect()
}

#[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
fn begin() -> Instant {
    Instant::now()
}

fn index(position: usize) -> NicIndex {
    NicIndex::new(position).unwrap()
}

impl World {
    fn buffer(&self, len: usize) -> Arc<LocalBuffer> {
        self.buffer_with(len, RegisterOptions::default())
    }

    fn buffer_with(&self, len: usize, options: RegisterOptions) -> Arc<LocalBuffer> {
        let region = Region::from(AlignedBuffer::zeroed(len).unwrap());
        self.segment.register(&region, options).unwrap()
    }

    fn regions(&self) -> Vec<usize> {
        self.devices.iter().map(FakeNic::regions).collect()
    }
}

/// C31, C40, C41: a region on each NIC; keys are found by any address inside; releasing what is not
/// registered is no fault.
#[test]
fn c31_a_buffer_has_a_region_on_each_nic_and_keys_by_any_address() {
    let world = world(devices(3), MemorySettings::default());
    let (one, other) = (world.buffer(64 << 10), world.buffer(4096));
    world.table.register(&one).unwrap();
    world.table.register(&other).unwrap();
    assert_eq!(world.regions(), [2, 2, 2]);
    let view = world.table.view();
    let (start, len) = (one.region().address(), one.region().len());
    let first = view.local_piece(index(0), start, 100).unwrap();
    assert_eq!(first.len, 100);
    let last = view.local_piece(index(0), start + len - 1, 100).unwrap();
    assert_eq!((last.lkey, last.len), (first.lkey, 1), "a piece ends with its buffer");
    assert_eq!(view.local_piece(index(3), start, 1), None, "there is no such NIC");
    let outside = [start - 1, start + len].into_iter().find(|at| view.chunk(*at).is_none());
    assert!(outside.is_some(), "not both neighbours are registered");
    world.table.deregister(&one);
    world.table.deregister(&one);
    assert_eq!(world.regions(), [1, 1, 1]);
    assert_eq!(world.table.view().chunk(start), None);
    assert!(view.chunk(start).is_some(), "an old view keeps keys, not regions");
}

/// C32, E5, J94: cut at the smallest limit; each piece has keys of its own, and no piece goes over an
/// edge.
#[test]
fn j94_long_memory_is_cut_into_regions() {
    let mut small = devices(2);
    small[1].attributes.max_mr_size = 16 * KIB;
    let world = world(small, MemorySettings { max_region: 40 * KIB, ..Default::default() });
    let buffer = world.buffer(40 << 10);
    world.table.register(&buffer).unwrap();
    assert_eq!(world.regions(), [3, 3]);
    let view = world.table.view();
    let start = buffer.region().address();
    let sizes: Vec<_> = view.chunks().iter().map(|c| (c.address - start, c.len)).collect();
    assert_eq!(sizes, [(0, 16 * KIB), (16 * KIB, 16 * KIB), (32 * KIB, 8 * KIB)]);
    let piece = view.local_piece(index(0), start + 16 * KIB - 10, 100).unwrap();
    assert_eq!(piece.len, 10);
    let next = view.local_piece(index(0), start + 16 * KIB, 90).unwrap();
    assert_eq!(next.len, 90);
    assert_ne!(next.lkey, piece.lkey);
    assert_eq!(view.chunks_of(start, buffer.region().len()).len(), 3);
    world.table.deregister(&buffer);
    assert_eq!(world.regions(), [0, 0]);
}

/// C33: what a NIC refuses leaves nothing behind, wherever the refusal comes; a retry works.
#[test]
fn c33_a_refusal_leaves_nothing_behind() {
    for parallel in [Parallel::Never, Parallel::Always] {
        let settings = MemorySettings { max_region: 16 * KIB, parallel, ..Default::default() };
        let world = world(devices(2), settings);
        let buffer = world.buffer(64 << 10);
        for (nic, skip) in [(0, 0), (0, 3), (1, 0), (1, 2)] {
            world.devices[nic].fail_call(VerbsCall::Register, skip, libc::ENOMEM);
            let version = world.table.version();
            let error = world.table.register(&buffer).unwrap_err();
            let MemoryError::Refused { nic: name, cause, len, .. } = error else { panic!() };
            assert_eq!((name.as_str(), cause.errno), (&*format!("rxe{nic}"), Some(libc::ENOMEM)));
            assert_eq!(len, 16 * KIB);
            assert_eq!(world.regions(), [0, 0]);
            assert_eq!(world.table.version(), version, "peers are told nothing");
        }
        world.table.register(&buffer).unwrap();
        assert_eq!(world.regions(), [4, 4]);
        let twice = world.table.register(&buffer).unwrap_err();
        assert!(matches!(twice, MemoryError::Twice { .. }));
        assert_eq!(world.regions(), [4, 4]);
    }
}

/// C31, J85: a NIC without link is registered on as well, and may refuse; a NIC that could not be
/// opened has no key. What is missing is registered when the NIC comes back.
#[test]
fn c31_a_nic_that_comes_back_gets_what_it_lacks() {
    let world = world(devices(2), MemorySettings::default());
    let (one, other) = (world.buffer(4096), world.buffer(4096));
    let now = begin();
    let complete = |nic| world.table.complete(nic).map_err(|error| error.to_string().into());
    let nics = &world.table.nics;
    world.devices[1].port_down(1);
    nics.advance_and_complete(index(1), now, &complete);
    world.table.register(&one).unwrap();
    world.devices[1].fail_call(VerbsCall::Register, 0, libc::ENOMEM);
    world.table.register(&other).unwrap();
    assert_eq!(world.regions(), [2, 1]);
    let missing = other.region().address();
    assert_eq!(world.table.view().local_piece(index(1), missing, 1), None);
    assert!(world.table.view().local_piece(index(0), missing, 1).is_some());
    world.devices[1].port_up(1);
    nics.advance_and_complete(index(1), now, &complete);
    // It refuses once more, and the NIC stays away.
    world.devices[1].fail_call(VerbsCall::Register, 0, libc::ENOMEM);
    let step = nics.advance_and_complete(index(1), now + Duration::from_millis(500), &complete);
    assert!(step.changes.is_empty() && !nics.snapshot().is_active(index(1)));
    let step = nics.advance_and_complete(index(1), now + Duration::from_secs(1), &complete);
    assert_eq!(step.changes, [crate::nic::NicChange::Activated]);
    assert_eq!(world.regions(), [2, 2]);
    assert!(world.table.view().local_piece(index(1), missing, 1).is_some());
    world.table.deregister(&other);
    assert_eq!(world.regions(), [1, 1]);
}

/// C31: memory that no NIC takes is not registered, even if none is active.
#[test]
fn c31_memory_that_no_nic_takes_is_refused() {
    let world = world(devices(1), MemorySettings::default());
    let buffer = world.buffer(4096);
    world.devices[0].port_down(1);
    world.table.nics.advance_and_complete(index(0), begin(), &|_| Ok(()));
    world.devices[0].fail_call(VerbsCall::Register, 0, libc::ENOMEM);
    assert!(world.table.register(&buffer).is_err());
    world.table.register(&buffer).unwrap();
    assert_eq!(world.regions(), [1]);
}

/// C37: a dma-buf is refused where the device knows none, and taken where it does.
#[test]
fn c37_a_dmabuf_is_registered_where_the_device_can() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let mut able = devices(1);
    able[0].dmabuf = true;
    for (devices, works) in [(devices(1), false), (able, true)] {
        let world = world(devices, MemorySettings { max_region: 2048, ..Default::default() });
        let buffer = world.buffer(4096);
        let offered = file.try_clone().unwrap().into();
        world.table.offer_dmabuf(buffer.region().address(), offered, 512);
        let done = world.table.register(&buffer);
        assert_eq!(done.is_ok(), works, "{done:?}");
        assert_eq!(world.regions(), [if works { 2 } else { 0 }]);
        if !works {
            world.table.register(&buffer).expect("the offer is spent");
        }
    }
}

/// C34: long memory is faulted in first, by regions that do not stay.
#[test]
fn c34_long_memory_is_faulted_in_first() {
    let settings =
        MemorySettings { pre_touch_from: 4096, pre_touch_threads: 3, ..Default::default() };
    let world = world(devices(2), settings);
    // The block is the first one that is registered on the first NIC; nobody minds its refusal.
    world.devices[0].fail_call(VerbsCall::Register, 0, libc::ENOMEM);
    world.table.register(&world.buffer(4096)).unwrap();
    assert_eq!(world.regions(), [1, 1]);
}

/// C26, K3: peers get the rights that the buffer has.
#[test]
fn c26_remote_rights_are_those_of_the_buffer() {
    let world = world(devices(1), MemorySettings::default());
    for remote in [RemoteAccess::None, RemoteAccess::Read, RemoteAccess::ReadWrite] {
        let options = RegisterOptions { remote, ..RegisterOptions::default() };
        let buffer = world.buffer_with(4096, options);
        world.table.register(&buffer).unwrap();
        let view = world.table.view();
        assert_eq!(view.chunk(buffer.region().address()).unwrap().remote, remote);
        let state = world.table.state.lock();
        assert_eq!(state.buffers[&buffer.region().address()].access.remote, remote);
    }
}

/// C11: a piece of memory on several nodes is where its own part is.
#[test]
fn c11_pieces_are_where_their_parts_are() {
    let world = world(devices(1), MemorySettings { max_region: 4 * KIB, ..Default::default() });
    let location = MemoryLocation::from("segments:4096:0,1,0");
    let options = RegisterOptions { location, ..RegisterOptions::default() };
    let buffer = world.buffer_with(18 << 10, options);
    world.table.register(&buffer).unwrap();
    let view = world.table.view();
    let told: Vec<_> = view.chunks().iter().map(|chunk| chunk.location.to_string()).collect();
    assert_eq!(told, ["cpu:0", "*", "cpu:1", "cpu:0", "cpu:0"]);
}

#[test]
fn looking_keys_up_takes_no_lock_until_something_changes() {
    let world = world(devices(2), MemorySettings::default());
    let buffer = world.buffer(4096);
    let mut reader = world.table.reader();
    world.table.register(&buffer).unwrap();
    assert!(reader.refresh());
    let before = locks_taken();
    for _ in 0..100 {
        assert!(!reader.refresh());
        assert!(reader.local_piece(index(1), buffer.region().address(), 8).is_some());
    }
    assert_eq!(locks_taken(), before);
    world.table.deregister(&buffer);
    assert!(reader.refresh());
    assert!(reader.chunks().is_empty());
}
