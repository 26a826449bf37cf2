//! Which bytes, cut how.
//!
//! Regions of registered memory, the local segment with its guards and generations, the cache of
//! remote descriptors, the cutting of requests into slices, and the rails to a peer. Opens no socket, starts no thread,
//! reads no clock: whatever depends on time takes `now` as an argument.
//!
//! ```
//! use te_segment::{AlignedBuffer, Access, LocalSegment, Region, RegisterOptions};
//!
//! let region = Region::from(AlignedBuffer::zeroed(4096)?);
//! let segment = LocalSegment::new();
//! segment.register(&region, RegisterOptions::default())?;
//! let guard = segment.acquire(region.address() + 16, 64, Access::Write)?;
//! assert_eq!(guard.range().len(), 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod alloc;
mod copy;
mod error;
mod id;
mod local;
mod memory;
mod plan;
mod rail;
mod range;
mod remote;
mod slice;

pub use alloc::{AlignedBuffer, Allocation, AllocationError, Pages};
pub use copy::{CacheGuess, Caching};
pub use error::{AccessError, CopyError, RangeError, RegionError, RegisterError, UnregisterError};
pub use id::{BufferId, SegmentId};
pub use local::{
    Access, BufferGuard, BufferHold, LocalBuffer, LocalSegment, RegisterOptions, RemoteAccess,
    Reservation, Retiring,
};
#[cfg(any(test, feature = "testing"))]
pub use memory::VanishingMemory;
pub use memory::{ForkMark, MapError, Region, SharedMemory, Span};
pub use plan::{Pieces, SlicePolicy};
pub use rail::{RailIndex, RailPauses, RailSet, RailState};
pub use range::{LocalRange, RemoteRange};
pub use remote::{FetchTicket, Lookup, Refresh, RemoteSegment, RemoteSegments};
pub use slice::{Opcode, Slice, SliceToken};
