//! Engines on one fabric, stepped by hand, and what must hold of every task.

use std::sync::Arc;
use std::time::Duration;

use te_engine::{
    BatchId, EngineBuilder, EngineConfig, Region, RegisterOptions, SegmentId, TaskState,
    TransferEngine, TransferRequest, TransferStatus,
};
use te_metadata::MemoryStore;
use te_transport::testing::{FaultyTransport, SimBuilder, SimFabric, SimTransport};
use te_transport::{Clock as _, Transport};

/// Bytes of each engine's buffer.
pub(crate) const BUFFER: u64 = 1 << 18;

/// How many seeds a scenario is run with.
pub(crate) const SEEDS: u64 = 1000;

/// Runs a scenario with every seed; names the seed that failed.
pub(crate) fn for_each_seed(scenario: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let (first, n) = match variable("TE_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (1, variable("TE_SIM_SEEDS").unwrap_or(SEEDS)),
    };
    for seed in first..first + n {
        if let Err(panic) = std::panic::catch_unwind(|| scenario(seed)) {
            println!("the failing seed is {seed}: run again with TE_SIM_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how many seeds to run is the caller's word")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A small seeded generator for the tests' own choices.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// One engine with a registered buffer.
pub(crate) struct Node {
    pub(crate) engine: TransferEngine,
    pub(crate) region: Region,
    pub(crate) transport: Arc<SimTransport>,
}

/// A fabric with engines and their common store.
pub(crate) struct World {
    pub(crate) fabric: SimFabric,
    store: MemoryStore,
    config: EngineConfig,
}

impl World {
    pub(crate) fn new(builder: SimBuilder) -> Self {
        Self { fabric: builder.build(), store: MemoryStore::new(), config: EngineConfig::default() }
    }

    pub(crate) fn with_config(builder: SimBuilder, config: EngineConfig) -> Self {
        Self { config, ..Self::new(builder) }
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        let transport = self.fabric.endpoint(name);
        self.node_on(name, Arc::clone(&transport) as Arc<dyn Transport>, transport)
    }

    /// An engine whose transport does what a test tells it to.
    pub(crate) fn faulty_node(
        &self,
        name: &str,
    ) -> (Node, Arc<FaultyTransport<Arc<SimTransport>>>) {
        let inner = self.fabric.endpoint(name);
        let faulty = Arc::new(FaultyTransport::new(Arc::clone(&inner)));
        let node = self.node_on(name, Arc::clone(&faulty) as Arc<dyn Transport>, inner);
        (node, faulty)
    }

    /// A builder for an engine of this world.
    pub(crate) fn builder(&self, name: &str) -> EngineBuilder {
        TransferEngine::builder()
            .name(name)
            .config(self.config.clone())
            .store(Arc::new(self.store.clone()))
            .without_threads(self.fabric.clock())
    }

    fn node_on(&self, name: &str, transport: Arc<dyn Transport>, inner: Arc<SimTransport>) -> Node {
        let engine = self.builder(name).transport(transport).build().unwrap();
        let region = engine.allocate(BUFFER).unwrap();
        engine.register(&region, RegisterOptions::default()).unwrap();
        Node { engine, region, transport: inner }
    }

    /// Lets virtual time pass until every batch is final, at most `limit`.
    pub(crate) fn run(
        &self,
        nodes: &[&Node],
        batches: &[(&Node, BatchId)],
        limit: Duration,
    ) -> bool {
        let end = self.fabric.clock().now() + limit;
        loop {
            for node in nodes {
                node.engine.tick();
            }
            if batches.iter().all(|(node, batch)| is_final(node, *batch)) {
                return true;
            }
            let now = self.fabric.clock().now();
            if now >= end {
                return false;
            }
            self.fabric.run_until(now + Duration::from_millis(1));
        }
    }
}

fn is_final(node: &Node, batch: BatchId) -> bool {
    node.engine.batch_status(batch).unwrap().state.is_final()
}

/// Fills a region with bytes that depend on `seed` and the place.
pub(crate) fn fill(region: &Region, seed: u64) {
    region.write_from(0, &pattern(seed, 0, BUFFER)).unwrap();
}

pub(crate) fn pattern(seed: u64, offset: u64, len: u64) -> Vec<u8> {
    let byte = |i: u64| {
        (i.wrapping_mul(31).wrapping_add(seed.wrapping_mul(97)) ^ (i >> 9)).to_le_bytes()[0]
    };
    (offset..offset + len).map(byte).collect()
}

pub(crate) fn bytes_of(region: &Region, offset: u64, len: u64) -> Vec<u8> {
    let mut out = vec![0; usize::try_from(len).unwrap()];
    region.read_into(offset, &mut out).unwrap();
    out
}

/// Disjoint writes that together cover a part of the buffer, at odd offsets.
pub(crate) fn disjoint_writes(
    rng: &mut Rng,
    from: &Node,
    target: SegmentId,
    base: u64,
) -> Vec<(u64, u64, TransferRequest)> {
    let mut at = rng.below(100);
    let mut requests = Vec::new();
    while at < BUFFER {
        let len = match rng.below(4) {
            0 => 0,
            1 => 1 + rng.below(100),
            _ => 1 + rng.below(50_000),
        }
        .min(BUFFER - at);
        let local = from.region.range(at, len).unwrap();
        requests.push((at, len, TransferRequest::write(local, target, base + at)));
        at += len + 1 + rng.below(5000);
    }
    requests
}

/// Every task of the batch, each of which must be final and honest about its bytes.
pub(crate) fn check_final(node: &Node, batch: BatchId, lens: &[u64]) -> Vec<TransferStatus> {
    let statuses: Vec<_> = (0..lens.len()).map(|i| node.engine.status(batch, i).unwrap()).collect();
    for (status, len) in statuses.iter().zip(lens) {
        assert!(status.state.is_final(), "a task is not final: {status:?}");
        assert!(status.bytes <= *len);
        if status.state == TaskState::Completed {
            assert_eq!(status.bytes, *len, "completed with too few bytes");
            assert!(status.fault.is_none());
        } else {
            assert!(status.fault.is_some(), "ended without a reason: {status:?}");
        }
    }
    let sum = node.engine.batch_status(batch).unwrap();
    assert_eq!(sum.total, lens.len());
    assert_eq!(sum.completed + sum.failed, lens.len(), "a task counts not once");
    statuses
}
