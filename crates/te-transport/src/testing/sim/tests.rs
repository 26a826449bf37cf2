//! The simulator keeps its own promises.

use std::collections::VecDeque;
use std::time::Duration;

use te_metadata::{Incarnation, SegmentName};
use te_segment::{
    AlignedBuffer, LocalSegment, Opcode, Region, RegisterOptions, RemoteRange, RemoteSegment,
    SegmentId, Slice, SliceToken,
};

use super::*;
use crate::completion::{Completion, RemoteSide};
use crate::fault::FaultClass;
use crate::testing::{Recorder, Seeded};
use crate::transport::{Driven, Transport, TransportContext};

const MS: Duration = Duration::from_millis(1);
const PLACE: u64 = 4096;

/// Endpoint "a" with a local region that writes to or reads from endpoint "b".
struct Rig {
    fabric: SimFabric,
    a: Arc<SimTransport>,
    b: Arc<SimTransport>,
    offered: Arc<LocalSegment>,
    sink: Arc<Recorder>,
    local: Region,
    remote: Region,
    peer: Arc<RemoteSegment>,
}

impl Rig {
    fn new(builder: SimBuilder) -> Self {
        let fabric = builder.build();
        let (a, b) = (fabric.endpoint("a"), fabric.endpoint("b"));
        let sink = Recorder::new();
        start(&fabric, &a, &sink);
        let offered = start(&fabric, &b, &Recorder::new());
        let (local, remote) = (memory(1), memory(2));
        offered.register(&remote, RegisterOptions::default()).unwrap();
        let peer = b.remote(SegmentId::from_u64(1));
        Self { fabric, a, b, offered, sink, local, remote, peer }
    }

    fn slice(&self, n: u32, op: Opcode) -> Slice {
        let offset = u64::from(n) * PLACE;
        Slice {
            token: SliceToken::new(n, 1),
            op,
            local: self.local.range(offset, PLACE).unwrap(),
            remote: RemoteRange::new(self.remote.address() + offset, PLACE).unwrap(),
            peer: Arc::clone(&self.peer),
            attempt: 0,
            checked: false,
        }
    }

    fn slices(&self, count: u32, op: Opcode) -> VecDeque<Slice> {
        (0..count).map(|n| self.slice(n, op)).collect()
    }

    fn submit(&self, count: u32, op: Opcode) -> usize {
        self.a.submit(&self.peer, &mut self.slices(count, op))
    }

    fn end(&self, n: u32) -> Completion {
        let ends = self.sink.of(SliceToken::new(n, 1));
        assert_eq!(ends.len(), 1, "slice {n}: {ends:?}");
        ends[0].clone()
    }

    /// Whether the first `len` bytes of place `n` are those of the other side.
    fn is_equal(&self, n: u32, len: usize) -> bool {
        let read = |region: &Region| {
            let mut bytes = vec![0; len];
            region.read_into(u64::from(n) * PLACE, &mut bytes).unwrap();
            bytes
        };
        read(&self.local) == read(&self.remote)
    }
}

fn memory(seed: u64) -> Region {
    let region = Region::from(AlignedBuffer::zeroed(100 * 4096).unwrap());
    let mut bytes = vec![0; 100 * 4096];
    Seeded::new(seed).fill(&mut bytes);
    region.write_from(0, &bytes).unwrap();
    region
}

fn start(fabric: &SimFabric, transport: &SimTransport, sink: &Arc<Recorder>) -> Arc<LocalSegment> {
    let segment = Arc::new(LocalSegment::new());
    let context = TransportContext {
        name: SegmentName::parse("node").unwrap(),
        segment: Arc::clone(&segment),
        sink: Arc::clone(sink) as _,
        incarnation: Incarnation::from_u128(1),
        clock: fabric.clock(),
    };
    transport.start(context).unwrap();
    segment
}

fn class(end: &Completion) -> Option<FaultClass> {
    end.result.as_ref().err().map(|fault| fault.class)
}

#[test]
fn time_passes_as_latency_and_bandwidth_say() {
    let quick = SimFabric::builder(1).latency(2 * MS, 2 * MS).bandwidth(PLACE * 1000);
    let rig = Rig::new(quick);
    rig.submit(3, Opcode::Write);
    let begin = rig.fabric.clock().now();
    let mut seen = Vec::new();
    while rig.fabric.step() {
        if rig.sink.count() > seen.len() {
            seen.push(rig.fabric.clock().now() - begin);
        }
    }
    // Each slice keeps the link busy for 1 ms; there and back take 2 ms each.
    assert_eq!(seen, [5 * MS, 6 * MS, 7 * MS]);
    assert!((0..3).all(|n| rig.is_equal(n, 4096)));
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| {
        let chaos = SimFabric::builder(seed).loss(200_000).reorder(300_000);
        let rig = Rig::new(chaos);
        rig.submit(50, Opcode::Write);
        rig.fabric.run_until_idle();
        (rig.sink.completions(), rig.fabric.clock().elapsed())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).0, run(4).0);
}

#[test]
fn slices_end_in_order_unless_they_may_overtake() {
    let order = |builder: SimBuilder| {
        let rig = Rig::new(builder);
        rig.submit(50, Opcode::Write);
        rig.fabric.run_until_idle();
        rig.sink.completions().iter().map(|end| end.token.slot()).collect::<Vec<_>>()
    };
    let sorted: Vec<u32> = (0..50).collect();
    assert_eq!(order(SimFabric::builder(5)), sorted);
    let mut shuffled = order(SimFabric::builder(5).reorder(500_000));
    assert_ne!(shuffled, sorted);
    shuffled.sort_unstable();
    assert_eq!(shuffled, sorted);
}

// What a lost slice says of the peer is what happened: bytes landed, in part or whole, or none.
#[test]
fn losses_tell_the_truth_about_the_peer() {
    let (mut whole, mut none, mut part) = (0, 0, 0);
    for seed in 0..40 {
        let rig = Rig::new(SimFabric::builder(seed).loss(1_000_000));
        rig.submit(5, Opcode::Write);
        rig.fabric.run_until_idle();
        for n in 0..5 {
            let end = rig.end(n);
            assert_eq!(class(&end), Some(FaultClass::Rail));
            match (rig.is_equal(n, 4096), rig.is_equal(n, 8)) {
                (true, _) => whole += 1,
                (false, true) => part += 1,
                (false, false) => none += 1,
            }
            let untouched = end.remote == RemoteSide::Untouched;
            assert!(!untouched || !rig.is_equal(n, 8), "seed {seed}, slice {n}");
        }
    }
    assert!(whole > 20 && part > 10 && none > 10, "{whole} whole, {part} in part, {none} none");
}

#[test]
fn a_range_that_is_not_registered_is_refused() {
    let rig = Rig::new(SimFabric::builder(1));
    let mut outside = rig.slice(0, Opcode::Write);
    let behind = rig.remote.address() + rig.remote.len() - 1;
    outside.remote = RemoteRange::new(behind, PLACE).unwrap();
    rig.a.submit(&rig.peer, &mut VecDeque::from([outside, rig.slice(1, Opcode::Read)]));
    rig.fabric.run_until_idle();
    assert_eq!(class(&rig.end(0)), Some(FaultClass::Refused));
    assert_eq!(rig.end(0).remote, RemoteSide::Untouched);
    assert_eq!(rig.end(1).result, Ok(()));
    assert!(rig.is_equal(1, 4096));
}

#[test]
fn a_full_queue_leaves_slices_and_tells_of_room() {
    let rig = Rig::new(SimFabric::builder(1).queue_limit(8));
    let mut queue = rig.slices(20, Opcode::Write);
    assert_eq!(rig.a.submit(&rig.peer, &mut queue), 8);
    assert_eq!(queue.len(), 12);
    assert_eq!(rig.a.submit(&rig.peer, &mut queue), 0);
    assert_eq!(rig.sink.rooms(), 0);
    while rig.sink.rooms() == 0 {
        assert!(rig.fabric.step());
    }
    assert_eq!(rig.sink.count(), 1, "one place is free");
    assert_eq!(rig.a.submit(&rig.peer, &mut queue), 1);
    rig.fabric.run_until_idle();
    assert_eq!(rig.a.submit(&rig.peer, &mut VecDeque::new()), 0);
    rig.fabric.run_until_idle();
    assert_eq!(rig.sink.count(), 9);
}

#[test]
fn a_called_back_write_is_in_doubt_where_bytes_moved() {
    let mut seen = Vec::new();
    for seed in 0..20 {
        let rig = Rig::new(SimFabric::builder(seed).latency(MS, MS).bandwidth(PLACE * 1_000_000));
        rig.submit(2, Opcode::Write);
        let begin = rig.fabric.clock().now();
        rig.fabric.run_until(begin + MS / 2);
        rig.a.cancel(&[SliceToken::new(0, 1), SliceToken::new(9, 9)]);
        assert_eq!(rig.sink.count(), 0, "ends are reported by whoever drives");
        rig.fabric.run_until_idle();
        assert_eq!(class(&rig.end(0)), Some(FaultClass::Cancelled));
        assert_eq!(rig.end(1).result, Ok(()));
        let remote = rig.end(0).remote;
        assert!(remote != RemoteSide::Untouched || !rig.is_equal(0, 8));
        seen.push(remote);
    }
    assert!(seen.contains(&RemoteSide::InDoubt));
}

#[test]
fn a_queued_slice_that_is_called_back_touched_nothing() {
    let rig = Rig::new(SimFabric::builder(1).bandwidth(PLACE));
    rig.submit(2, Opcode::Write);
    rig.a.cancel(&[SliceToken::new(1, 1)]);
    rig.fabric.run_until(rig.fabric.clock().now());
    assert_eq!(class(&rig.end(1)), Some(FaultClass::Cancelled));
    assert_eq!(rig.end(1).remote, RemoteSide::Untouched);
    assert!(!rig.is_equal(1, 8));
}

#[test]
fn deregistering_frees_the_guards_of_incoming_work_at_once() {
    let rig = Rig::new(SimFabric::builder(1).latency(MS, MS).bandwidth(PLACE * 1_000_000));
    rig.submit(4, Opcode::Write);
    rig.fabric.run_until(rig.fabric.clock().now() + MS / 2);
    let retiring = rig.offered.retire(rig.remote.address()).unwrap().unwrap();
    assert_eq!(retiring.buffer().in_flight(), 4);
    rig.b.deregister(retiring.buffer());
    retiring.finish(Duration::ZERO).unwrap();
    rig.fabric.run_until_idle();
    for n in 0..4 {
        assert_eq!(class(&rig.end(n)), Some(FaultClass::Refused));
        assert!(!rig.is_equal(n, 8));
    }
}

#[test]
fn a_peer_that_dies_is_noticed_and_its_successor_is_found() {
    let rig = Rig::new(SimFabric::builder(1).latency(MS, MS).detect(30 * MS));
    let begin = rig.fabric.clock().now();
    rig.submit(3, Opcode::Write);
    rig.fabric.kill_at(rig.b.number(), begin + MS / 2);
    rig.fabric.run_until(begin + 40 * MS);
    for n in 0..3 {
        assert_eq!(class(&rig.end(n)), Some(FaultClass::Peer));
        assert_eq!(rig.end(n).remote, RemoteSide::InDoubt);
    }
    let name = rig.b.name().clone();
    assert!(rig.fabric.lookup(&name).is_none());
    let again = rig.fabric.restart(rig.b.number());
    let segment = start(&rig.fabric, &again, &Recorder::new());
    segment.register(&rig.remote, RegisterOptions::default()).unwrap();
    let (_, descriptor) = rig.fabric.lookup(&name).unwrap();
    assert_eq!(descriptor.tcp.data_port, Some(again.number()));
    assert_eq!(descriptor.buffers().len(), 1);
    // What was known of the old one still fails; the new snapshot works.
    rig.a.submit(&rig.peer, &mut VecDeque::from([rig.slice(10, Opcode::Read)]));
    let mut fresh = rig.slice(11, Opcode::Read);
    fresh.peer = again.remote(SegmentId::from_u64(1));
    let peer = Arc::clone(&fresh.peer);
    rig.a.submit(&peer, &mut VecDeque::from([fresh]));
    rig.fabric.run_until_idle();
    assert_eq!(class(&rig.end(10)), Some(FaultClass::Peer));
    assert_eq!(rig.end(10).remote, RemoteSide::Untouched);
    assert_eq!(rig.end(11).result, Ok(()));
}

#[test]
fn a_dead_endpoint_settles_its_own_slices_and_takes_no_more() {
    let rig = Rig::new(SimFabric::builder(1));
    rig.submit(3, Opcode::Read);
    rig.fabric.kill(rig.a.number());
    rig.fabric.run_until_idle();
    assert!((0..3).all(|n| class(&rig.end(n)) == Some(FaultClass::Closed)));
    assert_eq!(rig.submit(3, Opcode::Read), 0);
    assert_eq!(rig.a.close(rig.fabric.clock().now()).settled, 0);
}

#[test]
fn close_settles_at_once_and_others_see_the_peer_go() {
    let rig = Rig::new(SimFabric::builder(1));
    rig.submit(3, Opcode::Write);
    let report = rig.b.close(rig.fabric.clock().now());
    assert_eq!((report.settled, report.joined), (0, true));
    rig.fabric.run_until_idle();
    assert!((0..3).all(|n| class(&rig.end(n)) == Some(FaultClass::Peer)));
    let context = TransportContext {
        name: SegmentName::parse("node").unwrap(),
        segment: Arc::new(LocalSegment::new()),
        sink: Recorder::new(),
        incarnation: Incarnation::from_u128(1),
        clock: rig.fabric.clock(),
    };
    assert!(rig.b.start(context).is_err(), "an endpoint lives once");
}

#[test]
fn driving_stops_at_a_completion_or_at_the_given_moment() {
    let rig = Rig::new(SimFabric::builder(1).latency(MS, MS));
    let clock = rig.fabric.clock();
    let begin = clock.now();
    rig.submit(1, Opcode::Write);
    assert_eq!(rig.a.drive(begin + MS), Driven::Ran);
    assert_eq!((rig.sink.count(), clock.now()), (0, begin + MS));
    assert_eq!(rig.a.drive(begin + 100 * MS), Driven::Ran);
    assert_eq!(rig.sink.count(), 1);
    assert!(clock.now() < begin + 3 * MS);
    assert_eq!(rig.b.drive(begin + 100 * MS), Driven::Ran);
    assert_eq!(clock.now(), begin + 100 * MS);
}

#[test]
fn whoever_drives_within_a_completion_is_told_busy() {
    let fabric = SimFabric::builder(1).build();
    let (a, b) = (fabric.endpoint("a"), fabric.endpoint("b"));
    // The fabric owns its sinks, so that a sink which owned the fabric would never go.
    let inner = Arc::downgrade(&a);
    let until = fabric.clock().now() + MS;
    let sink = Recorder::with_probe(move |_| {
        let inner = inner.upgrade().expect("a slice of it just ended");
        assert_eq!(inner.drive(until), Driven::Busy);
    });
    start(&fabric, &a, &sink);
    start(&fabric, &b, &Recorder::new());
    let peer = b.remote(SegmentId::from_u64(1));
    let local = memory(1);
    let slice = Slice {
        token: SliceToken::new(0, 1),
        op: Opcode::Read,
        local: local.range(0, 10).unwrap(),
        remote: RemoteRange::new(4096, 10).unwrap(),
        peer: Arc::clone(&peer),
        attempt: 0,
        checked: false,
    };
    a.submit(&peer, &mut VecDeque::from([slice]));
    fabric.run_until_idle();
    assert_eq!(sink.count(), 1);
}

// Every slice ends exactly once, whatever happens to it.
#[test]
fn a_thousand_seeds_of_chaos_end_every_slice_once() {
    for seed in 0..1000 {
        let chaos = SimFabric::builder(seed).loss(100_000).reorder(200_000).queue_limit(10);
        let rig = Rig::new(chaos.latency(MS / 10, 3 * MS));
        let mut random = Seeded::new(seed);
        let mut queue: VecDeque<Slice> = (0..40)
            .map(|n| {
                rig.slice(n, if random.chance(500_000) { Opcode::Read } else { Opcode::Write })
            })
            .collect();
        let death = random.between(MS, 30 * MS);
        let kill_target = random.chance(300_000);
        if kill_target {
            rig.fabric.kill_at(rig.b.number(), rig.fabric.clock().now() + death);
        }
        let mut taken = Vec::new();
        for _ in 0..20 {
            let before: Vec<_> = queue.iter().map(|slice| slice.token).collect();
            let n = rig.a.submit(&rig.peer, &mut queue);
            taken.extend_from_slice(&before[..n]);
            rig.fabric.run_until(rig.fabric.clock().now() + random.between(MS / 10, 5 * MS));
            if random.chance(200_000) && !taken.is_empty() {
                let which = usize::try_from(random.below(taken.len() as u64)).unwrap();
                rig.a.cancel(&taken[which..]);
            }
        }
        let report = rig.a.close(rig.fabric.clock().now() + MS);
        assert!(report.joined, "seed {seed}");
        rig.sink.check_exactly_once(&taken).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        rig.fabric.run_until_idle();
        rig.sink.check_exactly_once(&taken).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}
