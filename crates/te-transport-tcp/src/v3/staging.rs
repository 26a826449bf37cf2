//! Bytes that wait to go out: appended behind, taken from the front.
//!
//! ```text
//!   | out | waiting ........ | room, filled before |
//!         ^gone              ^end                  ^bytes.len()
//! ```
//!
//! I1  What was room once is not filled with zeros again before it is written to.
//! I2  What is out takes at most 64 KiB and as much as waits.

/// As much may be out before what waits is moved to the front.
const MOVED_AT: usize = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    gone: usize,
    end: usize,
}

impl Staging {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.end - self.gone
    }

    /// `n` of those that wait, from `at` on.
    pub(crate) fn part(&self, at: usize, n: usize) -> &[u8] {
        &self.bytes[self.gone + at..self.gone + at + n]
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends `n` bytes of any value, to be written to.
    pub(crate) fn extend(&mut self, n: usize) -> &mut [u8] {
        let from = self.end;
        self.end += n;
        if self.bytes.len() < self.end {
            self.bytes.resize(self.end, 0);
        }
        &mut self.bytes[from..self.end]
    }

    /// The last `n` that were appended.
    pub(crate) fn last(&self, n: usize) -> &[u8] {
        &self.bytes[self.end - n..self.end]
    }

    /// Takes the last `n` back.
    pub(crate) fn take_back(&mut self, n: usize) {
        self.end -= n;
    }

    /// The first `n` are out. More than `kept` bytes of room are given back once nothing waits.
    pub(crate) fn on_gone(&mut self, n: usize, kept: usize) {
        self.gone += n;
        if self.gone == self.end {
            (self.gone, self.end) = (0, 0);
            if self.bytes.capacity() > kept {
                self.bytes.truncate(kept);
                self.bytes.shrink_to(kept);
            }
        } else if self.gone >= MOVED_AT {
            self.bytes.copy_within(self.gone..self.end, 0);
            (self.gone, self.end) = (0, self.end - self.gone);
        }
    }

    /// Gives all room back, where nothing waits.
    pub(crate) fn release(&mut self) {
        if self.len() == 0 {
            *self = Self::default();
        }
    }

    /// Room that is held.
    pub(crate) fn held(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_order_whatever_is_taken_at_a_time() {
        let (mut staging, mut next, mut expected) = (Staging::default(), 0u32, 0u32);
        for round in 0..5000_usize {
            for _ in 0..(round * 7) % 100 {
                staging.append(&next.to_le_bytes());
                next += 1;
            }
            let n = (round * 13 % 120).min(staging.len() / 4) * 4;
            for word in staging.part(0, n).chunks(4) {
                assert_eq!(word, expected.to_le_bytes());
                expected += 1;
            }
            staging.on_gone(n, 1000);
        }
        assert!(expected > 100_000);
    }

    #[test]
    fn what_is_taken_back_never_leaves_and_room_is_given_back() {
        let mut staging = Staging::default();
        staging.append(b"stays");
        staging.extend(10_000).fill(1);
        staging.take_back(10_000);
        staging.append(b"!");
        assert_eq!((staging.part(0, 6), staging.last(2)), (&b"stays!"[..], &b"s!"[..]));
        staging.release();
        assert_eq!(staging.len(), 6, "what waits is kept");
        staging.on_gone(6, 1000);
        assert!(staging.held() <= 1000);
        staging.release();
        assert_eq!(staging.held(), 0);
    }
}
