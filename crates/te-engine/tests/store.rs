//! Whole engines over TCP whose names are keys of a store that they share.
#![cfg(feature = "tcp")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_engine::{
    Region, RegisterOptions, SegmentId, TransferEngine, TransferError, TransferRequest,
};
use te_metadata::{KeySpace, MemoryStore, MetadataStore, SegmentName};

const SIZE: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(20);

/// The name of the peer. Its host is where data goes; its port says nothing with a store.
const PEER: &str = "127.0.0.1:1";

/// What finding out may take on a machine that does other things too.
const SOON: Duration = Duration::from_secs(2);

fn engine(store: &MemoryStore, name: &str) -> TransferEngine {
    TransferEngine::builder().name(name).store(Arc::new(store.clone())).build().unwrap()
}

fn memory(engine: &TransferEngine) -> Region {
    let region = engine.allocate(SIZE).unwrap();
    engine.register(&region, RegisterOptions::default()).unwrap();
    region
}

fn filled(region: &Region, byte: u8) -> bool {
    let mut out = vec![0; usize::try_from(SIZE).unwrap()];
    region.read_into(0, &mut out).unwrap();
    out.iter().all(|found| *found == byte)
}

/// One side that writes its whole buffer, filled with one byte.
struct Writer {
    engine: TransferEngine,
    region: Region,
    target: SegmentId,
}

impl Writer {
    fn new(store: &MemoryStore, target: &str) -> Self {
        let engine = engine(store, "127.0.0.1:2");
        let region = memory(&engine);
        let target = engine.open_segment(target).unwrap();
        Self { engine, region, target }
    }

    fn write(&self, byte: u8, to: u64) -> Result<u64, TransferError> {
        let whole = vec![byte; usize::try_from(SIZE).unwrap()];
        self.region.write_from(0, &whole).unwrap();
        let write = TransferRequest::write(self.region.whole(), self.target, to);
        let begun = Instant::now();
        let ended = self.engine.transfer(&[write], LIMIT);
        assert!(begun.elapsed() < SOON, "{:?}: {ended:?}", begun.elapsed());
        ended
    }

    /// Writes to the fresh buffer of a successor. The first request that comes can still be meant for
    /// the process before it, where nobody has looked since; that is said, and the next one arrives.
    fn reach(&self, byte: u8, fresh: &Region) {
        if let Err(refused) = self.write(0xee, fresh.address()) {
            assert!(refused.to_string().contains("another process"), "{refused}");
            assert!(filled(fresh, 0), "bytes that were meant for another process");
        }
        self.write(byte, fresh.address()).unwrap();
        assert!(filled(fresh, byte));
    }
}

#[test]
fn fb26_a_peer_in_a_store_that_registers_elsewhere_is_found_out() {
    // FB26: what is known of the peer is out of date; a request for its new buffer works without
    // opening again, one for the old buffer is refused.
    let store = MemoryStore::new();
    let peer = engine(&store, PEER);
    let mut old = memory(&peer);
    let writer = Writer::new(&store, PEER);
    for round in 1..=10 {
        writer.write(round, old.address()).unwrap();
        peer.unregister(old.address()).unwrap();
        let new = memory(&peer);
        writer.write(round + 100, new.address()).unwrap();
        assert!(filled(&new, round + 100));
        writer.write(0xee, old.address()).unwrap_err();
        assert!(filled(&old, round), "memory that was taken back has changed");
        old = new;
    }
}

#[test]
fn fb26_a_peer_in_a_store_that_leaves_and_comes_back_is_found_out() {
    // FB26: a peer that left is not served from memory; one that is back under its name, in another
    // process's stead, on other ports and with other buffers, is reached without opening again.
    let store = MemoryStore::new();
    let mut peer = engine(&store, PEER);
    let mut region = memory(&peer);
    let writer = Writer::new(&store, PEER);
    for round in 1..=10 {
        writer.write(round, region.address()).unwrap();
        assert!(filled(&region, round));
        let left = region.address();
        drop(peer);
        let gone = writer.write(0xee, left).unwrap_err();
        assert!(gone.to_string().contains(PEER), "{gone}");
        assert!(filled(&region, round), "memory of an engine that is closed has changed");
        assert!(store.is_empty_of(PEER), "an engine that ends takes its records with it");
        peer = engine(&store, PEER);
        region = memory(&peer);
        writer.reach(round + 100, &region);
    }
}

#[test]
fn fb26_a_peer_in_a_store_that_died_without_a_word_is_found_out() {
    // FB26: its records stay; they lead nowhere until its successor has put its own.
    let store = MemoryStore::new();
    let peer = engine(&store, PEER);
    let region = memory(&peer);
    let writer = Writer::new(&store, PEER);
    writer.write(1, region.address()).unwrap();
    let records = store.records_of(PEER);
    drop(peer);
    records.iter().for_each(|(key, value)| store.put(key, value).unwrap());
    for _ in 0..3 {
        writer.write(0xee, region.address()).unwrap_err();
    }
    let peer = engine(&store, PEER);
    let fresh = memory(&peer);
    assert_ne!(fresh.address(), region.address(), "both are mapped");
    writer.reach(2, &fresh);
    writer.write(0xee, region.address()).unwrap_err();
    assert!(filled(&region, 1), "memory of an engine that is closed has changed");
}

#[test]
fn b44_what_a_store_tells_of_a_peer_is_known_without_any_request() {
    // B44: a buffer that is new, and one that is gone, by the store's watch alone.
    let store = MemoryStore::new();
    let peer = engine(&store, PEER);
    let reader = engine(&store, "127.0.0.1:2");
    let id = reader.open_segment(PEER).unwrap();
    let knows = |address: u64| {
        let known = reader.segment(id).unwrap();
        known.descriptor().buffers().iter().any(|buffer| buffer.addr == address)
    };
    let becomes = |address: u64, wanted: bool| {
        let begun = Instant::now();
        while knows(address) != wanted {
            assert!(begun.elapsed() < LIMIT, "{address:#x} is not told");
            std::thread::yield_now();
        }
    };
    for _ in 0..5 {
        let region = memory(&peer);
        becomes(region.address(), true);
        peer.unregister(region.address()).unwrap();
        becomes(region.address(), false);
    }
    assert_eq!(reader.stats().submitted, 0);
}

#[test]
fn engines_may_be_named_by_their_address_or_publish_nothing() {
    // Two programs of one host with the same settings, and one that only asks.
    let store = MemoryStore::new();
    let build = || TransferEngine::builder().store(Arc::new(store.clone())).named_by_address();
    let (one, two) = (build().build().unwrap(), build().build().unwrap());
    assert_ne!(one.local_name(), two.local_name());
    assert_eq!(one.local_name().as_str(), one.local_address().to_string());
    assert!(!store.is_empty_of(one.local_name().as_str()));
    let asks = build().unpublished().build().unwrap();
    assert!(store.is_empty_of(asks.local_name().as_str()));
    assert_eq!(asks.publication(), None);
    let region = memory(&two);
    let id = asks.open_segment(two.local_name().as_str()).unwrap();
    let (source, name) = (memory(&asks), asks.local_name().clone());
    source.write_from(0, &vec![7; usize::try_from(SIZE).unwrap()]).unwrap();
    let write = TransferRequest::write(source.whole(), id, region.address());
    asks.transfer(&[write], LIMIT).unwrap();
    assert!(filled(&region, 7));
    assert!(store.is_empty_of(name.as_str()), "what it registers is not published either");
}

/// What a test looks up by itself.
trait Records {
    fn records_of(&self, name: &str) -> Vec<(String, Vec<u8>)>;

    fn is_empty_of(&self, name: &str) -> bool {
        self.records_of(name).is_empty()
    }
}

impl Records for MemoryStore {
    fn records_of(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let (keys, name) = (KeySpace::new(None), SegmentName::parse(name).unwrap());
        let both = [keys.segment(&name), keys.rpc_meta(&name)];
        let found = |key: String| Some((key.clone(), self.get(&key).unwrap()?.value));
        both.into_iter().filter_map(found).collect()
    }
}
