//! Many threads at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

const THREADS: usize = 16;

// J43: of two overlapping registrations one gets the range, and the other hears so at once.
#[test]
fn j43_one_of_many_overlapping_registrations_wins() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let (start, reserved) = (Barrier::new(THREADS), Barrier::new(THREADS));
    let winners = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for i in 0..THREADS as u64 {
            let (segment, memory, winners) = (&segment, &memory, &winners);
            let (start, reserved) = (&start, &reserved);
            scope.spawn(move || {
                start.wait();
                let mine = segment.reserve(&[part(memory, i, 100)]);
                reserved.wait();
                if let Ok(reservation) = mine {
                    winners.fetch_add(1, Ordering::Relaxed);
                    reservation.commit();
                }
            });
        }
    });
    assert_eq!(winners.into_inner(), 1);
    assert_eq!(segment.snapshot().1.len(), 1);
}

/// Registers and unregisters `count` times; other threads may have the same range.
fn churn(segment: &LocalSegment, memory: &Region, offset: u64, count: usize) {
    let address = memory.address() + offset;
    for round in 0..count {
        let wanted = [part(memory, offset, 64)];
        let Ok(reservation) = segment.reserve(&wanted) else {
            // Somebody else is opening or closing the same range.
            std::thread::yield_now();
            continue;
        };
        if round % 7 == 0 {
            drop(reservation);
            continue;
        }
        reservation.commit();
        let guard = segment.acquire(address, 64, Access::Write);
        assert!(guard.is_ok(), "a registered range is open");
        drop(guard);
        if let Some(retiring) = segment.retire(address).unwrap() {
            retiring.finish(Duration::from_secs(60)).unwrap();
        }
    }
}

// FB33: disjoint and identical regions from many threads.
#[test]
fn fb33_registering_and_unregistering_from_16_threads_ends_empty() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for i in 0..THREADS as u64 {
            let (segment, memory, start) = (&segment, &memory, &start);
            // Half of the threads share one range, the others have one each.
            let offset = if i % 2 == 0 { 0 } else { 64 * i };
            scope.spawn(move || {
                start.wait();
                churn(segment, memory, offset, 10_000);
            });
        }
    });
    assert!(segment.snapshot().1.is_empty());
    assert!(!segment.overlaps(memory.address(), memory.len()));
}

// J45's other half: of many unregisters of one registration exactly one succeeds.
#[test]
fn one_registration_is_given_back_once() {
    let memory = memory(1);
    for _ in 0..200 {
        let segment = LocalSegment::new();
        register(&segment, &memory, 0, 64);
        let (start, done) = (Barrier::new(4), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    if unregister(&segment, memory.address()).is_ok() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 1);
    }
}
