//! Registration, guards and retirement.

mod changing;
mod guards;
mod model;
mod threads;

use super::*;
use crate::AlignedBuffer;
use crate::error::RegionError;
use crate::id::BufferId;

const PAGE: u64 = 4096;

fn memory(pages: usize) -> Region {
    Region::from(AlignedBuffer::zeroed(pages * 4096).unwrap())
}

/// A part of `memory` with the default options.
fn part(memory: &Region, offset: u64, len: u64) -> (Region, RegisterOptions) {
    (memory.subregion(offset, len).unwrap(), RegisterOptions::default())
}

fn register(segment: &LocalSegment, memory: &Region, offset: u64, len: u64) -> Arc<LocalBuffer> {
    let (region, options) = part(memory, offset, len);
    segment.register(&region, options).unwrap()
}

/// Offsets in `memory` of the open buffers.
fn open(segment: &LocalSegment, memory: &Region) -> Vec<u64> {
    let (_, list) = segment.snapshot();
    list.iter().map(|buffer| buffer.region().address() - memory.address()).collect()
}

fn unregister(segment: &LocalSegment, address: u64) -> Result<bool, UnregisterError> {
    match segment.retire(address)? {
        Some(retiring) => retiring.finish(Duration::ZERO).map(|()| true),
        None => Ok(false),
    }
}

#[test]
fn c20_j42_zero_length_never_becomes_a_region() {
    let memory = memory(1);
    assert!(matches!(AlignedBuffer::zeroed(0), Err(RegionError::Empty { .. })));
    assert!(matches!(memory.subregion(10, 0), Err(RegionError::Empty { .. })));
    assert!(matches!(memory.subregion(PAGE, 1), Err(RegionError::Outside(_))));
}

// C21, peer fault 22: half-open ranges, against open buffers and against those in progress.
#[test]
fn c21_fault22_any_shared_byte_is_an_overlap_and_touching_is_none() {
    let memory = memory(4);
    for in_progress in [false, true] {
        let segment = LocalSegment::new();
        let reservation = segment.reserve(&[part(&memory, 1000, 1000)]).unwrap();
        let _reserved = if in_progress {
            Some(reservation)
        } else {
            reservation.commit();
            None
        };
        let table = [(0, 1001), (1000, 999), (1001, 999), (1001, 10), (1999, 1), (0, 4096)];
        for (offset, len) in table {
            let refused = segment.reserve(&[part(&memory, offset, len)]).unwrap_err();
            let RegisterError::Overlap { address, len: refused_len, other } = refused else {
                panic!("{offset}+{len}: {refused}")
            };
            assert_eq!((address, refused_len), (memory.address() + offset, len));
            assert_eq!(other, memory.address() + 1000);
        }
        for (offset, len) in [(0, 1000), (2000, 1)] {
            assert!(segment.reserve(&[part(&memory, offset, len)]).is_ok(), "{offset}+{len}");
        }
    }
}

#[test]
fn c23_j42_a_list_is_refused_whole_in_any_order() {
    let memory = memory(4);
    let segment = LocalSegment::new();
    let lists = [
        vec![(0, 128), (64, 128)],
        vec![(64, 128), (0, 128)],
        vec![(3000, 10), (0, 4096), (100, 1)],
        vec![(10, 10), (10, 10)],
    ];
    for list in lists {
        let wanted: Vec<_> = list.iter().map(|(o, l)| part(&memory, *o, *l)).collect();
        assert!(matches!(segment.reserve(&wanted), Err(RegisterError::Overlap { .. })), "{list:?}");
        assert!(!segment.overlaps(memory.address(), memory.len()), "{list:?} left something");
    }
    let touching: Vec<_> = [(128, 64), (0, 128), (192, 1)].map(|(o, l)| part(&memory, o, l)).into();
    segment.reserve(&touching).unwrap().commit();
    assert_eq!(open(&segment, &memory), [0, 128, 192]);
}

#[test]
fn c23_one_bad_entry_reserves_none() {
    let memory = memory(4);
    let segment = LocalSegment::new();
    register(&segment, &memory, 8192, 100);
    let wanted = [part(&memory, 0, 100), part(&memory, 8100, 200)];
    assert!(segment.reserve(&wanted).is_err());
    assert!(!segment.overlaps(memory.address(), 100));
    assert_eq!(open(&segment, &memory), [8192]);
}

#[test]
fn j44_j46_a_dropped_reservation_frees_every_range_for_a_retry() {
    let memory = memory(4);
    let segment = LocalSegment::new();
    let wanted = [part(&memory, 0, 100), part(&memory, 200, 100)];
    let first = segment.reserve(&wanted).unwrap();
    let ids: Vec<_> = first.buffers().iter().map(|b| b.id()).collect();
    assert!(segment.acquire(memory.address(), 10, Access::Read).is_err(), "not open yet");
    assert!(segment.find(memory.address(), 10).is_none());
    assert!(segment.retire(memory.address()).is_err());
    drop(first);
    assert!(!segment.overlaps(memory.address(), 300));
    let second = segment.reserve(&wanted).unwrap();
    assert!(second.buffers().iter().all(|b| !ids.contains(&b.id())));
    second.commit();
    assert_eq!(open(&segment, &memory), [0, 200]);
}

#[test]
fn j32_j45_unknown_addresses_are_named_and_known_ones_still_go() {
    let memory = memory(4);
    let segment = LocalSegment::new();
    for i in 0..10 {
        register(&segment, &memory, i * 1000, 1000);
    }
    let addresses = [memory.address() + 1, memory.address(), 5, memory.address() + 9000];
    let results = addresses.map(|address| unregister(&segment, address));
    assert_eq!(results[0], Err(UnregisterError::NotRegistered { address: addresses[0] }));
    assert_eq!(results[1], Ok(true));
    assert_eq!(results[2], Err(UnregisterError::NotRegistered { address: 5 }));
    assert_eq!(results[3], Ok(true));
    assert_eq!(open(&segment, &memory), (1..9).map(|i| i * 1000).collect::<Vec<_>>());
}

// FB33: the second registration of the same range is counted, and open until both are given back.
#[test]
fn fb33_an_exact_duplicate_needs_two_unregisters() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let first = register(&segment, &memory, 0, 128);
    let wanted = [part(&memory, 0, 128), part(&memory, 128, 128)];
    let both = segment.reserve(&wanted).unwrap();
    assert!(Arc::ptr_eq(&both.buffers()[0], &first));
    assert_eq!(both.fresh().count(), 1);
    both.commit();
    let (version, _) = segment.snapshot();
    assert_eq!(unregister(&segment, memory.address()), Ok(false));
    assert!(segment.acquire(memory.address(), 128, Access::Write).is_ok());
    assert_eq!(segment.snapshot().0, version, "the list of buffers did not change");
    assert_eq!(unregister(&segment, memory.address()), Ok(true));
    assert!(segment.acquire(memory.address(), 128, Access::Write).is_err());
    assert!(unregister(&segment, memory.address()).is_err());
}

#[test]
fn fb33_a_duplicate_with_other_options_is_refused() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    register(&segment, &memory, 0, 128);
    let (region, _) = part(&memory, 0, 128);
    let options = RegisterOptions { remote: RemoteAccess::Read, ..RegisterOptions::default() };
    let refused = segment.register(&region, options).unwrap_err();
    assert!(matches!(refused, RegisterError::OptionsDiffer { len: 128, .. }));
    assert_eq!(unregister(&segment, memory.address()), Ok(true));
}

// A rollback used to take one registration off whatever buffer now stood at the address, so that
// the buffer of somebody else could be unregistered under it.
#[test]
fn a_rollback_does_not_touch_a_successor_at_the_same_address() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    register(&segment, &memory, 0, 128);
    let duplicate = segment.reserve(&[part(&memory, 0, 128)]).unwrap();
    assert_eq!(unregister(&segment, memory.address()), Ok(false));
    assert_eq!(unregister(&segment, memory.address()), Ok(true));
    register(&segment, &memory, 0, 128);
    register(&segment, &memory, 0, 128);
    drop(duplicate);
    assert_eq!(unregister(&segment, memory.address()), Ok(false));
    assert_eq!(unregister(&segment, memory.address()), Ok(true));
}

// The last owner unregisters while a duplicate is being registered, and that one then fails: the
// buffer must not stay open with nobody to unregister it.
#[test]
fn a_rollback_hands_over_the_buffer_that_nobody_has_registered_any_more() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    for explicit in [true, false] {
        let buffer = register(&segment, &memory, 0, 128);
        let duplicate = segment.reserve(&[part(&memory, 0, 128)]).unwrap();
        assert_eq!(unregister(&segment, memory.address()), Ok(false));
        if explicit {
            let mut orphans = duplicate.roll_back();
            let orphan = orphans.pop().unwrap();
            assert!(Arc::ptr_eq(orphan.buffer(), &buffer) && buffer.is_closing());
            orphan.finish(Duration::ZERO).unwrap();
        } else {
            drop(duplicate);
        }
        assert!(!segment.overlaps(memory.address(), 128));
    }
}

#[test]
fn the_version_moves_exactly_when_the_list_of_open_buffers_does() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let mut last = segment.snapshot().0;
    let mut moved = |segment: &LocalSegment| {
        let now = segment.snapshot().0;
        std::mem::replace(&mut last, now) != now
    };
    let reservation = segment.reserve(&[part(&memory, 0, 10)]).unwrap();
    assert!(!moved(&segment));
    reservation.commit();
    assert!(moved(&segment));
    drop(segment.reserve(&[part(&memory, 20, 10)]).unwrap());
    assert!(!moved(&segment));
    let retiring = segment.retire(memory.address()).unwrap().unwrap();
    assert!(moved(&segment), "peers should stop asking for it");
    assert!(open(&segment, &memory).is_empty());
    retiring.finish(Duration::ZERO).unwrap();
    assert!(!moved(&segment));
}

#[test]
fn a42_overlaps_counts_reserved_ranges_and_no_empty_ones() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let _reserved = segment.reserve(&[part(&memory, 100, 100)]).unwrap();
    let at = memory.address();
    for (offset, len, wanted) in
        [(0, 100, false), (0, 101, true), (199, 1, true), (200, 9, false), (150, 0, false)]
    {
        assert_eq!(segment.overlaps(at + offset, len), wanted, "{offset}+{len}");
    }
    assert!(segment.overlaps(0, u64::MAX));
    assert!(segment.overlaps(1, u64::MAX), "saturates instead of wrapping");
}
