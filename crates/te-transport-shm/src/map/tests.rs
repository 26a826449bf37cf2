//! What is lent is what the rights allow, and what is mapped is bounded and never dangerous.

use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use te_segment::{Allocation, LocalSegment, RegisterOptions};

use super::*;

const SMALL: WindowLimits = WindowLimits { buffers: 16, files: 3, bytes: 1 << 20 };

fn shareable(len: usize) -> Region {
    Region::from(Allocation::new(len).shareable().allocate().unwrap())
}

fn handle(slot: u32, generation: u32) -> BufferHandle {
    BufferHandle { slot, generation }
}

fn loan_as(region: &Region, remote: RemoteAccess) -> Option<Loan> {
    let options = RegisterOptions { remote, ..RegisterOptions::default() };
    Loan::of(&LocalSegment::new().register(region, options).unwrap())
}

fn loan(region: &Region) -> Loan {
    loan_as(region, RemoteAccess::ReadWrite).unwrap()
}

/// The buffer's region where it is mapped.
fn mapped(windows: &mut Windows, buffer: BufferHandle) -> Option<(Region, bool)> {
    match windows.find(buffer) {
        Found::Mapped(region, writable) => Some((region.clone(), writable)),
        Found::Refused | Found::Unknown => None,
    }
}

#[test]
fn a_mapped_part_shows_the_bytes_of_its_owner() {
    let owner = shareable(20_000);
    let part = owner.subregion(5000, 6000).unwrap();
    let mut windows = Windows::new(WindowLimits::default());
    assert!(matches!(windows.find(handle(1, 1)), Found::Unknown));
    windows.insert(handle(1, 1), loan(&part)).unwrap();
    let (window, writable) = mapped(&mut windows, handle(1, 1)).unwrap();
    assert_eq!((window.len(), writable), (6000, true));
    window.write_from(5999, b"!").unwrap();
    let mut seen = [0];
    owner.read_into(10_999, &mut seen).unwrap();
    assert_eq!(&seen, b"!");
    assert!(matches!(windows.find(handle(1, 2)), Found::Unknown), "another generation");
}

#[test]
fn nothing_is_lent_of_private_memory_or_without_rights() {
    let private = Region::from(Allocation::new(4096).allocate().unwrap());
    assert!(loan_as(&private, RemoteAccess::ReadWrite).is_none());
    assert!(loan_as(&shareable(4096), RemoteAccess::None).is_none());
}

#[test]
fn what_may_be_read_only_is_lent_and_mapped_to_be_read() {
    let owner = shareable(4096);
    let mut lent = loan_as(&owner, RemoteAccess::Read).unwrap();
    assert!(!lent.writable);
    assert!(rustix::fs::fcntl_getfl(&lent.file).unwrap() & OFlags::RWMODE == OFlags::RDONLY);
    let mut windows = Windows::new(SMALL);
    // A peer that claims more than its descriptor can.
    lent.writable = true;
    assert!(matches!(windows.insert(handle(1, 1), lent), Err(LoanError::Map(_))));
    assert!(matches!(windows.find(handle(1, 1)), Found::Refused));
    let lent = loan_as(&owner, RemoteAccess::Read).unwrap();
    windows.insert(handle(2, 1), lent).unwrap();
    let (window, writable) = mapped(&mut windows, handle(2, 1)).unwrap();
    assert!(!writable && window.write_from(0, b"no").is_err());
}

#[test]
fn numbers_that_do_not_fit_the_file_are_refused_and_leave_no_mapping() {
    let owner = shareable(8192);
    let mut windows = Windows::new(SMALL);
    for (offset, len) in [(0, 8193), (8192, 1), (u64::MAX, 2), (1, u64::MAX), (0, 0), (4096, 4097)]
    {
        let lent = Loan { offset, len, ..loan(&owner) };
        let refused = windows.insert(handle(7, 1), lent);
        assert!(matches!(refused, Err(LoanError::Outside(_))), "{offset}+{len}");
        assert!(matches!(windows.find(handle(7, 1)), Found::Refused));
        assert_eq!((windows.files.len(), windows.bytes), (0, 0));
    }
}

#[test]
fn a_file_that_may_shrink_is_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("te-test", flags).unwrap();
    rustix::fs::ftruncate(&file, 4096).unwrap();
    let lent = Loan { file, offset: 0, len: 4096, writable: true };
    let mut windows = Windows::new(SMALL);
    let refused = windows.insert(handle(0, 1), lent);
    assert!(matches!(refused, Err(LoanError::Map(MapError::NotSealed))));
}

#[test]
fn a_file_longer_than_all_room_is_refused_and_costs_no_other() {
    let mut windows = Windows::new(SMALL);
    windows.insert(handle(1, 1), loan(&shareable(4096))).unwrap();
    let refused = windows.insert(handle(2, 1), loan(&shareable((1 << 20) + 4096)));
    assert!(matches!(refused, Err(LoanError::TooLong { .. })));
    assert!(mapped(&mut windows, handle(1, 1)).is_some());
}

#[test]
fn the_longest_unused_gives_way_and_stays_alive_in_use() {
    let mut windows = Windows::new(SMALL);
    let owners: Vec<_> = (0..4).map(|_| shareable(4096)).collect();
    for (slot, owner) in (0..3).zip(&owners) {
        windows.insert(handle(slot, 1), loan(owner)).unwrap();
    }
    let (oldest, _) = mapped(&mut windows, handle(1, 1)).unwrap();
    mapped(&mut windows, handle(0, 1)).unwrap();
    mapped(&mut windows, handle(2, 1)).unwrap();
    windows.insert(handle(3, 1), loan(&owners[3])).unwrap();
    assert!(matches!(windows.find(handle(1, 1)), Found::Unknown));
    assert!(mapped(&mut windows, handle(0, 1)).is_some());
    oldest.write_from(0, b"still").unwrap();
    let mut seen = [0; 5];
    owners[1].read_into(0, &mut seen).unwrap();
    assert_eq!(&seen, b"still");
}

#[test]
fn buffers_of_one_file_share_its_mapping_until_the_last_is_gone() {
    let owner = shareable(64 << 10);
    let mut windows = Windows::new(SMALL);
    for slot in 0..8u32 {
        let part = owner.subregion(u64::from(slot) * 4096, 4096).unwrap();
        windows.insert(handle(slot, 1), loan(&part)).unwrap();
    }
    assert_eq!((windows.files.len(), windows.bytes), (1, 64 << 10));
    windows.retain(|buffer| buffer.slot == 3);
    assert_eq!((windows.len(), windows.files.len()), (1, 1));
    windows.retain(|_| false);
    assert_eq!((windows.len(), windows.files.len(), windows.bytes), (0, 0, 0));
}

#[derive(Debug, Clone)]
enum Act {
    Insert(u32, usize),
    Refuse(u32),
    Find(u32),
    Retain(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..40u32, 0..6usize).prop_map(|(slot, owner)| Act::Insert(slot, owner)),
        (0..40u32).prop_map(Act::Refuse),
        (0..40u32).prop_map(Act::Find),
        (1..5u32).prop_map(Act::Retain),
    ];
    prop::collection::vec(act, 1..120)
}

proptest! {
    #[test]
    fn whatever_is_done_stays_within_the_bounds_and_counts_right(acts in acts()) {
        let owners: Vec<_> = (1..=6).map(|n| shareable(n * (64 << 10))).collect();
        let mut windows = Windows::new(SMALL);
        for act in acts {
            match act {
                Act::Insert(slot, owner) => {
                    windows.insert(handle(slot, 1), loan(&owners[owner])).unwrap();
                    let (window, _) = mapped(&mut windows, handle(slot, 1)).unwrap();
                    prop_assert_eq!(window.len(), owners[owner].len());
                }
                Act::Refuse(slot) => {
                    windows.refuse(handle(slot, 1));
                    prop_assert!(matches!(windows.find(handle(slot, 1)), Found::Refused));
                }
                Act::Find(slot) => drop(mapped(&mut windows, handle(slot, 1))),
                Act::Retain(n) => windows.retain(|buffer| buffer.slot % n == 0),
            }
            prop_assert!(windows.len() <= SMALL.buffers);
            prop_assert!(windows.files.len() <= SMALL.files && windows.bytes <= SMALL.bytes);
            let lengths: u64 = windows.files.values().map(|file| file.whole.len()).sum();
            let users: usize = windows.files.values().map(|file| file.buffers).sum();
            let kept = windows.buffers.values().filter(|kept| kept.window.is_some()).count();
            prop_assert_eq!((windows.bytes, users), (lengths, kept));
            prop_assert!(windows.files.values().all(|file| file.buffers > 0));
        }
    }
}
