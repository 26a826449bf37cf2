//! What hardware is where: NICs, GPUs, NUMA nodes and the PCI tree between them, and which NIC is
//! near which memory.
//!
//! The lowest crate. It reads `/sys` and `/proc` (or copies of them), lstopo XML, NCCL XML and
//! matrices that users write; it asks the kernel on which nodes pages lie; choices are pure
//! functions on what was read. It opens no device, starts no thread and knows no protocol.

mod address;
mod affinity;
mod cpuset;
mod custom;
mod filter;
mod gid;
mod location;
mod lstopo;
mod machine;
mod matrix;
mod nccl;
mod nic;
mod numa;
mod pages;
mod path;
mod pci;
mod placement;
mod ranked;
mod read;
mod select;
mod sysfs;
mod xml;

pub use address::{
    AddressChoice, AddressError, AddressReason, AddressWish, HostInterface, choose_address,
};
pub use affinity::{Affinity, AffinityRow, NicGroup, Reach};
pub use cpuset::{CpuSet, MAX_CPU};
pub use custom::{CustomTopology, CustomTopologyError, MAX_CUSTOM_BYTES};
pub use filter::NicFilter;
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
    PriorityMatrix, RowFault,
};
pub use nccl::read_nccl_xml;
pub use nic::{LinkLayer, MAX_NIC_NAME_BYTES, NicIndex, NicName, ParseNicNameError};
pub use numa::NumaNode;
pub use pages::{KernelPages, PageNodes};
pub use path::{DeviceRef, PathClass};
pub use pci::{ParsePciAddressError, PciAddress, PciClass, PciLink};
pub use placement::{EXACT_PAGES, PageRun, Placement, PlacementError};
pub use ranked::{MAX_RANKED, RankedError, RankedMemory, RankedNic, RankedTopology, Ranks};
pub use read::{ReadMachineError, read_machine};
pub use select::{AffinityRuleError, NicPick, NicSelector, PeerAffinity, Picker, SelectError};
pub use sysfs::{CaptureError, MAX_CAPTURE_BYTES, MAX_GIDS, SysTree, read_sysfs, read_tree};
pub use xml::{MAX_XML_BYTES, XmlError};

/// Its example is compiled with the examples of this crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
