//! The transfer engine for C.
//!
//! Built as `libtransfer_engine.so`, with the symbols and layouts of Mooncake's C library, and with more
//! under the prefix `te_`. The headers in `include/` are its documentation for users; docs/c.md is the
//! way in. Rust programs use te-engine, or te-mooncake; what is public here are the structs of the
//! headers, for those who compare layouts.
//!
//! ```text
//!   C ──▶ calls/, more/ ──▶ te-compat ──▶ te-engine
//!           │  │
//!           │  └─ raw.rs: pointers of the caller
//!           └─ handle.rs: engines by number
//! ```
//!
//! I1  No panic crosses the border: every call runs inside `te_compat::guarded`.
//! I2  Whatever an argument is, its call answers; only what C cannot tell (see raw.rs) is taken on trust.
//! I3  A call that fails leaves its reason for `te_last_error`; one that succeeds leaves it alone.

mod abi;
mod calls;
mod handle;
mod more;
mod raw;

pub use abi::{
    BatchStatus, BufferEntry, CloseReport, ErrorRecord, NicLoadStat, NotifyMsg, Options,
    ScatterRange, TransferRequest, TransferStatus,
};
