//! What a peer tells of itself, read by name.
//!
//! I1  An index of a peer's NIC is a place in its `devices`, which is the place of its keys. The
//!     matrix is joined with it by names.
//! I2  A view is one snapshot of a peer and never changes.

mod view;

use std::fmt;

use te_topology::{Gid, NicName};
use thiserror::Error;

pub(crate) use self::view::{PeerView, PeerViews};

/// A place in a peer's list of devices. Only good with the view that it came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PeerNicIndex(u16);

impl PeerNicIndex {
    /// The one at that place; `None` above 65535.
    pub(crate) fn new(position: usize) -> Option<Self> {
        u16::try_from(position).ok().map(Self)
    }

    /// The place.
    pub(crate) const fn position(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for PeerNicIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer nic#{}", self.0)
    }
}

/// A NIC of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerNic {
    /// Its name.
    pub(crate) name: NicName,
    /// `<server>@<nic>`, as handshakes name it.
    pub(crate) path: std::sync::Arc<str>,
    /// Its GID as published; `None` where that is no GID, because the handshake tells the one that
    /// counts.
    pub(crate) gid: Option<Gid>,
    /// Its LID.
    pub(crate) lid: u16,
}

/// Why a peer cannot be reached over RDMA, by what it published.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum PeerViewError {
    /// It speaks another protocol.
    #[error("the peer publishes protocol {protocol}")]
    NotRdma {
        /// Which.
        protocol: &'static str,
    },
    /// It has no name, so its NICs have no address.
    #[error("the peer's descriptor has no name")]
    NoName,
    /// It has no NIC.
    #[error("the peer publishes no device")]
    NoDevice,
}

/// Why a range of a peer cannot be reached through one of its NICs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum RemoteRangeError {
    /// No buffer of it begins there or reaches there; its descriptor may be old.
    #[error("no buffer of the peer has address {address:#x}")]
    NotRegistered {
        /// The address.
        address: u64,
    },
    /// Its owner lets nobody touch it.
    #[error("the peer's buffer at {address:#x} has no remote key")]
    NoKey {
        /// The address.
        address: u64,
    },
}
