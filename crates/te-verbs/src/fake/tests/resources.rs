//! Limits, keys, and what is kept alive by what.

use std::os::fd::AsFd;
use std::time::Duration;

use te_segment::{AlignedBuffer, Opcode, Region};
use te_topology::Gid;

use super::bed::{ALL, Bed, CAPACITY, address, name};
use crate::fake::{Fake, FakeDevice, FakePort};
use crate::work::WorkStatus::Success;
use crate::{PostError, Verbs};

#[test]
fn each_host_has_its_own_devices() {
    let bed = Bed::new(1);
    bed.fake.add("a", FakeDevice::new(name("mlx_1"), address(3)));
    let names = |host| {
        let devices = bed.fake.host(host).devices().unwrap();
        devices.into_iter().map(|device| device.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("a"), ["mlx_0", "mlx_1"]);
    assert_eq!(names("b"), ["mlx_0"]);
    assert!(names("nowhere").is_empty());
    assert!(bed.fake.nic("a", &name("mlx_1")).is_some());
    assert!(bed.fake.nic("b", &name("mlx_1")).is_none());
}

#[test]
fn limits_refuse_with_their_number() {
    let fake = Fake::new(1);
    let mut device = FakeDevice::new(name("mlx_0"), address(1));
    device.attributes.max_mr_size = 8192;
    device.attributes.max_qp = 2;
    device.attributes.max_cq = 1;
    device.max_regions = 2;
    let nic = fake.add("a", device);
    let device = fake.host("a").open(&name("mlx_0")).unwrap();
    let region = Region::from(AlignedBuffer::zeroed(16384).unwrap());
    let register = |len| device.register(&region.range(0, len).unwrap(), ALL);
    let errno = |error: crate::VerbsError| error.errno;
    assert_eq!(register(8193).map(drop).map_err(errno), Err(Some(libc::ENOMEM)));
    let (one, two) = (register(8192).unwrap(), register(1).unwrap());
    assert_eq!(register(1).map(drop).map_err(errno), Err(Some(libc::ENOMEM)));
    drop(one);
    assert!(register(1).is_ok());
    drop(two);
    let queue = device.completion_queue(4).unwrap();
    let second = device.completion_queue(4);
    assert_eq!(second.map(drop).map_err(errno), Err(Some(libc::ENOMEM)));
    let pairs = [(); 2].map(|()| device.queue_pair(&queue, CAPACITY).unwrap());
    let third = device.queue_pair(&queue, CAPACITY);
    assert_eq!(third.map(drop).map_err(errno), Err(Some(libc::ENOMEM)));
    assert_eq!(nic.queue_pairs(), 2);
    drop(pairs);
    assert_eq!((nic.queue_pairs(), nic.regions(), nic.openings()), (0, 0, 1));
    drop(device);
    // The queue keeps the device open.
    assert_eq!(nic.openings(), 1);
    drop(queue);
    assert_eq!(nic.openings(), 0);
}

/// I2 of the seam: places of unsignaled requests come back with a later completion.
#[test]
fn places_come_back_when_completions_are_taken() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    (0..8).for_each(|id| bed.write(&*near, id));
    let full = bed.post(&*near, Opcode::Write, 8);
    assert_eq!(full, Err(PostError { posted: 0, errno: libc::ENOMEM }));
    assert_eq!(bed.a.ended().len(), 8);
    bed.write(&*near, 8);
    assert_eq!(bed.a.ended(), [(8, Success)]);
}

/// An old key never names new memory, also of a device that forgot many.
#[test]
fn keys_are_not_used_again() {
    let bed = Bed::new(1);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let keys = bed.a.device.register(&bed.a.memory.whole(), ALL).unwrap();
        assert_ne!(keys.lkey(), keys.rkey());
        assert!(seen.insert(keys.lkey()) && seen.insert(keys.rkey()));
    }
}

#[test]
fn dma_bufs_are_known_where_the_device_says_so() {
    let fake = Fake::new(1);
    for (at, dmabuf) in [(1, false), (2, true)] {
        let nic = name(&format!("mlx_{at}"));
        fake.add("a", FakeDevice { dmabuf, ..FakeDevice::new(nic.clone(), address(at)) });
        let device = fake.host("a").open(&nic).unwrap();
        let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
        let file = std::io::stdin();
        let made = device.register_dmabuf(file.as_fd(), 0, &region.whole(), ALL);
        let wanted = if dmabuf { Ok(()) } else { Err(Some(libc::EOPNOTSUPP)) };
        assert_eq!(made.map(drop).map_err(|error| error.errno), wanted);
    }
}

/// An address that nobody has is looked for as long as that takes, and not longer once it is there.
#[test]
fn routes_may_take_their_time() {
    let bed = Bed::new(1);
    let pair = bed.a.pair();
    pair.to_init(1, 0).unwrap();
    let route = Bed::route(77, 17);
    let refused = pair.to_ready_to_receive(&route).unwrap_err();
    assert_eq!(refused.errno, Some(libc::ETIMEDOUT));
    bed.fake.set_resolve_limit(Duration::from_secs(600));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| pair.to_ready_to_receive(&route));
        assert!(bed.fake.wait_for_routing(1, Duration::from_secs(60)));
        bed.fake.add("c", FakeDevice::new(name("mlx_0"), address(77)));
        call.join().unwrap().unwrap();
    });
    bed.fake.hold_routes(true);
    let other = bed.a.pair();
    other.to_init(1, 0).unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| other.to_ready_to_receive(&route));
        assert!(bed.fake.wait_for_routing(1, Duration::from_secs(60)));
        bed.fake.hold_routes(false);
        call.join().unwrap().unwrap();
    });
}

/// An InfiniBand port is reached by its LID.
#[test]
fn infiniband_goes_by_lid() {
    let fake = Fake::new(1);
    let side = |host, lid| {
        let mut device = FakeDevice::new(name("mlx_0"), address(1));
        device.ports = vec![FakePort::infiniband(lid)];
        super::bed::Side::new(&fake, host, device)
    };
    let (a, b) = (side("a", 4), side("b", 5));
    let bed = Bed { fake: fake.clone(), a, b };
    let (near, far) = (bed.a.pair(), bed.b.pair());
    let to = |lid, number| {
        let mut route = Bed::route(0, number);
        (route.lid, route.gid, route.gid_index) = (lid, Gid::new([0; 16]), 0);
        route
    };
    Bed::connect(&*near, &to(5, far.number()), 6);
    Bed::connect(&*far, &to(4, near.number()), 6);
    bed.write(&*near, 1);
    assert_eq!(bed.a.ended(), [(1, Success)]);
}
