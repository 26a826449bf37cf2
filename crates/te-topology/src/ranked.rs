//! The matrix in the form of Mooncake's second engine ("TENT"): NICs and memories with numbers, and
//! three ranks of NICs for each memory.
//!
//! I1  A value that exists is whole: every number in a rank is a NIC of its list, and no NIC stands
//!     twice in the ranks of one memory.
//! I2  Printing and parsing again gives an equal value.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::{
    Affinity, AffinityRow, DeviceKind, Machine, MatrixError, MemoryLocation, NicName, NicTiers,
    NumaNode, PathClass, PciIndex, PriorityMatrix,
};

mod check;

/// Most NICs and most memories of a ranked topology.
pub const MAX_RANKED: usize = 4096;

/// NICs, memories, and which NIC serves which memory how well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankedTopology {
    /// The NICs; their places are their numbers.
    nics: Vec<RankedNic>,
    /// The memories.
    mems: Vec<RankedMemory>,
}

/// A NIC with what peers are told of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RankedNic {
    /// Its name.
    pub name: String,
    /// Its PCI address; empty if it has none.
    #[serde(default)]
    pub pci_bus_id: String,
    /// 0 RDMA, 1 TCP, 2 unknown, 3 UB.
    #[serde(rename = "type")]
    pub kind: u8,
    /// Its NUMA node, −1 if that is unknown.
    #[serde(default = "unknown")]
    pub numa_node: i32,
    /// What else is told of it; kept as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_attrs: Option<Value>,
}

/// A memory with the NICs that serve it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RankedMemory {
    /// Its location, such as `cpu:0`.
    pub name: String,
    /// The PCI address of an accelerator; empty for host memory.
    #[serde(default)]
    pub pci_bus_id: String,
    /// 0 host, 1 CUDA, 2 ROCm, 3 Ascend, 4 unknown.
    #[serde(rename = "type")]
    pub kind: u8,
    /// Its NUMA node, −1 if that is unknown.
    #[serde(default = "unknown")]
    pub numa_node: i32,
    /// Numbers of NICs, the best first.
    pub device_list: Ranks,
}

/// Numbers of NICs in three ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ranks {
    /// The nearest ones.
    pub rank0: Vec<u32>,
    /// Others on the same NUMA node.
    pub rank1: Vec<u32>,
    /// All others.
    pub rank2: Vec<u32>,
}

impl RankedTopology {
    /// Reads the JSON text.
    ///
    /// # Errors
    /// Text that is no JSON of this shape; and all faults of the numbers, names and lists in it.
    pub fn parse(text: &str) -> Result<Self, RankedError> {
        let topology: Self = serde_json::from_str(text).map_err(RankedError::Json)?;
        let faults = check::faults(&topology);
        if faults.is_empty() { Ok(topology) } else { Err(RankedError::Faults { faults }) }
    }

    /// What the second engine publishes of a machine, the wildcard `*` with all NICs last.
    pub fn of(machine: &Machine, affinity: &Affinity) -> Self {
        let nics: Vec<RankedNic> = machine
            .nics()
            .iter()
            .filter(|nic| nic.is_usable())
            .map(|nic| RankedNic {
                name: nic.name.to_string(),
                pci_bus_id: address(machine, nic.pci),
                kind: 0,
                numa_node: node(nic.near.node()),
                device_attrs: None,
            })
            .collect();
        let number: HashMap<&str, u32> =
            nics.iter().zip(0..).map(|(nic, at)| (nic.name.as_str(), at)).collect();
        let mut mems: Vec<RankedMemory> = affinity
            .rows()
            .iter()
            .map(|row| RankedMemory {
                name: row.location.to_string(),
                pci_bus_id: address_of(machine, &row.location),
                kind: kind_of(&row.location),
                numa_node: node(row.near.node()),
                device_list: ranks(row, &number),
            })
            .collect();
        mems.push(wildcard(Ranks { rank2: (0..).take(nics.len()).collect(), ..Ranks::default() }));
        Self { nics, mems }
    }

    /// The ranked form of a matrix of two lists: preferred NICs in rank 0, available ones in rank
    /// 1, and a wildcard with all of them.
    pub fn from_matrix(matrix: &PriorityMatrix) -> Self {
        let names = matrix.nics();
        let number: HashMap<&NicName, u32> =
            names.iter().zip(0..).map(|(name, at)| (*name, at)).collect();
        let nic = |name: &&NicName| RankedNic {
            name: name.to_string(),
            pci_bus_id: String::new(),
            kind: 0,
            numa_node: -1,
            device_attrs: None,
        };
        let ranks = |tiers: &NicTiers| {
            let mut seen = HashSet::new();
            let mut list = |names: &[NicName]| -> Vec<u32> {
                let numbers = names.iter().filter_map(|name| number.get(name).copied());
                numbers.filter(|at| seen.insert(*at)).collect()
            };
            Ranks {
                rank0: list(&tiers.preferred),
                rank1: list(&tiers.available),
                rank2: Vec::new(),
            }
        };
        let mut mems: Vec<RankedMemory> = matrix
            .rows()
            .filter(|(name, _)| *name != WILDCARD)
            .map(|(name, tiers)| RankedMemory {
                name: name.to_owned(),
                pci_bus_id: String::new(),
                kind: kind_of(&name.into()),
                numa_node: node_of(&name.into()),
                device_list: ranks(tiers),
            })
            .collect();
        let mut rank0: Vec<u32> = mems.iter().flat_map(|m| m.device_list.rank0.clone()).collect();
        rank0.sort_unstable();
        rank0.dedup();
        let rest = (0..).take(names.len()).filter(|at| rank0.binary_search(at).is_err()).collect();
        mems.push(wildcard(Ranks { rank0, rank1: rest, rank2: Vec::new() }));
        Self { nics: names.iter().map(nic).collect(), mems }
    }

    /// The two-list form that is published for classic peers: rank 0 is preferred, the other ranks
    /// are available; the wildcard, which every reader makes itself, is left out.
    ///
    /// # Errors
    /// More locations or NICs than a matrix can have.
    pub fn matrix(&self) -> Result<PriorityMatrix, MatrixError> {
        let mut matrix = PriorityMatrix::new();
        for memory in self.mems.iter().filter(|memory| memory.name != WILDCARD) {
            let ranks = &memory.device_list;
            let tiers = NicTiers {
                preferred: self.names(&ranks.rank0),
                available: self.names(&[&*ranks.rank1, &*ranks.rank2].concat()),
            };
            matrix.insert(&memory.name, tiers)?;
        }
        Ok(matrix)
    }

    /// The NICs; their places are their numbers.
    pub fn nics(&self) -> &[RankedNic] {
        &self.nics
    }

    /// The memories.
    pub fn mems(&self) -> &[RankedMemory] {
        &self.mems
    }

    fn names(&self, numbers: &[u32]) -> Vec<NicName> {
        let name = |at: &u32| NicName::parse(&self.nics.get(*at as usize)?.name).ok();
        numbers.iter().filter_map(name).collect()
    }
}

impl fmt::Display for RankedTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Why a text is no ranked topology.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RankedError {
    /// The text is no JSON, or has other members than this form.
    #[error("the topology is no JSON of nics and mems")]
    Json(#[source] serde_json::Error),
    /// Its numbers, names or lists are wrong; nothing is kept.
    #[error("the topology has {} faults: {}", faults.len(), faults.join("; "))]
    Faults {
        /// All of them, at most as many as [`MAX_RANKED`].
        faults: Vec<String>,
    },
}

const WILDCARD: &str = "*";

const fn unknown() -> i32 {
    -1
}

fn wildcard(device_list: Ranks) -> RankedMemory {
    let (name, pci_bus_id) = (WILDCARD.to_owned(), String::new());
    RankedMemory { name, pci_bus_id, kind: UNKNOWN_MEMORY, numa_node: -1, device_list }
}

const HOST_MEMORY: u8 = 0;
const UNKNOWN_MEMORY: u8 = 4;

fn kind_of(location: &MemoryLocation) -> u8 {
    match location {
        MemoryLocation::Cpu(_) => HOST_MEMORY,
        MemoryLocation::Device { kind: DeviceKind::Cuda, .. } => 1,
        MemoryLocation::Device { kind: DeviceKind::Hip, .. } => 2,
        MemoryLocation::Device { kind: DeviceKind::Npu, .. } => 3,
        _ => UNKNOWN_MEMORY,
    }
}

fn node_of(location: &MemoryLocation) -> i32 {
    match location {
        MemoryLocation::Cpu(number) => node(Some(*number)),
        _ => -1,
    }
}

fn node(node: Option<NumaNode>) -> i32 {
    node.and_then(|node| i32::try_from(node.number()).ok()).unwrap_or(-1)
}

fn address(machine: &Machine, pci: Option<PciIndex>) -> String {
    pci.map(|index| machine.pci_device(index).address.to_string()).unwrap_or_default()
}

fn address_of(machine: &Machine, location: &MemoryLocation) -> String {
    let gpu = machine.gpus().iter().find(|gpu| gpu.location() == *location);
    gpu.map(|gpu| address(machine, gpu.pci)).unwrap_or_default()
}

/// The best group is rank 0 where it is near at all; groups on the same node are rank 1.
fn ranks(row: &AffinityRow, number: &HashMap<&str, u32>) -> Ranks {
    let mut ranks = Ranks::default();
    for (position, group) in row.groups.iter().enumerate() {
        let near = group.class != PathClass::Sys;
        let list = match (near, position) {
            (true, 0) => &mut ranks.rank0,
            (true, _) => &mut ranks.rank1,
            (false, _) => &mut ranks.rank2,
        };
        list.extend(group.nics.iter().filter_map(|nic| number.get(nic.as_str())));
    }
    ranks
}

#[cfg(test)]
mod tests;
