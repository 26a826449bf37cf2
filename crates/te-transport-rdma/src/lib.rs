//! RDMA: one-sided reads and writes over reliable connections.

mod choose;
mod config;
mod memory;
mod nic;
mod peer;
mod publish;
mod published;
mod sync;

pub use config::{
    ConnectionSettings, DeviceSettings, FaultSettings, MemorySettings, Pairing, Parallel,
    RdmaConfig, StorePolicy, WorkSettings,
};
