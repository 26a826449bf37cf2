//! GPUs of a machine, and the links between them that are not PCI.

use serde::Serialize;

use super::{Certainty, Locality, PciIndex};
use crate::{DeviceKind, MemoryLocation, PciClass};

/// An accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Gpu {
    /// Which vendor's counting the index belongs to.
    pub kind: DeviceKind,
    /// Its number. Where no driver says it, GPUs are counted in the order of their PCI addresses,
    /// as `CUDA_DEVICE_ORDER=PCI_BUS_ID` does.
    pub index: u32,
    /// How sure the index is.
    pub certainty: Certainty,
    /// Its function on PCI.
    pub pci: Option<PciIndex>,
    /// The nodes it is near to.
    pub near: Locality,
    /// What the vendor calls it.
    pub model: Option<String>,
}

impl Gpu {
    /// The name of its memory, such as `cuda:0`.
    pub fn location(&self) -> MemoryLocation {
        MemoryLocation::Device { kind: self.kind, index: self.index }
    }
}

/// Which accelerator a PCI function is, by its class and vendor.
///
/// Graphics of servers' management controllers, of CPUs and of virtual machines are none.
pub(crate) fn gpu_kind(class: PciClass, id: Option<(u16, u16)>) -> Option<DeviceKind> {
    let by_vendor = id.and_then(|id| kind_of_vendor(id.0));
    match class.kind() {
        // The class of a card that only computes; files written by hand often leave the vendor out.
        0x0302 if id.is_none() => Some(DeviceKind::Cuda),
        0x0300 if id.is_some_and(|id| MANAGEMENT_GRAPHICS.contains(&id)) => None,
        0x0300 => by_vendor.filter(|kind| matches!(kind, DeviceKind::Cuda | DeviceKind::Hip)),
        0x0302 | 0x0380 | 0x1200 => by_vendor,
        _ => None,
    }
}

/// What a vendor's accelerators are called.
pub(crate) fn kind_of_vendor(vendor: u16) -> Option<DeviceKind> {
    match vendor {
        0x10de => Some(DeviceKind::Cuda),
        0x1002 => Some(DeviceKind::Hip),
        0x1ed5 => Some(DeviceKind::Musa),
        0x9999 => Some(DeviceKind::Maca),
        0xcabc => Some(DeviceKind::Mlu),
        0x1ee0 => Some(DeviceKind::Supa),
        0x19e5 => Some(DeviceKind::Npu),
        _ => None,
    }
}

/// Graphics for the consoles of servers, by a vendor that also makes accelerators: Rage XL, RV100
/// and ES1000.
const MANAGEMENT_GRAPHICS: [(u16, u16); 4] =
    [(0x1002, 0x4752), (0x1002, 0x5159), (0x1002, 0x515e), (0x1002, 0x5969)];

/// A direct link between two GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GpuLink {
    /// Position of the one GPU; smaller than `b`.
    pub a: usize,
    /// Position of the other GPU.
    pub b: usize,
    /// Whose link it is.
    pub kind: GpuLinkKind,
    /// How many lanes are bonded; `None` where the source has only a speed.
    pub count: Option<u32>,
    /// Megabytes per second in one direction, where the source says it.
    pub mb_s: Option<u64>,
    /// Whether a switch is between the two.
    pub switched: bool,
}

/// Whose link it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GpuLinkKind {
    /// NVIDIA.
    NvLink,
    /// AMD.
    Xgmi,
}
