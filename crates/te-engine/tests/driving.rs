//! Callers that wait for several transports at once, and callers that poll.
//!
//! The transports here have no thread: only who drives them moves anything.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock and wait")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use te_engine::{
    BatchId, RegisterOptions, RemoteSegment, SegmentId, TransferEngine, TransferRequest, Transport,
};
use te_metadata::{MemoryStore, SegmentDescriptor};
use te_segment::{LocalBuffer, SlicePolicy, SliceToken};
use te_transport::{
    Capabilities, CloseReport, Completion, Driven, RemoteSide, SliceSource, StartError,
    TransportContext, TransportRegisterError,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Completes one slice each time that it was driven `needs` times; sleeps out the time it is given.
#[derive(Debug)]
struct Hand {
    name: &'static str,
    needs: u64,
    context: Mutex<Option<TransportContext>>,
    taken: Mutex<VecDeque<SliceToken>>,
    driven: AtomicU64,
    /// The longest time that a caller offered while it drove, in microseconds.
    offered: AtomicU64,
}

impl Hand {
    fn new(name: &'static str, needs: u64) -> Arc<Self> {
        let (driven, offered) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self {
            name,
            needs,
            context: Mutex::default(),
            taken: Mutex::default(),
            driven,
            offered,
        })
    }
}

impl Transport for Hand {
    fn capabilities(&self) -> Capabilities {
        let slices = SlicePolicy { min_piece: 4096, max_piece: 4096, ways: 1 };
        let name = self.name;
        Capabilities { name, slices, needs_local_registration: false, can_cancel: false }
    }

    fn start(&self, context: TransportContext) -> Result<(), StartError> {
        *self.context.lock().unwrap() = Some(context);
        Ok(())
    }

    fn describe(&self, _descriptor: &mut SegmentDescriptor) {}

    /// Each serves the peer of its own name.
    fn reaches(&self, peer: &RemoteSegment) -> bool {
        peer.name().as_str() == self.name
    }

    fn register(&self, _buffer: &Arc<LocalBuffer>) -> Result<(), TransportRegisterError> {
        Ok(())
    }

    fn deregister(&self, _buffer: &Arc<LocalBuffer>) {}

    fn submit(&self, _peer: &Arc<RemoteSegment>, source: &mut dyn SliceSource) -> usize {
        let slices: Vec<_> = std::iter::from_fn(|| source.next_slice()).collect();
        self.taken.lock().unwrap().extend(slices.iter().map(|slice| slice.token));
        slices.len()
    }

    fn cancel(&self, _tokens: &[SliceToken]) {}

    fn drive(&self, until: Instant) -> Driven {
        let offered = until.saturating_duration_since(Instant::now());
        let micros = u64::try_from(offered.as_micros()).unwrap();
        self.offered.fetch_max(micros, Ordering::Relaxed);
        if (self.driven.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.needs) {
            let token = self.taken.lock().unwrap().pop_front();
            let sink = self.context.lock().unwrap().as_ref().map(|c| Arc::clone(&c.sink));
            if let (Some(token), Some(sink)) = (token, sink) {
                let (result, remote) = (Ok(()), RemoteSide::Settled);
                sink.complete(Completion { token, result, remote });
                return Driven::Ran;
            }
        }
        sleep(offered);
        Driven::Ran
    }

    fn close(&self, _deadline: Instant) -> CloseReport {
        let sink = self.context.lock().unwrap().take().map(|context| context.sink);
        let left = std::mem::take(&mut *self.taken.lock().unwrap());
        let settled = left.len() as u64;
        for token in left {
            let (result, remote) = (Ok(()), RemoteSide::Settled);
            sink.iter().for_each(|sink| {
                sink.complete(Completion { token, result: result.clone(), remote });
            });
        }
        CloseReport { settled, joined: true }
    }
}

struct Bench {
    engine: TransferEngine,
    peers: Vec<(TransferEngine, te_engine::Region, SegmentId)>,
    hands: Vec<Arc<Hand>>,
}

/// An engine with these transports, and for each of them a peer that only it reaches.
fn bench(hands: Vec<Arc<Hand>>) -> Bench {
    let store = Arc::new(MemoryStore::new());
    let named = |name: &str| TransferEngine::builder().name(name).store(store.clone());
    let named = |name: &str| {
        let config = te_engine::EngineConfig::default();
        let here = "127.0.0.1".parse().ok();
        named(name).config(config.adjust(|s| s.peer.advertise_address = here).unwrap())
    };
    let engine = hands.iter().fold(named("x"), |b, hand| b.transport(Arc::clone(hand) as _));
    let engine = engine.build().unwrap();
    let peer = |hand: &Arc<Hand>| {
        let peer = named(hand.name).transport(Hand::new(hand.name, 1)).build().unwrap();
        let region = peer.allocate(1 << 16).unwrap();
        peer.register(&region, RegisterOptions::default()).unwrap();
        let target = engine.open_segment(hand.name).unwrap();
        (peer, region, target)
    };
    let peers = hands.iter().map(peer).collect();
    Bench { engine, peers, hands }
}

/// One request of `slices` slices to each peer.
fn submit(bench: &Bench, slices: u64) -> BatchId {
    let ours = bench.engine.allocate(1 << 16).unwrap();
    let write = |(_, region, target): &(TransferEngine, te_engine::Region, SegmentId)| {
        let local = ours.range(0, slices * 4096).unwrap();
        TransferRequest::write(local, *target, region.address())
    };
    let requests: Vec<_> = bench.peers.iter().map(write).collect();
    let batch = bench.engine.allocate_batch(requests.len()).unwrap();
    bench.engine.submit(batch, &requests).unwrap();
    batch
}

#[test]
fn who_waits_for_two_transports_stays_with_neither_and_both_get_done() {
    let bench = bench(vec![Hand::new("quick", 1), Hand::new("slow", 10)]);
    let batch = submit(&bench, 8);
    let status = bench.engine.wait(batch, LIMIT).unwrap();
    assert_eq!(status.completed, 2, "{status:?}");
    let used: Vec<_> =
        (0..2).map(|i| bench.engine.status(batch, i).unwrap().transport.unwrap()).collect();
    assert_eq!(used, ["quick", "slow"]);
    // While both had work no turn was longer than its share; then the rest of one look remained.
    assert!(bench.hands[0].offered.load(Ordering::Relaxed) <= 1000);
    assert!(bench.hands[1].offered.load(Ordering::Relaxed) <= 6000);
}

#[test]
fn who_waits_for_one_transport_drives_no_other() {
    let bench = bench(vec![Hand::new("used", 3), Hand::new("idle", 1)]);
    let ours = bench.engine.allocate(4096).unwrap();
    let (_, region, target) = &bench.peers[0];
    let write = TransferRequest::write(ours.whole(), *target, region.address());
    assert_eq!(bench.engine.transfer(&[write], LIMIT).unwrap(), 4096);
    assert!(bench.hands[0].driven.load(Ordering::Relaxed) >= 3);
    assert_eq!(bench.hands[1].driven.load(Ordering::Relaxed), 0);
}

#[test]
fn who_polls_in_a_loop_lets_every_transport_make_progress() {
    let bench = bench(vec![Hand::new("one", 1), Hand::new("two", 3)]);
    let batch = submit(&bench, 8);
    let begun = Instant::now();
    while !bench.engine.batch_status(batch).unwrap().state.is_final() {
        assert!(begun.elapsed() < LIMIT, "polling alone does not end it");
    }
    assert_eq!(bench.engine.batch_status(batch).unwrap().completed, 2);
    let waited = bench.hands.iter().map(|hand| hand.offered.load(Ordering::Relaxed)).max();
    assert_eq!(waited, Some(0), "a poll never waits");
}

#[test]
fn who_asks_now_and_then_does_not_take_the_step_from_its_thread() {
    let bench = bench(vec![Hand::new("rare", 1)]);
    let batch = submit(&bench, 2);
    for _ in 0..20 {
        assert_eq!(bench.engine.batch_status(batch).unwrap().completed, 0);
        sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.hands[0].driven.load(Ordering::Relaxed), 0);
    bench.engine.wait(batch, LIMIT).unwrap();
}
