//! Who gets a guard, and what an unregister does with those that are held.

use std::collections::HashSet;
use std::time::Duration;

use super::*;

fn refusal(segment: &LocalSegment, address: u64, len: u64) -> Option<AccessError> {
    segment.acquire(address, len, Access::Write).err()
}

// J50, peer fault 23: exactly the bytes of one buffer.
#[test]
fn j50_fault23_bounds() {
    let memory = memory(8);
    let segment = LocalSegment::new();
    register(&segment, &memory, PAGE, PAGE);
    register(&segment, &memory, 2 * PAGE, PAGE);
    let at = |offset: u64| memory.address() + offset;
    for (offset, len) in [(PAGE, PAGE), (PAGE, 1), (2 * PAGE - 1, 1), (PAGE + 100, 100)] {
        let guard = segment.acquire(at(offset), len, Access::Write).unwrap();
        assert_eq!((guard.range().address(), guard.range().len()), (at(offset), len));
    }
    let outside = [
        ("before", 0, PAGE),
        ("the byte before", PAGE - 1, 1),
        ("half before", PAGE - 8, 16),
        ("one over the end", 2 * PAGE, PAGE + 1),
        ("the byte behind", 3 * PAGE, 1),
        ("across touching buffers", 2 * PAGE - 8, 16),
        ("both buffers", PAGE, 2 * PAGE),
        ("far behind", 7 * PAGE, 10),
    ];
    for (what, offset, len) in outside {
        let (address, refused) = (at(offset), refusal(&segment, at(offset), len));
        assert_eq!(refused, Some(AccessError::NotRegistered { address, len }), "{what}");
    }
    for (address, len) in [(at(PAGE), 0), (at(PAGE), u64::MAX), (u64::MAX, 1)] {
        assert_eq!(refusal(&segment, address, len), Some(AccessError::Invalid { address, len }));
    }
    assert!(refusal(&LocalSegment::new(), at(0), 1).is_some(), "an empty segment has no bytes");
}

// J50: the largest buffer that the system gives; its pages are never touched. The arithmetic for a
// buffer of the whole address space is in range/tests.rs, since no process can map one.
#[test]
fn j50_the_largest_buffer_is_bounded_like_any_other() {
    let sizes = [Region::MAX_LEN, 1 << 36, 1 << 30];
    let mut buffers = sizes
        .into_iter()
        .filter_map(|len| AlignedBuffer::zeroed(usize::try_from(len).unwrap()).ok());
    let buffer = buffers.next().unwrap();
    let region = Region::from(buffer);
    let segment = LocalSegment::new();
    segment.register(&region, RegisterOptions::default()).unwrap();
    let (start, end) = (region.address(), region.address() + region.len());
    assert!(refusal(&segment, start, region.len()).is_none());
    assert!(refusal(&segment, end - 1, 1).is_none());
    assert!(refusal(&segment, end - 1, 2).is_some());
    assert!(refusal(&segment, start - 1, 2).is_some());
    assert!(refusal(&segment, start, u64::MAX - start).is_some());
}

// J112, K3: a buffer that is not open to peers is served to none.
#[test]
fn j112_rights_are_checked_for_every_access() {
    let memory = memory(1);
    let table = [
        (RemoteAccess::None, false, false),
        (RemoteAccess::Read, true, false),
        (RemoteAccess::ReadWrite, true, true),
    ];
    for (remote, may_read, may_write) in table {
        let segment = LocalSegment::new();
        let options = RegisterOptions { remote, ..RegisterOptions::default() };
        let buffer = segment.register(&memory, options).unwrap();
        for (access, may) in [(Access::Read, may_read), (Access::Write, may_write)] {
            let answer = segment.acquire(memory.address(), 8, access);
            let forbidden = AccessError::Forbidden { buffer: buffer.id() };
            assert_eq!(answer.err(), (!may).then_some(forbidden), "{remote:?} {access:?}");
        }
        assert!(buffer.hold(memory.whole()).is_ok(), "work of this process needs no right");
    }
}

fn named(
    segment: &LocalSegment,
    buffer: &Arc<LocalBuffer>,
    offset: u64,
    len: u64,
) -> Result<BufferGuard, AccessError> {
    segment.acquire_buffer(buffer.id().into(), offset, len, Access::Write)
}

// K16: a handle never reaches the buffer that came into its slot, or to its address, later.
#[test]
fn k16_a_handle_of_an_unregistered_buffer_names_no_successor() {
    let memory = memory(2);
    let segment = LocalSegment::new();
    let first = register(&segment, &memory, 0, PAGE);
    assert_eq!(named(&segment, &first, 16, 64).unwrap().range().address(), memory.address() + 16);
    assert_eq!(unregister(&segment, memory.address()), Ok(true));
    let BufferHandle { slot, generation } = first.id().into();
    let gone = AccessError::NoSuchBuffer { slot, generation };
    assert_eq!(named(&segment, &first, 16, 64).err(), Some(gone.clone()));
    let second = register(&segment, &memory, 0, PAGE);
    assert_eq!((second.id().slot(), second.id().generation()), (slot, generation + 1));
    assert_eq!(named(&segment, &first, 16, 64).err(), Some(gone));
    assert!(named(&segment, &second, 16, 64).is_ok());
    for (slot, generation) in [(slot, generation + 2), (slot + 1, 1), (u32::MAX, u32::MAX)] {
        let handle = BufferHandle { slot, generation };
        let answer = segment.acquire_buffer(handle, 0, 1, Access::Read).err();
        assert_eq!(answer, Some(AccessError::NoSuchBuffer { slot, generation }));
    }
}

// J50, J112: what holds for addresses holds for handles.
#[test]
fn j50_j112_a_handle_gives_no_byte_outside_and_no_right_that_was_not_given() {
    let memory = memory(2);
    let segment = LocalSegment::new();
    let buffer = register(&segment, &memory, 0, PAGE);
    register(&segment, &memory, PAGE, PAGE);
    for (offset, len) in [(0, PAGE), (PAGE - 1, 1)] {
        assert!(named(&segment, &buffer, offset, len).is_ok(), "{offset}+{len}");
    }
    for (offset, len) in [(0, PAGE + 1), (PAGE, 1), (1, u64::MAX), (u64::MAX, 1), (0, 0)] {
        let outside = AccessError::Outside { buffer: buffer.id(), offset, len };
        assert_eq!(named(&segment, &buffer, offset, len).err(), Some(outside), "{offset}+{len}");
    }
    let segment = LocalSegment::new();
    let reserved = segment.reserve(&[part(&memory, 0, PAGE)]).unwrap();
    let buffer = Arc::clone(&reserved.buffers()[0]);
    let answer = named(&segment, &buffer, 0, 1);
    assert!(matches!(answer, Err(AccessError::NoSuchBuffer { .. })), "it is not open yet");
    drop(reserved);
    let options = RegisterOptions { remote: RemoteAccess::Read, ..RegisterOptions::default() };
    let buffer = segment.register(&memory, options).unwrap();
    let forbidden = AccessError::Forbidden { buffer: buffer.id() };
    assert_eq!(named(&segment, &buffer, 0, 1).err(), Some(forbidden));
    let guard = segment.acquire_buffer(buffer.id().into(), 0, 1, Access::Read).unwrap();
    let _retiring = segment.retire(memory.address()).unwrap().unwrap();
    let closed = AccessError::Closed { buffer: buffer.id() };
    let answer = segment.acquire_buffer(buffer.id().into(), 0, 1, Access::Read);
    assert_eq!(answer.err(), Some(closed), "the owner wants it back");
    drop(guard);
}

#[test]
fn a_guard_is_not_given_on_bytes_of_another_buffer() {
    let memory = memory(2);
    let segment = LocalSegment::new();
    let buffer = register(&segment, &memory, 0, PAGE);
    for (offset, len) in [(PAGE, 1), (PAGE - 1, 2), (0, PAGE + 1)] {
        let range = memory.range(offset, len).unwrap();
        assert!(matches!(buffer.hold(range), Err(AccessError::NotRegistered { .. })));
    }
    assert_eq!(buffer.in_flight(), 0);
}

#[test]
fn unregister_waits_for_guards_and_no_longer() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let buffer = register(&segment, &memory, 0, PAGE);
    let guard = segment.acquire(memory.address(), 10, Access::Write).unwrap();
    assert!(!guard.is_revoked());
    let (begun, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let retiring = segment.retire(memory.address()).unwrap().unwrap();
            begun.send(()).unwrap();
            let result = retiring.finish(Duration::from_secs(60));
            (result, buffer.in_flight())
        });
        wait.recv().unwrap();
        assert!(guard.is_revoked(), "the holder sees that the owner wants the buffer back");
        let id = buffer.id();
        assert_eq!(
            refusal(&segment, memory.address(), 10),
            Some(AccessError::Closed { buffer: id })
        );
        assert_eq!(buffer.in_flight(), 1);
        assert!(segment.overlaps(memory.address(), 10), "it is still registered");
        drop(guard);
        assert_eq!(waiting.join().unwrap(), (Ok(()), 0));
    });
    assert!(!segment.overlaps(memory.address(), PAGE));
}

#[test]
fn a_held_buffer_is_busy_and_goes_at_a_later_call() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let buffer = register(&segment, &memory, 0, PAGE);
    let guards = [0, 8].map(|o| segment.acquire(memory.address() + o, 8, Access::Read).unwrap());
    let address = memory.address();
    let busy = Err(UnregisterError::Busy { address, in_flight: 2 });
    let retiring = segment.retire(address).unwrap().unwrap();
    assert_eq!(retiring.finish(Duration::from_millis(1)), busy);
    assert!(guards[0].is_revoked());
    assert!(segment.find(address, 1).is_some(), "it stays registered");
    assert!(refusal(&segment, address, 1).is_some(), "and takes no new work");
    let again = segment.reserve(&[part(&memory, 0, PAGE)]);
    assert!(matches!(again, Err(RegisterError::Closing { in_flight: 2, .. })), "nor a duplicate");
    drop(guards);
    assert_eq!(unregister(&segment, address), Ok(true));
    assert_eq!(buffer.in_flight(), 0);
    assert!(unregister(&segment, address).is_err());
}

// A second unregister that began before the first had finished must not remove the buffer that was
// registered at the same address in between.
#[test]
fn removal_is_by_identity_and_not_by_address() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    register(&segment, &memory, 0, 100);
    let address = memory.address();
    let late = {
        let first = segment.retire(address).unwrap().unwrap();
        let late = segment.retire(address).unwrap().unwrap();
        first.finish(Duration::ZERO).unwrap();
        late
    };
    register(&segment, &memory, 0, 100);
    assert_eq!(late.finish(Duration::ZERO), Err(UnregisterError::NotRegistered { address }));
    assert!(segment.acquire(address, 100, Access::Write).is_ok());
}

#[test]
fn a_handle_never_names_a_successor() {
    let memory = memory(1);
    let segment = LocalSegment::new();
    let mut seen = HashSet::new();
    for round in 0..1000 {
        let a = register(&segment, &memory, 0, 10);
        let b = register(&segment, &memory, 10, 10);
        assert!(seen.insert(a.id()) && seen.insert(b.id()), "round {round}");
        assert!(a.id().slot() < 2 && b.id().slot() < 2, "slots are used again");
        unregister(&segment, memory.address()).unwrap();
        unregister(&segment, memory.address() + 10).unwrap();
    }
}

#[test]
fn look_ups_stay_quick_with_100_000_buffers() {
    let memory = memory(1000);
    let segment = LocalSegment::new();
    let wanted: Vec<_> = (0..100_000).map(|i| part(&memory, i * 40, 32)).collect();
    segment.reserve(&wanted).unwrap().commit();
    for i in 0..100_000 {
        let address = memory.address() + i * 40;
        assert!(segment.acquire(address + 8, 24, Access::Read).is_ok());
        assert!(refusal(&segment, address + 8, 25).is_some());
    }
    assert_eq!(segment.snapshot().1.len(), 100_000);
}
