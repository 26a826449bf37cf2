//! Network interfaces of a machine.

use serde::Serialize;

use super::{Locality, PciIndex};

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// Whether packets can pass: `operstate` is `up`, or `unknown` with the flag for up.
    pub is_up: bool,
    /// Megabits per second.
    pub speed_mbps: Option<u64>,
    /// The PCI function that carries it; for a bond or VLAN that of the first interface below.
    pub pci: Option<PciIndex>,
    /// The nodes it is near to.
    pub near: Locality,
}

/// What an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum InterfaceKind {
    /// It has hardware of its own.
    Hardware,
    /// Several interfaces that act as one.
    Bond,
    /// A VLAN on another interface.
    Vlan,
    /// Any other one without hardware that is none of those below, such as a macvlan or the inner
    /// end of a container's pair.
    Virtual,
    /// A bridge, such as `docker0`.
    Bridge,
    /// A tunnel or overlay, such as `flannel.1`.
    Overlay,
    /// The outer end of a container's pair, or a tap of a virtual machine.
    ContainerLink,
    /// `lo`, or a dummy.
    Loopback,
}

impl InterfaceKind {
    /// Whether other hosts are reached through it as a rule.
    pub const fn leads_outside(self) -> bool {
        matches!(self, Self::Hardware | Self::Bond | Self::Vlan | Self::Virtual)
    }
}
