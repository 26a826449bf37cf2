//! One snapshot of a peer.

use std::borrow::Cow;

use te_metadata::Rkey;
use te_segment::RemoteSegment;
use te_topology::{MemoryLocation, NicSelector};

use super::{PeerNic, PeerNicIndex, PeerViewError, RemoteRangeError};

/// See the module above.
#[derive(Debug)]
pub(crate) struct PeerView {
    nics: Vec<PeerNic>,
    selector: NicSelector,
    /// Sorted by address.
    buffers: Vec<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    start: u64,
    /// The end of the buffer that reaches furthest of all that begin no later, and its place in
    /// the list of keys.
    end: u64,
    keys: usize,
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
    pub(crate) fn read(peer: &RemoteSegment) -> Result<Self, PeerViewError> {
        let _ = peer;
        todo!()
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

    /// Where the memory at an address is; `*` where that is not known.
    pub(crate) fn location(&self, address: u64) -> Cow<'_, MemoryLocation> {
        let _ = address;
        todo!()
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
        let _ = (nic, address, len);
        todo!()
    }
}
