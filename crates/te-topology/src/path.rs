//! How far apart two devices are, in the words of `nvidia-smi topo`.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{GpuLinkKind, Locality, Machine, PciIndex, PciKind};

/// A NIC or a GPU of a machine, by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceRef {
    /// A position in [`Machine::nics`].
    Nic(usize),
    /// A position in [`Machine::gpus`].
    Gpu(usize),
}

/// What the path between two devices crosses; nearer classes are smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PathClass {
    /// `X`: they are the same device, or functions of one.
    Same,
    /// `NV#`, `XGMI`: a link between GPUs; with how many lanes, if known.
    GpuLink {
        /// Whose link it is.
        kind: GpuLinkKind,
        /// Lanes bonded.
        count: Option<u32>,
    },
    /// `PIX`: at most one PCI switch or bridge.
    Pix,
    /// `PXB`: several switches or bridges, and no host bridge.
    Pxb,
    /// `PHB`: a host bridge.
    Phb,
    /// `NODE`: host bridges of one NUMA node.
    Node,
    /// `SYS`: the link between NUMA nodes, or nothing is known.
    Sys,
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "X",
            Self::GpuLink { kind: GpuLinkKind::NvLink, count: Some(n) } => {
                return write!(f, "NV{n}");
            }
            Self::GpuLink { kind: GpuLinkKind::NvLink, count: None } => "NV",
            Self::GpuLink { kind: GpuLinkKind::Xgmi, .. } => "XGMI",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        })
    }
}

impl Serialize for PathClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Machine {
    /// What the path between two devices crosses, direct links of GPUs included.
    ///
    /// # Panics
    /// If a position is none of this machine.
    pub fn path(&self, a: DeviceRef, b: DeviceRef) -> PathClass {
        if a == b {
            return PathClass::Same;
        }
        if let (DeviceRef::Gpu(a), DeviceRef::Gpu(b)) = (a, b) {
            let pair = (a.min(b), a.max(b));
            if let Some(link) = self.gpu_links().iter().find(|link| (link.a, link.b) == pair) {
                return PathClass::GpuLink { kind: link.kind, count: link.count };
            }
        }
        self.pci_path(a, b).class
    }

    /// What the path over PCI between two devices crosses, and how many bridges are on it.
    pub(crate) fn pci_path(&self, a: DeviceRef, b: DeviceRef) -> PciPath {
        let ((pci_a, near_a), (pci_b, near_b)) = (self.place(a), self.place(b));
        if let (Some(pci_a), Some(pci_b)) = (pci_a, pci_b)
            && let Some(path) = self.within_root(pci_a, pci_b)
        {
            return path;
        }
        PciPath { class: by_node(near_a, near_b), bridges: 0 }
    }

    fn place(&self, device: DeviceRef) -> (Option<PciIndex>, &Locality) {
        match device {
            DeviceRef::Nic(position) => {
                let nic = &self.nics()[position];
                (nic.pci, &nic.near)
            }
            DeviceRef::Gpu(position) => {
                let gpu = &self.gpus()[position];
                (gpu.pci, &gpu.near)
            }
        }
    }

    /// The path below one host bridge; `None` if the two have different ones.
    fn within_root(&self, a: PciIndex, b: PciIndex) -> Option<PciPath> {
        if self.pci_device(a).host_bridge != self.pci_device(b).host_bridge {
            return None;
        }
        if a == b {
            return Some(PciPath { class: PathClass::Same, bridges: 0 });
        }
        let (above_a, above_b): (Vec<_>, Vec<_>) =
            (self.bridges_above(a).collect(), self.bridges_above(b).collect());
        let met = above_a.iter().position(|bridge| above_b.contains(bridge));
        let Some(hops_a) = met else {
            return Some(PciPath { class: PathClass::Phb, bridges: 0 });
        };
        let common = above_a[hops_a];
        let hops_b = above_b.iter().position(|bridge| *bridge == common).unwrap_or(0);
        // A switch is an upstream port and the downstream ports right below it: one hop in all.
        let own_ports = usize::from(self.pci_device(common).kind == PciKind::SwitchUpstream);
        let single = hops_a <= own_ports && hops_b <= own_ports;
        let class = if single { PathClass::Pix } else { PathClass::Pxb };
        Some(PciPath { class, bridges: hops_a + hops_b + 1 })
    }
}

/// A path over PCI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PciPath {
    pub(crate) class: PathClass,
    /// Bridges up to the common one and down again; 0 where no bridge is common.
    pub(crate) bridges: usize,
}

/// Devices of different host bridges: an unknown node is never the same as another.
fn by_node(a: &Locality, b: &Locality) -> PathClass {
    if a.shares_node_with(b) { PathClass::Node } else { PathClass::Sys }
}
