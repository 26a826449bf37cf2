//! The calls of `te_c.h`: what Mooncake's library lacks.
#![allow(unsafe_code, reason = "symbols for C have no mangled names; docs/memory-safety.md")]

mod batches;
mod engine;
mod error;
mod peers;
mod transfers;

pub(crate) use engine::make;

use std::time::Duration;

/// A time of a C caller; what is longer than ten years counts as that.
fn time(millis: u64) -> Duration {
    Duration::from_millis(millis.min(10 * 366 * 24 * 3600 * 1000))
}
