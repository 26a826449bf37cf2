//! The names of Mooncake's Rust binding over te: a program that uses `transfer_engine_rust` moves by
//! naming this crate instead.
//!
//! ```
//! use te_mooncake::{MemoryPool, TransferEngine};
//!
//! let engine = TransferEngine::initialize("127.0.0.1:12345", "P2PHANDSHAKE", "tcp", "")?;
//! let pool = MemoryPool::new(8192);
//! let name = engine.local_ip_and_port()?;
//! // SAFETY: nothing refers to the pool's bytes while they move.
//! unsafe {
//!     engine.register_local_memory(pool.as_void_ptr(), pool.len(), "cpu:0")?;
//!     engine.transfer_sync_write(&name, pool.as_void_ptr(), pool.offset(4096) as u64, 4096)?;
//!     engine.unregister_local_memory(pool.as_void_ptr())?;
//! }
//! # Ok::<(), te_mooncake::EngineError>(())
//! ```
//!
//! Errors are as coarse as there; [`last_failure`] has the rest. This crate keeps no state and starts no
//! thread.

mod address;
mod engine;
mod error;
mod pool;
mod types;

pub use engine::{TransferEngine, TransferEngineOptions};
pub use error::EngineError;
pub use pool::MemoryPool;
pub use te_compat::{Facts, Failure, last_failure};
pub use types::{
    BatchId, BufferEntry, INVALID_BATCH, LOCAL_SEGMENT, NicLoadStat, NotifyMsg, Opcode, SegmentId,
    TransferRequest, TransferStatus, TransferStatusCode, WILDCARD_LOCATION,
};

/// Where older programs look for the engine.
pub mod transfer_engine {
    pub use crate::{TransferEngine, TransferEngineOptions};
}
