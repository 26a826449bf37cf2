//! Engines whose NICs are on a fake fabric.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use te_engine::{
    EngineBuilder, EngineConfig, Region, RegisterOptions, SegmentId, Settings, TransferEngine,
    TransferError, TransferRequest,
};
use te_topology::NicName;
use te_verbs::{Fake, FakeDevice, FakeNic};

pub(crate) const SIZE: u64 = 4 << 20;
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A fabric and the addresses that were given on it.
pub(crate) struct World {
    pub(crate) fake: Fake,
    next: AtomicU8,
}

/// An engine with a registered buffer, and its NICs.
pub(crate) struct Node {
    pub(crate) engine: TransferEngine,
    pub(crate) region: Region,
    pub(crate) nics: Vec<FakeNic>,
}

/// Quick in everything that a test waits for.
pub(crate) fn quick(settings: &mut Settings) {
    let rdma = &mut settings.rdma;
    rdma.progress_timeout = Duration::from_millis(400);
    rdma.flush_timeout = Duration::from_millis(300);
    rdma.fence_timeout = Duration::from_millis(500);
    rdma.connect_backoff = Duration::from_millis(5);
}

impl World {
    pub(crate) fn new() -> Self {
        Self { fake: Fake::new(7), next: AtomicU8::new(1) }
    }

    /// Devices of a host, named `rxe0` and so on.
    pub(crate) fn devices(&self, host: &str, n: usize) -> Vec<FakeNic> {
        let device = |nic| {
            let last = self.next.fetch_add(1, Ordering::Relaxed);
            let name = NicName::parse(&format!("rxe{nic}")).unwrap();
            self.fake.add(host, FakeDevice::new(name, Ipv4Addr::new(192, 168, 77, last)))
        };
        (0..n).map(device).collect()
    }

    pub(crate) fn builder(&self, host: &str, config: EngineConfig) -> EngineBuilder {
        let builder = TransferEngine::builder().name("127.0.0.1").config(config);
        builder.verbs(self.fake.host(host))
    }

    /// An engine on a host with so many NICs, which uses these transports.
    pub(crate) fn node(&self, host: &str, n_nics: usize, only: &[&str]) -> Node {
        let nics = self.devices(host, n_nics);
        let config = EngineConfig::default().adjust(quick).unwrap();
        let engine = self.builder(host, config).only(only.iter().copied()).build().unwrap();
        Node::of(engine, nics)
    }
}

impl Node {
    pub(crate) fn of(engine: TransferEngine, nics: Vec<FakeNic>) -> Self {
        let region = engine.allocate(SIZE).unwrap();
        engine.register(&region, RegisterOptions::default()).unwrap();
        Self { engine, region, nics }
    }

    pub(crate) fn open(&self, peer: &Self) -> SegmentId {
        self.engine.open_segment(peer.engine.local_name().as_str()).unwrap()
    }

    /// Writes the start of our buffer to the start of the peer's.
    pub(crate) fn write(&self, target: SegmentId, to: u64, len: u64) -> Result<u64, TransferError> {
        let local = self.region.range(0, len).unwrap();
        self.engine.transfer(&[TransferRequest::write(local, target, to)], LIMIT)
    }

    /// Fills our buffer, writes it in 64 requests of a batch, and compares.
    pub(crate) fn check_write(&self, peer: &Self, target: SegmentId, seed: u64) {
        self.region.write_from(0, &pattern(seed)).unwrap();
        let each = SIZE / 64;
        let write = |i: u64| {
            let local = self.region.range(i * each, each).unwrap();
            TransferRequest::write(local, target, peer.region.address() + i * each)
        };
        let writes: Vec<_> = (0..64).map(write).collect();
        let moved = self.engine.transfer(&writes, LIMIT);
        assert_eq!(moved.map_err(|error| told(&error)), Ok(SIZE));
        assert!(bytes(&peer.region) == pattern(seed), "bytes differ");
    }
}

pub(crate) fn pattern(seed: u64) -> Vec<u8> {
    let byte = |i: u64| (i.wrapping_mul(131).wrapping_add(seed) ^ (i >> 11)).to_le_bytes()[0];
    (0..SIZE).map(byte).collect()
}

pub(crate) fn bytes(region: &Region) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(region.len()).unwrap()];
    region.read_into(0, &mut out).unwrap();
    out
}

/// An error with its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Waits until something holds, and says how long that took.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}
