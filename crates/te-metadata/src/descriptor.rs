//! What a segment says about itself: how to reach it, and which memory it exposes.
//!
//! The JSON form is Mooncake's, byte for byte. The object `te` is ours; Mooncake ignores it.
//!
//! I1  Keys of a buffer follow the published order of devices; a buffer has one key per device or,
//!     when peers may not touch it, no remote key at all.

mod codec;
mod encode;
mod error;
mod nic_address;
mod pages;
mod te_object;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use te_topology::{NicName, PriorityMatrix};

pub(crate) use codec::incarnation;
pub use codec::{MAX_BUFFERS, MAX_DESCRIPTOR_BYTES, MAX_DEVICES};
pub use error::DecodeError;
pub use nic_address::{MAX_NIC_ADDRESSES, NicAddress, ParseNicAddressError};
pub use pages::{
    ChunkDigest, ChunkList, ChunkRef, DescriptorChunk, MIN_PAGE_BYTES, PAGE_BYTES, PagedDescriptor,
};
pub use te_object::{Incarnation, ParseIncarnationError, TE_OBJECT_VERSION, TeObject};

/// The descriptor of a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentDescriptor {
    /// The segment's name; `host:port` where peers are addressed by name.
    pub name: String,
    /// The protocol and what it needs.
    pub part: ProtocolPart,
    /// Where the TCP data connection goes.
    pub tcp: TcpEndpoint,
    /// The name under which NICs of the segment are addressed. The Mooncake wheel writes it empty
    /// on TCP and leaves it out on RDMA; `None` leaves it out.
    pub rdma_server_name: Option<String>,
    /// When this was written; informative only. See [`crate::format_timestamp`].
    pub timestamp: String,
    /// What only our own engines read.
    pub te: Option<TeObject>,
}

/// The protocol of a segment with its own fields.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProtocolPart {
    /// `tcp`
    Tcp {
        /// Registered memory; the key lists are empty.
        buffers: Vec<BufferDescriptor>,
    },
    /// `rdma`
    Rdma {
        /// The NICs, in the order that the keys follow.
        devices: Vec<DeviceDescriptor>,
        /// Registered memory.
        buffers: Vec<BufferDescriptor>,
        /// Which NIC is near which memory. It may name fewer NICs than `devices`.
        priority_matrix: Option<PriorityMatrix>,
    },
    /// `nvmeof`: files that are one segment, in list order.
    NvmeOf {
        /// The server that owns the files.
        server_name: String,
        /// The files.
        files: Vec<FileDescriptor>,
    },
}

/// Where the TCP data connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpEndpoint {
    /// Host to connect to; `None` means the host of the segment's peer address.
    pub data_host: Option<String>,
    /// Port to connect to; `None` is written as 0 and means that there is no data port.
    pub data_port: Option<u16>,
    /// 2 and above means that writes are confirmed; absent is 1.
    pub proto_version: u32,
}

impl Default for TcpEndpoint {
    /// No data port, and the version that an absent field means.
    fn default() -> Self {
        Self { data_host: None, data_port: None, proto_version: 1 }
    }
}

/// One range of registered memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BufferDescriptor {
    /// The memory location (`cpu:0`, `*`, …); on TCP the server's name. Never empty.
    pub name: String,
    /// Virtual address in the owner. Never 0.
    pub addr: u64,
    /// Length in bytes. Never 0.
    pub length: u64,
    /// One key per device, or none when peers may not touch the buffer.
    pub rkeys: Vec<Rkey>,
    /// The owner's local keys, one per device. Of no use to a peer.
    pub lkeys: Vec<u32>,
    /// How our own engines name it; a Mooncake peer has none.
    pub te: Option<BufferHandle>,
}

/// A registered buffer as its owner numbers it: unlike an address, it never names a successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct BufferHandle {
    /// Which buffer that used the slot, counted from 1.
    pub generation: u32,
    /// The slot in the owner's segment.
    pub slot: u32,
}

/// One NIC of an RDMA segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDescriptor {
    /// Its name.
    pub name: NicName,
    /// Its InfiniBand LID; 0 on Ethernet.
    pub lid: u16,
    /// Its GID as published, usually 16 two-digit hex bytes joined by `:`. Never empty; other
    /// texts are kept, because the endpoint handshake tells the one that counts.
    pub gid: String,
}

/// One file of an NVMe-oF segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDescriptor {
    /// Path on the server that owns it.
    pub file_path: String,
    /// Length in bytes. Never 0.
    pub length: u64,
    /// Path under which each other server reaches it, by server name.
    pub local_paths: BTreeMap<String, String>,
}

/// The right to touch a buffer through one NIC. Printed shortened: it is a credential.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rkey(u32);

impl Rkey {
    /// A key as a NIC issued it or a peer published it.
    pub const fn new(key: u32) -> Self {
        Self(key)
    }

    /// The key for the NIC.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Rkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rkey({:#x}..)", self.0 >> 24)
    }
}

impl SegmentDescriptor {
    /// The descriptor of a TCP segment, without a timestamp.
    pub fn tcp(
        name: impl Into<String>,
        endpoint: TcpEndpoint,
        buffers: Vec<BufferDescriptor>,
    ) -> Self {
        Self {
            name: name.into(),
            part: ProtocolPart::Tcp { buffers },
            tcp: endpoint,
            rdma_server_name: Some(String::new()),
            timestamp: String::new(),
            te: None,
        }
    }

    /// The protocol as the descriptor writes it.
    pub fn protocol_name(&self) -> &'static str {
        match self.part {
            ProtocolPart::Tcp { .. } => "tcp",
            ProtocolPart::Rdma { .. } => "rdma",
            ProtocolPart::NvmeOf { .. } => "nvmeof",
        }
    }

    /// The registered memory; empty for files.
    pub fn buffers(&self) -> &[BufferDescriptor] {
        match &self.part {
            ProtocolPart::Tcp { buffers } | ProtocolPart::Rdma { buffers, .. } => buffers,
            ProtocolPart::NvmeOf { .. } => &[],
        }
    }

    /// Whether a cache may keep `self` instead of `other`: all is equal but the timestamp and the
    /// TCP version.
    pub fn same_for_cache(&self, other: &Self) -> bool {
        self.name == other.name
            && self.part == other.part
            && self.tcp.data_host == other.tcp.data_host
            && self.tcp.data_port == other.tcp.data_port
            && self.rdma_server_name == other.rdma_server_name
            && self.te == other.te
    }
}

#[cfg(test)]
mod tests;
