//! PCI devices of a machine.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Locality;
use crate::{PciAddress, PciClass, PciLink};

/// The position of a PCI device in its machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PciIndex(u32);

impl PciIndex {
    pub(crate) fn new(position: usize) -> Option<Self> {
        u32::try_from(position).ok().map(Self)
    }

    /// The position in [`Machine::pci`](crate::Machine::pci).
    pub const fn position(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PciIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pci#{}", self.0)
    }
}

impl Serialize for PciIndex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

/// The position of a host bridge in its machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostBridgeIndex(u32);

impl HostBridgeIndex {
    pub(crate) fn new(position: usize) -> Option<Self> {
        u32::try_from(position).ok().map(Self)
    }

    /// The position in [`Machine::host_bridges`](crate::Machine::host_bridges).
    pub const fn position(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for HostBridgeIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host-bridge#{}", self.0)
    }
}

impl Serialize for HostBridgeIndex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

/// The root of a PCI tree: where the CPU's fabric becomes PCI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HostBridge {
    /// A name such as `pci0000:17`; unique in the machine.
    pub name: String,
    /// The nodes it is near to.
    pub near: Locality,
}

/// What a PCI device is in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PciKind {
    /// The port of a host bridge.
    RootPort,
    /// The side of a switch that looks towards the CPU.
    SwitchUpstream,
    /// A side of a switch that looks away from the CPU.
    SwitchDownstream,
    /// A whole switch, in sources that leave its ports out.
    Switch,
    /// Something that does not lead further.
    Endpoint,
}

impl PciKind {
    /// Whether devices may be below it.
    pub const fn is_bridge(self) -> bool {
        !matches!(self, Self::Endpoint)
    }
}

/// A bridge or a device on PCI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PciDevice {
    /// Its address.
    pub address: PciAddress,
    /// Its place in the tree.
    pub kind: PciKind,
    /// Its class.
    pub class: Option<PciClass>,
    /// Vendor and device number.
    pub id: Option<(u16, u16)>,
    /// What its link runs at now.
    pub link: PciLink,
    /// The bridge above it; `None` right below the host bridge.
    pub parent: Option<PciIndex>,
    /// The root of its tree.
    pub host_bridge: HostBridgeIndex,
    /// The nodes it is near to.
    pub near: Locality,
}
