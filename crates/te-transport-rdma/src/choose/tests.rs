//! Choices among our NICs and those of a peer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use te_metadata::{HostPort, SegmentDescriptor, SegmentName};
use te_segment::{RemoteSegment, SegmentId};
use te_topology::PeerAffinity;
use te_verbs::{Fake, FakeDevice, FakeNic, VerbsCall};

use super::*;
use crate::config::{FaultSettings, RdmaConfig};
use crate::sync::locks_taken;

#[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
fn begin() -> Instant {
    Instant::now()
}

fn name(number: usize) -> NicName {
    NicName::parse(&format!("rxe{number}")).unwrap()
}

/// Four NICs of ours: 0 and 1 near `cpu:0`, 2 and 3 near `cpu:1`.
const MATRIX: &str =
    r#"{"cpu:0":[["rxe0","rxe1"],["rxe2","rxe3"]],"cpu:1":[["rxe2","rxe3"],["rxe0","rxe1"]]}"#;

fn matrix() -> PriorityMatrix {
    PriorityMatrix::parse(MATRIX).unwrap()
}

fn own(fail: Option<usize>) -> (Vec<FakeNic>, Nics) {
    let fake = Fake::new(1);
    let device = |number: usize| {
        let last = u8::try_from(number + 1).unwrap();
        FakeDevice::new(name(number), Ipv4Addr::new(192, 168, 77, last))
    };
    let devices: Vec<FakeNic> = (0..4).map(|number| fake.add("a", device(number))).collect();
    if let Some(number) = fail {
        devices[number].fail_call(VerbsCall::Open, 0, libc::EIO);
    }
    let config = RdmaConfig { matrix: Some(matrix()), ..RdmaConfig::default() };
    (devices, Nics::open(&*fake.host("a"), &config, begin()).unwrap())
}

fn chooser(nics: &Nics, pairing: Pairing) -> Chooser {
    Chooser::new(nics, Some(&matrix()), pairing, Picker::random(3))
}

/// A peer like us, with one buffer at each location.
fn peer() -> PeerView {
    let devices: Vec<_> =
        (0..4).map(|n| json!({ "name": format!("rxe{n}"), "gid": "x" })).collect();
    let buffer = |addr: u64, name: &str| {
        json!({ "addr": addr, "length": 4096, "name": name, "rkey": [1, 2, 3, 4],
            "lkey": [0, 0, 0, 0] })
    };
    let value = json!({
        "name": "b", "protocol": "rdma", "devices": devices, "priority_matrix": matrix().to_value(),
        "buffers": [buffer(CPU0, "cpu:0"), buffer(CPU1, "cpu:1"), buffer(ANY, "cpu:9")],
    });
    let descriptor = SegmentDescriptor::decode(value.to_string().as_bytes()).unwrap();
    let (name, rpc) = (SegmentName::parse("b").unwrap(), HostPort::new("10.0.0.1", None).unwrap());
    let segment = RemoteSegment::new(SegmentId::from_u64(1), name, rpc, descriptor, 1);
    PeerView::read(&Arc::new(segment)).unwrap()
}

const CPU0: u64 = 0x1_0000;
const CPU1: u64 = 0x2_0000;
const ANY: u64 = 0x3_0000;

fn rails() -> Rails {
    Rails::new(&FaultSettings::default())
}

fn location(text: &str) -> MemoryLocation {
    MemoryLocation::from(text)
}

/// How often each place was chosen.
fn counts(mut choose: impl FnMut() -> usize) -> BTreeMap<usize, u32> {
    let mut counts = BTreeMap::new();
    for _ in 0..10_000 {
        *counts.entry(choose()).or_default() += 1;
    }
    counts
}

fn is_even_share(counts: &BTreeMap<usize, u32>, places: &[usize]) {
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), places);
    let share = 10_000 / u32::try_from(places.len()).unwrap();
    assert!(counts.values().all(|count| count.abs_diff(share) * 10 <= share), "{counts:?}");
}

/// FB44: equal NICs that are near share evenly; an unknown location is served by all.
#[test]
fn fb44_near_nics_share_evenly() {
    let (_, nics) = own(None);
    let mut chooser = chooser(&nics, Pairing::Matrix);
    for (at, places) in [("cpu:0", &[0, 1][..]), ("cpu:1", &[2, 3]), ("cpu:7", &[0, 1, 2, 3])] {
        let at = location(at);
        is_even_share(&counts(|| chooser.local_nic(&at, 0).unwrap().position()), places);
    }
    let (peer, rails, own) = (peer(), rails(), name(0));
    for (address, places) in [(CPU0, &[0, 1][..]), (CPU1, &[2, 3]), (ANY, &[0, 1, 2, 3])] {
        let counts = counts(|| {
            let pick = chooser.peer_nic(&peer, (&own, &rails), (address, 0), begin()).unwrap();
            assert!(!pick.pauses);
            pick.nic.position()
        });
        is_even_share(&counts, places);
    }
}

/// J85: 16 attempts in a row never choose a device that failed to open, and visit all others.
#[test]
fn j85_a_failed_device_is_never_chosen() {
    let (_, nics) = own(Some(1));
    let mut chooser = chooser(&nics, Pairing::Matrix);
    let at = location("cpu:0");
    let tried: Vec<usize> =
        (0..16).map(|attempt| chooser.local_nic(&at, attempt).unwrap().position()).collect();
    assert!(!tried.contains(&1), "{tried:?}");
    assert!([0, 2, 3].iter().all(|place| tried.contains(place)), "{tried:?}");
}

/// J96: when the near NICs go others serve; when they come back they serve again.
#[test]
fn j96_another_nic_serves_while_the_near_ones_are_down() {
    let (devices, nics) = own(None);
    let mut chooser = chooser(&nics, Pairing::Matrix);
    let (now, at) = (begin(), location("cpu:0"));
    let mut pick = || chooser.local_nic(&at, 0).map(NicIndex::position);
    let advance = |place: usize, now| {
        nics.advance_and_complete(NicIndex::new(place).unwrap(), now, &|_| Ok(()));
    };
    for (place, device) in devices.iter().enumerate() {
        device.port_down(1);
        advance(place, now);
        let picked: Vec<_> = (0..50).map(|_| pick()).collect();
        let expected = |n: &Option<usize>| n.is_some_and(|n| n > place && (place > 0 || n == 1));
        match place {
            3 => assert!(picked.iter().all(Option::is_none)),
            _ => assert!(picked.iter().all(expected), "{place}: {picked:?}"),
        }
    }
    devices[1].port_up(1);
    advance(1, now);
    advance(1, now + Duration::from_millis(500));
    assert_eq!(pick(), Some(1));
}

/// E51: a rail that pauses is left alone while another is open, near ones first; without any the one
/// whose pause ends first is tried, and said to pause.
#[test]
fn e51_paused_rails_are_replaced() {
    let (_, nics) = own(None);
    let mut chooser = chooser(&nics, Pairing::Matrix);
    let (peer, mut rails, own, now) = (peer(), rails(), name(0), begin());
    let second = Duration::from_secs(1);
    let order = [0, 1, 2, 3];
    for (n, place) in (0..4).zip(order) {
        rails.pause(now + n * second, &peer.nics()[place].path);
        let later = now + 10 * second;
        for attempt in 0..8 {
            let pick = chooser.peer_nic(&peer, (&own, &rails), (CPU0, attempt), later).unwrap();
            let place_picked = pick.nic.position();
            match place {
                3 => assert_eq!((place_picked, pick.pauses), (0, true), "its pause ends first"),
                0 => assert!(place_picked > 0 && !pick.pauses),
                _ => assert!(place_picked > place && !pick.pauses, "{place_picked} after {place}"),
            }
        }
    }
    let over = now + 30 * second;
    let pick = chooser.peer_nic(&peer, (&own, &rails), (CPU0, 1), over).unwrap();
    assert_eq!((pick.nic.position(), pick.pauses), (0, false));
}

/// I3: attempts that follow each other visit every pair of NICs, whatever the counts.
#[test]
fn attempts_visit_every_pair() {
    for (n, m) in (1..=9).flat_map(|n| (1..=9).map(move |m| (n, m))) {
        let pair = |attempt: u32| ((attempt - 1) % n, (across(attempt, n, m) - 1) % m);
        let pairs: BTreeSet<_> = (1..=n * m).map(pair).collect();
        assert_eq!(pairs.len(), usize::try_from(n * m).unwrap(), "{n} and {m}");
    }
    assert_eq!([across(0, 4, 2), across(7, 0, 2), across(7, 2, 0)], [0, 7, 7]);
    assert_eq!(across(u32::MAX, 1, 3), u32::MAX);
    let (_, nics) = own(None);
    let mut chooser = chooser(&nics, Pairing::Matrix);
    let (peer, rails, at, now) = (peer(), rails(), location("cpu:0"), begin());
    let mut pairs = BTreeSet::new();
    for attempt in 1..=16 {
        let ours = chooser.local_nic(&at, attempt).unwrap();
        let theirs = chooser.peer_nic(&peer, (&name(0), &rails), (CPU0, attempt), now).unwrap();
        pairs.insert((ours, theirs.nic));
    }
    assert_eq!(pairs.len(), 16);
}

/// D12, FB44: the NIC of the same name at first, others in further attempts or when its rail pauses.
#[test]
fn fb44_the_same_name_is_preferred_where_asked() {
    let (_, nics) = own(None);
    let mut chooser = chooser(&nics, Pairing::SameName);
    let (peer, mut rails, own, now) = (peer(), rails(), name(2), begin());
    for address in [CPU0, CPU1, ANY] {
        let pick = chooser.peer_nic(&peer, (&own, &rails), (address, 0), now).unwrap();
        assert_eq!(pick.nic.position(), 2);
    }
    let next = chooser.peer_nic(&peer, (&own, &rails), (CPU0, 1), now).unwrap();
    assert_eq!(next.nic.position(), 0);
    rails.pause(now, &peer.nics()[2].path);
    let pick = chooser.peer_nic(&peer, (&own, &rails), (CPU0, 0), now).unwrap();
    assert!(pick.nic.position() != 2 && !pick.pauses);
    let stranger = NicName::parse("mlx5_0").unwrap();
    let pick = chooser.peer_nic(&peer, (&stranger, &rails), (CPU0, 0), now).unwrap();
    assert!(pick.nic.position() < 2, "no such name: what the matrix says");
}

/// D13: rules count for memory of accelerators only.
#[test]
fn d13_rules_do_not_touch_host_memory() {
    let (_, nics) = own(None);
    let (rules, errors) = PeerAffinity::parse("rxe0=rxe1");
    assert!(errors.is_empty());
    let mut chooser = chooser(&nics, Pairing::Rules(rules));
    let (peer, rails, own) = (peer(), rails(), name(0));
    let picked = counts(|| {
        let pick = chooser.peer_nic(&peer, (&own, &rails), (CPU0, 0), begin());
        pick.unwrap().nic.position()
    });
    is_even_share(&picked, &[0, 1]);
}

#[test]
fn choosing_takes_no_lock() {
    let (_, nics) = own(None);
    let mut chooser = chooser(&nics, Pairing::SameName);
    let (peer, rails, own, at, now) = (peer(), rails(), name(0), location("cpu:0"), begin());
    let before = locks_taken();
    for _ in 0..100 {
        assert!(chooser.local_nic(&at, 0).is_some());
        assert!(chooser.peer_nic(&peer, (&own, &rails), (CPU1, 0), now).is_some());
    }
    assert_eq!(locks_taken(), before);
}
