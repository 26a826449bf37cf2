//! RDMA: one-sided reads and writes over reliable connections.

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
