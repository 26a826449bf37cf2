//! RDMA: one-sided reads and writes over reliable connections, on all NICs of both hosts.
//!
//! ```text
//!   submit ─▶ worker of a NIC ─▶ queue pairs        bytes: no lock, no allocation, no waiting
//!                │      ▲
//!          wants │      │ connections, NICs, memory  (messages, version numbers)
//!                ▼      │
//!              control, devices, memory table       may wait: handshakes, kernel, registration
//! ```
//!
//! `docs/adr/0007-rdma.md` says why, `docs/wire.md` what travels, `docs/waits.md` how long things take.

mod choose;
mod config;
mod control;
mod endpoint;
mod fence;
mod memory;
mod nic;
mod peer;
mod publish;
mod published;
mod store;
mod survey;
mod sync;
mod transport;
mod worker;

pub use config::{
    ConnectionSettings, DeviceSettings, FaultSettings, MemorySettings, Pairing, Parallel,
    RdmaConfig, StorePolicy, WorkSettings,
};
pub use control::Handshakes;
pub use survey::{
    DeviceSurvey, Finding, GidFamily, GidRow, Mismatch, PortSurvey, Severity, Survey, compare,
    survey,
};
pub use transport::{Rdma, RdmaStartError};

/// Its example is compiled with the examples of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
