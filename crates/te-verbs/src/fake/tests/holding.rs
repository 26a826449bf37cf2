//! Steps, timers and descriptors.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashSet;

use super::bed::Bed;
use crate::fake::Timers;
use crate::work::WorkStatus::{Flushed, RetryExceeded, Success};

/// Held requests move nothing; each step carries out one, those of a queue pair in order.
#[test]
fn held_traffic_moves_step_by_step() {
    let bed = Bed::new(3);
    let (near, _far) = bed.pairs(6);
    bed.a.memory.write_from(0, &[9; 8]).unwrap();
    bed.fake.hold_traffic();
    (0..4).for_each(|id| bed.write(&*near, id));
    assert_eq!((bed.a.ended(), bed.arrived(0)), (vec![], 0));
    assert!(bed.fake.step());
    assert_eq!((bed.a.ended(), bed.arrived(0), bed.arrived(1)), (vec![(0, Success)], 9, 0));
    bed.fake.release();
    assert_eq!(bed.a.ended(), [(1, Success), (2, Success), (3, Success)]);
    assert!(!bed.fake.step());
}

/// Completions of different queue pairs come in an order of the seed's; each keeps its own.
#[test]
fn held_completions_come_in_an_order_of_the_seed() {
    let order = |seed| {
        let bed = Bed::new(seed);
        let (one, _far) = bed.pairs(6);
        let (two, _other) = bed.pairs(6);
        bed.fake.hold_completions();
        (0..4).for_each(|id| bed.write(&*one, id));
        (10..14).for_each(|id| bed.write(&*two, id));
        assert_eq!(bed.a.ended(), []);
        bed.fake.release();
        bed.a.ended().into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    let orders: HashSet<_> = (0..16).map(order).collect();
    assert!(orders.len() > 8, "{orders:?}");
    for ids in &orders {
        let of = |least: u64| ids.iter().copied().filter(move |id| id / 10 == least / 10);
        assert!(of(0).eq(0..4) && of(10).eq(10..14), "{ids:?}");
    }
    assert_eq!(order(5), order(5));
}

/// A flush may be held as well: what was posted has not ended until it is shown.
#[test]
fn a_flush_may_come_late() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    bed.fake.hold_traffic();
    bed.fake.hold_completions();
    bed.write(&*near, 1);
    near.to_error().unwrap();
    assert_eq!(bed.a.ended(), []);
    assert!(bed.fake.step());
    assert_eq!(bed.a.ended(), [(1, Flushed)]);
}

#[test]
fn lost_traffic_waits_for_healing_or_for_its_timer() {
    let bed = Bed::new(1);
    bed.fake.set_timers(Timers::Explicit);
    let (near, _far) = bed.pairs(6);
    bed.a.memory.write_from(0, &[9; 8]).unwrap();
    bed.b.nic.lose_traffic(1);
    bed.write(&*near, 1);
    assert_eq!((bed.a.ended(), bed.arrived(1)), (vec![], 0));
    bed.b.nic.heal(1);
    assert_eq!((bed.a.ended(), bed.arrived(1)), (vec![(1, Success)], 9));
    bed.a.nic.lose_traffic(1);
    (2..4).for_each(|id| bed.write(&*near, id));
    bed.fake.expire();
    assert_eq!(bed.a.ended(), [(2, RetryExceeded), (3, Flushed)]);
    assert_eq!(bed.arrived(2), 0);
}

/// A lost answer: the bytes are there, and the one who wrote them does not know.
#[test]
fn lost_answers_leave_the_bytes() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(7);
    bed.a.memory.write_from(0, &[9; 8]).unwrap();
    bed.b.nic.lose_answers(1);
    bed.write(&*near, 1);
    bed.fake.expire();
    assert_eq!((bed.a.ended(), bed.arrived(1)), (vec![], 9));
    // It is not carried out again when the answer comes.
    bed.b.memory.write_from(1, &[5]).unwrap();
    bed.b.nic.heal(1);
    assert_eq!((bed.a.ended(), bed.arrived(1)), (vec![(1, Success)], 5));
    bed.write(&*near, 2);
    assert_eq!(bed.a.ended(), [(2, Success)]);
}

/// Somebody who waits on descriptors is woken by another thread's step.
#[test]
fn waiting_on_the_channel_works() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    bed.fake.hold_traffic();
    bed.write(&*near, 1);
    bed.a.queue.arm().unwrap();
    assert_eq!(bed.a.ended(), []);
    std::thread::scope(|scope| {
        scope.spawn(|| bed.fake.step());
        let fd = bed.a.queue.channel_fd();
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)), Ok(1));
    });
    assert_eq!(bed.a.ended(), [(1, Success)]);
}

/// A queue pair that ends takes with it what had not ended, and nothing else.
#[test]
fn a_dropped_queue_pair_drops_what_had_not_ended() {
    let bed = Bed::new(1);
    let (near, _far) = bed.pairs(6);
    let (other, _end) = bed.pairs(6);
    bed.fake.hold_traffic();
    bed.write(&*near, 1);
    bed.write(&*other, 2);
    drop(near);
    bed.fake.release();
    assert_eq!(bed.a.ended(), [(2, Success)]);
    bed.fake.hold_completions();
    let (near, _far) = bed.pairs(6);
    bed.write(&*near, 3);
    drop(near);
    bed.fake.release();
    assert_eq!(bed.a.ended(), []);
}
