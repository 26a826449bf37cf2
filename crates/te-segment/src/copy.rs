//! Copies between two ranges that this process can reach: when to go around the caches.
//!
//! A plain copy brings the target into the cache, which is right when it is there already or is read
//! soon, and costs a third transfer of each byte when it is not. A copy by stores that go around the
//! cache avoids that and makes the next reader wait for memory. Which of them wins depends on
//! whether the target was in a cache, so that is guessed from what was copied before.

use std::fs;
use std::sync::OnceLock;

use crate::error::CopyError;
use crate::memory::copy_between;
use crate::range::LocalRange;

pub(crate) mod stream;

/// What a copy does to the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// The target is in a cache afterwards, as after any copy.
    Keep,
    /// The target is not read into a cache, and what is there of it is thrown out. Only memory that
    /// the engine allocated is copied so; other memory is copied as with [`Caching::Keep`].
    Bypass,
}

impl LocalRange {
    /// Copies these bytes to `to`, which has as many and may overlap. Memory of a caller may vanish
    /// meanwhile: that is an error. When this returns, every thread that is told so sees the bytes.
    ///
    /// # Errors
    /// [`CopyError::Range`] for different lengths; [`CopyError::Fault`] where memory is gone, or
    /// `to` cannot be written; a part of the bytes may have arrived then.
    pub fn copy_to(&self, to: &Self, caching: Caching) -> Result<(), CopyError> {
        copy_between(self, to, caching)
    }
}

/// Guesses whether the target of a copy is in a cache: it is, where a copy to the same address ended
/// so lately that what was copied since does not fill half of the shared cache.
///
/// One for each stream of copies; it locks nothing.
#[derive(Debug, Clone)]
pub struct CacheGuess {
    /// Bytes that may be copied before the first of them count as thrown out.
    window: u64,
    copied: u64,
    /// By a hash of its address: a target, and the bytes copied until it was last seen.
    seen: Vec<(u64, u64)>,
}

impl CacheGuess {
    /// A guess for this machine's cache, which has seen nothing.
    pub fn new() -> Self {
        Self::with_cache(shared_cache())
    }

    /// A guess for a cache of so many bytes.
    pub fn with_cache(bytes: u64) -> Self {
        Self { window: bytes / 2, copied: 0, seen: Vec::new() }
    }

    /// How to copy `len` bytes to the address `to` of this process; counts it as done.
    pub fn caching(&mut self, to: u64, len: u64) -> Caching {
        self.copied = self.copied.wrapping_add(len);
        if len < SMALLEST_BYPASS {
            return Caching::Keep;
        }
        if self.seen.is_empty() {
            self.seen = vec![(0, 0); TARGETS];
        }
        let now = self.copied;
        let entry = &mut self.seen[slot_of(to)];
        let (address, then) = std::mem::replace(entry, (to, now));
        let is_hot = address == to && now.wrapping_sub(then) <= self.window;
        if is_hot { Caching::Keep } else { Caching::Bypass }
    }
}

impl Default for CacheGuess {
    fn default() -> Self {
        Self::new()
    }
}

/// Spreads addresses, which are multiples of large powers of two, over the table.
fn slot_of(address: u64) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = address.wrapping_mul(GOLDEN) >> (64 - TARGETS.ilog2());
    usize::try_from(hash).expect("as many bits as the table has")
}

/// Bytes of the largest cache that a core of this machine has, alone or with others. The C library
/// counts those of a whole socket, of which one core reaches a part only.
fn shared_cache() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let sizes = (0..MAX_CACHES).filter_map(|index| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
            bytes_of(&fs::read_to_string(path).ok()?)
        });
        sizes.max().unwrap_or(USUAL_CACHE)
    })
}

/// A size as the kernel writes it: `32768K`.
fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.strip_suffix(['K', 'M']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) => (digits, 20),
        None => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_shl(shift).filter(|bytes| *bytes > 0)
}

/// Below this a copy never goes around the caches.
///
/// Measured cold, around against plain (example `copies`; AMD EPYC, 32 MiB of shared cache): 64 KiB
/// 25 to 20 GB/s, 256 KiB 26 to 20, 1 MiB 28 to 19, 64 MiB 29 to 19. Where the same core reads the
/// target at once, copy and read together: 64 KiB 13.5 to 16, 256 KiB 14 to 16, 1 MiB 14.7 to 15.3,
/// 8 MiB 15 to 14. So from 256 KiB on the most that a wrong guess costs is an eighth.
const SMALLEST_BYPASS: u64 = 256 << 10;

/// Targets that are remembered: as often as [`SMALLEST_BYPASS`] fits into half of 256 MiB of cache.
const TARGETS: usize = 512;

/// Bytes of the shared cache where the system does not tell.
const USUAL_CACHE: u64 = 16 << 20;

/// Caches of a core that are looked at.
const MAX_CACHES: u32 = 8;

#[cfg(test)]
mod tests;
