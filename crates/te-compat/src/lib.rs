//! The calls of Mooncake's Transfer Engine over `te-engine`: what its C, Python and Rust surfaces
//! share.
//!
//! Segments and batches are numbers, memory is an address and a length, and a call fails with a
//! [`Failure`], which has Mooncake's number for it ([`Code`]) and everything that is known: phase, peer,
//! request, attempts, causes, what became of the memory on both sides. A surface translates names and
//! types and keeps no state of its own.
//!
//! ```
//! use te_compat::{Buffer, CallerMemory, Engine, Opcode, Options, Piece};
//!
//! // SAFETY: nothing but this example uses the two buffers, and only by address.
//! let memory = unsafe { CallerMemory::promise() };
//! let target = Engine::new(&Options::new("P2PHANDSHAKE", "127.0.0.1"), memory)?;
//! let engine = Engine::new(&Options::new("P2PHANDSHAKE", "127.0.0.1"), memory)?;
//! let (ours, theirs) = (engine.allocate(4096)?, target.allocate(4096)?);
//! engine.register(Buffer { address: ours.address(), len: 4096 }, "*", true)?;
//! target.register(Buffer { address: theirs.address(), len: 4096 }, "*", true)?;
//! let piece = Piece { local: ours.address(), remote: theirs.address(), len: 4096 };
//! engine.transfer_sync(Opcode::Write, target.local_name(), piece)?;
//! # Ok::<(), te_compat::Failure>(())
//! ```
//!
//! # Threads
//!
//! This crate starts no thread of its own, except for [`enable_graceful_shutdown`]. Every call may come
//! from any thread.

mod batch;
mod bell;
mod code;
mod complaints;
mod describe;
mod door;
mod engine;
mod failure;
mod later;
mod logging;
mod managed;
mod memory;
mod message;
mod options;
mod regions;
mod request;
mod scatter;
mod segments;
mod shutdown;
mod started;
mod sync;
mod transfer;

pub use batch::{BatchState, INVALID_BATCH, TaskStatus};
pub use bell::Bell;
pub use code::Code;
pub use complaints::complain;
pub use describe::{NicLoad, local_topology};
pub use door::CallerMemory;
pub use engine::Engine;
pub use failure::{
    Facts, Failure, LocalState, answer, answer_status, clear_last_failure, guarded, last_failure,
    set_last_failure,
};
pub use later::Check;
pub use logging::start_logging;
pub use memory::Buffer;
pub use message::PROBE_TIMEOUT;
pub use options::{Options, Protocol};
pub use request::{OPCODE_READ, OPCODE_WRITE, Piece, Request, opcode, pieces};
pub use scatter::Scatter;
pub use segments::LOCAL_SEGMENT;
pub use shutdown::enable_graceful_shutdown;
pub use sync::Moved;
pub use te_engine::{
    EngineCloseReport, EngineConfig, FragmentStatus, Notify, NotifyOutcome, Opcode, Region,
    RemoteAccess, RemoteSide, SyncReport, TaskState,
};
pub use transfer::{Transfer, TransferOptions};
