//! Copies give the bytes exactly, whoever owns the two sides, and a guess of the cache follows what
//! was copied.

use proptest::prelude::*;

use super::*;
use crate::{AlignedBuffer, Allocation, Region, VanishingMemory};

const BOTH: [Caching; 2] = [Caching::Keep, Caching::Bypass];

fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[5]).collect()
}

fn filled(len: u64) -> Region {
    let region = Region::from(AlignedBuffer::zeroed(usize::try_from(len).unwrap()).unwrap());
    region.write_from(0, &pattern(len)).unwrap();
    region
}

/// Memory that is used as that of a caller is, filled.
fn callers(len: u64) -> VanishingMemory {
    let buffer = AlignedBuffer::zeroed(usize::try_from(len).unwrap()).unwrap();
    let memory = VanishingMemory::new(buffer);
    memory.region().write_from(0, &pattern(len)).unwrap();
    memory
}

fn content_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(region.len()).unwrap()];
    region.read_into(0, &mut bytes).unwrap();
    bytes
}

/// Copies inside a model and inside the regions, and compares all bytes of the target.
fn check(from: &Region, to: &Region, (at, onto, len): (u64, u64, u64), caching: Caching) {
    let source = content_of(from);
    let mut expected = content_of(to);
    let [first, onto_first, n] = [at, onto, len].map(|n| usize::try_from(n).unwrap());
    expected[onto_first..onto_first + n].copy_from_slice(&source[first..first + n]);
    let target = to.range(onto, len).unwrap();
    from.range(at, len).unwrap().copy_to(&target, caching).unwrap();
    assert!(content_of(to) == expected, "{len} bytes from {at} to {onto}, {caching:?}");
}

#[test]
fn every_length_and_alignment_around_a_line_is_exact_and_touches_nothing_else() {
    let from = filled(1024);
    let to = Region::from(AlignedBuffer::zeroed(1024).unwrap());
    for caching in BOTH {
        for len in (0..=260).chain([511, 512, 513, 640]) {
            for (at, onto) in [(0, 0), (0, 1), (1, 0), (31, 33), (63, 64), (64, 63), (7, 121)] {
                check(&from, &to, (at, onto, len), caching);
            }
        }
    }
}

#[test]
fn edges_of_pages_and_of_the_memory_are_exact() {
    let from = filled(3 << 12);
    let to = Region::from(AlignedBuffer::zeroed(3 << 12).unwrap());
    for caching in BOTH {
        for (at, onto, len) in
            [(0, 0, 3 << 12), (1, 0, (3 << 12) - 1), (0, 1, (3 << 12) - 1), (4095, 4097, 4098)]
        {
            check(&from, &to, (at, onto, len), caching);
        }
    }
}

#[test]
fn memory_of_a_caller_is_copied_as_exactly_on_either_side() {
    let (source, target) = (callers(70_000), callers(70_000));
    for from in [source.region(), &filled(70_000)] {
        for to in [target.region(), &filled(70_000)] {
            for caching in BOTH {
                check(from, to, (3, 4097, 65_537), caching);
            }
        }
    }
}

#[test]
fn overlapping_ranges_are_moved() {
    for (at, onto) in [(0, 1), (1, 0), (0, 40_000), (40_000, 0), (5, 5)] {
        for caller in [false, true] {
            for caching in BOTH {
                let owned = callers(100_000);
                let region = if caller { owned.region().clone() } else { filled(100_000) };
                let mut expected = pattern(100_000);
                expected.copy_within(at..at + 50_000, onto);
                let to = region.range(onto as u64, 50_000).unwrap();
                region.range(at as u64, 50_000).unwrap().copy_to(&to, caching).unwrap();
                assert!(content_of(&region) == expected, "{at} to {onto}, caller {caller}");
            }
        }
    }
}

#[test]
fn ranges_of_different_lengths_are_refused() {
    let region = filled(100);
    let (from, to) = (region.range(0, 10).unwrap(), region.range(50, 11).unwrap());
    assert!(matches!(from.copy_to(&to, Caching::Keep), Err(CopyError::Range(_))));
}

#[test]
fn fault28_memory_that_vanished_is_an_error_on_either_side() {
    let here = filled(8192);
    for caching in BOTH {
        let gone = VanishingMemory::new(AlignedBuffer::zeroed(8192).unwrap());
        gone.vanish();
        let gone = gone.region().whole();
        let faults = |result| matches!(result, Err(CopyError::Fault { .. }));
        assert!(faults(here.whole().copy_to(&gone, caching)));
        assert!(faults(gone.copy_to(&here.whole(), caching)));
        assert!(faults(gone.copy_to(&gone, caching)));
    }
    assert_eq!(content_of(&here), pattern(8192));
}

proptest! {
    #[test]
    fn any_copy_is_that_of_a_slice(
        at in 0u64..5000, onto in 0u64..5000, len in 0u64..200_000, bypass: bool, shared: bool,
    ) {
        let from = filled(205_000);
        let mut kind = Allocation::new(205_000);
        if shared {
            kind = kind.shareable();
        }
        let to = Region::from(kind.allocate().unwrap());
        let caching = if bypass { Caching::Bypass } else { Caching::Keep };
        check(&from, &to, (at, onto, len), caching);
    }

    #[test]
    fn a_target_is_hot_exactly_while_half_the_cache_was_not_copied(
        gaps in prop::collection::vec(0u64..40, 1..50),
    ) {
        const CACHE: u64 = 32 << 20;
        let mut guess = CacheGuess::with_cache(CACHE);
        let block = SMALLEST_BYPASS;
        let mut fresh = 1 << 40;
        prop_assert_eq!(guess.caching(0x1000, block), Caching::Bypass);
        for mut gap in gaps {
            // Other targets, none of them seen before, never in the slot of the one that is asked.
            let others = gap * block * 4 / 2;
            while gap > 0 {
                fresh += block;
                if slot_of(fresh) != slot_of(0x1000) {
                    prop_assert_eq!(guess.caching(fresh, block * 2), Caching::Bypass);
                    gap -= 1;
                }
            }
            let hot = others + block <= CACHE / 2;
            let expected = if hot { Caching::Keep } else { Caching::Bypass };
            prop_assert_eq!(guess.caching(0x1000, block), expected);
        }
    }
}

#[test]
fn sizes_of_caches_are_read_as_the_kernel_writes_them() {
    let table = [
        ("32768K\n", Some(32 << 20)),
        ("1M", Some(1 << 20)),
        ("4096", Some(4096)),
        ("0K", None),
        ("K", None),
        ("", None),
        ("-1K", None),
    ];
    for (text, bytes) in table {
        assert_eq!(bytes_of(text), bytes, "{text:?}");
    }
    assert!(shared_cache() > 0);
}

#[test]
fn small_copies_stay_in_the_cache_and_take_no_memory() {
    let mut guess = CacheGuess::new();
    for address in 0..100 {
        assert_eq!(guess.caching(address << 20, SMALLEST_BYPASS - 1), Caching::Keep);
    }
    assert!(guess.seen.is_empty());
}

#[test]
fn a_ring_of_blocks_is_hot_if_it_fits_and_cold_if_not() {
    let mut guess = CacheGuess::with_cache(32 << 20);
    let mut lap = |base: u64, blocks: u64| -> usize {
        let asked = (0..blocks).map(|n| guess.caching(base + (n << 20), 1 << 20));
        asked.filter(|caching| *caching == Caching::Keep).count()
    };
    assert_eq!((lap(1 << 30, 8), lap(1 << 30, 8)), (0, 8));
    assert_eq!((lap(1 << 40, 64), lap(1 << 40, 64)), (0, 0));
}
