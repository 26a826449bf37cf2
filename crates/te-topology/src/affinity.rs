//! Which NICs serve which memory best.
//!
//! A GPU's NICs are ranked by what the path to them crosses (PIX, PXB, PHB, NODE, SYS), then by the
//! number of bridges on it, then by the distance between their NUMA nodes, then by speed. For the
//! memory of a NUMA node, NICs on it come first, then nearer nodes, then faster NICs.
//!
//! I1  NICs that are equal in all this are one group, and share.
//! I2  What is not known ranks last: a NIC without a node is on none, one without a speed is slow.
//! I3  NICs that cannot carry data (no active port) are in no group.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    DeviceRef, Locality, Machine, MatrixError, MemoryLocation, Nic, NicName, NicTiers, NumaNode,
    PathClass, PriorityMatrix,
};

/// Which NICs serve which memory of a machine, in groups of equals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Affinity {
    rows: Vec<AffinityRow>,
}

/// The NICs of one location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AffinityRow {
    /// Where the memory is.
    pub location: MemoryLocation,
    /// The NUMA nodes it is on.
    pub near: Locality,
    /// Groups of NICs that are equally good, the best first; names in natural order.
    pub groups: Vec<NicGroup>,
}

/// NICs that serve a location equally well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NicGroup {
    /// What the path crosses. For memory of a NUMA node: NODE on the node, SYS elsewhere.
    pub class: PathClass,
    /// Whether they are on a node of the memory.
    pub same_node: bool,
    /// Distance between the nodes, 10 for the same; `None` if a node is unknown.
    pub distance: Option<u32>,
    /// Megabits per second of each.
    pub rate_mbps: Option<u64>,
    /// Their names.
    pub nics: Vec<NicName>,
}

impl Affinity {
    /// Ranks the NICs of a machine for each NUMA node with a number and each GPU.
    pub fn of(machine: &Machine) -> Self {
        let usable: Vec<(usize, &Nic)> =
            machine.nics().iter().enumerate().filter(|(_, nic)| nic.is_usable()).collect();
        let nodes = machine.nodes().iter().map(|node| {
            let near = Locality::told(node.number);
            let rank = |nic: &Nic| node_rank(machine, node.number, nic);
            let groups = groups(usable.iter().map(|(_, nic)| (rank(nic), *nic)));
            AffinityRow { location: MemoryLocation::Cpu(node.number), near, groups }
        });
        let gpus = machine.gpus().iter().enumerate().map(|(position, gpu)| {
            let rank = |nic| gpu_rank(machine, DeviceRef::Gpu(position), &gpu.near, nic);
            let groups = groups(usable.iter().map(|(at, nic)| (rank((*at, nic)), *nic)));
            AffinityRow { location: gpu.location(), near: gpu.near.clone(), groups }
        });
        Self { rows: nodes.chain(gpus).collect() }
    }

    /// The rows: NUMA nodes by number, then GPUs by kind and index.
    pub fn rows(&self) -> &[AffinityRow] {
        &self.rows
    }

    /// The row of a location.
    pub fn row(&self, location: &MemoryLocation) -> Option<&AffinityRow> {
        self.rows.iter().find(|row| row.location == *location)
    }

    /// The matrix that peers are told: the best group is preferred, the others are available, in
    /// their order. With [`Reach::SameNode`] NICs on other nodes are left out.
    ///
    /// # Errors
    /// More locations or NICs than a matrix can have.
    pub fn matrix(&self, reach: Reach) -> Result<PriorityMatrix, MatrixError> {
        let mut matrix = PriorityMatrix::new();
        for row in &self.rows {
            let keep = |group: &&NicGroup| reach == Reach::All || group.same_node;
            let mut lists = row.groups.iter().filter(keep).map(|group| group.nics.clone());
            let preferred = lists.next().unwrap_or_default();
            let tiers = NicTiers { preferred, available: lists.flatten().collect() };
            matrix.insert(&row.location.to_string(), tiers)?;
        }
        Ok(matrix)
    }
}

/// Which NICs a location may use at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reach {
    /// All of the machine, near ones first.
    #[default]
    All,
    /// Those on a NUMA node of the memory only, even if that leaves none.
    SameNode,
}

/// Smaller is better.
type Rank = (PathClass, usize, bool, u32, Reverse<Option<u64>>);

fn gpu_rank(
    machine: &Machine,
    gpu: DeviceRef,
    near: &Locality,
    (position, nic): (usize, &Nic),
) -> Rank {
    let path = machine.pci_path(gpu, DeviceRef::Nic(position));
    let distance = distance(machine, near, &nic.near);
    let known = distance.unwrap_or(u32::MAX);
    (path.class, path.bridges, !near.shares_node_with(&nic.near), known, speed(nic))
}

fn node_rank(machine: &Machine, node: NumaNode, nic: &Nic) -> Rank {
    let on_node = nic.near.includes(node);
    let class = if on_node { PathClass::Node } else { PathClass::Sys };
    let distance = distance(machine, &Locality::told(node), &nic.near).unwrap_or(u32::MAX);
    (class, 0, !on_node, distance, speed(nic))
}

fn speed(nic: &Nic) -> Reverse<Option<u64>> {
    Reverse(nic.rate_mbps())
}

/// The shortest distance between a node of the one and a node of the other.
fn distance(machine: &Machine, from: &Locality, to: &Locality) -> Option<u32> {
    let pairs = from.nodes.iter().flat_map(|a| to.nodes.iter().map(move |b| (*a, *b)));
    pairs.map(|(a, b)| if a == b { 10 } else { machine.distance(a, b) }).min()
}

fn groups<'a>(ranked: impl Iterator<Item = (Rank, &'a Nic)>) -> Vec<NicGroup> {
    let mut by_rank: BTreeMap<Rank, Vec<NicName>> = BTreeMap::new();
    for (rank, nic) in ranked {
        by_rank.entry(rank).or_default().push(nic.name.clone());
    }
    let group = |((class, _, elsewhere, distance, Reverse(rate_mbps)), nics): (Rank, _)| NicGroup {
        class,
        same_node: !elsewhere,
        distance: Some(distance).filter(|distance| *distance != u32::MAX),
        rate_mbps,
        nics,
    };
    by_rank.into_iter().map(group).collect()
}
