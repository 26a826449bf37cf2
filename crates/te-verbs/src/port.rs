//! What a device and its ports say of themselves.

use std::fmt;

use te_topology::{Gid, NicName};

/// A device that is there, not opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name, such as `mlx5_0`.
    pub name: NicName,
}

/// Limits of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Longest memory region, bytes.
    pub max_mr_size: u64,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of a queue.
    pub max_qp_wr: u32,
    /// Ranges of a work request.
    pub max_sge: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// READs that a queue pair may have outstanding as target.
    pub max_qp_rd_atom: u8,
    /// READs that a queue pair may have outstanding as initiator.
    pub max_qp_init_rd_atom: u8,
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Completion vectors.
    pub completion_vectors: u32,
}

/// State of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PortState {
    /// Usable.
    Active,
    /// No link.
    Down,
    /// Anything else, by the library's number.
    Other(u32),
}

/// What the link below a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// InfiniBand: LIDs route.
    InfiniBand,
    /// Ethernet (RoCE): GIDs route.
    Ethernet,
}

/// A path MTU as verbs knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl Mtu {
    /// All, the smallest first; the position plus one is the number in `enum ibv_mtu`.
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// In bytes.
    pub fn bytes(self) -> u32 {
        256 << u32::from(self.number() - 1)
    }

    /// The number in `enum ibv_mtu`, 1 to 5.
    pub fn number(self) -> u8 {
        match self {
            Self::B256 => 1,
            Self::B512 => 2,
            Self::B1024 => 3,
            Self::B2048 => 4,
            Self::B4096 => 5,
        }
    }

    /// The one of that number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| u32::from(mtu.number()) == number)
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bytes())
    }
}

/// A port as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAttributes {
    /// Its state.
    pub state: PortState,
    /// The MTU in use.
    pub active_mtu: Mtu,
    /// The LID; 0 on Ethernet.
    pub lid: u16,
    /// What is below it.
    pub link_layer: LinkLayer,
    /// Rows of the GID table.
    pub gid_rows: u32,
    /// Rows of the partition table.
    pub pkey_rows: u16,
    /// Gigabits per second, as width and speed give it; 0 where unknown.
    pub gbit_per_s: u32,
}

/// Which kind of address a GID is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1.
    RoceV1,
    /// RoCE version 2.
    RoceV2,
}

/// A row of a GID table that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GidEntry {
    /// The index of the row.
    pub index: u32,
    /// The address.
    pub gid: Gid,
    /// What it is.
    pub kind: GidKind,
    /// The network device behind it, by number; 0 for none.
    pub interface: u32,
}
