//! PCI devices: `bus/pci/devices`. Only NICs, GPUs, what carries them, and the bridges above.

use std::collections::HashMap;

use super::SysTree;
use super::tree::Folder;
use crate::machine::{MachineParts, gpu_kind};
use crate::{
    CpuSet, HostBridgeIndex, Locality, NumaNode, PciAddress, PciClass, PciDevice, PciIndex,
    PciKind, PciLink,
};

/// More devices than this are not looked at.
const MAX_DEVICES: usize = 65_536;

/// The PCI devices found so far, by their path in the tree.
pub(super) struct PciReader {
    known: HashMap<String, PciIndex>,
    gpus: Vec<PciIndex>,
}

pub(super) fn read(tree: &SysTree, parts: &mut MachineParts) -> PciReader {
    let mut reader = PciReader { known: HashMap::new(), gpus: Vec::new() };
    let Some(list) = tree.folder("sys/bus/pci/devices") else {
        parts.note("bus/pci/devices", "there is no PCI bus");
        return reader;
    };
    for name in list.names().iter().take(MAX_DEVICES) {
        let Some(folder) = list.folder(name) else {
            parts.note(name.as_str(), "the link to the PCI device leads nowhere");
            continue;
        };
        let class = folder.line("class").and_then(|text| PciClass::parse(&text));
        let Some(class) = class else { continue };
        let is_gpu = may_be_gpu(class) && gpu_kind(class, id(&folder)).is_some();
        if class.is_network() || is_gpu {
            let index = reader.add(tree, parts, folder.path());
            reader.gpus.extend(index.filter(|_| is_gpu));
        }
    }
    reader
}

impl PciReader {
    /// The nearest PCI device at or above a path of the tree; it is added if it is new.
    pub(super) fn above(
        &mut self,
        tree: &SysTree,
        parts: &mut MachineParts,
        path: &str,
    ) -> Option<PciIndex> {
        let mut path = path;
        loop {
            let (above, name) = path.rsplit_once('/')?;
            if name.parse::<PciAddress>().is_ok() && name.len() >= FULL_ADDRESS {
                return self.add(tree, parts, path);
            }
            path = above;
        }
    }

    /// Adds the device at a path and the bridges above it.
    fn add(&mut self, tree: &SysTree, parts: &mut MachineParts, path: &str) -> Option<PciIndex> {
        if let Some(index) = self.known.get(path) {
            return Some(*index);
        }
        let names: Vec<&str> = path.split('/').collect();
        let is_device = |name: &&str| name.parse::<PciAddress>().is_ok();
        let n_devices = names.iter().rev().take_while(|name| is_device(name)).count();
        let first = names.len() - n_devices;
        let root = names[..first].last().copied().unwrap_or("pci");
        let mut parent = None;
        for end in first..names.len() {
            let path = names[..=end].join("/");
            let index = match self.known.get(&path) {
                Some(index) => *index,
                None => {
                    let device = describe(tree, parts, &path, (root, parent))?;
                    let index = parts.add_pci(device)?;
                    self.known.insert(path, index);
                    index
                }
            };
            parent = Some(index);
        }
        parent
    }

    /// Makes GPUs of the devices that are some, once all of the tree is known.
    pub(super) fn add_gpus(self, tree: &SysTree, parts: &mut MachineParts) {
        for index in self.gpus {
            let address = parts.pci[index.position()].address;
            if let Some(gpu) = parts.add_gpu_by_class(index) {
                parts.gpus[gpu].model = model(tree, address);
            }
        }
    }
}

/// What NVIDIA's driver calls a GPU, where it is loaded.
fn model(tree: &SysTree, address: PciAddress) -> Option<String> {
    let text = tree.text(&format!("proc/driver/nvidia/gpus/{address}/information"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(line.trim().chars().take(MAX_MODEL).collect())
}

/// Characters of a model's name that are kept.
const MAX_MODEL: usize = 80;
/// Length of `0000:00:00.0`: shorter names in paths are no addresses of devices.
const FULL_ADDRESS: usize = 12;

fn may_be_gpu(class: PciClass) -> bool {
    matches!(class.kind(), 0x0300 | 0x0302 | 0x0380 | 0x1200)
}

fn describe(
    tree: &SysTree,
    parts: &mut MachineParts,
    path: &str,
    (root, parent): (&str, Option<PciIndex>),
) -> Option<PciDevice> {
    let folder = tree.folder(path)?;
    let address: PciAddress = path.rsplit('/').next()?.parse().ok()?;
    let own = locality(&folder, parts);
    let near = match parent {
        Some(parent) if !own.is_known() => parts.pci[parent.position()].near.clone().inferred(),
        _ => own,
    };
    let host_bridge: HostBridgeIndex = parts.host_bridge(root, &near)?;
    let class = folder.line("class").and_then(|text| PciClass::parse(&text));
    let speed = folder.line("current_link_speed");
    let width = folder.line("current_link_width");
    let bridge = class.is_some_and(PciClass::is_pci_bridge);
    Some(PciDevice {
        address,
        kind: if bridge { PciKind::SwitchUpstream } else { PciKind::Endpoint },
        class,
        id: id(&folder),
        link: PciLink::parse(speed.as_deref(), width.as_deref()),
        parent,
        host_bridge,
        near,
    })
}

/// Vendor and device.
fn id(folder: &Folder<'_>) -> Option<(u16, u16)> {
    let number = |name: &str| {
        let text = folder.line(name)?;
        u16::from_str_radix(text.strip_prefix("0x").unwrap_or(&text), 16).ok()
    };
    number("vendor").zip(number("device"))
}

/// The node that the kernel names; else that of the CPUs it calls local.
pub(super) fn locality(folder: &Folder<'_>, parts: &MachineParts) -> Locality {
    let told = folder.line("numa_node").and_then(|text| text.parse::<u32>().ok());
    let told = told.map(NumaNode::new);
    if let Some(node) = told.filter(|node| is_known(parts, *node)) {
        return Locality::told(node);
    }
    let list = folder.line("local_cpulist").and_then(|text| CpuSet::parse_list(&text));
    let mask = || folder.line("local_cpus").and_then(|text| CpuSet::parse_mask(&text));
    match list.or_else(mask) {
        Some(cpus) if !cpus.is_empty() => parts.nodes_of_cpus(&cpus),
        _ => Locality::UNKNOWN,
    }
}

fn is_known(parts: &MachineParts, node: NumaNode) -> bool {
    parts.nodes.iter().any(|known| known.number == node)
}
