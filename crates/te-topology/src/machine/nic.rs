//! NICs of a machine: host channel adapters and what imitates them.

use serde::Serialize;

use super::{Locality, PciIndex};
use crate::{LinkLayer, NicName};

/// A NIC that speaks RDMA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Nic {
    /// Its name, such as `mlx5_0`; the PCI address where the source has no names.
    pub name: NicName,
    /// What it is made of.
    pub kind: NicKind,
    /// The PCI function that it is, or that carries it (bond, soft-RoCE).
    pub pci: Option<PciIndex>,
    /// The nodes it is near to.
    pub near: Locality,
    /// Its ports, sorted by number.
    pub ports: Vec<Port>,
    /// Whether the source lists ports, so that a NIC without any has none.
    pub ports_are_known: bool,
    /// Network interfaces on it, sorted.
    pub interfaces: Vec<String>,
}

impl Nic {
    /// Whether it can carry data: a port is active, or nothing is known of ports.
    pub fn is_usable(&self) -> bool {
        !self.ports_are_known || self.ports.iter().any(|port| port.state.may_be_active())
    }

    /// Megabits per second of its fastest port that may be active.
    pub fn rate_mbps(&self) -> Option<u64> {
        let usable = self.ports.iter().filter(|port| port.state.may_be_active());
        usable.filter_map(|port| port.rate_mbps).max()
    }

    /// What its first port that may be active speaks.
    pub fn link_layer(&self) -> Option<LinkLayer> {
        self.ports.iter().find(|port| port.state.may_be_active()).and_then(|port| port.link_layer)
    }
}

/// What a NIC is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NicKind {
    /// A PCI function of its own.
    Hardware,
    /// A virtual function of a NIC.
    VirtualFunction,
    /// Several ports behind one name.
    Bond,
    /// Software on a network interface: soft-RoCE, soft-iWARP.
    Software,
    /// A device without PCI and without network interface.
    Virtual,
}

/// A port of a NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Port {
    /// Counted from 1.
    pub number: u8,
    /// Whether data can pass.
    pub state: PortState,
    /// What it speaks.
    pub link_layer: Option<LinkLayer>,
    /// Megabits per second.
    pub rate_mbps: Option<u64>,
    /// Its address in an InfiniBand subnet; `None` or 0 elsewhere.
    pub lid: Option<u16>,
}

/// The logical state of a port, in the words of the verbs interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PortState {
    /// No link.
    Down,
    /// There is a link and no subnet manager yet.
    Init,
    /// Configured and not yet enabled.
    Armed,
    /// Data can pass.
    Active,
    /// The source does not say.
    Unknown,
}

impl PortState {
    /// By the number in sysfs (`4: ACTIVE`) and in hwloc.
    pub(crate) fn from_text(text: &str) -> Self {
        match text.trim().split(':').next() {
            Some("1") => Self::Down,
            Some("2") => Self::Init,
            Some("3") => Self::Armed,
            // 5 is "active, with the link recovering right now".
            Some("4" | "5") => Self::Active,
            _ => Self::Unknown,
        }
    }

    /// Whether it is active, or nothing is known.
    pub const fn may_be_active(self) -> bool {
        matches!(self, Self::Active | Self::Unknown)
    }
}
