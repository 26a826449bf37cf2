//! RDMA verbs behind one seam.
//!
//! ```text
//!   Verbs ──open──▶ Device ──┬─▶ MemoryRegion     keys of a range of memory
//!                            ├─▶ CompletionQueue  what has ended
//!                            └─▶ QueuePair        what shall move, to one peer
//! ```
//!
//! Everything of one device shares one protection domain. What is made of a device keeps it open.

mod error;
mod event;
#[cfg(any(test, feature = "testing"))]
mod fake;
mod libibverbs;
mod port;
mod queue_pair;
#[cfg(any(test, feature = "testing"))]
mod script;
mod seam;
mod sys;
mod work;

pub use error::{PostError, VerbsCall, VerbsError};
pub use event::DeviceEvent;
#[cfg(any(test, feature = "testing"))]
pub use fake::{Fake, FakeDevice, FakeHost, FakeNic, FakePort, Timers};
pub use libibverbs::Libibverbs;
pub use port::{
    DeviceAttributes, DeviceInfo, GidEntry, GidKind, LinkLayer, Mtu, PortAttributes, PortState,
};
pub use queue_pair::{QueuePairCapacity, QueuePairState, Ready, Route};
#[cfg(any(test, feature = "testing"))]
pub use script::{Link, differences, script};
pub use seam::{CompletionQueue, Device, MemoryAccess, MemoryRegion, QueuePair, Verbs};
#[cfg(any(test, feature = "testing"))]
pub use sys::layout::{Layout, constants, layouts};
pub use work::{Payload, Sge, WorkCompletion, WorkRequest, WorkStatus};
