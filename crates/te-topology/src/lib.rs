//! What hardware is where: NICs, GPUs, NUMA nodes and the PCI tree between them, and which NIC is
//! near which memory.
//!
//! The lowest crate. It reads `/sys` and `/proc` (or copies of them), lstopo XML, NCCL XML and
//! matrices that users write; it asks the kernel on which nodes pages lie; choices are pure
//! functions on what was read. It opens no device, starts no thread and knows no protocol.

mod affinity;
mod cpuset;
mod gid;
mod location;
mod lstopo;
mod machine;
mod matrix;
mod nccl;
mod nic;
mod numa;
mod path;
mod pci;
mod read;
mod sysfs;
mod xml;

pub use affinity::{Affinity, AffinityRow, NicGroup, Reach};
pub use cpuset::{CpuSet, MAX_CPU};
pub use gid::{
    Gid, GidChoice, GidClass, GidEntry, GidError, GidTable, GidType, GidWish, choose_gid, rank_gids,
};
pub use location::{DeviceKind, MemoryLocation};
pub use lstopo::read_lstopo_xml;
pub use machine::{
    Certainty, Gpu, GpuLink, GpuLinkKind, HostBridge, HostBridgeIndex, Interface, InterfaceKind,
    Locality, Machine, Nic, NicKind, Node, Note, PciDevice, PciIndex, PciKind, Port, PortState,
    Source,
};
pub use matrix::{
    MAX_LOCATION_BYTES, MAX_LOCATIONS, MAX_NICS_PER_LIST, MatrixError, MatrixProblem, NicTiers,
    PriorityMatrix,
};
pub use nccl::read_nccl_xml;
pub use nic::{LinkLayer, MAX_NIC_NAME_BYTES, NicIndex, NicName, ParseNicNameError};
pub use numa::NumaNode;
pub use path::{DeviceRef, PathClass};
pub use pci::{ParsePciAddressError, PciAddress, PciClass, PciLink};
pub use read::{ReadMachineError, read_machine};
pub use sysfs::{CaptureError, MAX_CAPTURE_BYTES, MAX_GIDS, SysTree, read_sysfs, read_tree};
pub use xml::{MAX_XML_BYTES, XmlError};
