//! The contract of moving bytes: one trait, its vocabulary, and the proofs that hold for every
//! implementation.
//!
//! A transport takes [`te_segment::Slice`]s and gives back one [`Completion`] for each. It owns its
//! sockets, queue pairs and threads; the engine owns retry, deadlines and status. `docs/how-to-write-
//! a-transport.md` in the repository walks through one.

mod capability;
mod clock;
mod completion;
mod driver;
mod fault;
mod shared;
mod spin;
mod threads;
mod transport;

#[cfg(feature = "testing")]
pub mod testing;

pub use capability::Capabilities;
pub use clock::{Clock, SystemClock};
pub use completion::{Completion, CompletionSink, RemoteSide};
pub use driver::{Core, Driver, Step, Waker, is_in_step};
pub use fault::{FaultClass, Phase, SliceFault};
pub use threads::Threads;
pub use transport::{
    CloseReport, Driven, SliceSource, StartError, Transport, TransportContext,
    TransportRegisterError,
};
