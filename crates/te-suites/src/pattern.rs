//! Bytes whose every position can be checked: a seeded pattern, the same in Rust and in the
//! Python program of the real peer.
//!
//! Word `j` (eight bytes, little-endian) is a mix of `j` and the seed, so that no two places of one
//! pattern and no two seeds look alike, and a shift, a swap or a gap shows.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX: u64 = 0xd6e8_feb8_6659_fd93;

/// Word `j` of the pattern with this seed.
pub fn word(seed: u64, j: u64) -> u64 {
    let x = j.wrapping_add(seed.wrapping_mul(STEP)).wrapping_mul(MIX);
    (x ^ (x >> 32)).wrapping_mul(MIX)
}

/// Writes the pattern's bytes from position `from`, a multiple of 8, over `out`.
///
/// # Panics
/// When `from` is not a multiple of 8.
pub fn fill(seed: u64, from: u64, out: &mut [u8]) {
    assert_eq!(from % 8, 0, "the pattern is made of words");
    for (j, chunk) in (from / 8..).zip(out.chunks_mut(8)) {
        chunk.copy_from_slice(&word(seed, j).to_le_bytes()[..chunk.len()]);
    }
}

/// The first `len` bytes of the pattern.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    fill(seed, 0, &mut out);
    out
}

/// The CRC-32 of zlib, carried on from `crc` (0 at the start).
pub fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!crc, |c, &byte| {
        let [low, ..] = (c ^ u32::from(byte)).to_le_bytes();
        TABLE[usize::from(low)] ^ (c >> 8)
    })
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    let mut start = 0_u32;
    while i < 256 {
        let mut c = start;
        let mut bit = 0;
        while bit < 8 {
            c = if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
        start += 1;
    }
    table
}

/// A small generator for attacks that must be repeatable; prints nothing, keeps no global state.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream that depends on the seed only.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        word(0x7e57, self.0)
    }

    /// A number below `bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        bytes(self.word(), len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_is_that_of_zlib() {
        assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xcbf4_3926);
    }

    #[test]
    fn a_pattern_starts_anywhere_and_ends_anywhere() {
        let whole = bytes(7, 1003);
        let mut tail = vec![0; 1003 - 96];
        fill(7, 96, &mut tail);
        assert_eq!(whole[96..], tail);
        assert_ne!(bytes(7, 64), bytes(8, 64));
    }
}
