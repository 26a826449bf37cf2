//! What can go wrong with memory, ranges and registration.

use std::io;

use crate::id::BufferId;

/// Why memory cannot become a [`crate::Region`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The pointer is null.
    #[error("region starts at address 0")]
    Null,
    /// The length is zero.
    #[error("region at {address:#x} has length 0")]
    Empty {
        /// Start of the range.
        address: u64,
    },
    /// The range wraps around the end of the address space.
    #[error("region of {len} bytes at {address:#x} wraps around the address space")]
    Wraps {
        /// Start of the range.
        address: u64,
        /// Bytes.
        len: u64,
    },
    /// The range is longer than [`crate::Region::MAX_LEN`].
    #[error("region of {len} bytes at {address:#x} is longer than {max} bytes")]
    TooLong {
        /// Start of the range.
        address: u64,
        /// Bytes.
        len: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// Part of the range is not mapped into this process, or not readable.
    #[error("{len} bytes at {address:#x} are not wholly mapped and readable")]
    Unmapped {
        /// Start of the range.
        address: u64,
        /// Bytes.
        len: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// The part is not inside the region it was asked of.
    #[error(transparent)]
    Outside(#[from] RangeError),
    /// The system gave no memory for an engine-allocated buffer.
    #[error("no memory for a buffer of {len} bytes")]
    NoMemory {
        /// Bytes.
        len: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}

/// A range that does not lie inside what it was taken from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("range of {len} bytes at offset {offset} does not lie inside {within} bytes")]
pub struct RangeError {
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Length in bytes of what it was taken from.
    pub within: u64,
}

/// Why bytes could not be copied to or from a region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Outside the region.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The memory is gone: its owner unmapped it, or it is read-only.
    #[error("memory at {address:#x} cannot be copied")]
    Fault {
        /// Where.
        address: u64,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}

/// Why a registration was refused. Nothing was registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The engine cannot serve the call.
    #[error("cannot register: {reason}")]
    Unavailable {
        /// Why.
        reason: &'static str,
    },
    /// The memory itself is not usable.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// It overlaps another registered buffer, one that is being registered or unregistered, or
    /// another of the same call (te-classic C21, C23). The same range has errors of its own.
    #[error("{len} bytes at {address:#x} overlap the buffer at {other:#x}")]
    Overlap {
        /// Start of the refused range.
        address: u64,
        /// Its bytes.
        len: u64,
        /// Start of the range it overlaps.
        other: u64,
    },
    /// The same range is registered with other options.
    #[error("{len} bytes at {address:#x} are registered already, with other options")]
    OptionsDiffer {
        /// Start of the range.
        address: u64,
        /// Its bytes.
        len: u64,
    },
    /// Another call is registering or unregistering the same range, and did not end in time. Try
    /// again.
    #[error("{len} bytes at {address:#x} are being registered or unregistered by another call")]
    Changing {
        /// Start of the range.
        address: u64,
        /// Its bytes.
        len: u64,
    },
    /// The same range was to be unregistered, and transfers have not let go of it: its last
    /// unregistration answered [`UnregisterError::Busy`]. Unregister it to the end, then try again.
    #[error(
        "{len} bytes at {address:#x} are still to be unregistered: {in_flight} transfers use them"
    )]
    Closing {
        /// Start of the range.
        address: u64,
        /// Its bytes.
        len: u64,
        /// Guards that are still held.
        in_flight: u64,
    },
    /// A transport refused the buffer; every other transport was rolled back.
    #[error("transport {transport} refused {len} bytes at {address:#x}")]
    Transport {
        /// Which transport.
        transport: &'static str,
        /// Start of the range.
        address: u64,
        /// Its bytes.
        len: u64,
        /// What it said.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl RegisterError {
    /// Whether the same call may succeed later, once others have ended what they do.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Changing { .. } | Self::Closing { .. })
    }
}

/// Why a buffer was not unregistered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnregisterError {
    /// The engine cannot serve the call.
    #[error("cannot unregister: {reason}")]
    Unavailable {
        /// Why.
        reason: &'static str,
    },
    /// No buffer starts at this address.
    #[error("no registered buffer starts at {address:#x}")]
    NotRegistered {
        /// The address asked for.
        address: u64,
    },
    /// Transfers did not let go of the buffer in time. It takes no new work and stays registered
    /// until a later call succeeds.
    #[error("buffer at {address:#x} is still used by {in_flight} transfers")]
    Busy {
        /// Start of the buffer.
        address: u64,
        /// Guards that are still held.
        in_flight: u64,
    },
}

/// Why a range of the local segment is not open to a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The range is not inside one registered buffer. Touching buffers do not combine (J50).
    #[error("{len} bytes at {address:#x} are not inside one registered buffer")]
    NotRegistered {
        /// Start asked for.
        address: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// The length is 0, or the range wraps.
    #[error("range of {len} bytes at {address:#x} is empty or wraps")]
    Invalid {
        /// Start asked for.
        address: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// The handle names no registered buffer: it was unregistered, or never was one.
    #[error("no buffer of generation {generation} is in slot {slot}")]
    NoSuchBuffer {
        /// Slot asked for.
        slot: u32,
        /// Generation asked for.
        generation: u32,
    },
    /// The range is not inside the buffer that was named.
    #[error("{len} bytes at offset {offset} are not inside {buffer:?}")]
    Outside {
        /// The buffer.
        buffer: BufferId,
        /// Offset asked for.
        offset: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// The buffer was registered without this right.
    #[error("{buffer:?} does not allow this access")]
    Forbidden {
        /// The buffer.
        buffer: BufferId,
    },
    /// The buffer is being unregistered.
    #[error("{buffer:?} is being unregistered")]
    Closed {
        /// The buffer.
        buffer: BufferId,
    },
}
