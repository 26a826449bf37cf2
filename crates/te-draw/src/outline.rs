//! A machine as pictures show it: places, and below each the switches and devices that matter.
//!
//! I1  Each NIC and each GPU is in the outline exactly once.
//! I2  A bridge is in it only if at least two branches meet there. Of a switch that is left out below
//!     another one the device says that it is behind it, since its path to others crosses both.
//! I3  PCI bridges are nested at most [`MAX_DEPTH`] deep; what is deeper hangs on the last of them.

use std::collections::BTreeMap;

use te_topology::{DeviceRef, HostBridgeIndex, Locality, Machine, NumaNode, PciIndex, PciKind};

/// Deepest nesting of PCI bridges that is drawn.
const MAX_DEPTH: usize = 5;

/// Places, those of one NUMA node first, by number; then several nodes, then none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) places: Vec<Place>,
}

/// The devices that are near to the same nodes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Empty if no node is known.
    pub(crate) nodes: Vec<NumaNode>,
    pub(crate) branches: Vec<Branch>,
}

/// A device, or a bridge and what is below it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Branch {
    Device {
        device: DeviceRef,
        /// Switches that lead to this device alone, below one that is shown.
        behind: usize,
    },
    Bridge {
        at: Bridge,
        below: Vec<Self>,
    },
}

/// Where branches meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bridge {
    Host(HostBridgeIndex),
    Pci(PciIndex),
}

impl Outline {
    pub(crate) fn of(machine: &Machine) -> Self {
        let nics = machine.nics().iter().enumerate();
        let gpus = machine.gpus().iter().enumerate();
        let mut placed: Vec<(DeviceRef, &Locality, Option<PciIndex>)> = Vec::new();
        placed.extend(nics.map(|(at, nic)| (DeviceRef::Nic(at), &nic.near, nic.pci)));
        placed.extend(gpus.map(|(at, gpu)| (DeviceRef::Gpu(at), &gpu.near, gpu.pci)));
        let mut keys: Vec<Vec<NumaNode>> =
            machine.nodes().iter().map(|node| vec![node.number]).collect();
        for (_, near, _) in &placed {
            if !keys.contains(&near.nodes) {
                keys.push(near.nodes.clone());
            }
        }
        let order = |key: &Vec<NumaNode>| (key.is_empty(), key.len(), key.clone());
        keys.sort_by_key(order);
        let places = keys.into_iter().map(|nodes| {
            let here = placed.iter().filter(|(_, near, _)| near.nodes == nodes);
            let devices: Vec<_> = here.map(|(device, _, pci)| (*device, *pci)).collect();
            Place { branches: branches(machine, &devices), nodes }
        });
        Self { places: places.collect() }
    }
}

/// The trees over some devices, in the order of the PCI tree; devices without PCI come last.
fn branches(machine: &Machine, devices: &[(DeviceRef, Option<PciIndex>)]) -> Vec<Branch> {
    let mut below: BTreeMap<PciIndex, Vec<Branch>> = BTreeMap::new();
    let mut loose = Vec::new();
    for (device, pci) in devices {
        match pci {
            Some(pci) => below.entry(*pci).or_default().push(Branch::alone(*device)),
            None => loose.push(Branch::alone(*device)),
        }
    }
    let mut roots: BTreeMap<HostBridgeIndex, Vec<Branch>> = BTreeMap::new();
    // Parents stand before their children: the last one has everything that is below it.
    while let Some((index, own)) = below.pop_last() {
        let device = machine.pci_device(index);
        let joined = join(Bridge::Pci(index), own, device.kind);
        let above = match device.parent {
            Some(parent) => below.entry(parent).or_default(),
            None => roots.entry(device.host_bridge).or_default(),
        };
        above.splice(0..0, joined);
    }
    let joined = roots.into_iter().flat_map(|(index, own)| {
        // Below no other switch nothing is told by one that leads to a single device.
        let own: Vec<Branch> = own.into_iter().map(Branch::in_front).collect();
        if own.len() < 2 {
            own
        } else {
            vec![Branch::Bridge { at: Bridge::Host(index), below: own }]
        }
    });
    joined.chain(loose).collect()
}

impl Branch {
    fn alone(device: DeviceRef) -> Self {
        Self::Device { device, behind: 0 }
    }

    /// The same, without switches above it.
    fn in_front(self) -> Self {
        match self {
            Self::Device { device, .. } => Self::alone(device),
            bridge @ Self::Bridge { .. } => bridge,
        }
    }

    fn behind_one_more(self) -> Self {
        match self {
            Self::Device { device, behind } => Self::Device { device, behind: behind + 1 },
            bridge @ Self::Bridge { .. } => bridge,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Self::Device { .. } => 0,
            Self::Bridge { below, .. } => 1 + below.iter().map(Self::depth).max().unwrap_or(0),
        }
    }
}

/// What is below a bridge, as one branch if several meet there. The downstream port of a switch
/// adds nothing to its upstream port.
fn join(at: Bridge, own: Vec<Branch>, kind: PciKind) -> Vec<Branch> {
    let is_switch = matches!(kind, PciKind::SwitchUpstream | PciKind::Switch);
    if own.len() == 1 && is_switch {
        return own.into_iter().map(Branch::behind_one_more).collect();
    }
    let meet = own.len() > 1 && (is_switch || kind == PciKind::RootPort);
    if !meet || own.iter().map(Branch::depth).max() >= Some(MAX_DEPTH) {
        return own;
    }
    vec![Branch::Bridge { at, below: own }]
}

#[cfg(test)]
mod tests;
