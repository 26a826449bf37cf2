//! One snapshot of a peer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use te_metadata::{BufferDescriptor, DeviceDescriptor, ProtocolPart, Rkey, SegmentDescriptor};
use te_segment::{RemoteSegment, SegmentId};
use te_topology::{Gid, MemoryLocation, NicName, NicSelector, PriorityMatrix};

use super::{PeerNic, PeerNicIndex, PeerViewError, RemoteRangeError};
use crate::publish::TeFacts;

/// See the module above.
#[derive(Debug)]
pub(crate) struct PeerView {
    peer: Arc<RemoteSegment>,
    nics: Vec<PeerNic>,
    selector: NicSelector,
    n_active: u32,
    facts: Option<TeFacts>,
    locations: Locations,
}

/// Where the buffers are, each location once: reading one takes memory, and slices ask for them.
#[derive(Debug, Default)]
struct Locations {
    distinct: Vec<MemoryLocation>,
    /// Of each buffer in the descriptor's list, its place in `distinct`.
    places: Vec<u32>,
}

/// The part of a remote range that one key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemotePiece {
    /// The key.
    pub(crate) rkey: Rkey,
    /// Bytes from the asked address on; at least 1.
    pub(crate) len: u64,
}

impl PeerView {
    /// Reads what a peer published.
    ///
    /// # Errors
    /// [`PeerViewError`].
    pub(crate) fn read(peer: &Arc<RemoteSegment>) -> Result<Self, PeerViewError> {
        let descriptor = peer.descriptor();
        let (devices, priority_matrix, server) = parts(descriptor)?;
        let own = descriptor.te.as_ref().and_then(TeFacts::matrix);
        let (selector, n_active) = selector(devices, own.as_ref().or(priority_matrix));
        Ok(Self {
            peer: Arc::clone(peer),
            nics: devices.iter().map(|device| nic(server, device)).collect(),
            selector,
            n_active,
            facts: descriptor.te.as_ref().and_then(TeFacts::read),
            locations: Locations::of(descriptor.buffers()),
        })
    }

    /// Whether a peer that cannot be reached now has NICs that are away, and says so: one that
    /// publishes RDMA without devices, or one of our own engines before its first port came.
    pub(crate) fn is_awaited(peer: &RemoteSegment) -> bool {
        let descriptor = peer.descriptor();
        match parts(descriptor) {
            Err(PeerViewError::NoDevice) => true,
            Err(PeerViewError::NotRdma { .. }) => {
                descriptor.te.as_ref().and_then(TeFacts::read).is_some()
            }
            _ => false,
        }
    }

    /// Whether [`PeerView::read`] would succeed.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check(peer: &RemoteSegment) -> Result<(), PeerViewError> {
        parts(peer.descriptor()).map(|_| ())
    }

    /// The snapshot that this is of.
    pub(crate) fn peer(&self) -> &Arc<RemoteSegment> {
        &self.peer
    }

    /// Its NICs, in the order of its keys.
    pub(crate) fn nics(&self) -> &[PeerNic] {
        &self.nics
    }

    /// The one at that place.
    pub(crate) fn nic(&self, index: PeerNicIndex) -> Option<&PeerNic> {
        self.nics.get(index.position())
    }

    /// Chooses among its NICs by its own matrix.
    pub(crate) fn selector(&self) -> &NicSelector {
        &self.selector
    }

    /// How many of its NICs are active, by what it published.
    pub(crate) fn n_active(&self) -> u32 {
        self.n_active
    }

    /// What it tells as one of our own engines; `None` for others.
    pub(crate) fn facts(&self) -> Option<TeFacts> {
        self.facts
    }

    /// Where the memory at an address is; `*` where that is not known. Allocates nothing.
    pub(crate) fn location(&self, address: u64) -> Cow<'_, MemoryLocation> {
        let found = self.peer.locate_from(address).and_then(|(position, _)| {
            let buffer = self.peer.descriptor().buffers().get(position)?;
            let location = self.locations.get(position)?;
            Some(location.at(buffer.length, address - buffer.addr))
        });
        found.unwrap_or(Cow::Owned(MemoryLocation::Any))
    }

    /// The key of a NIC for the memory at an address, and how much of `len` bytes, at least 1, it is
    /// good for (E22).
    ///
    /// # Errors
    /// [`RemoteRangeError`].
    pub(crate) fn remote_piece(
        &self,
        nic: PeerNicIndex,
        address: u64,
        len: u64,
    ) -> Result<RemotePiece, RemoteRangeError> {
        let (buffer, end) =
            self.buffer(address).ok_or(RemoteRangeError::NotRegistered { address })?;
        let rkey = buffer.rkeys.get(nic.position()).copied();
        let rkey = rkey.ok_or(RemoteRangeError::NoKey { address })?;
        Ok(RemotePiece { rkey, len: len.min(end - address) })
    }

    fn buffer(&self, address: u64) -> Option<(&BufferDescriptor, u64)> {
        let (position, end) = self.peer.locate_from(address)?;
        Some((self.peer.descriptor().buffers().get(position)?, end))
    }
}

impl Locations {
    fn of(buffers: &[BufferDescriptor]) -> Self {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let mut locations = Self::default();
        for buffer in buffers {
            let next = u32::try_from(locations.distinct.len()).unwrap_or(u32::MAX);
            let place = *known.entry(&buffer.name).or_insert(next);
            if place == next {
                locations.distinct.push(MemoryLocation::from(buffer.name.as_str()));
            }
            locations.places.push(place);
        }
        locations
    }

    fn get(&self, position: usize) -> Option<&MemoryLocation> {
        self.distinct.get(usize::try_from(*self.places.get(position)?).ok()?)
    }
}

/// Devices, matrix, and what stands before the `@` in the paths of NICs.
fn parts(
    descriptor: &SegmentDescriptor,
) -> Result<(&[DeviceDescriptor], Option<&PriorityMatrix>, &str), PeerViewError> {
    let ProtocolPart::Rdma { devices, priority_matrix, .. } = &descriptor.part else {
        return Err(PeerViewError::NotRdma { protocol: descriptor.protocol_name() });
    };
    if devices.is_empty() {
        return Err(PeerViewError::NoDevice);
    }
    Ok((devices, priority_matrix.as_ref(), server(descriptor)?))
}

/// What stands before the `@` in the paths of a peer's NICs (E7).
fn server(descriptor: &SegmentDescriptor) -> Result<&str, PeerViewError> {
    let own = descriptor.rdma_server_name.as_deref().filter(|name| !name.is_empty());
    let name = own.unwrap_or(&descriptor.name);
    if name.is_empty() { Err(PeerViewError::NoName) } else { Ok(name) }
}

fn nic(server: &str, device: &DeviceDescriptor) -> PeerNic {
    PeerNic {
        name: device.name.clone(),
        path: format!("{server}@{}", device.name).into(),
        gid: Gid::parse_bytes(&device.gid).filter(|gid| !gid.is_null()),
        lid: device.lid,
    }
}

/// Devices stay in a peer's list while they are not active; its matrix names those that are, which
/// are counted.
fn selector(devices: &[DeviceDescriptor], matrix: Option<&PriorityMatrix>) -> (NicSelector, u32) {
    let names: Vec<NicName> = devices.iter().map(|device| device.name.clone()).collect();
    let mut n_active = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let Some(matrix) = matrix else {
        return (NicSelector::with_nics(&PriorityMatrix::new(), names), n_active);
    };
    let mut selector = NicSelector::with_nics(matrix, names);
    let active: HashSet<&NicName> = matrix.nics().into_iter().collect();
    for device in devices.iter().filter(|device| !active.contains(&device.name)) {
        selector.disable(&device.name);
        n_active -= 1;
    }
    (selector, n_active)
}

/// The views of peers that one thread has in use.
#[derive(Debug, Default)]
pub(crate) struct PeerViews {
    known: HashMap<SegmentId, Known>,
}

#[derive(Debug)]
struct Known {
    peer: Arc<RemoteSegment>,
    view: Result<Arc<PeerView>, PeerViewError>,
}

impl PeerViews {
    /// Most peers that are remembered; with more all are forgotten and read again.
    const MOST: usize = 4096;

    /// The view of a peer, read again only where the snapshot is another one.
    ///
    /// # Errors
    /// [`PeerViewError`].
    pub(crate) fn of(
        &mut self,
        peer: &Arc<RemoteSegment>,
    ) -> Result<&Arc<PeerView>, &PeerViewError> {
        if self.known.len() >= Self::MOST && !self.known.contains_key(&peer.id()) {
            self.known.clear();
        }
        let read = || Known { peer: Arc::clone(peer), view: PeerView::read(peer).map(Arc::new) };
        let known = self.known.entry(peer.id()).or_insert_with(read);
        if !Arc::ptr_eq(&known.peer, peer) {
            *known = read();
        }
        known.view.as_ref()
    }
}

#[cfg(test)]
mod tests;
