//! What hardware is where: names of memory locations and NICs, and which NIC is near which memory.
//!
//! The lowest crate. It holds names, indices and the affinity matrix that peers publish.
//! It opens no device, reads no file, starts no thread and knows no protocol.

mod location;
mod matrix;
mod nic;
mod numa;

pub use location::{DeviceKind, MemoryLocation};
pub use matrix::{
    MAX_LOCATION_BYTES, MAX_LOCATIONS, MAX_NICS_PER_LIST, MatrixError, MatrixProblem, NicTiers,
    PriorityMatrix,
};
pub use nic::{LinkLayer, MAX_NIC_NAME_BYTES, NicIndex, NicName, ParseNicNameError};
pub use numa::NumaNode;
