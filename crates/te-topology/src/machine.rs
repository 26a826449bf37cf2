//! A machine: its NUMA nodes, PCI tree, NICs, GPUs and network interfaces, and how sure each fact is.
//!
//! I1  An index that is held anywhere in a machine is good in that machine.
//! I2  The parent of a PCI device stands before it, so walking up ends.
//! I3  Nodes are sorted by number, NICs by name (numbers in names count as numbers), GPUs by index.

use serde::Serialize;

use crate::{CpuSet, NumaNode, PciAddress};

mod build;
mod gpu;
mod net;
mod nic;
mod pci;

pub use gpu::{Gpu, GpuLink, GpuLinkKind};
pub use net::{Interface, InterfaceKind};
pub use nic::{Nic, NicKind, Port, PortState};
pub use pci::{HostBridge, HostBridgeIndex, PciDevice, PciIndex, PciKind};

pub(crate) use build::{MachineParts, UNNUMBERED};
pub(crate) use gpu::{gpu_kind, kind_of_vendor};

/// What is in a machine, as far as the source says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    source: Source,
    cpus: CpuSet,
    nodes: Vec<Node>,
    host_bridges: Vec<HostBridge>,
    pci: Vec<PciDevice>,
    nics: Vec<Nic>,
    gpus: Vec<Gpu>,
    gpu_links: Vec<GpuLink>,
    interfaces: Vec<Interface>,
    notes: Vec<Note>,
}

impl Machine {
    /// Where the facts come from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// All CPUs that are online.
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// The NUMA nodes, sorted by number; one that is [`Certainty::Assumed`] if the source has none.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its number.
    pub fn node(&self, number: NumaNode) -> Option<&Node> {
        self.nodes.iter().find(|node| node.number == number)
    }

    /// The roots of the PCI trees.
    pub fn host_bridges(&self) -> &[HostBridge] {
        &self.host_bridges
    }

    /// The PCI bridges, NICs and GPUs; parents stand before their children.
    pub fn pci(&self) -> &[PciDevice] {
        &self.pci
    }

    /// The PCI device with an index of this machine.
    ///
    /// # Panics
    /// If the index is of a larger machine.
    pub fn pci_device(&self, index: PciIndex) -> &PciDevice {
        &self.pci[index.position()]
    }

    /// The PCI device at an address.
    pub fn pci_at(&self, address: PciAddress) -> Option<PciIndex> {
        self.pci.iter().position(|device| device.address == address).and_then(PciIndex::new)
    }

    /// The bridges above a PCI device, nearest first.
    pub fn bridges_above(&self, index: PciIndex) -> impl Iterator<Item = PciIndex> {
        let parent = |index: &PciIndex| self.pci_device(*index).parent;
        std::iter::successors(self.pci_device(index).parent, parent)
    }

    /// The devices right below a bridge, or below a host bridge where `parent` is `None`.
    pub fn children(
        &self,
        host_bridge: HostBridgeIndex,
        parent: Option<PciIndex>,
    ) -> impl Iterator<Item = PciIndex> {
        let here =
            move |device: &PciDevice| device.host_bridge == host_bridge && device.parent == parent;
        let all = self.pci.iter().enumerate().filter(move |(_, device)| here(device));
        all.filter_map(|(position, _)| PciIndex::new(position))
    }

    /// The NICs that speak RDMA, sorted by name.
    pub fn nics(&self) -> &[Nic] {
        &self.nics
    }

    /// The NIC with a name.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name.as_str() == name)
    }

    /// The GPUs, sorted by kind and index.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Links between two GPUs, each pair once; `a` and `b` are positions in [`Self::gpus`].
    pub fn gpu_links(&self) -> &[GpuLink] {
        &self.gpu_links
    }

    /// Network interfaces, sorted by name; empty if the source says nothing of them.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// What was missing or odd, and what was assumed instead.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The distance between two nodes in the kernel's scale, where 10 is the node itself.
    ///
    /// What the source leaves out counts as 10 within a node and 20 between two.
    pub fn distance(&self, from: NumaNode, to: NumaNode) -> u32 {
        let known = |node: &Node| node.distances.iter().find(|d| d.0 == to).map(|d| d.1);
        let assumed = if from == to { 10 } else { 20 };
        self.node(from).and_then(known).unwrap_or(assumed)
    }

    /// The machine without the NICs that `keep` refuses.
    #[must_use]
    pub fn with_nics(mut self, keep: impl Fn(&Nic) -> bool) -> Self {
        self.nics.retain(keep);
        self
    }
}

/// What a machine was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Source {
    /// The kernel's `/sys` and `/proc`, or a copy of them.
    Sysfs,
    /// XML of lstopo (hwloc).
    Lstopo,
    /// XML of NCCL or RCCL.
    Nccl,
}

/// How sure a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// Nothing is known; this is what is taken instead.
    Assumed,
    /// It follows from other facts.
    Inferred,
    /// The source says it.
    Told,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Node {
    /// The kernel's number; numbers may have gaps.
    pub number: NumaNode,
    /// Its CPUs; empty for a node of memory only.
    pub cpus: CpuSet,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Distances to nodes, its own among them; pairs that the source leaves out are missing.
    pub distances: Vec<(NumaNode, u32)>,
    /// How sure it is that this node exists.
    pub certainty: Certainty,
}

/// The NUMA nodes that a device is near to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Locality {
    /// Sorted; empty if nothing is known. Several nodes are equally near.
    pub nodes: Vec<NumaNode>,
    /// How sure that is.
    pub certainty: Certainty,
}

impl Locality {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { nodes: Vec::new(), certainty: Certainty::Assumed };

    /// The source names the node.
    pub fn told(node: NumaNode) -> Self {
        Self { nodes: vec![node], certainty: Certainty::Told }
    }

    /// The node, if it is exactly one.
    pub fn node(&self) -> Option<NumaNode> {
        match self.nodes.as_slice() {
            [node] => Some(*node),
            _ => None,
        }
    }

    /// Whether something is known.
    pub fn is_known(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Whether a node is among the near ones.
    pub fn includes(&self, node: NumaNode) -> bool {
        self.nodes.contains(&node)
    }

    /// Whether both are near one node.
    pub fn shares_node_with(&self, other: &Self) -> bool {
        self.nodes.iter().any(|node| other.includes(*node))
    }

    /// The same nodes, as something that was concluded.
    #[must_use]
    pub fn inferred(mut self) -> Self {
        self.certainty = self.certainty.min(Certainty::Inferred);
        self
    }
}

/// Something that was missing or odd in a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Note {
    /// What it is about: a device, a node, a file.
    pub subject: String,
    /// What was found and what was taken instead.
    pub text: String,
}
