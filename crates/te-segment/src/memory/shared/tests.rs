//! Two mappings of one file show the same bytes, and a file that could end the mapper is refused.

use std::os::fd::AsFd;

use super::*;
use crate::{Allocation, Caching, CopyError, Pages};

fn shareable(len: usize) -> Region {
    Region::from(Allocation::new(len).shareable().allocate().unwrap())
}

fn window(region: &Region, writable: bool) -> Region {
    Region::map_shared(region.shared().unwrap().file(), writable).unwrap()
}

#[test]
fn what_one_side_writes_the_other_reads_and_the_owner_may_go() {
    let owner = shareable(100_000);
    let mapped = window(&owner, true);
    owner.write_from(99_990, b"from owner").unwrap();
    let mut seen = [0; 10];
    mapped.read_into(99_990, &mut seen).unwrap();
    assert_eq!(&seen, b"from owner");
    mapped.write_from(5, b"back").unwrap();
    owner.read_into(5, &mut seen[..4]).unwrap();
    assert_eq!(&seen[..4], b"back");
    drop(owner);
    mapped.read_into(5, &mut seen[..4]).unwrap();
    assert_eq!(&seen[..4], b"back");
}

#[test]
fn a_part_says_where_in_the_file_it_lies_and_keeps_the_file() {
    let part = shareable(8192).subregion(4000, 100).unwrap();
    assert_eq!(part.shared().unwrap().offset(), 4000);
    part.write_from(0, b"x").unwrap();
    let mut seen = [0];
    window(&part, false).read_into(4000, &mut seen).unwrap();
    assert_eq!(&seen, b"x");
}

#[test]
fn private_memory_and_that_of_a_peer_are_lent_to_nobody() {
    let private = Region::from(Allocation::new(4096).allocate().unwrap());
    assert!(private.shared().is_none());
    assert!(window(&shareable(4096), true).shared().is_none());
}

#[test]
fn a_mapping_to_read_refuses_every_write_and_is_not_changed() {
    let owner = shareable(8192);
    let mapped = window(&owner, false);
    let source = shareable(8192);
    source.write_from(0, &[7; 8192]).unwrap();
    assert!(matches!(mapped.write_from(0, b"no"), Err(CopyError::Fault { .. })));
    for caching in [Caching::Keep, Caching::Bypass] {
        let copied = source.whole().copy_to(&mapped.whole(), caching);
        assert!(matches!(copied, Err(CopyError::Fault { .. })));
        mapped.whole().copy_to(&source.whole(), caching).unwrap();
    }
    let mut seen = [1; 8192];
    owner.read_into(0, &mut seen).unwrap();
    assert_eq!(seen, [0; 8192]);
}

#[test]
fn huge_and_odd_lengths_are_mapped_whole() {
    for len in [1, 4097, 2 << 20, (2 << 20) + 1, 6 << 20] {
        let owner = Allocation::new(len).pages(Pages::Transparent).shareable();
        let owner = Region::from(owner.allocate().unwrap());
        let mapped = window(&owner, true);
        assert!(mapped.len() >= owner.len());
        for at in [0, len as u64 - 1] {
            mapped.write_from(at, b"e").unwrap();
            let mut seen = [0];
            owner.read_into(at, &mut seen).unwrap();
            assert_eq!(&seen, b"e");
        }
        let mut last = [9];
        mapped.read_into(mapped.len() - 1, &mut last).unwrap();
    }
}

/// A file in memory with a length and with some of the seals.
fn file(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(c"hostile", flags).unwrap();
    rustix::fs::ftruncate(&file, len).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

fn refused(file: impl AsFd, writable: bool) -> MapError {
    Region::map_shared(file.as_fd(), writable).unwrap_err()
}

#[test]
fn files_that_could_become_shorter_or_are_no_memory_are_refused() {
    assert!(matches!(refused(file(4096, SealFlags::GROW), true), MapError::NotSealed));
    assert!(matches!(refused(file(4096, SealFlags::SEAL), false), MapError::NotSealed));
    let pipe = io::pipe().unwrap();
    assert!(matches!(refused(pipe.0, false), MapError::NotSealed));
    let directory = std::fs::File::open("/").unwrap();
    assert!(matches!(refused(directory, false), MapError::NotSealed));
    let null = std::fs::File::open("/dev/zero").unwrap();
    assert!(matches!(refused(null, false), MapError::NotSealed));
}

#[test]
fn pages_that_were_set_apart_are_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(file) = rustix::fs::memfd_create(c"huge", flags) else { return };
    rustix::fs::ftruncate(&file, 2 << 20).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert!(matches!(refused(file, false), MapError::NotSealed));
}

#[test]
fn lengths_that_no_region_has_are_refused_and_map_nothing() {
    let shrink = SealFlags::SHRINK;
    assert!(matches!(refused(file(0, shrink), true), MapError::Length { len: 0 }));
    let long = (1 << 40) + 4096;
    assert!(matches!(refused(file(long, shrink), true), MapError::Length { len } if len == long));
}

#[test]
fn a_file_that_is_sealed_against_writing_is_mapped_to_read_only() {
    let sealed = file(4096, SealFlags::SHRINK | SealFlags::WRITE);
    assert!(matches!(refused(&sealed, true), MapError::Refused { .. }));
    assert!(Region::map_shared(sealed.as_fd(), false).is_ok());
}

#[test]
fn our_own_files_cannot_be_resized_or_unsealed() {
    let region = shareable(4096);
    let file = region.shared().unwrap().file();
    assert!(rustix::fs::ftruncate(file, 0).is_err());
    assert!(rustix::fs::ftruncate(file, 8192).is_err());
    assert!(rustix::fs::fcntl_add_seals(file, SealFlags::WRITE).is_err());
}
