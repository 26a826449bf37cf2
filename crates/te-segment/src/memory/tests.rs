//! Regions refuse what is not memory, and copies survive memory that went away.

use super::*;

fn raw(address: u64, len: u64) -> Result<Region, RegionError> {
    let ptr = std::ptr::without_provenance_mut(usize::try_from(address).unwrap());
    // SAFETY: no transfer runs on the region; most of these are refused.
    unsafe { Region::from_raw_parts(ptr, usize::try_from(len).unwrap()) }
}

#[test]
fn fault21_null_wrapping_unmapped_and_empty_ranges_are_refused_by_name() {
    assert!(matches!(raw(0, 4096), Err(RegionError::Null)));
    assert!(matches!(raw(4096, 4096), Err(RegionError::Unmapped { .. })));
    assert!(matches!(raw(u64::MAX - 4095, 8192), Err(RegionError::Wraps { .. })));
    assert!(matches!(raw(1 << 20, 0), Err(RegionError::Empty { .. })));
    assert!(matches!(raw(1 << 20, (1 << 40) + 1), Err(RegionError::TooLong { .. })));
}

/// Runs a test that unmaps memory in a process of its own: in this one another thread could get the
/// same addresses in that moment.
fn alone(name: &str, body: impl FnOnce()) {
    const MARK: &str = "TE_TEST_ALONE";
    #[expect(clippy::disallowed_methods, reason = "how a test tells its child what it is")]
    let is_child = std::env::var_os(MARK).is_some();
    if is_child {
        return body();
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("memory::tests::{name}"), "--test-threads=1"])
        .env(MARK, "1")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{name} failed in its own process");
}

#[test]
fn a_hole_in_the_middle_is_found() {
    alone("a_hole_in_the_middle_is_found", || {
        let buffer = AlignedBuffer::zeroed(3 * 4096).unwrap();
        let start = buffer.start();
        // SAFETY: the page belongs to the buffer, which is used no more except for its Drop, and no
        // other thread maps anything before that.
        unsafe { libc::munmap(start.wrapping_add(4096).cast(), 4096) };
        let address = start.addr() as u64;
        assert!(matches!(raw(address, 3 * 4096), Err(RegionError::Unmapped { .. })));
        assert!(raw(address, 4096).is_ok());
    });
}

#[test]
fn memory_without_read_permission_is_refused() {
    let buffer = AlignedBuffer::zeroed(4096).unwrap();
    // SAFETY: changes the protection of the buffer's own page, which nobody reads.
    unsafe { libc::mprotect(buffer.start().cast(), 4096, libc::PROT_NONE) };
    assert!(matches!(raw(buffer.start().addr() as u64, 4096), Err(RegionError::Unmapped { .. })));
}

#[test]
fn copies_give_back_what_was_written_at_odd_offsets() {
    let region = Region::from(AlignedBuffer::zeroed(10_000).unwrap());
    let bytes: Vec<u8> = (0..4097u32).map(|i| (i % 251) as u8).collect();
    region.write_from(3, &bytes).unwrap();
    let mut back = vec![0; bytes.len()];
    region.read_into(3, &mut back).unwrap();
    assert_eq!(back, bytes);
    // The same bytes through a caller-owned view take the other copy path.
    let view = raw(region.address(), region.len()).unwrap();
    let mut again = vec![0; bytes.len()];
    view.read_into(3, &mut again).unwrap();
    assert_eq!(again, bytes);
    view.write_from(0, b"abc").unwrap();
    region.read_into(0, &mut again[..3]).unwrap();
    assert_eq!(&again[..3], b"abc");
}

#[test]
fn copies_outside_the_region_are_refused() {
    let region = Region::from(AlignedBuffer::zeroed(100).unwrap());
    assert!(matches!(region.read_into(99, &mut [0; 2]), Err(CopyError::Range(_))));
    assert!(matches!(region.write_from(u64::MAX, &[0; 2]), Err(CopyError::Range(_))));
    assert!(region.range(u64::MAX, 2).is_err());
    assert_eq!(region.range(100, 0).unwrap().len(), 0);
}

#[test]
fn fault28_memory_unmapped_under_us_is_an_error_and_not_a_signal() {
    alone("fault28_memory_unmapped_under_us_is_an_error_and_not_a_signal", || {
        let buffer = AlignedBuffer::zeroed(8192).unwrap();
        let view = raw(buffer.start().addr() as u64, 8192).unwrap();
        drop(buffer);
        assert!(matches!(view.read_into(0, &mut [0; 16]), Err(CopyError::Fault { .. })));
        assert!(matches!(view.write_from(0, &[1; 16]), Err(CopyError::Fault { .. })));
    });
}

#[test]
fn memory_that_vanishes_fails_from_then_on() {
    let memory = VanishingMemory::new(AlignedBuffer::zeroed(8192).unwrap());
    memory.region().write_from(5, b"here").unwrap();
    let mut seen = [0; 4];
    memory.region().read_into(5, &mut seen).unwrap();
    assert_eq!(&seen, b"here");
    memory.vanish();
    assert!(matches!(memory.region().read_into(5, &mut seen), Err(CopyError::Fault { .. })));
    assert!(matches!(memory.region().write_from(5, &seen), Err(CopyError::Fault { .. })));
}

#[test]
fn a_part_keeps_the_whole_alive_and_stays_inside_it() {
    let whole = Region::from(AlignedBuffer::zeroed(8192).unwrap());
    let part = whole.subregion(4000, 100).unwrap();
    let inner = part.subregion(10, 90).unwrap();
    assert_eq!((inner.address(), inner.len()), (whole.address() + 4010, 90));
    assert!(part.subregion(10, 91).is_err() && whole.subregion(u64::MAX, 2).is_err());
    assert!(!part.is_same(&whole) && part.is_same(&part.clone()));
    whole.write_from(4010, b"shared").unwrap();
    drop((whole, part));
    let mut seen = [0; 6];
    inner.read_into(0, &mut seen).unwrap();
    assert_eq!(&seen, b"shared");
}

#[test]
fn handles_on_memory_may_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    crosses::<AlignedBuffer>();
    crosses::<Region>();
    crosses::<LocalRange>();
    moves::<Span>();
}
