//! What peers are told: NICs, their keys for each piece of memory, and which NIC is near what.
//!
//! Mooncake's engine never compares names of NICs. It walks over our `priority_matrix`, row by row
//! in an order that nobody knows, in each row the preferred and then the other NICs, and takes the
//! place of a NIC in this walk as the index into `devices` and into each list of keys.
//!
//! I1  Whatever the order of rows, place i of that walk is device i and key i: each row, read from
//!     the left, is the beginning of one common order, and that is the order of `devices`.
//! I2  Devices, keys and matrix are made together, of the NICs that are active now.
//! I3  Local keys are published as zeros: peers count them and use them for nothing.
//! I4  While no NIC is active, but one was, the lists are empty: a Mooncake engine that reads this
//!     asks again at its next request, where one that reads TCP keeps that for good.

mod order;

use std::collections::BTreeMap;

use serde_json::Value;
use te_metadata::{
    BufferDescriptor, DeviceDescriptor, MAX_DEVICES, ProtocolPart, Rkey, SegmentDescriptor,
    TeObject,
};
use te_segment::RemoteAccess;
use te_topology::{NicIndex, NicName, PriorityMatrix};

pub(crate) use self::order::{Order, Preferences};
use crate::memory::{Chunk, MemoryView};
use crate::nic::{NicLink, NicSnapshot};

/// The name of this transport's part of the object `te`.
const PART: &str = "rdma";
/// In it, the path MTU of each NIC.
const MTUS: &str = "mtu";

/// What one of our own engines tells others of its kind beside the descriptor proper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TeFacts {
    /// Whether it confirms fences.
    pub(crate) fences: bool,
    /// Queue pairs of a connection; 1 to 1024.
    pub(crate) queue_pairs: u32,
}

/// Makes the descriptor, which lists the open buffers, one of RDMA; unless no NIC was ever active:
/// then our own engines are told only that there are NICs. Gives how much of the preferences could be
/// told.
pub(crate) fn describe(
    (nics, matrix): (&NicSnapshot, Option<&PriorityMatrix>),
    memory: &MemoryView,
    facts: TeFacts,
    descriptor: &mut SegmentDescriptor,
) -> Option<Preferences> {
    let active: Vec<(NicIndex, &NicName, &NicLink)> = nics.active().take(MAX_DEVICES).collect();
    if !nics.has_served() {
        if let Some(te) = &mut descriptor.te {
            facts.write(te, None, std::iter::empty());
        }
        return None;
    }
    let names: Vec<&NicName> = active.iter().map(|(_, name, _)| *name).collect();
    let Order { places, matrix: told, preferences } = Order::new(&names, matrix);
    let device = |place: &usize| {
        let (_, name, link) = active[*place];
        DeviceDescriptor { name: name.clone(), lid: link.lid, gid: link.gid.gid.byte_text() }
    };
    let indices: Vec<NicIndex> = places.iter().map(|place| active[*place].0).collect();
    let listed = descriptor.buffers();
    descriptor.part = ProtocolPart::Rdma {
        devices: places.iter().map(device).collect(),
        buffers: listed.iter().flat_map(|buffer| entries(buffer, memory, &indices)).collect(),
        priority_matrix: Some(told),
    };
    descriptor.rdma_server_name = None;
    if let Some(te) = &mut descriptor.te {
        let mtus = active.iter().map(|(_, name, link)| (*name, link.mtu.bytes()));
        facts.write(te, matrix.filter(|_| preferences != Preferences::Kept), mtus);
    }
    Some(preferences)
}

/// One entry for each chunk of a buffer. One that is not registered with us has no key.
fn entries(
    listed: &BufferDescriptor,
    memory: &MemoryView,
    nics: &[NicIndex],
) -> Vec<BufferDescriptor> {
    let chunks = memory.chunks_of(listed.addr, listed.length);
    if chunks.is_empty() {
        let name = "*".to_owned();
        return vec![BufferDescriptor { name, rkeys: Vec::new(), lkeys: Vec::new(), ..*listed }];
    }
    // A handle counts offsets from the start of the buffer, so a piece of one has none.
    let te = listed.te.filter(|_| chunks.len() == 1);
    let entry = |chunk: &Chunk| {
        let name = match chunk.location.to_string() {
            name if name.is_empty() => "*".to_owned(),
            name => name,
        };
        let key = |nic: &NicIndex| chunk.keys.get(nic.position()).copied().flatten();
        let rkeys = match chunk.remote {
            RemoteAccess::None => Vec::new(),
            _ => nics.iter().map(|nic| key(nic).map_or(Rkey::new(0), |keys| keys.rkey)).collect(),
        };
        let lkeys = vec![0; rkeys.len()];
        BufferDescriptor { name, addr: chunk.address, length: chunk.len, rkeys, lkeys, te }
    };
    chunks.iter().map(|chunk| entry(chunk)).collect()
}

impl TeFacts {
    /// Reads what a peer wrote; `None` where it is none of our engines, or wrote something else.
    pub(crate) fn read(te: &TeObject) -> Option<Self> {
        let part = te.transports.get(PART)?.as_object()?;
        let queue_pairs = u32::try_from(part.get("queue_pairs")?.as_u64()?).ok()?;
        let fences = part.get("fences").and_then(Value::as_bool).unwrap_or(false);
        (1..=1024).contains(&queue_pairs).then_some(Self { fences, queue_pairs })
    }

    /// The matrix that counts for our own engines, which join by name, where peers are told another
    /// one for the sake of those that do not.
    pub(crate) fn matrix(te: &TeObject) -> Option<PriorityMatrix> {
        PriorityMatrix::from_value(te.transports.get(PART)?.get("matrix")?).ok()
    }

    /// The path MTU of each NIC in bytes, which Mooncake's format has no place for.
    pub(crate) fn mtus(te: &TeObject) -> BTreeMap<NicName, u32> {
        let told = te.transports.get(PART).and_then(|part| part.get(MTUS)?.as_object());
        let read = |(name, mtu): (&String, &Value)| {
            Some((NicName::parse(name).ok()?, u32::try_from(mtu.as_u64()?).ok()?))
        };
        told.into_iter().flatten().filter_map(read).collect()
    }

    fn write<'a>(
        self,
        te: &mut TeObject,
        matrix: Option<&PriorityMatrix>,
        mtus: impl Iterator<Item = (&'a NicName, u32)>,
    ) {
        let mut part = serde_json::Map::new();
        part.insert("fences".to_owned(), self.fences.into());
        part.insert("queue_pairs".to_owned(), self.queue_pairs.into());
        let mtus = mtus.map(|(name, mtu)| (name.as_str().to_owned(), mtu.into()));
        part.insert(MTUS.to_owned(), Value::Object(mtus.collect()));
        if let Some(matrix) = matrix {
            part.insert("matrix".to_owned(), matrix.to_value());
        }
        te.transports.insert(PART.to_owned(), part.into());
    }
}

#[cfg(test)]
mod tests;
