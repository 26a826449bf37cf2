//! Stores around the caches, at every alignment of both sides.
#![allow(unsafe_code, reason = "calls the copy under test; docs/memory-safety.md")]

use super::*;

/// The slices say what may be touched, and AddressSanitizer knows where they end.
fn stream(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len());
    // SAFETY: two slices of the same length, of which one is borrowed alone.
    unsafe { copy(from.as_ptr(), to.as_mut_ptr(), from.len()) };
}

#[test]
fn all_alignments_and_lengths_are_exact_between_guard_bytes() {
    let source: Vec<u8> = (0..600u32).map(|i| (i * 7 % 251) as u8).collect();
    for len in (0..=200).chain([255, 256, 257, 500]) {
        for at in (0..64).step_by(7) {
            for onto in 0..64 {
                let mut target = vec![0xA5; onto + len + 32];
                stream(&source[at..at + len], &mut target[onto..onto + len]);
                assert!(target[..onto].iter().all(|byte| *byte == 0xA5));
                assert_eq!(&target[onto..onto + len], &source[at..at + len]);
                assert!(target[onto + len..].iter().all(|byte| *byte == 0xA5));
            }
        }
    }
}

#[test]
fn a_buffer_is_filled_to_its_very_end() {
    for len in [1usize, 63, 64, 65, 4096, 4097, 1 << 20] {
        let source = vec![7u8; len].into_boxed_slice();
        let mut target = vec![0u8; len].into_boxed_slice();
        stream(&source, &mut target);
        assert_eq!(source, target);
    }
}
