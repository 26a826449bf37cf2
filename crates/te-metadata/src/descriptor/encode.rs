//! Writing descriptors: compact, keys in alphabetical order, as the Mooncake wheel writes them.
//!
//! The order is that of the fields below, so it holds however the JSON library keeps its maps.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use te_topology::PriorityMatrix;

use super::{
    BufferDescriptor, BufferHandle, DeviceDescriptor, FileDescriptor, ProtocolPart,
    SegmentDescriptor, TeObject,
};
use crate::json;

impl SegmentDescriptor {
    /// The descriptor as JSON text without a newline.
    pub fn encode(&self) -> Vec<u8> {
        match &self.part {
            ProtocolPart::NvmeOf { server_name, files } => json::to_bytes(&FilesText {
                buffers: Files(files),
                name: &self.name,
                protocol: self.protocol_name(),
                server_name,
                te: self.te.as_ref(),
                timestamp: &self.timestamp,
            }),
            ProtocolPart::Tcp { .. } | ProtocolPart::Rdma { .. } => {
                json::to_bytes(&MemoryText::of(self))
            }
        }
    }
}

#[derive(Serialize)]
struct MemoryText<'a> {
    buffers: Buffers<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Devices<'a>>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_matrix: Option<&'a PriorityMatrix>,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rdma_server_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tcp_data_host: Option<&'a str>,
    tcp_data_port: u16,
    tcp_proto_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    te: Option<&'a TeObject>,
    timestamp: &'a str,
}

impl<'a> MemoryText<'a> {
    fn of(descriptor: &'a SegmentDescriptor) -> Self {
        let (devices, priority_matrix) = match &descriptor.part {
            ProtocolPart::Rdma { devices, priority_matrix, .. } => {
                (Some(Devices(devices)), priority_matrix.as_ref())
            }
            _ => (None, None),
        };
        Self {
            buffers: Buffers { list: descriptor.buffers(), keys: devices.is_some() },
            devices,
            name: &descriptor.name,
            priority_matrix,
            protocol: descriptor.protocol_name(),
            rdma_server_name: descriptor.rdma_server_name.as_deref(),
            tcp_data_host: descriptor.tcp.data_host.as_deref(),
            tcp_data_port: descriptor.tcp.data_port.unwrap_or(0),
            tcp_proto_version: descriptor.tcp.proto_version,
            te: descriptor.te.as_ref(),
            timestamp: &descriptor.timestamp,
        }
    }
}

#[derive(Serialize)]
struct FilesText<'a> {
    buffers: Files<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    protocol: &'static str,
    server_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    te: Option<&'a TeObject>,
    #[serde(skip_serializing_if = "str::is_empty")]
    timestamp: &'a str,
}

/// Buffers; with `keys`, the key lists too.
pub(super) struct Buffers<'a> {
    pub(super) list: &'a [BufferDescriptor],
    pub(super) keys: bool,
}

impl Serialize for Buffers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.list.iter().map(|buffer| BufferText::of(buffer, self.keys)))
    }
}

#[derive(Serialize)]
struct BufferText<'a> {
    addr: u64,
    length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lkey: Option<&'a [u32]>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rkey: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    te: Option<BufferHandle>,
}

impl<'a> BufferText<'a> {
    fn of(buffer: &'a BufferDescriptor, keys: bool) -> Self {
        Self {
            addr: buffer.addr,
            length: buffer.length,
            lkey: keys.then_some(buffer.lkeys.as_slice()),
            name: &buffer.name,
            rkey: keys.then(|| buffer.rkeys.iter().map(|key| key.value()).collect()),
            te: buffer.te,
        }
    }
}

struct Devices<'a>(&'a [DeviceDescriptor]);

impl Serialize for Devices<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct DeviceText<'a> {
            gid: &'a str,
            lid: u16,
            name: &'a str,
        }
        serializer.collect_seq(self.0.iter().map(|device| DeviceText {
            gid: &device.gid,
            lid: device.lid,
            name: device.name.as_str(),
        }))
    }
}

struct Files<'a>(&'a [FileDescriptor]);

impl Serialize for Files<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct FileText<'a> {
            file_path: &'a str,
            length: u64,
            local_path_map: &'a BTreeMap<String, String>,
        }
        serializer.collect_seq(self.0.iter().map(|file| FileText {
            file_path: &file.file_path,
            length: file.length,
            local_path_map: &file.local_paths,
        }))
    }
}
