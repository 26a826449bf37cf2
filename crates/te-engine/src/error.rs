//! What the engine's calls can refuse, and the peers' numbers for it.

use std::time::Duration;

use te_metadata::ResolveError;
use te_segment::{RangeError, RegionError, RegisterError, SegmentId, UnregisterError};
use te_transport::StartError;

use crate::id::BatchId;
use crate::rdma::RdmaAbsence;
use crate::status::TaskFault;

/// Why an engine could not be built. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The metadata connection string has a scheme that this build does not have.
    #[error("unknown metadata scheme in {text:?}; available: {available}")]
    UnknownScheme {
        /// The string given.
        text: String,
        /// What there is.
        available: &'static str,
    },
    /// The metadata connection string is wrong, or the service's options are.
    #[error("the metadata service cannot be used")]
    Metadata(#[source] Box<te_metadata::OpenStoreError>),
    /// The name of this engine cannot be used.
    #[error("local name {name:?} cannot be used: {reason}")]
    LocalName {
        /// The name given.
        name: String,
        /// Why.
        reason: String,
    },
    /// This host has no address to tell peers; name one with the setting `peer.advertise_address`.
    #[error("there is no address that peers could be told")]
    Address(#[from] te_topology::AddressError),
    /// The handshake port could not be opened.
    #[error("handshake port cannot be opened")]
    Listen {
        /// Why.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A transport could not start.
    #[error(transparent)]
    Transport(#[from] StartError),
    /// No transport is compiled in or given.
    #[error("no transport: the build has none, and none was given")]
    NoTransport,
    /// A transport was demanded, by the setting `engine.transports` or one that forces it, and this
    /// engine has none of that name.
    #[error(
        "transport {name:?} is demanded, and there is none of that name; there are: {available}"
    )]
    NoSuchTransport {
        /// The name.
        name: String,
        /// The names that there are.
        available: String,
    },
    /// More transports were given than one engine can have.
    #[error("{given} transports are more than the {max} that an engine can have")]
    TooManyTransports {
        /// How many were given.
        given: usize,
        /// The limit.
        max: usize,
    },
    /// RDMA was demanded, and there is none here.
    #[error("RDMA is demanded by {by}, and there is none")]
    NoRdma {
        /// What demands it.
        by: &'static str,
        /// Why there is none.
        #[source]
        cause: RdmaAbsence,
    },
    /// The setting `topology.filters` names NICs that this host does not have. TCP instead of them
    /// would be a surprise: correct the names, or switch RDMA off.
    #[error(
        "topology.filters (MC_TE_FILTERS) names {nics}, which this host does not have; it has {here}"
    )]
    NoSuchNic {
        /// The names, with commas between.
        nics: String,
        /// The NICs that there are, likewise.
        here: String,
        /// Why there is none at all.
        #[source]
        cause: Option<RdmaAbsence>,
    },
    /// The engine's record could not be published.
    #[error("cannot publish the engine's record")]
    Publish(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another living engine has the name; its record tells where it answers.
    #[error("name {name:?} is taken by a living engine, {by}")]
    NameTaken {
        /// The name.
        name: String,
        /// Where the other one answers.
        by: String,
    },
    /// The metadata service did not get done with the engine's record.
    #[error("the record of {name:?} was not published within {waited:?}")]
    PublishTimedOut {
        /// The name.
        name: String,
        /// How long it was waited.
        waited: Duration,
    },
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// Why a segment could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name is not one.
    #[error("segment name {name:?} cannot be used: {reason}")]
    Name {
        /// The name given.
        name: String,
        /// Why.
        reason: String,
    },
    /// Its descriptor could not be had; the cause tells "not found", "malformed" (with the field)
    /// and "unreachable" (with phase and address) apart.
    #[error("segment {name} cannot be opened")]
    Resolve {
        /// The name.
        name: String,
        /// Why.
        #[source]
        cause: Box<ResolveError>,
    },
    /// Somebody else is fetching it and did not end in time.
    #[error("segment {name} was not resolved within {waited:?}")]
    TimedOut {
        /// The name.
        name: String,
        /// How long this call waited.
        waited: Duration,
    },
    /// The engine is closed.
    #[error("the engine is closed")]
    Closed,
    /// See [`BatchError::Forked`].
    #[error("{FORKED}")]
    Forked,
}

/// What a forked child is told.
pub(crate) const FORKED: &str =
    "the engine belongs to the process that this one was forked from; build another engine here";

/// Why a batch call was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// No such batch: never allocated, or freed.
    #[error("{batch:?} is not known")]
    Unknown {
        /// The handle.
        batch: BatchId,
    },
    /// Tasks of the batch are open; poll or wait, then free.
    #[error("{batch:?} is busy: {open} tasks are open")]
    Busy {
        /// The handle.
        batch: BatchId,
        /// Open tasks; 0 where only the notification is outstanding.
        open: usize,
    },
    /// More tasks than the batch was allocated for; nothing of the call was queued.
    #[error("{batch:?} has {used} of {capacity} tasks, {asked} more do not fit")]
    Full {
        /// The handle.
        batch: BatchId,
        /// Its capacity.
        capacity: usize,
        /// Tasks in it.
        used: usize,
        /// Tasks asked for.
        asked: usize,
    },
    /// No such task.
    #[error("{batch:?} has {total} tasks, index {index} is not one of them")]
    NoTask {
        /// The handle.
        batch: BatchId,
        /// The index asked for.
        index: usize,
        /// Tasks in the batch.
        total: usize,
    },
    /// The capacity asked for is above the limit.
    #[error("a batch of {capacity} tasks is above the limit of {max}")]
    TooLarge {
        /// What was asked for.
        capacity: usize,
        /// The limit.
        max: usize,
    },
    /// 2^32 batches are open.
    #[error("too many batches are open")]
    TooMany,
    /// The calling process was forked from the one that built the engine. It has none of the
    /// engine's threads; it can build an engine of its own.
    #[error("{FORKED}")]
    Forked,
}

/// Why a submission was refused; nothing of it was queued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The batch cannot take it.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A request names a segment that is not open.
    #[error("request {index}: {target:?} is not open")]
    UnknownSegment {
        /// Position in the call.
        index: usize,
        /// The segment.
        target: SegmentId,
    },
    /// No transport of this engine reaches the peer.
    #[error(
        "request {index}: no transport for segment {peer}, which offers {offers}; this engine uses {ours}"
    )]
    NoTransport {
        /// Position in the call.
        index: usize,
        /// The peer.
        peer: String,
        /// What the peer offers, names with commas between.
        offers: String,
        /// The transports of this engine, likewise.
        ours: String,
    },
    /// A request's remote range wraps around the address space.
    #[error("request {index}: remote range is not valid")]
    Range {
        /// Position in the call.
        index: usize,
        /// The range.
        #[source]
        cause: RangeError,
    },
    /// A request's local memory is being unregistered.
    #[error("request {index}: local memory at {address:#x} is being unregistered")]
    LocalClosing {
        /// Position in the call.
        index: usize,
        /// First byte.
        address: u64,
    },
    /// Too much is outstanding, and the caller would not wait, or not long enough.
    #[error("{outstanding} requests are outstanding, no room for {asked} more within {waited:?}")]
    Overloaded {
        /// Requests outstanding.
        outstanding: u64,
        /// Requests asked for.
        asked: u64,
        /// How long the call waited.
        waited: Duration,
    },
    /// `submit_with_notify` without a request.
    #[error("a notification needs at least one request")]
    Empty,
    /// The engine is closed.
    #[error("the engine is closed")]
    Closed,
}

/// Why a wait ended without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The batch is not known.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The batch is not final yet; it goes on.
    #[error("{batch:?} was not final within {waited:?}: {open} of {total} tasks are open")]
    TimedOut {
        /// The batch.
        batch: BatchId,
        /// How long this call waited.
        waited: Duration,
        /// Open tasks.
        open: usize,
        /// All tasks.
        total: usize,
    },
}

/// Why a synchronous transfer did not complete. Unless the variant says otherwise every task of it
/// is final: local buffers are free, or the fault says that they are in quarantine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// It was not started.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// A request failed.
    #[error("{failed} of {total} requests failed; the first: {first}")]
    Failed {
        /// Requests that did not complete.
        failed: usize,
        /// All requests.
        total: usize,
        /// The first fault.
        first: Box<TaskFault>,
    },
    /// Tasks did not end after the deadline and the cancel that followed; local buffers are in use.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// One error for callers that do not care which call it came from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Building.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Opening a segment.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A batch call.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Submitting.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// Waiting.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// A synchronous transfer.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Registering.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Unregistering.
    #[error(transparent)]
    Unregister(#[from] UnregisterError),
    /// Memory.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A range outside a region.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// A call to a peer's handshake port.
    #[error(transparent)]
    Peer(#[from] Box<te_metadata::PeerError>),
}

impl EngineError {
    /// Whether a peer did not take a notification because too many wait there already.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Peer(cause) if cause.is_full())
    }

    /// Whether the same call may succeed later, once somebody else has gone on. For a notification
    /// see [`te_metadata::PeerError::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Peer(cause) => cause.is_retryable(),
            Self::Register(cause) => cause.is_retryable(),
            Self::Unregister(cause) => matches!(cause, UnregisterError::Busy { .. }),
            Self::Open(OpenError::Resolve { cause, .. }) => cause.is_retryable(),
            Self::Open(cause) => matches!(cause, OpenError::TimedOut { .. }),
            Self::Submit(cause) => matches!(cause, SubmitError::Overloaded { .. }),
            _ => false,
        }
    }

    /// The integer that the peers' C and Python interfaces give for it (te-classic A54).
    pub fn code(&self) -> i32 {
        match self {
            Self::Register(
                RegisterError::Overlap { .. }
                | RegisterError::OptionsDiffer { .. }
                | RegisterError::Changing { .. }
                | RegisterError::Closing { .. },
            ) => -7,
            Self::Unregister(UnregisterError::NotRegistered { .. }) => -3,
            Self::Unregister(_) | Self::Batch(BatchError::Busy { .. }) => -4,
            Self::Batch(BatchError::Full { .. } | BatchError::TooMany)
            | Self::Submit(
                SubmitError::Batch(BatchError::Full { .. }) | SubmitError::Overloaded { .. },
            ) => -2,
            Self::Open(_) | Self::Build(BuildError::Publish(_)) => -200,
            Self::Build(BuildError::Listen { .. }) | Self::Peer(_) => -102,
            Self::Transfer(TransferError::Wait(_)) | Self::Wait(_) => -301,
            _ => -1,
        }
    }
}
