//! Blocks of an arena: powers of two, halved to be handed out and joined when given back.
//!
//! I1  A byte is in exactly one block, free or in use.
//! I2  Two free halves of one block are that block.

use std::collections::BTreeSet;

/// Bytes of the smallest block.
const BLOCK_MIN: u64 = 8 << 10;
/// How many sizes there are; each is twice the one before.
const CLASSES: usize = 16;
/// Bytes of the largest block: 256 MiB.
pub(super) const BLOCK_MAX: u64 = BLOCK_MIN << (CLASSES - 1);

/// What is free in an arena: offsets, by size of the block.
#[derive(Debug)]
pub(super) struct Buddy {
    free: [BTreeSet<u64>; CLASSES],
}

impl Buddy {
    /// An arena of `len` bytes, of which a part above the last whole largest block is not used.
    pub(super) fn new(len: u64) -> Self {
        let mut free = <[BTreeSet<u64>; CLASSES]>::default();
        free[CLASSES - 1] = (0..len / BLOCK_MAX).map(|block| block * BLOCK_MAX).collect();
        Self { free }
    }

    /// Takes a block of at least `len` bytes, 1 to [`BLOCK_MAX`]; gives its offset.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        let wanted = class(len)?;
        let found = (wanted..CLASSES).find(|class| !self.free[*class].is_empty())?;
        let offset = self.free[found].pop_first()?;
        for class in wanted..found {
            self.free[class].insert(offset + size(class));
        }
        Some(offset)
    }

    /// Gives back what [`Buddy::take`] gave for this length.
    pub(super) fn give(&mut self, offset: u64, len: u64) {
        let Some(mut class) = class(len) else { return };
        let mut offset = offset;
        while class + 1 < CLASSES && self.free[class].remove(&(offset ^ size(class))) {
            offset &= !size(class);
            class += 1;
        }
        self.free[class].insert(offset);
    }
}

/// The smallest class with room for `len` bytes.
fn class(len: u64) -> Option<usize> {
    (0..CLASSES).find(|class| size(*class) >= len)
}

fn size(class: usize) -> u64 {
    BLOCK_MIN << class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_disjoint_and_join_again() {
        let mut blocks = Buddy::new(2 * BLOCK_MAX);
        let lens = [1, 8 << 10, (8 << 10) + 1, 1 << 20, 3 << 20, BLOCK_MAX];
        let mut taken: Vec<(u64, u64)> =
            lens.iter().map(|len| (blocks.take(*len).unwrap(), *len)).collect();
        taken.sort_unstable();
        for pair in taken.windows(2) {
            assert!(pair[0].0 + pair[0].1.next_power_of_two() <= pair[1].0, "{taken:?}");
        }
        assert_eq!(blocks.take(BLOCK_MAX), None, "one of the two largest blocks is cut");
        taken.iter().for_each(|(offset, len)| blocks.give(*offset, *len));
        assert_eq!(blocks.free[CLASSES - 1].len(), 2, "all is free again");
        assert!(blocks.free[..CLASSES - 1].iter().all(BTreeSet::is_empty));
    }

    #[test]
    fn a154_there_are_sixteen_sizes() {
        // A154: 8 KiB to 256 MiB.
        assert_eq!((size(0), BLOCK_MAX), (8 << 10, 256 << 20));
        assert_eq!(class(BLOCK_MAX + 1), None);
    }
}
