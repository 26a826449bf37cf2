//! The cache asks for few fetches and answers look-ups of hostile descriptors quickly.

use proptest::prelude::*;
use te_metadata::{BufferDescriptor, TcpEndpoint};

use super::*;

fn name(text: &str) -> SegmentName {
    SegmentName::parse(text).unwrap()
}

fn rpc() -> HostPort {
    HostPort::new("10.0.0.1", Some(12001)).unwrap()
}

fn descriptor(buffers: &[(u64, u64)]) -> SegmentDescriptor {
    let listed = buffers.iter().map(|(addr, length)| BufferDescriptor {
        name: "*".into(),
        addr: *addr,
        length: *length,
        ..BufferDescriptor::default()
    });
    let tcp = TcpEndpoint { data_host: None, data_port: Some(15001), proto_version: 2 };
    SegmentDescriptor::tcp("a", tcp, listed.collect())
}

fn snapshot(buffers: &[(u64, u64)]) -> RemoteSegment {
    RemoteSegment::new(SegmentId::from_u64(1), name("a"), rpc(), descriptor(buffers), 1)
}

fn fetched(buffers: &[(u64, u64)]) -> Option<(HostPort, SegmentDescriptor)> {
    Some((rpc(), descriptor(buffers)))
}

/// A cache that knows "a" since `now`, with one buffer.
fn cache(now: Instant) -> (RemoteSegments, SegmentId) {
    let mut cache = RemoteSegments::new();
    let Lookup::Fetch(ticket) = cache.open(now, &name("a")) else { panic!("not known yet") };
    let id = ticket.id();
    cache.complete(now, ticket, fetched(&[(4096, 4096)])).unwrap();
    (cache, id)
}

fn fetch(refresh: Refresh) -> FetchTicket {
    match refresh {
        Refresh::Fetch(ticket) => ticket,
        other => panic!("no fetch but {other:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
fn begin() -> Instant {
    Instant::now()
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn i1_numbers_count_up_from_1_and_stay() {
    let (now, mut cache) = (begin(), RemoteSegments::new());
    let Lookup::Fetch(a) = cache.open(now, &name("a")) else { panic!() };
    let Lookup::Fetch(b) = cache.open(now, &name("b")) else { panic!() };
    assert_eq!((a.id().as_u64(), b.id().as_u64()), (1, 2));
    assert_eq!(cache.complete(now, a, None).map(|s| s.id()), None);
    let Lookup::Fetch(a) = cache.open(now, &name("a")) else { panic!() };
    assert_eq!(a.id().as_u64(), 1);
    cache.complete(now, a, fetched(&[])).unwrap();
    cache.complete(now, b, fetched(&[])).unwrap();
    cache.forget(&name("a"));
    assert_eq!(cache.known(), [(SegmentId::from_u64(2), name("b"))]);
    let Lookup::Fetch(again) = cache.open(now, &name("a")) else { panic!("forgotten") };
    assert_eq!(again.id().as_u64(), 1);
}

#[test]
fn i2_one_fetch_at_a_time() {
    let now = begin();
    let mut cache = RemoteSegments::new();
    let Lookup::Fetch(ticket) = cache.open(now, &name("a")) else { panic!() };
    let id = ticket.id();
    assert!(matches!(cache.open(now, &name("a")), Lookup::Pending(n) if n == id));
    assert!(matches!(cache.want_newer(now, id, now), Refresh::Pending));
    assert!(cache.is_fetching(id));
    let known = cache.complete(now, ticket, fetched(&[])).unwrap();
    assert!(matches!(cache.open(now, &name("a")), Lookup::Known(k) if Arc::ptr_eq(&k, &known)));
    assert!(!cache.is_fetching(id));
    assert!(matches!(cache.want_newer(now, SegmentId::from_u64(9), now), Refresh::Unknown));
}

#[test]
fn i3_a_refresh_replaces_the_snapshot_and_leaves_readers_theirs() {
    let now = begin();
    let (mut cache, id) = cache(now);
    let old = cache.current(id).unwrap();
    let ticket = fetch(cache.want_newer(now + MS, id, now + MS));
    let new = cache.complete(now + 2 * MS, ticket, fetched(&[(8192, 4096)])).unwrap();
    assert_eq!((old.epoch(), new.epoch()), (1, 2));
    assert_eq!(old.descriptor().buffers()[0].addr, 4096);
    assert_eq!(cache.current(id).unwrap().descriptor().buffers()[0].addr, 8192);
}

#[test]
fn i4_a_failed_refresh_keeps_the_old_snapshot() {
    let now = begin();
    let (mut cache, id) = cache(now);
    let ticket = fetch(cache.want_newer(now + MS, id, now + MS));
    let kept = cache.complete(now + 2 * MS, ticket, None).unwrap();
    assert_eq!(kept.epoch(), 1);
    assert!(cache.current(id).is_some());
}

#[test]
fn fb26_a_name_that_is_absent_again_and_again_is_not_opened_from_memory() {
    // FB26: one blip evicts nobody, and who has it open keeps it until the successor is found.
    let now = begin();
    let (mut cache, id) = cache(now);
    for n in 1..=RemoteSegments::MAX_ABSENCES {
        assert!(matches!(cache.open(now, &name("a")), Lookup::Known(_)), "after {} misses", n - 1);
        let later = now + n * Duration::from_secs(1);
        let ticket = fetch(cache.want_newer(later, id, later));
        cache.absent(later, ticket);
    }
    assert!(cache.current(id).is_some());
    let later = now + Duration::from_secs(10);
    let Lookup::Fetch(ticket) = cache.open(later, &name("a")) else { panic!("from memory") };
    assert!(matches!(cache.open(later, &name("a")), Lookup::Pending(same) if same == id));
    cache.complete(later, ticket, fetched(&[(4096, 4096)])).unwrap();
    assert!(matches!(cache.open(later, &name("a")), Lookup::Known(_)), "it is there again");
}

#[test]
fn an_equal_answer_is_the_same_snapshot_and_counts_as_newer() {
    let now = begin();
    let (mut cache, id) = cache(now);
    let old = cache.current(id).unwrap();
    let ticket = fetch(cache.want_newer(now + MS, id, now + MS));
    let same = cache.complete(now + 2 * MS, ticket, fetched(&[(4096, 4096)])).unwrap();
    assert!(Arc::ptr_eq(&old, &same));
    assert!(matches!(cache.want_newer(now + 3 * MS, id, now), Refresh::Newer(_)));
}

// A clock that stands still, as in a simulation: the attempt was begun in the moment of the fetch,
// with what it brought.
#[test]
fn a_fetch_of_the_same_moment_is_not_newer() {
    let now = begin();
    let (mut cache, id) = cache(now);
    let ticket = fetch(cache.want_newer(now, id, now));
    assert_eq!(ticket.begun(), now);
    cache.complete(now, ticket, fetched(&[])).unwrap();
    assert!(matches!(cache.want_newer(now, id, now), Refresh::Fetch(_)));
}

// Two snapshots of one segment must never carry the same epoch: whoever compares epochs would take
// what a restarted peer published for what it already tried.
#[test]
fn epochs_go_on_after_a_name_was_forgotten() {
    let now = begin();
    let (mut cache, id) = cache(now);
    cache.forget(&name("a"));
    assert!(cache.current(id).is_none());
    let Lookup::Fetch(ticket) = cache.open(now, &name("a")) else { panic!() };
    assert_eq!(cache.complete(now, ticket, fetched(&[])).unwrap().epoch(), 2);
}

// Peer fault 32, FB26, trap 10: slices that were begun together fail one after another.
#[test]
fn fault32_a_burst_of_faults_costs_one_fetch() {
    let now = begin();
    let (mut cache, id) = cache(now);
    let begun = now + 10 * MS;
    let ticket = fetch(cache.want_newer(now + 20 * MS, id, begun));
    for late in 21..40 {
        assert!(matches!(cache.want_newer(now + late * MS, id, begun), Refresh::Pending));
    }
    cache.complete(now + 40 * MS, ticket, fetched(&[(4096, 4096), (8192, 10)])).unwrap();
    for late in 40..60 {
        let answer = cache.want_newer(now + late * MS, id, begun);
        let Refresh::Newer(newer) = answer else { panic!("{late}: {answer:?}") };
        assert_eq!(newer.epoch(), 2);
    }
    // A slice that was begun with the new snapshot and fails is a new reason to ask.
    let ticket = fetch(cache.want_newer(now + 60 * MS, id, now + 41 * MS));
    assert_eq!(ticket.id(), id);
}

#[test]
fn failed_refreshes_back_off_up_to_a_bound() {
    let mut now = begin();
    let (mut cache, id) = cache(now);
    let begun = now + MS;
    let mut waits = Vec::new();
    for _ in 0..40 {
        let ticket = fetch(cache.want_newer(now, id, begun));
        cache.complete(now, ticket, None);
        let Refresh::NotBefore(at) = cache.want_newer(now, id, begun) else { panic!("no wait") };
        waits.push(at - now);
        assert!(matches!(cache.want_newer(at - MS, id, begun), Refresh::NotBefore(_)));
        now = at;
    }
    assert_eq!(waits[..4], [10 * MS, 20 * MS, 40 * MS, 80 * MS]);
    assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(waits[39], RemoteSegments::MAX_BACKOFF);
    let ticket = fetch(cache.want_newer(now, id, begun));
    cache.complete(now, ticket, fetched(&[])).unwrap();
    let ticket = fetch(cache.want_newer(now + MS, id, now + MS));
    cache.complete(now + MS, ticket, None);
    let Refresh::NotBefore(at) = cache.want_newer(now + MS, id, now + MS) else { panic!() };
    assert_eq!(at - (now + MS), RemoteSegments::FIRST_BACKOFF, "a success ends the back-off");
}

#[test]
fn c3_trap9_one_buffer_holds_the_whole_range() {
    let peer = snapshot(&[(8192, 4096), (4096, 4096), (1 << 40, 1)]);
    let locate = |address, len| peer.locate(&RemoteRange::new(address, len).unwrap());
    assert_eq!(locate(4096, 4096), Some(1));
    assert_eq!(locate(8191, 1), Some(1));
    assert_eq!(locate(8192, 4096), Some(0));
    assert_eq!(locate(12_287, 1), Some(0));
    assert_eq!(locate(1 << 40, 1), Some(2));
    for (address, len) in [(4095, 1), (8190, 4), (4096, 4097), (12_288, 1), (0, u64::MAX)] {
        assert_eq!(locate(address, len), None, "{address}+{len}");
    }
    for (address, found) in [
        (4096, Some((1, 8192))),
        (8191, Some((1, 8192))),
        (8192, Some((0, 12_288))),
        (12_288, None),
        (4095, None),
        (u64::MAX, None),
    ] {
        assert_eq!(peer.locate_from(address), found, "from {address}");
    }
    assert_eq!(snapshot(&[]).locate(&RemoteRange::new(0, 1).unwrap()), None);
}

/// C3, C32: touching pieces of an RDMA segment hold a range together; buffers of their own, and those
/// of other protocols, do not.
#[test]
fn c32_pieces_of_a_split_registration_combine() {
    let listed = [(4096, 4096), (8192, 4096), (12_288, 4096), (20_480, 4096)];
    let plain = snapshot(&listed);
    let mut descriptor = plain.descriptor().clone();
    let buffers = descriptor.buffers().to_vec();
    let as_rdma = |buffers: Vec<BufferDescriptor>| ProtocolPart::Rdma {
        devices: Vec::new(),
        buffers,
        priority_matrix: None,
    };
    descriptor.part = as_rdma(buffers.clone());
    let remote = |descriptor: &SegmentDescriptor| {
        let (name, rpc) = (plain.name().clone(), plain.rpc().clone());
        RemoteSegment::new(plain.id(), name, rpc, descriptor.clone(), 1)
    };
    let range = |address, len| RemoteRange::new(address, len).unwrap();
    let pieces = remote(&descriptor);
    for (address, len, is_covered) in [
        (4096, 4096, true),
        (8191, 2, true),
        (4096, 12_288, true),
        (4096, 12_289, false),
        (4095, 4096, false),
        (16_383, 4098, false),
        (20_480, 4096, true),
        (0, u64::MAX, false),
    ] {
        assert_eq!(pieces.covers(&range(address, len)), is_covered, "{address}+{len}");
    }
    assert!(!plain.covers(&range(8191, 2)) && plain.covers(&range(8191, 1)));
    let mut named = buffers;
    named[1].te = Some(te_metadata::BufferHandle { generation: 1, slot: 0 });
    descriptor.part = as_rdma(named);
    let own = remote(&descriptor);
    assert!(!own.covers(&range(8191, 2)) && !own.covers(&range(12_287, 2)));
    assert!(own.covers(&range(8192, 4096)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn locate_finds_what_a_search_of_the_whole_list_finds(
        buffers in proptest::collection::vec((1u64..200, 1u64..100), 0..20),
        huge in proptest::option::of(Just((50u64, u64::MAX))),
        address in 0u64..300,
        len in 0u64..100,
    ) {
        let listed: Vec<_> = buffers.into_iter().chain(huge).collect();
        let range = RemoteRange::new(address, len).unwrap();
        let naive = listed.iter().any(|(start, len)| range.is_inside(*start, *len));
        let found = snapshot(&listed).locate(&range);
        prop_assert_eq!(found.is_some(), naive);
        if let Some(position) = found {
            let (start, len) = listed[position];
            prop_assert!(range.is_inside(start, len));
        }
    }
}

// 100 000 buffers that all start below the range and do not hold it. A look-up that walks them
// makes this run for minutes.
#[test]
fn look_ups_stay_quick_in_a_hostile_descriptor() {
    let nested: Vec<_> = (0..100_000u64).map(|i| (4096 + i, 300_000 - 2 * i)).collect();
    let peer = snapshot(&nested);
    let outside = RemoteRange::new(200_000, 150_000).unwrap();
    let inside = RemoteRange::new(150_000, 150_000).unwrap();
    for _ in 0..100_000 {
        assert_eq!(peer.locate(&outside), None);
        assert_eq!(peer.locate(&inside), Some(0));
    }
}
