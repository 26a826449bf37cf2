//! The same range while another call registers or unregisters it.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// What the segment says to a registration of the first 100 bytes.
fn refusal(segment: &LocalSegment, memory: &Region) -> RegisterError {
    segment.reserve(&[part(memory, 0, 100)]).unwrap_err()
}

fn is_changing(segment: &LocalSegment, memory: &Region) -> bool {
    let changing = matches!(refusal(segment, memory), RegisterError::Changing { len: 100, .. });
    assert_eq!(changing, !segment.wait_unchanged(memory.address(), Duration::ZERO));
    changing
}

// FB33: a duplicate of a registration in progress is counted once that is open, and takes its place
// where it fails.
#[test]
fn fb33_a_duplicate_of_a_registration_in_progress_can_wait_for_it() {
    let memory = memory(1);
    for works in [true, false] {
        let segment = LocalSegment::new();
        let first = segment.reserve(&[part(&memory, 0, 100)]).unwrap();
        assert!(is_changing(&segment, &memory) && refusal(&segment, &memory).is_retryable());
        if works {
            first.commit();
        } else {
            drop(first);
        }
        assert!(segment.wait_unchanged(memory.address(), Duration::ZERO));
        register(&segment, &memory, 0, 100);
        assert_eq!(unregister(&segment, memory.address()), Ok(!works));
    }
}

// FB33: a duplicate of a buffer on its way out is a new registration once that is gone, whoever
// else wants it gone.
#[test]
fn fb33_a_duplicate_of_a_buffer_on_its_way_out_can_wait_for_its_end() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let first = register(&segment, &memory, 0, 100);
    let address = memory.address();
    let guard = segment.acquire(address, 10, Access::Read).unwrap();
    let retiring = segment.retire(address).unwrap().unwrap();
    let too = segment.retire(address).unwrap().unwrap();
    assert!(is_changing(&segment, &memory));
    let (begun, wait) = channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            begun.send(()).unwrap();
            let waited = segment.wait_unchanged(address, LONG);
            (waited, register(&segment, &memory, 0, 100).id())
        });
        wait.recv().unwrap();
        // Whoever waits holds no lock that these need.
        drop(guard);
        assert_eq!(retiring.finish(LONG), Ok(()));
        assert!(too.finish(LONG).is_err());
        let (waited, second) = waiting.join().unwrap();
        assert!(waited && second != first.id());
    });
    assert_eq!(unregister(&segment, address), Ok(true));
}

// A buffer whose unregistration answered Busy has nobody who removes it: that is no reason to wait.
#[test]
fn a_busy_buffer_is_named_at_once_and_not_waited_for() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    register(&segment, &memory, 0, 100);
    let address = memory.address();
    let guard = segment.acquire(address, 10, Access::Read).unwrap();
    assert!(unregister(&segment, address).is_err());
    assert!(!is_changing(&segment, &memory));
    let refused = refusal(&segment, &memory);
    assert!(matches!(refused, RegisterError::Closing { in_flight: 1, .. }), "{refused}");
    let again = segment.retire(address).unwrap().unwrap();
    assert!(is_changing(&segment, &memory), "somebody removes it now");
    drop(guard);
    again.finish(Duration::ZERO).unwrap();
    register(&segment, &memory, 0, 100);
}

// C21: what shares bytes without being the same range hears so at once, in progress or not.
#[test]
fn c21_an_overlap_with_a_buffer_that_changes_is_an_overlap() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let overlaps = |segment: &LocalSegment| {
        [(0, 99), (1, 99), (50, 100), (0, 101)].into_iter().all(|(offset, len)| {
            let refused = segment.reserve(&[part(&memory, offset, len)]);
            matches!(refused, Err(RegisterError::Overlap { .. }))
        })
    };
    let reservation = segment.reserve(&[part(&memory, 0, 100)]).unwrap();
    assert!(overlaps(&segment), "being registered");
    reservation.commit();
    let _retiring = segment.retire(memory.address()).unwrap().unwrap();
    assert!(overlaps(&segment), "being unregistered");
}
