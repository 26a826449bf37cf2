//! Pieces tile the request, whatever the numbers.

use proptest::prelude::*;

use super::*;

fn policy() -> impl Strategy<Value = SlicePolicy> {
    let sizes = prop_oneof![0u64..10, 1u64..(1 << 22), Just(u64::MAX)];
    (sizes.clone(), sizes, 0u32..70).prop_map(|(min_piece, max_piece, ways)| SlicePolicy {
        min_piece,
        max_piece,
        ways,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // I1, I2, I3 of the module, also for policies that contradict themselves.
    #[test]
    fn pieces_tile_the_request_exactly(policy in policy(), len in 0u64..(1 << 26)) {
        prop_assume!(len / policy.piece_len(len) < 100_000);
        let mut next = 0;
        let mut pieces = policy.pieces(len);
        while let Some((offset, piece)) = pieces.next() {
            prop_assert_eq!(offset, next);
            prop_assert!(piece > 0);
            prop_assert!(piece <= policy.max_piece.max(policy.min_piece).max(1));
            next += piece;
            prop_assert!(piece >= policy.min_piece || next == len);
            prop_assert_eq!(pieces.is_done(), next == len);
        }
        prop_assert_eq!(next, len);
        prop_assert_eq!(pieces.next(), None);
    }

    #[test]
    fn a_request_within_the_smallest_piece_is_not_cut(policy in policy(), len in 1u64..(1 << 22)) {
        prop_assume!(len <= policy.min_piece);
        prop_assert_eq!(policy.pieces(len).collect::<Vec<_>>(), [(0, len)]);
    }

    #[test]
    fn the_largest_lengths_do_not_overflow(policy in policy(), below in 0u64..4096) {
        let len = u64::MAX - below;
        let mut pieces = policy.pieces(len);
        let (offset, piece) = pieces.next().unwrap();
        prop_assert_eq!(offset, 0);
        prop_assert!(piece >= 1 && piece <= len);
    }
}

#[test]
fn an_empty_request_has_no_pieces() {
    let policy = SlicePolicy { min_piece: 1, max_piece: 10, ways: 4 };
    assert_eq!(policy.pieces(0).next(), None);
    assert!(policy.pieces(0).is_done());
}

#[test]
fn a_large_request_is_shared_by_the_ways_in_whole_pages() {
    let policy = SlicePolicy { min_piece: 65_536, max_piece: 1 << 20, ways: 4 };
    assert_eq!(
        policy.pieces(1_000_000).collect::<Vec<_>>(),
        [(0, 253_952), (253_952, 253_952), (507_904, 253_952), (761_856, 238_144),]
    );
    // J4, peer fault 27: more than 4 GiB in one request.
    let large = (4u64 << 30) + 12_345;
    assert_eq!(policy.pieces(large).count() as u64, large.div_ceil(1 << 20));
}
