//! How a request is cut into pieces.
//!
//! I1  The pieces tile the request exactly, in order.
//! I2  No piece is longer than the policy's largest, and none is empty.
//! I3  A request that fits one smallest piece is never cut; only a last piece is smaller.

/// Sizes of pieces that a transport wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlicePolicy {
    /// No piece but the last of a request is smaller than this, bytes, at least 1.
    pub min_piece: u64,
    /// No piece is larger than this, bytes, at least `min_piece`.
    pub max_piece: u64,
    /// How many pieces can be moved side by side, at least 1.
    pub ways: u32,
}

impl SlicePolicy {
    /// Length of the pieces of a request of `len` bytes: an even share of each way, within the
    /// limits, rounded up to whole pages.
    pub fn piece_len(&self, len: u64) -> u64 {
        const PAGE: u64 = 4096;
        let share = len.div_ceil(u64::from(self.ways.max(1)));
        let whole = share.checked_next_multiple_of(PAGE).unwrap_or(share);
        whole.clamp(self.min_piece.max(1), self.max_piece.max(self.min_piece).max(1))
    }

    /// The pieces of a request of `len` bytes, as offset and length. Lazy: a request of any size
    /// costs nothing before its pieces are taken.
    pub fn pieces(&self, len: u64) -> Pieces {
        Pieces { next: 0, len, piece: self.piece_len(len) }
    }
}

/// Iterator over `(offset, len)`; see [`SlicePolicy::pieces`].
#[derive(Debug, Clone)]
pub struct Pieces {
    next: u64,
    len: u64,
    piece: u64,
}

impl Pieces {
    /// Whether every piece was taken.
    pub fn is_done(&self) -> bool {
        self.next == self.len
    }
}

impl Iterator for Pieces {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.is_done() {
            return None;
        }
        let offset = self.next;
        let len = self.piece.min(self.len - offset);
        self.next += len;
        Some((offset, len))
    }
}

#[cfg(test)]
mod tests;
