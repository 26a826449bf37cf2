//! CRC32C of bytes and of registered memory.
//!
//! I1  Registered memory is summed through a block of our own: nothing here refers to memory that
//!     somebody may change or unmap.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};
use te_segment::{CopyError, LocalRange};

/// Bytes that are copied out of a range at a time; so few that the core still copies the next ones
/// while it sums these. Measured with [`AHEAD`]: 5 to 8 % less time for a checked transfer than by
/// blocks of 16 KiB without; 1 KiB is worse.
const BLOCK: u64 = 2 << 10;
/// How far ahead of the copy memory is fetched.
const AHEAD: u64 = 8 << 10;

/// A sum that grows.
pub(crate) struct Sum {
    digest: Digest,
    block: Vec<u8>,
}

impl Sum {
    pub(crate) fn new() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Iscsi), block: Vec::new() }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// Adds `len` bytes of a range as they lie in memory now.
    pub(crate) fn add_range(
        &mut self,
        range: &LocalRange,
        offset: u64,
        len: u64,
    ) -> Result<(), CopyError> {
        let mut done = 0;
        while done < len {
            let n = BLOCK.min(len - done);
            self.block.resize(usize::try_from(n).unwrap_or(0), 0);
            let at = range.offset() + offset + done;
            range.region().prefetch(at + AHEAD, n);
            range.region().read_into(at, &mut self.block)?;
            self.digest.update(&self.block);
            done += n;
        }
        Ok(())
    }

    pub(crate) fn value(&self) -> u32 {
        low_half(self.digest.finalize())
    }
}

/// The CRC32C of bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    low_half(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

fn low_half(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("half of a word")
}

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sum({:#010x})", self.value())
    }
}

#[cfg(test)]
mod tests {
    use te_segment::{AlignedBuffer, Region};

    use super::*;

    #[test]
    fn the_sum_is_crc32c_whatever_the_blocks() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let len = 200_001;
        let bytes: Vec<u8> = (0..len).map(|i: u32| i.to_le_bytes()[0] ^ 0x5a).collect();
        let region = Region::from(AlignedBuffer::zeroed(bytes.len() + 7).unwrap());
        region.write_from(7, &bytes).unwrap();
        let range = region.range(7, u64::from(len)).unwrap();
        let mut sum = Sum::new();
        sum.add(&bytes[..10]);
        sum.add_range(&range, 10, u64::from(len) - 10).unwrap();
        assert_eq!(sum.value(), crc32c(&bytes));
        assert_eq!(Sum::new().value(), 0);
    }
}
