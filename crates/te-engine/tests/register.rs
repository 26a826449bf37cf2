//! Registration with several transports: all or none, and a retry works.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use te_engine::{
    Allocation, EngineError, Pages, Region, RegisterError, RegisterOptions, RemoteAccess,
    TransferEngine, UnregisterError,
};
use te_metadata::MemoryStore;
use te_transport::Transport;
use te_transport::testing::{FaultyTransport, SimFabric, SimTransport};

type Faulty = FaultyTransport<Arc<SimTransport>>;

/// An engine over two transports that can be told to refuse.
fn engine() -> (TransferEngine, Arc<Faulty>, Arc<Faulty>) {
    let fabric = SimFabric::builder(1).build();
    let first = Arc::new(FaultyTransport::new(fabric.endpoint("a")));
    let second = Arc::new(FaultyTransport::new(fabric.endpoint("a2")));
    let engine = TransferEngine::builder()
        .name("a")
        .store(Arc::new(MemoryStore::new()))
        .transport(Arc::clone(&first) as Arc<dyn Transport>)
        .transport(Arc::clone(&second) as Arc<dyn Transport>)
        .without_threads(fabric.clock())
        .build()
        .unwrap();
    (engine, first, second)
}

fn part(region: &Region, offset: u64, len: u64) -> Region {
    region.subregion(offset, len).unwrap()
}

fn options() -> RegisterOptions {
    RegisterOptions::default()
}

fn listed(engine: &TransferEngine) -> Vec<(u64, u64)> {
    engine.descriptor().buffers().iter().map(|b| (b.addr, b.length)).collect()
}

#[test]
fn memory_of_the_engine_is_shareable_unless_it_is_small_or_wanted_otherwise() {
    let (engine, _, _) = engine();
    assert!(engine.allocate(64 << 10).unwrap().shared().is_some());
    assert!(engine.allocate((64 << 10) - 1).unwrap().shared().is_none());
    let private = Allocation::new(1 << 20).pages(Pages::Transparent).populated();
    assert!(engine.allocate_as(private).unwrap().shared().is_none());
    assert!(engine.allocate(0).is_err() && engine.allocate(u64::MAX).is_err());
}

#[test]
fn j42_a_batch_with_an_overlap_is_refused_before_any_transport_is_asked() {
    let (engine, first, _) = engine();
    let all = engine.allocate(1 << 16).unwrap();
    first.refuse_register(1);
    let batch = [
        (part(&all, 8192, 4096), options()),
        (part(&all, 0, 4096), options()),
        (part(&all, 4095, 2), options()),
    ];
    assert!(matches!(engine.register_batch(&batch), Err(RegisterError::Overlap { .. })));
    assert_eq!(listed(&engine), []);
    // Adjacent parts in any order are fine; the refusal above was never used up.
    let adjacent = [(part(&all, 4096, 4096), options()), (part(&all, 0, 4096), options())];
    assert!(matches!(engine.register_batch(&adjacent), Err(RegisterError::Transport { .. })));
    engine.register_batch(&adjacent).unwrap();
    assert_eq!(listed(&engine).len(), 2);
}

#[test]
fn j44_j46_a_refusal_of_the_second_transport_rolls_back_both_and_a_retry_works() {
    let (engine, _, second) = engine();
    let all = engine.allocate(1 << 16).unwrap();
    let batch: Vec<_> = (0..4).map(|i| (part(&all, i * 4096, 4096), options())).collect();
    second.refuse_register(3);
    let refused = engine.register_batch(&batch);
    let Err(RegisterError::Transport { address, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(address, all.address() + 2 * 4096);
    assert_eq!(listed(&engine), []);
    assert!(!engine.overlaps(all.address(), 1 << 16), "the reservation was released");
    engine.register_batch(&batch).unwrap();
    assert_eq!(listed(&engine).len(), 4);
}

#[test]
fn j45_batch_unregistration_goes_on_past_the_first_error() {
    let (engine, _, _) = engine();
    let all = engine.allocate(1 << 16).unwrap();
    let batch: Vec<_> = (0..3).map(|i| (part(&all, i * 4096, 4096), options())).collect();
    engine.register_batch(&batch).unwrap();
    let base = all.address();
    let result = engine.unregister_batch(&[base, base + 100, base + 4096, 7, base + 8192]);
    assert_eq!(result, Err(UnregisterError::NotRegistered { address: base + 100 }));
    assert_eq!(listed(&engine), []);
}

#[test]
fn j32_ten_buffers_come_and_go_and_unknown_ones_are_named() {
    let (engine, _, _) = engine();
    let regions: Vec<Region> = (0..10).map(|_| engine.allocate(4096).unwrap()).collect();
    for region in &regions {
        engine.register(region, options()).unwrap();
    }
    assert_eq!(listed(&engine).len(), 10);
    let unknown = engine.unregister(0x1234).unwrap_err();
    assert_eq!(EngineError::from(unknown).code(), -3);
    for region in &regions {
        engine.unregister(region.address()).unwrap();
    }
    assert_eq!(listed(&engine), []);
}

#[test]
fn fault22_overlaps_carry_the_peers_code_and_change_nothing() {
    let (engine, _, _) = engine();
    let all = engine.allocate(1 << 16).unwrap();
    engine.register(&part(&all, 4096, 8192), options()).unwrap();
    for (offset, len) in [(4096, 4096), (8000, 8192), (0, 4097), (5000, 10)] {
        let refused = engine.register(&part(&all, offset, len), options()).unwrap_err();
        assert!(matches!(refused, RegisterError::Overlap { .. }), "{refused}");
        assert_eq!(EngineError::from(refused).code(), -7);
    }
    assert_eq!(listed(&engine), [(all.address() + 4096, 8192)]);
}

#[test]
fn an_exact_duplicate_is_counted_and_other_options_are_not_a_duplicate() {
    // FB33: two registrations need two unregistrations before remote access stops.
    let (engine, _, _) = engine();
    let region = engine.allocate(4096).unwrap();
    engine.register(&region, options()).unwrap();
    engine.register(&region, options()).unwrap();
    let private = RegisterOptions { remote: RemoteAccess::None, ..options() };
    assert!(matches!(engine.register(&region, private), Err(RegisterError::OptionsDiffer { .. })));
    engine.unregister(region.address()).unwrap();
    assert_eq!(listed(&engine).len(), 1);
    engine.unregister(region.address()).unwrap();
    assert_eq!(listed(&engine), []);
    assert!(engine.unregister(region.address()).is_err());
}

#[test]
fn c26_memory_that_peers_may_not_use_is_not_published() {
    let (engine, _, _) = engine();
    let region = engine.allocate(4096).unwrap();
    let private = RegisterOptions { remote: RemoteAccess::None, ..options() };
    engine.register(&region, private).unwrap();
    assert_eq!(listed(&engine), []);
    assert!(engine.overlaps(region.address(), 1));
}

#[test]
fn j31_the_own_segment_is_found_by_name_and_by_number() {
    let (engine, _, _) = engine();
    let id = engine.open_segment("a").unwrap();
    assert_eq!(id, te_engine::SegmentId::LOCAL);
    assert_eq!(engine.segment(id).unwrap().name().as_str(), "a");
    assert_eq!(engine.open_segment("/a").unwrap(), id, "a leading slash does not count (A19)");
    engine.forget_segment("never opened").unwrap();
    assert!(engine.open_segment("").is_err());
    assert!(engine.open_segment("nobody").is_err());
}

#[test]
fn j34_records_are_published_and_removed_at_the_end() {
    let store = MemoryStore::new();
    let fabric = SimFabric::builder(1).build();
    let engine = TransferEngine::builder()
        .name("a:1")
        .store(Arc::new(store.clone()))
        .transport(fabric.endpoint("a"))
        .without_threads(fabric.clock())
        .build()
        .unwrap();
    let key = |key: &str| {
        te_metadata::MetadataStore::get(&store, key).unwrap().map(|record| record.value)
    };
    assert!(key("mooncake/rpc_meta/a:1").is_some());
    assert!(key("mooncake/ram/a:1").is_some());
    engine.close(Duration::from_secs(1));
    assert!(key("mooncake/rpc_meta/a:1").is_none());
    assert!(key("mooncake/ram/a:1").is_none());
}
