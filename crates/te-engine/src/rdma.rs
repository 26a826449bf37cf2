//! Whether this engine has RDMA, and why not; and which NICs it uses for which memory.
//!
//! ```text
//!   not built, switched off ───────────────▶ absent
//!   no library, no device, a custom topology that is wrong ─▶ absent, or an error where demanded
//!   a NIC of topology.filters that is not here ─▶ an error, because silence would be TCP
//!   no NIC that can be used ───────────────▶ absent, or an error where demanded
//! ```

#[cfg(feature = "rdma")]
mod devices;
#[cfg(feature = "rdma")]
mod look;

use std::error::Error;
use std::sync::Arc;

use te_topology::CustomTopologyError;

#[cfg(feature = "rdma")]
pub(crate) use devices::{Devices, transport};
#[cfg(feature = "rdma")]
pub use look::survey_rdma;

/// Why an engine has no RDMA. What needs none works on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaAbsence {
    /// The feature `rdma` was not compiled in.
    #[error("this build has no RDMA")]
    NotBuilt,
    /// Transports were chosen, or given by the program, and RDMA is not among them.
    #[error("RDMA is switched off by {by}")]
    NotWanted {
        /// What chose them.
        by: &'static str,
    },
    /// The verbs library is not installed, or too old. Debian has it in libibverbs1, and what drives
    /// devices in ibverbs-providers.
    #[error("the verbs library cannot be used")]
    Library(#[source] Box<dyn Error + Send + Sync>),
    /// The devices could not be listed.
    #[error("the RDMA devices cannot be listed")]
    Devices(#[source] Box<dyn Error + Send + Sync>),
    /// The library lists no device: there is none, or its driver is not loaded.
    #[error("there is no RDMA device")]
    NoDevice,
    /// The custom topology is wrong, or names NICs that are not here.
    #[error("the custom topology cannot be used")]
    Topology(#[source] Arc<CustomTopologyError>),
    /// The custom topology names no NIC.
    #[error("the custom topology names no NIC")]
    NoNicNamed,
    /// There are devices, and none of them can be used; the cause names what is wrong with each.
    #[error("RDMA does not start")]
    NotStarted(#[source] te_transport::StartError),
}
