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
mod port;
mod queue_pair;
mod seam;
mod work;

pub use error::{PostError, VerbsCall, VerbsError};
pub use event::DeviceEvent;
#[cfg(any(test, feature = "testing"))]
pub use fake::{Fake, FakeDevice, FakeHost, FakeNic, FakePort, Timers};
pub use port::{
    DeviceAttributes, DeviceInfo, GidEntry, GidKind, LinkLayer, Mtu, PortAttributes, PortState,
};
pub use queue_pair::{QueuePairCapacity, QueuePairState, Ready, Route};
pub use seam::{CompletionQueue, Device, MemoryAccess, MemoryRegion, QueuePair, Verbs};
pub use work::{Payload, Sge, WorkCompletion, WorkRequest, WorkStatus};
