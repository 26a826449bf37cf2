//! The transfer engine: read and write pieces of other machines' memory.
//!
//! A process *registers* memory and thereby publishes it as its *segment*. Others *open* the
//! segment by name and *submit* batches of reads and writes by segment and offset; each *task* of a
//! batch ends in exactly one final state. `Completed` means that the bytes are where they should
//! be. Every other final state means that the local memory is free, and says what is known of the
//! remote side.
//!
//! ```
//! use std::time::Duration;
//! use te_engine::{RegisterOptions, TransferEngine, TransferRequest};
//!
//! let target = TransferEngine::builder().name("127.0.0.1").build()?;
//! let theirs = target.allocate(1 << 20)?;
//! target.register(&theirs, RegisterOptions::default())?;
//!
//! let engine = TransferEngine::builder().name("127.0.0.1").build()?;
//! let ours = engine.allocate(4096)?;
//! ours.write_from(0, b"hello")?;
//! let segment = engine.open_segment(target.local_name().as_str())?;
//! let write = TransferRequest::write(ours.whole(), segment, theirs.address());
//! assert_eq!(engine.transfer(&[write], Duration::from_secs(5))?, 4096);
//!
//! let mut seen = [0; 5];
//! theirs.read_into(0, &mut seen)?;
//! assert_eq!(&seen, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! `tcp`, `shm` and `rdma` (all default) are transports; `async` adds futures; `testing` adds what the tests of
//! upper layers need, and is for no product.
//!
//! # Threads
//!
//! An engine has one timer thread, one that answers peers, those of its transports, and short-lived
//! ones for descriptors and notifications. [`TransferEngine`] is `Sync`; all calls may come from
//! any thread. Completions run on transport threads, or on a thread that waits in
//! [`TransferEngine::wait`].
//!
//! # Ending
//!
//! [`TransferEngine::close`], or dropping the engine, settles every task and joins every thread,
//! within a bound.

mod address;
mod admission;
mod alarm;
mod batch;
mod builder;
mod classic;
mod config;
mod data_path;
mod engine;
mod equipment;
mod error;
mod fault_log;
#[cfg(feature = "async")]
mod future;
mod housekeeping;
mod id;
mod inbox;
mod memory;
mod peers;
mod process;
mod publish;
mod quarantine;
mod rdma;
mod registrar;
mod registry;
mod request;
mod retry;
mod scatter;
mod slices;
mod stats;
mod status;
mod submit;
mod sync;
mod task;
#[cfg(test)]
mod testing_support;
mod topology;
mod transports;
mod turnstile;
mod waiting;
mod watching;
mod workers;

pub use builder::EngineBuilder;
pub use config::{
    ConfigError, ConfigWarning, EfaNicSelection, EffectiveValue, EndpointStore, EngineConfig,
    EngineSettings, Environment, LoadOptions, LogLevel, LogSettings, MetadataSettings,
    ParallelRegistration, PathMtu, PeerSettings, ProcessEnvironment, RdmaSettings, SettingProblem,
    Settings, Source, TcpSettings, TopologySettings, UnknownNumber, configuration_reference,
};
pub use engine::{EngineCloseReport, SyncReport, TransferEngine};
pub use error::{
    BatchError, BuildError, EngineError, OpenError, SubmitError, TransferError, WaitError,
};
#[cfg(feature = "async")]
pub use future::{BatchFuture, TransferFuture};
pub use id::BatchId;
pub use rdma::RdmaAbsence;
#[cfg(feature = "rdma")]
pub use rdma::survey_rdma;
pub use request::{RefusedRequest, SubmitTerms, TransferRequest};
pub use scatter::{
    FragmentCallback, FragmentError, FragmentStatus, ScatterOperation, ScatterRange,
};
pub use stats::EngineStats;
pub use status::{BatchStatus, NotifyOutcome, TaskFault, TaskState, TransferStatus};
pub use te_metadata::{
    HostPort, Incarnation, Notify, PeerError, ResolveError, SegmentName, Standing,
};
pub use te_segment::{
    Access, AlignedBuffer, Allocation, AllocationError, CopyError, LocalRange, Opcode, Pages,
    RangeError, Region, RegionError, RegisterError, RegisterOptions, RemoteAccess, RemoteSegment,
    SegmentId, UnregisterError,
};
pub use te_topology::{
    AddressError, CustomTopologyError, MatrixError, MemoryLocation, NicName, NicTiers, NumaNode,
    PriorityMatrix,
};
pub use te_transport::{FaultClass, Phase, RemoteSide, SliceFault, Transport};
#[cfg(feature = "rdma")]
pub use te_transport_rdma::{
    DeviceSurvey as RdmaDevice, Finding as RdmaFinding, GidFamily, GidRow,
    Mismatch as RdmaMismatch, PortSurvey as RdmaPort, Severity as RdmaSeverity,
    Survey as RdmaSurvey, compare as compare_rdma,
};
