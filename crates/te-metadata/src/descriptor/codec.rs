//! Reading descriptors.
//!
//! Unknown keys are ignored everywhere, as peers do. What decides about memory is strict: one bad
//! buffer or device makes the whole descriptor unusable.

use std::collections::BTreeMap;

use serde_json::Value;
use te_topology::{NicName, PriorityMatrix};

use super::{
    BufferDescriptor, BufferHandle, DecodeError, DeviceDescriptor, FileDescriptor, Incarnation,
    ProtocolPart, Rkey, SegmentDescriptor, TcpEndpoint, TeObject,
};
use crate::ShapeError;
use crate::json::Node;

/// Most bytes of a descriptor: the largest frame that can be configured.
pub const MAX_DESCRIPTOR_BYTES: usize = 128 << 20;
/// Most buffers of a segment.
pub const MAX_BUFFERS: usize = 1 << 20;
/// Most NICs of a segment.
pub const MAX_DEVICES: usize = 1024;

const MAX_NAME_BYTES: usize = 1024;
const MAX_PATH_BYTES: usize = 4096;
/// Servers that may reach one file, and parts of the `te` object.
const MAX_MAP_ENTRIES: usize = 4096;

impl SegmentDescriptor {
    /// Reads a descriptor from its JSON text.
    ///
    /// # Errors
    /// See [`DecodeError`]. Nothing larger than a small multiple of the text is allocated, and
    /// nesting is bounded.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_DESCRIPTOR_BYTES {
            let (bytes, limit) = (bytes.len(), MAX_DESCRIPTOR_BYTES);
            return Err(DecodeError::TooLarge { bytes, limit });
        }
        let value: Value = serde_json::from_slice(bytes).map_err(DecodeError::Json)?;
        Self::decode_value(&value)
    }

    /// Reads a descriptor from JSON that is already parsed.
    ///
    /// # Errors
    /// As for [`Self::decode`].
    pub fn decode_value(value: &Value) -> Result<Self, DecodeError> {
        let root = Node::root(value);
        root.object()?;
        let part = match protocol(&root)? {
            "tcp" => ProtocolPart::Tcp { buffers: buffers(&root, None)? },
            "rdma" => rdma(&root)?,
            "nvmeof" => nvmeof(&root)?,
            other => return Err(not_supported(other)),
        };
        Ok(Self {
            name: optional_text(&root, "name")?.unwrap_or_default(),
            part,
            tcp: tcp_endpoint(&root)?,
            rdma_server_name: optional_text(&root, "rdma_server_name")?,
            timestamp: optional_text(&root, "timestamp")?.unwrap_or_default(),
            te: root.field("te").map(|te| te_object(&te)).transpose()?,
        })
    }
}

/// The protocol; several at once are a form that we do not speak.
fn protocol<'a>(root: &'a Node<'a>) -> Result<&'a str, DecodeError> {
    let field = root.required("protocol")?;
    match field.value.as_array() {
        None => Ok(field.text(MAX_NAME_BYTES)?),
        Some(list) => {
            let names: Vec<&str> = list.iter().filter_map(Value::as_str).take(8).collect();
            Err(not_supported(&format!("[{}]", names.join(","))))
        }
    }
}

fn not_supported(protocol: &str) -> DecodeError {
    DecodeError::NotSupported { protocol: protocol.chars().take(80).collect() }
}

fn tcp_endpoint(root: &Node<'_>) -> Result<TcpEndpoint, ShapeError> {
    let port = root.field("tcp_data_port").map(|port| port.number::<u16>(u64::from(u16::MAX)));
    let version = root.field("tcp_proto_version").map(|node| node.number(u64::from(u32::MAX)));
    Ok(TcpEndpoint {
        data_host: optional_text(root, "tcp_data_host")?,
        data_port: port.transpose()?.filter(|port| *port != 0),
        proto_version: version.transpose()?.unwrap_or(1),
    })
}

fn rdma(root: &Node<'_>) -> Result<ProtocolPart, DecodeError> {
    let mut devices = Vec::new();
    if let Some(list) = root.field("devices") {
        for node in list.elements(MAX_DEVICES)? {
            devices.push(device(&node)?);
        }
    }
    let matrix = root.field("priority_matrix").map(|node| PriorityMatrix::from_value(node.value));
    Ok(ProtocolPart::Rdma {
        buffers: buffers(root, Some(devices.len()))?,
        devices,
        priority_matrix: matrix.transpose().map_err(DecodeError::Matrix)?,
    })
}

fn device(node: &Node<'_>) -> Result<DeviceDescriptor, ShapeError> {
    node.object()?;
    let name = node.required("name")?;
    let bad_name = |reason: te_topology::ParseNicNameError| ShapeError::BadText {
        path: name.path(),
        reason: reason.to_string(),
    };
    let lid = node.field("lid").map(|lid| lid.number(u64::from(u16::MAX)));
    Ok(DeviceDescriptor {
        name: NicName::parse(name.non_empty_text(MAX_NAME_BYTES)?).map_err(bad_name)?,
        lid: lid.transpose()?.unwrap_or(0),
        gid: node.required("gid")?.non_empty_text(MAX_NAME_BYTES)?.to_owned(),
    })
}

/// The buffers; with a count of devices, their keys too.
pub(super) fn buffers(
    root: &Node<'_>,
    devices: Option<usize>,
) -> Result<Vec<BufferDescriptor>, DecodeError> {
    let Some(list) = root.field("buffers") else { return Ok(Vec::new()) };
    list.elements(MAX_BUFFERS)?.map(|node| buffer(&node, devices)).collect()
}

fn buffer(node: &Node<'_>, devices: Option<usize>) -> Result<BufferDescriptor, DecodeError> {
    node.object()?;
    let mut buffer = BufferDescriptor {
        name: node.required("name")?.non_empty_text(MAX_NAME_BYTES)?.to_owned(),
        addr: node.required("addr")?.non_zero()?,
        length: node.required("length")?.non_zero()?,
        te: node.field("te").map(|te| handle(&te)).transpose()?,
        ..BufferDescriptor::default()
    };
    if let Some(devices) = devices {
        buffer.rkeys = keys(node, "rkey")?.into_iter().map(Rkey::new).collect();
        buffer.lkeys = keys(node, "lkey")?;
        check_key_counts(node, &buffer, devices)?;
    }
    Ok(buffer)
}

fn handle(node: &Node<'_>) -> Result<BufferHandle, ShapeError> {
    node.object()?;
    let number = |name| node.required(name)?.number(u64::from(u32::MAX));
    Ok(BufferHandle { generation: number("generation")?, slot: number("slot")? })
}

fn keys(node: &Node<'_>, name: &str) -> Result<Vec<u32>, ShapeError> {
    let Some(list) = node.field(name) else { return Ok(Vec::new()) };
    list.elements(MAX_DEVICES)?.map(|key| key.number(u64::from(u32::MAX))).collect()
}

/// A buffer that peers may touch has one remote and one local key for each device.
fn check_key_counts(
    node: &Node<'_>,
    buffer: &BufferDescriptor,
    devices: usize,
) -> Result<(), DecodeError> {
    let (rkeys, lkeys) = (buffer.rkeys.len(), buffer.lkeys.len());
    let wrong = |name: &str, keys| DecodeError::KeyCount {
        path: format!("{}.{name}", node.path()),
        keys,
        expected: devices,
    };
    if rkeys != 0 && rkeys != devices {
        return Err(wrong("rkey", rkeys));
    }
    if rkeys != 0 && lkeys != devices {
        return Err(wrong("lkey", lkeys));
    }
    Ok(())
}

fn nvmeof(root: &Node<'_>) -> Result<ProtocolPart, DecodeError> {
    let server_name = root.required("server_name")?.text(MAX_NAME_BYTES)?.to_owned();
    let mut files = Vec::new();
    if let Some(list) = root.field("buffers") {
        for node in list.elements(MAX_BUFFERS)? {
            files.push(file(&node)?);
        }
    }
    Ok(ProtocolPart::NvmeOf { server_name, files })
}

fn file(node: &Node<'_>) -> Result<FileDescriptor, ShapeError> {
    node.object()?;
    let mut local_paths = BTreeMap::new();
    if let Some(map) = node.field("local_path_map") {
        for server in limited(&map)?.keys() {
            let path = map.required(server)?.text(MAX_PATH_BYTES)?.to_owned();
            local_paths.insert(server.clone(), path);
        }
    }
    Ok(FileDescriptor {
        file_path: node.required("file_path")?.non_empty_text(MAX_PATH_BYTES)?.to_owned(),
        length: node.required("length")?.non_zero()?,
        local_paths,
    })
}

fn te_object(node: &Node<'_>) -> Result<TeObject, ShapeError> {
    node.object()?;
    Ok(TeObject {
        version: node.required("version")?.number(u64::from(u32::MAX))?,
        incarnation: incarnation(&node.required("incarnation")?)?,
        transports: value_map(node, "transports")?,
        extensions: value_map(node, "extensions")?,
    })
}

/// Reads an incarnation's text.
pub(crate) fn incarnation(node: &Node<'_>) -> Result<Incarnation, ShapeError> {
    let bad = |reason: super::ParseIncarnationError| ShapeError::BadText {
        path: node.path(),
        reason: reason.to_string(),
    };
    node.non_empty_text(MAX_NAME_BYTES)?.parse().map_err(bad)
}

fn value_map(node: &Node<'_>, name: &str) -> Result<BTreeMap<String, Value>, ShapeError> {
    let Some(map) = node.field(name) else { return Ok(BTreeMap::new()) };
    Ok(limited(&map)?.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn limited<'a>(map: &Node<'a>) -> Result<&'a serde_json::Map<String, Value>, ShapeError> {
    let object = map.object()?;
    if object.len() > MAX_MAP_ENTRIES {
        let (count, limit) = (object.len(), MAX_MAP_ENTRIES);
        return Err(ShapeError::TooMany { path: map.path(), count, limit });
    }
    Ok(object)
}

fn optional_text(root: &Node<'_>, name: &str) -> Result<Option<String>, ShapeError> {
    root.field(name).map(|node| node.text(MAX_NAME_BYTES).map(str::to_owned)).transpose()
}
