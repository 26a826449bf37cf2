//! Ranges never wrap and never leave what they were taken from.

use proptest::prelude::*;

use super::*;
use crate::AlignedBuffer;

/// Addresses and lengths where overflow happens.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100, any::<u64>(), (u64::MAX - 100)..=u64::MAX, Just(1u64 << 63)]
}

/// What is right, in numbers that cannot overflow.
fn fits(offset: u64, len: u64, within: u64) -> bool {
    u128::from(offset) + u128::from(len) <= u128::from(within)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn check_says_what_wide_arithmetic_says(o in number(), l in number(), w in number()) {
        prop_assert_eq!(check(o, l, w).is_ok(), fits(o, l, w));
    }

    #[test]
    fn a_remote_range_never_wraps(address in number(), len in number()) {
        let range = RemoteRange::new(address, len);
        prop_assert_eq!(range.is_ok(), fits(address, len, u64::MAX));
        if let Ok(range) = range {
            prop_assert_eq!(range.end(), address + len);
        }
    }

    // Trap 9: whatever a peer publishes as a buffer, also one that wraps.
    #[test]
    fn inside_means_every_byte(a in number(), l in number(), start in number(), len in number()) {
        let Ok(range) = RemoteRange::new(a, l) else { return Ok(()) };
        let end = u128::from(start) + u128::from(len);
        let inside = a >= start && u128::from(range.end()) <= end;
        prop_assert_eq!(range.is_inside(start, len), inside);
    }

    #[test]
    fn parts_stay_inside(a in number(), l in number(), o in number(), n in number()) {
        let Ok(range) = RemoteRange::new(a, l) else { return Ok(()) };
        match range.part(o, n) {
            Ok(part) => {
                prop_assert!(part.is_inside(range.address(), range.len()));
                prop_assert_eq!((part.address(), part.len()), (a + o, n));
            }
            Err(error) => {
                prop_assert!(!fits(o, n, l));
                prop_assert_eq!(error, RangeError { offset: o, len: n, within: l });
            }
        }
    }
}

#[test]
fn j50_a_buffer_of_almost_the_whole_address_space_overflows_nothing() {
    let inside = |address, len| {
        RemoteRange::new(address, len).is_ok_and(|range| range.is_inside(0, u64::MAX))
    };
    assert!(inside(0, u64::MAX));
    assert!(inside(u64::MAX - 1, 1));
    assert!(inside(1, u64::MAX - 1));
    assert!(!inside(1, u64::MAX));
    assert!(!inside(u64::MAX, 1));
}

#[test]
fn local_ranges_and_their_parts_are_checked() {
    let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
    let range = region.range(96, 4000).unwrap();
    assert_eq!(range.address(), region.address() + 96);
    let part = range.part(3990, 10).unwrap();
    assert_eq!((part.offset(), part.len()), (4086, 10));
    assert_eq!(part.span().len(), 10);
    assert!(range.part(3990, 11).is_err());
    assert!(range.part(u64::MAX, 2).is_err());
    assert!(range.part(4000, 0).unwrap().is_empty());
}

#[test]
fn a_range_keeps_its_memory_alive() {
    let region = Region::from(AlignedBuffer::zeroed(4096).unwrap());
    region.write_from(10, b"still here").unwrap();
    let range = region.range(10, 10).unwrap();
    drop(region);
    let mut seen = [0; 10];
    range.region().read_into(range.offset(), &mut seen).unwrap();
    assert_eq!(&seen, b"still here");
}
