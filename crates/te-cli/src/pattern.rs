//! Bytes that a number determines: each word of eight depends on the seed and its position only,
//! so that any part can be made and checked by itself, and a shifted or swapped part is noticed.

/// The bytes of one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern(u64);

impl Pattern {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x7465_2d70_6174_7465))
    }

    /// Writes the bytes that begin at `position`.
    pub(crate) fn fill(self, position: u64, out: &mut [u8]) {
        let skipped = (position % WORD) as usize;
        let mut index = position / WORD;
        let mut out = out;
        if skipped > 0 {
            let head = (WORD_BYTES - skipped).min(out.len());
            let (first, rest) = out.split_at_mut(head);
            first.copy_from_slice(&self.word(index)[skipped..skipped + head]);
            out = rest;
            index += 1;
        }
        let mut words = out.chunks_exact_mut(WORD_BYTES);
        for word in &mut words {
            word.copy_from_slice(&self.word(index));
            index += 1;
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&self.word(index)[..tail.len()]);
    }

    fn word(self, index: u64) -> [u8; 8] {
        mix(self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    }
}

const WORD: u64 = 8;
const WORD_BYTES: usize = 8;

/// The finishing steps of SplitMix64: every bit of the input reaches every bit of the output.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The position of the first byte that differs, if any does.
pub(crate) fn first_difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right {
        return None;
    }
    let at = left.iter().zip(right).position(|(left, right)| left != right);
    Some(at.unwrap_or_else(|| left.len().min(right.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_the_same_as_the_whole_there() {
        let mut whole = vec![0; 100];
        Pattern::new(7).fill(0, &mut whole);
        for position in 0..whole.len() {
            for len in 0..whole.len() - position {
                let mut part = vec![0; len];
                Pattern::new(7).fill(position as u64, &mut part);
                assert_eq!(part, whole[position..position + len], "{position} {len}");
            }
        }
    }

    #[test]
    fn seeds_and_positions_differ() {
        let bytes = |seed, position| {
            let mut out = [0; 64];
            Pattern::new(seed).fill(position, &mut out);
            out
        };
        assert_ne!(bytes(0, 0), bytes(1, 0));
        assert_ne!(bytes(0, 0), bytes(0, 8));
        assert_ne!(bytes(0, 0), [0; 64]);
    }

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference(b"abc", b"abc"), None);
        assert_eq!(first_difference(b"abc", b"abd"), Some(2));
        assert_eq!(first_difference(b"ab", b"abd"), Some(2));
    }
}
