//! The calls of `transfer_engine_c.h`, in its order.
#![allow(unsafe_code, reason = "symbols for C have no mangled names; docs/memory-safety.md")]
#![allow(non_snake_case, reason = "the names are those of Mooncake's library")]

mod batches;
mod engine;
mod memory;
mod notifies;
mod segments;

pub(crate) use batches::notify;
