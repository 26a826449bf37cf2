//! Bytes over one NIC and over several.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::time::Duration;

use te_engine::{EngineConfig, TransferRequest};

use crate::harness::*;

/// J93: write, then read back what was written, and the buffer's location is told.
#[test]
fn j93_write_then_read_gives_equal_bytes_over_rdma() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma", "tcp"]), world.node("b", 1, &["rdma", "tcp"]));
    assert_eq!(a.engine.transports(), ["rdma", "tcp"]);
    assert!(a.engine.rdma_absence().is_none());
    let target = a.open(&b);
    assert_eq!(a.engine.transport_to(target), Some("rdma"));
    for seed in [1, 2] {
        a.check_write(&b, target, seed);
        let back = a.region.range(0, SIZE).unwrap();
        a.region.write_from(0, &vec![0; 1 << 20]).unwrap();
        let read = TransferRequest::read(back, target, b.region.address());
        assert_eq!(a.engine.transfer(&[read], LIMIT).unwrap(), SIZE);
        assert!(bytes(&a.region) == pattern(seed));
    }
    let batch = a.engine.allocate_batch(1).unwrap();
    let local = a.region.range(0, 7).unwrap();
    a.engine.submit(batch, &[TransferRequest::write(local, target, b.region.address())]).unwrap();
    a.engine.wait(batch, LIMIT).unwrap();
    assert_eq!(a.engine.status(batch, 0).unwrap().transport, Some("rdma"));
    let known = a.engine.segment(target).unwrap();
    let name = &known.descriptor().buffers()[0].name;
    assert!(name == "*" || name.starts_with("cpu:"), "{name}");
}

#[test]
fn every_number_of_nics_on_either_side_moves_the_bytes() {
    for (ours, theirs) in [(1, 4), (4, 1), (2, 2), (4, 4)] {
        let world = World::new();
        let (a, b) = (world.node("a", ours, &["rdma"]), world.node("b", theirs, &["rdma"]));
        let (to_b, to_a) = (a.open(&b), b.open(&a));
        a.check_write(&b, to_b, 3);
        b.check_write(&a, to_a, 4);
        let used = a.nics.iter().filter(|nic| nic.queue_pairs() > 0).count();
        assert_eq!(used, ours, "{ours} to {theirs}: 128 requests leave by all NICs");
    }
}

/// Peer fault 28: memory that is not registered is used as it is. RDMA cannot; TCP can.
#[test]
fn fault28_memory_that_is_not_registered_goes_by_tcp_or_is_named() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma", "tcp"]), world.node("b", 1, &["rdma", "tcp"]));
    let target = a.open(&b);
    let loose = a.engine.allocate(1 << 20).unwrap();
    loose.write_from(0, &[9; 1 << 20]).unwrap();
    let write = TransferRequest::write(loose.whole(), target, b.region.address());
    assert_eq!(a.engine.transfer(&[write], LIMIT).unwrap(), 1 << 20);
    assert!(bytes(&b.region)[..1 << 20].iter().all(|byte| *byte == 9));
    assert_eq!(a.engine.transport_to(target), Some("rdma"), "nothing failed of the path");
    a.check_write(&b, target, 1);
    let only = world.node("c", 1, &["rdma"]);
    let target = only.open(&b);
    let loose = only.engine.allocate(4096).unwrap();
    let write = TransferRequest::write(loose.whole(), target, b.region.address());
    let refused = told(&only.engine.transfer(&[write], LIMIT).unwrap_err());
    assert!(refused.contains("is not registered on rxe0"), "{refused}");
}

#[test]
fn an_engine_moves_bytes_within_itself_over_rdma() {
    let world = World::new();
    let a = world.node("a", 2, &["rdma"]);
    let own = a.engine.open_segment(a.engine.local_name().as_str()).unwrap();
    a.region.write_from(0, &[7; 4096]).unwrap();
    assert_eq!(a.write(own, a.region.address() + SIZE / 2, 4096).unwrap(), 4096);
    let (all, half) = (bytes(&a.region), usize::try_from(SIZE / 2).unwrap());
    assert!(all[half..][..4096].iter().all(|byte| *byte == 7));
}

/// J94, C32: regions of at most 64 KiB; requests straddle the edges on both sides.
#[test]
fn j94_requests_straddle_the_edges_of_split_regions() {
    let world = World::new();
    let nics = world.devices("a", 2);
    let config = EngineConfig::default().adjust(quick).unwrap();
    let config = config.adjust(|settings| settings.rdma.max_region_bytes = 65_536).unwrap();
    let a = Node::of(world.builder("a", config.clone()).only(["rdma"]).build().unwrap(), nics);
    let nics = world.devices("b", 2);
    let b = Node::of(world.builder("b", config).only(["rdma"]).build().unwrap(), nics);
    assert_eq!(b.engine.descriptor().buffers().len() as u64, SIZE / 65_536);
    let target = a.open(&b);
    a.check_write(&b, target, 5);
    let odd = a.region.range(65_535, 65_538).unwrap();
    let write = TransferRequest::write(odd, target, b.region.address() + 131_071);
    assert_eq!(a.engine.transfer(&[write], LIMIT).unwrap(), 65_538);
    let wanted = &pattern(5)[65_535..][..65_538];
    assert!(&bytes(&b.region)[131_071..][..65_538] == wanted);
}

#[test]
fn closing_ends_what_is_under_way_within_its_bound() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
    let target = a.open(&b);
    a.check_write(&b, target, 1);
    world.fake.hold_traffic();
    let batch = a.engine.allocate_batch(1).unwrap();
    let local = a.region.range(0, 4096).unwrap();
    a.engine.submit(batch, &[TransferRequest::write(local, target, b.region.address())]).unwrap();
    let report = a.engine.close(Duration::from_secs(5));
    assert!(report.joined && report.open_tasks == 0, "{report:?}");
    assert_eq!(a.nics[0].queue_pairs(), 0);
    world.fake.release();
}
