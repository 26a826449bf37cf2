//! Room, and who is told of it.

use std::sync::Arc;

use te_metadata::{HostPort, SegmentDescriptor, SegmentName, TcpEndpoint};
use te_segment::{AlignedBuffer, Opcode, Region, RemoteRange, RemoteSegment, Slice, SliceToken};

use super::*;

const ONE: SegmentId = SegmentId::from_u64(1);
const TWO: SegmentId = SegmentId::from_u64(2);

fn jobs(n: usize) -> VecDeque<Job> {
    let descriptor = SegmentDescriptor::tcp("peer", TcpEndpoint::default(), Vec::new());
    let name = SegmentName::parse("peer").unwrap();
    let rpc = HostPort::new("127.0.0.1", Some(1)).unwrap();
    let peer = Arc::new(RemoteSegment::new(ONE, name, rpc, descriptor, 1));
    let region = Region::from(AlignedBuffer::zeroed(64).unwrap());
    let slice = |i: usize| Slice {
        token: SliceToken::new(u32::try_from(i).unwrap(), 1),
        op: Opcode::Write,
        local: region.whole(),
        remote: RemoteRange::new(4096, 64).unwrap(),
        peer: Arc::clone(&peer),
        attempt: 0,
        checked: false,
    };
    (0..n).map(|i| Job::new(slice(i))).collect()
}

/// So many slices of 64 bytes.
fn load(slices: usize) -> Load {
    Load { slices, bytes: slices as u64 * 64 }
}

fn some(n: usize) -> (VecDeque<Job>, Load) {
    let jobs = jobs(n);
    let taken = jobs.iter().collect();
    assert_eq!(taken, load(n));
    (jobs, taken)
}

fn room(lane: &Lane<()>, segment: SegmentId) -> usize {
    lane.reserve(segment).map_or(0, |(room, _)| room.slices)
}

/// J58: the bound holds over several callers, and each of those left out is told once.
#[test]
fn j58_open_slices_never_exceed_the_bound_and_room_is_told_once() {
    let lane = Lane::new((), load(4));
    assert_eq!(room(&lane, ONE), 4);
    assert_eq!(room(&lane, TWO), 0, "it is reserved");
    assert!(lane.push(some(4), Some(ONE)), "the driver does not have the lane yet");
    assert_eq!(room(&lane, TWO), 0);
    assert!(lane.on_ended(load(1)).is_empty(), "three of four are still open");
    assert_eq!(lane.on_ended(load(1)), [TWO, ONE]);
    assert!(lane.on_ended(load(1)).is_empty());
    assert_eq!(room(&lane, ONE), 3);
}

/// Large slices fill a lane before there are many of them; one that is larger than the bound gets in.
#[test]
fn a_lane_is_full_when_it_has_so_many_bytes() {
    let lane = Lane::new((), Load { slices: 100, bytes: 200 });
    let (room, _) = lane.reserve(ONE).unwrap();
    assert_eq!(room, Load { slices: 100, bytes: 200 });
    let large = Load { slices: 1, bytes: 1 << 30 };
    assert!(load(3).is_below(room) && !load(4).is_below(room) && !large.is_below(room));
    lane.push((jobs(1), large), Some(ONE));
    assert!(lane.reserve(TWO).is_none());
    assert!(lane.on_ended(Load { slices: 0, bytes: (1 << 30) - 101 }).is_empty(), "over half");
    assert_eq!(lane.on_ended(Load { slices: 1, bytes: 101 }), [ONE, TWO]);
    assert!(lane.reserve(TWO).is_some());
}

#[test]
fn a_lane_is_listed_once_and_again_after_it_was_forgotten() {
    let lane = Lane::new((), load(8));
    room(&lane, ONE);
    assert!(lane.push(some(1), None));
    room(&lane, ONE);
    assert!(!lane.push(some(2), None), "the driver has it");
    let mut taken = VecDeque::new();
    assert!(!lane.unlist(&mut taken), "three wait");
    lane.refill(&mut taken);
    assert_eq!(taken.len(), 3);
    taken.clear();
    assert!(lane.unlist(&mut taken));
    room(&lane, ONE);
    assert!(lane.push(some(1), None));
}

#[test]
fn whoever_was_turned_away_during_a_reservation_of_nothing_is_told() {
    let lane = Lane::new((), load(4));
    room(&lane, ONE);
    assert_eq!(room(&lane, TWO), 0);
    assert!(lane.push(some(0), None), "the driver looks, for the sake of the other");
    assert_eq!(lane.on_ended(load(0)), [TWO]);
}

#[test]
fn queues_keep_their_room() {
    let lane = Lane::new((), load(100));
    let mut capacities = Vec::new();
    let mut driver = VecDeque::new();
    for _ in 0..6 {
        let (_, mut queue) = lane.reserve(ONE).unwrap();
        capacities.push(queue.capacity());
        queue.extend(jobs(50));
        lane.push((queue, load(50)), None);
        lane.refill(&mut driver);
        driver.clear();
        lane.on_ended(load(50));
        lane.unlist(&mut driver);
    }
    assert!(capacities[3..].iter().all(|capacity| *capacity >= 50), "{capacities:?}");
}

#[test]
fn a_closed_inbox_takes_nothing() {
    let inbox: Inbox<()> = Inbox::new();
    assert!(inbox.add(|news| news.cancelled.push(SliceToken::new(1, 1))) && inbox.is_filled());
    let mut news = News::default();
    inbox.take(&mut news);
    assert!(news.cancelled.len() == 1 && !inbox.is_filled());
    inbox.close();
    assert!(!inbox.add(|news| news.cancelled.clear()) && !inbox.is_filled());
}
