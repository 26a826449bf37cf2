//! A copy whose stores go around the caches, for x86-64; elsewhere a plain one.
//!
//! JUSTIFICATION  No safe form exists. Example `copies` of this crate shows what it is worth.
#![allow(unsafe_code, reason = "stores that go around the caches; docs/memory-safety.md")]

/// Copies `len` bytes, and returns when all stores are in order for every other core.
///
/// # Safety
/// As `std::ptr::copy_nonoverlapping`: `from` is readable and `to` writable for `len` bytes, and
/// they do not overlap. Others may change the bytes of `from` meanwhile.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX, and the caller keeps the rest.
        return unsafe { avx::copy(from, to, len) };
    }
    // SAFETY: the caller keeps what this needs.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};

    /// Bytes of a cache line: what a store around the cache must fill to cost one transfer.
    const LINE: usize = 64;

    /// See [`super::copy`]. The order of addresses is the plainest: asking for the source ahead of
    /// time costs 5 %, and taking several pages in turn a quarter, on the machines measured.
    ///
    /// # Safety
    /// As [`super::copy`], on a processor with AVX.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        let head = to.align_offset(LINE).min(len);
        // SAFETY: `head` is at most `len`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, head) };
        let body = (len - head) / LINE * LINE;
        for at in (head..head + body).step_by(LINE) {
            // SAFETY: `at + LINE` is at most `len`; `to + head` and so `to + at` is a line's start.
            unsafe { line(from.wrapping_add(at), to.wrapping_add(at)) };
        }
        _mm_sfence();
        let done = head + body;
        let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
        // SAFETY: what is left of `len`.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len - done) };
    }

    /// Copies one line; `to` is its start.
    ///
    /// # Safety
    /// A line is readable at `from`, writable at `to`, and `to` is a multiple of [`LINE`].
    #[target_feature(enable = "avx")]
    unsafe fn line(from: *const u8, to: *mut u8) {
        let (from, to) = (from.cast::<__m256i>(), to.cast::<__m256i>());
        // SAFETY: the first half of the line, and this load needs no alignment.
        let low = unsafe { _mm256_loadu_si256(from) };
        // SAFETY: the second half.
        let high = unsafe { _mm256_loadu_si256(from.wrapping_add(1)) };
        // SAFETY: the first half of a line is a multiple of 32, as the store needs.
        unsafe { _mm256_stream_si256(to, low) };
        // SAFETY: so is the second.
        unsafe { _mm256_stream_si256(to.wrapping_add(1), high) };
    }
}

#[cfg(test)]
mod tests;
