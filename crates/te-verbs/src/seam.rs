//! The seam: what a provider of verbs can do.
//!
//! Calls may come from any thread. None waits for a peer, with one exception that is the system's:
//! [`QueuePair::to_ready_to_receive`] may take seconds where the peer's address must be resolved.
//!
//! I1  Registered memory stays mapped while its [`MemoryRegion`] lives, because that keeps the
//!     region; what a device may still touch is its caller's to wait for.
//! I2  What was posted completes exactly once while its queue pair lives: signaled or failed
//!     requests by a completion of their own, unsignaled ones by a later completion of the same
//!     queue pair. Dropping a queue pair drops what it had not yet completed.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use te_segment::{LocalRange, RemoteAccess};
use te_topology::NicName;

use crate::error::{PostError, VerbsError};
use crate::event::DeviceEvent;
use crate::port::{DeviceAttributes, DeviceInfo, GidEntry, PortAttributes};
use crate::queue_pair::{QueuePairCapacity, QueuePairState, Ready, Route};
use crate::work::{WorkCompletion, WorkRequest};

/// A provider of devices.
pub trait Verbs: Debug + Send + Sync {
    /// The devices that are there. A machine without RDMA in its kernel has none.
    ///
    /// # Errors
    /// The list could not be read.
    fn devices(&self) -> Result<Vec<DeviceInfo>, VerbsError>;

    /// Opens a device with a protection domain of its own.
    ///
    /// # Errors
    /// There is none of that name, or it refused.
    fn open(&self, name: &NicName) -> Result<Arc<dyn Device>, VerbsError>;
}

/// What may be done to registered memory. Local reads always may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryAccess {
    /// What peers may do with it.
    pub remote: RemoteAccess,
    /// Writes may pass each other on PCI. Where the library knows no such registration it is made
    /// without.
    pub relaxed_ordering: bool,
}

/// An open device.
pub trait Device: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &NicName;

    /// Its limits, as they were when it was opened.
    fn attributes(&self) -> &DeviceAttributes;

    /// A port as it is now.
    ///
    /// # Errors
    /// There is no such port, or the device is gone.
    fn port(&self, port: u8) -> Result<PortAttributes, VerbsError>;

    /// The GID table of a port, without empty rows.
    ///
    /// # Errors
    /// It could not be read.
    fn gids(&self, port: u8) -> Result<Vec<GidEntry>, VerbsError>;

    /// Readable while an asynchronous event waits.
    fn event_fd(&self) -> BorrowedFd<'_>;

    /// The next asynchronous event, without waiting.
    ///
    /// # Errors
    /// The device is gone.
    fn next_event(&self) -> Result<Option<DeviceEvent>, VerbsError>;

    /// Registers memory with the device.
    ///
    /// # Errors
    /// It was refused: too long, too many, or not to be pinned.
    fn register(
        &self,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError>;

    /// Registers a part of a dma-buf, which will have addresses from `address` on.
    ///
    /// # Errors
    /// As above; a device may know no dma-bufs (`EOPNOTSUPP`).
    fn register_dmabuf(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        memory: &LocalRange,
        access: MemoryAccess,
    ) -> Result<Box<dyn MemoryRegion>, VerbsError>;

    /// A completion queue with a channel of its own.
    ///
    /// # Errors
    /// Too many entries or queues.
    fn completion_queue(&self, entries: u32) -> Result<Arc<dyn CompletionQueue>, VerbsError>;

    /// A reliable connected queue pair in RESET, whose completions go to `queue`, which must be one
    /// of this device.
    ///
    /// # Errors
    /// Too large, or too many.
    fn queue_pair(
        &self,
        queue: &Arc<dyn CompletionQueue>,
        capacity: QueuePairCapacity,
    ) -> Result<Arc<dyn QueuePair>, VerbsError>;
}

/// Registered memory. Dropped, the keys are void.
pub trait MemoryRegion: Debug + Send + Sync {
    /// The key for our own work requests.
    fn lkey(&self) -> u32;

    /// The key for peers; useless where [`MemoryAccess::remote`] allows nothing.
    fn rkey(&self) -> u32;
}

/// What has ended.
pub trait CompletionQueue: Debug + Send + Sync {
    /// Takes completions into `out`, from its start, and says how many; never waits.
    ///
    /// # Errors
    /// The queue failed, and gives nothing any more.
    fn poll(&self, out: &mut [WorkCompletion]) -> Result<usize, VerbsError>;

    /// Makes [`CompletionQueue::channel_fd`] readable at the next completion. Whoever arms polls
    /// once more before waiting.
    ///
    /// # Errors
    /// The queue failed.
    fn arm(&self) -> Result<(), VerbsError>;

    /// Readable after a completion, once it was armed.
    fn channel_fd(&self) -> BorrowedFd<'_>;

    /// Takes back that the channel is readable.
    ///
    /// # Errors
    /// The channel failed.
    fn acknowledge(&self) -> Result<(), VerbsError>;

    /// For a provider to recognise its own.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// One end of a reliable connection. Dropped, it is destroyed.
pub trait QueuePair: Debug + Send + Sync {
    /// Its number, 24 bits.
    fn number(&self) -> u32;

    /// The queue that its completions go to.
    fn queue(&self) -> &Arc<dyn CompletionQueue>;

    /// RESET to INIT.
    ///
    /// # Errors
    /// The port or the partition is not there.
    fn to_init(&self, port: u8, pkey_index: u16) -> Result<(), VerbsError>;

    /// INIT to RTR. May take seconds where the peer's address must be resolved.
    ///
    /// # Errors
    /// The route cannot be had.
    fn to_ready_to_receive(&self, route: &Route) -> Result<(), VerbsError>;

    /// RTR to RTS.
    ///
    /// # Errors
    /// It is in another state.
    fn to_ready_to_send(&self, ready: &Ready) -> Result<(), VerbsError>;

    /// To ERR: what was posted ends as flushed, and peers cannot touch memory through it.
    ///
    /// # Errors
    /// The device is gone.
    fn to_error(&self) -> Result<(), VerbsError>;

    /// To RESET: its queues are empty then, and what was posted is forgotten.
    ///
    /// # Errors
    /// The device is gone.
    fn to_reset(&self) -> Result<(), VerbsError>;

    /// Its state, asked of the device.
    ///
    /// # Errors
    /// The device is gone.
    fn state(&self) -> Result<QueuePairState, VerbsError>;

    /// Posts work requests as one chain, in order.
    ///
    /// # Errors
    /// [`PostError`] says how many were posted. Where it says all of them, the provider did not name
    /// the one that it refused: each may be posted, or not.
    fn post(&self, requests: &[WorkRequest<'_>]) -> Result<(), PostError>;
}
