//! What a request costs: submitted, completed, waited for; and whether large tables make it dearer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use te_engine::{
    BatchId, Region, RegisterOptions, SegmentId, TransferEngine, TransferRequest, Transport,
};
use te_metadata::{
    AddressFamily, Directory, KeySpace, MemoryStore, MetadataStore as _, PAGE_BYTES, PeerClient,
    PeerLimits, RpcMeta, SegmentName,
};

use crate::figures::{Figures, allocated, nanos};
use crate::null::Null;
use crate::tables::{peer, regions, scattered};

const ROUNDS: u32 = 200;
const LIMIT: Duration = Duration::from_secs(60);

/// An engine over the null transport, with a registered buffer and open peers.
pub(crate) struct Bench {
    pub(crate) engine: TransferEngine,
    pub(crate) null: Arc<Null>,
    pub(crate) region: Region,
    pub(crate) targets: Vec<SegmentId>,
}

impl Bench {
    /// With so many peers of so many buffers each.
    pub(crate) fn new(peers: u64, buffers: u64) -> Self {
        let (store, null) = (MemoryStore::new(), Arc::new(Null::default()));
        let names: Vec<String> = (0..peers).map(|i| format!("peer-{i}")).collect();
        names.iter().for_each(|name| publish(&store, name, buffers));
        let engine = TransferEngine::builder()
            .name("127.0.0.1")
            .named_by_address()
            .store(Arc::new(store))
            .transport(Arc::clone(&null) as Arc<dyn Transport>)
            .build()
            .unwrap();
        let region = engine.allocate(1 << 24).unwrap();
        engine.register(&region, RegisterOptions::default()).unwrap();
        let targets = names.iter().map(|name| engine.open_segment(name).unwrap()).collect();
        Self { engine, null, region, targets }
    }

    /// `n` requests of 4 KiB to the first peer.
    pub(crate) fn requests(&self, n: u64) -> Vec<TransferRequest> {
        let request = |i: u64| {
            let local = self.region.range((i % 4096) * 4096, 4096).unwrap();
            TransferRequest::write(local, self.targets[0], 1 << 13)
        };
        (0..n).map(request).collect()
    }

    fn batch(&self, n: u64) -> BatchId {
        self.engine.allocate_batch(usize::try_from(n).unwrap()).unwrap()
    }
}

/// Puts the records of an engine that is not there.
fn publish(store: &MemoryStore, name: &str, buffers: u64) {
    let descriptor = peer(SegmentId::from_u64(1), name, buffers).descriptor().clone();
    let client = PeerClient::new(PeerLimits::default(), AddressFamily::Any);
    let directory = Directory::store(Arc::new(store.clone()), KeySpace::new(None), client);
    let name = SegmentName::parse(name).unwrap();
    let meta = RpcMeta { ip_or_host_name: "127.0.0.1".into(), rpc_port: 1, te_incarnation: None };
    for (key, value) in directory.records(&name, &meta, &descriptor.paginate(PAGE_BYTES)) {
        store.put(&key, &value).unwrap();
    }
}

/// What one request costs, in batches of one and of many.
pub(crate) fn costs(figures: &mut Figures) {
    if !figures.wants("request") {
        return;
    }
    let bench = Bench::new(1, 10);
    for n in [1, 128] {
        let requests = bench.requests(n);
        let many = |text: &str| format!("request: {text}, {n} a batch");
        let [submit, complete, rest] = phases(&bench, &requests);
        figures.print(&many("submitted"), submit, "ns", None);
        figures.print(&many("completed"), complete, "ns", None);
        figures.print(&many("batch made, waited for, freed"), rest, "ns", None);
        let whole = || bench.engine.transfer(&requests, LIMIT).unwrap();
        figures.print(&many("transfer in all"), nanos(ROUNDS, n, whole), "ns", None);
        allocations(figures, &bench, &requests);
    }
}

/// Nanoseconds for each request: submitting, the end of its slice, and what frames the batch.
fn phases(bench: &Bench, requests: &[TransferRequest]) -> [f64; 3] {
    let n = requests.len() as f64;
    bench.null.holds.store(true, Ordering::Relaxed);
    let mut least = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let batch = bench.batch(requests.len() as u64);
        let made = Instant::now();
        bench.engine.submit(batch, requests).unwrap();
        bench.null.wait_for(requests.len());
        let submitted = Instant::now();
        assert_eq!(bench.null.release(), requests.len());
        let completed = Instant::now();
        assert_eq!(bench.engine.wait(batch, LIMIT).unwrap().completed, requests.len());
        bench.engine.free_batch(batch).unwrap();
        let rest = (made - begun) + completed.elapsed();
        let times = [submitted - made, completed - submitted, rest];
        for (least, time) in least.iter_mut().zip(times) {
            *least = least.min(time.as_nanos() as f64 / n);
        }
    }
    bench.null.holds.store(false, Ordering::Relaxed);
    least
}

/// Allocations for each request, after everything has grown to its size.
fn allocations(figures: &Figures, bench: &Bench, requests: &[TransferRequest]) {
    let n = requests.len() as f64;
    bench.null.holds.store(true, Ordering::Relaxed);
    let mut counts = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let batch = bench.batch(requests.len() as u64);
        let (submitted, ()) = allocated(|| bench.engine.submit(batch, requests).unwrap());
        bench.null.wait_for(requests.len());
        let (completed, _) = allocated(|| bench.null.release());
        bench.engine.wait(batch, LIMIT).unwrap();
        bench.engine.free_batch(batch).unwrap();
        let count =
            |stats: stats_alloc::Stats| (stats.allocations + stats.reallocations) as f64 / n;
        counts = (count(submitted), count(completed));
    }
    bench.null.holds.store(false, Ordering::Relaxed);
    let name = |text: &str| format!("request: allocations {text}, {n} a batch");
    figures.print(&name("to submit"), counts.0, "", None);
    figures.print(&name("to complete"), counts.1, "", None);
}

/// Whether one request is dearer with many buffers and many peers.
pub(crate) fn scale(figures: &mut Figures) {
    if !figures.wants("scale") {
        return;
    }
    let (few, many) = (Bench::new(1, 10), Bench::new(1000, 10));
    let regions = regions(100_000);
    let wanted: Vec<_> = regions.iter().map(|r| (r.clone(), RegisterOptions::default())).collect();
    many.engine.register_batch(&wanted).unwrap();
    let (mut small, mut large) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..50 {
        small = small.min(one_by_one(&few));
        large = large.min(one_by_one(&many));
    }
    figures.print("scale: submit with 10 buffers, 1 peer", small, "ns", None);
    figures.print("scale: submit with 100000 buffers, 1000 peers", large, "ns", None);
    figures.print("scale: the ratio of both", large / small, "", Some(1.2));
}

/// Nanoseconds to submit one request of 4 KiB, each to another peer where there are several.
fn one_by_one(bench: &Bench) -> f64 {
    const N: u64 = 64;
    let (peers, mut spent) = (bench.targets.len() as u64, Duration::ZERO);
    for i in 0..N {
        let target = bench.targets[usize::try_from(scattered(i, peers)).unwrap()];
        let local = bench.region.range(scattered(i, 4096) * 4096, 4096).unwrap();
        let write = TransferRequest::write(local, target, 1 << 13);
        let batch = bench.batch(1);
        let begun = Instant::now();
        bench.engine.submit(batch, std::slice::from_ref(&write)).unwrap();
        spent += begun.elapsed();
        bench.engine.wait(batch, LIMIT).unwrap();
        bench.engine.free_batch(batch).unwrap();
    }
    spent.as_nanos() as f64 / N as f64
}
