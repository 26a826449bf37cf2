//! Which of our NICs, and which of the peer's, the next bytes take. Pure: the same calls give the
//! same answers.
//!
//! I1  A NIC that is not active is never chosen.
//! I2  A rail that pauses is chosen only where no other NIC of the peer is left.

mod rails;

use std::time::Instant;

use te_topology::{MemoryLocation, NicIndex, NicName, NicSelector, Picker};

pub(crate) use self::rails::Rails;
use crate::config::Pairing;
use crate::nic::{NicSnapshot, Nics};
use crate::peer::{PeerNicIndex, PeerView};

/// Chooses. Each thread has its own.
#[derive(Debug)]
pub(crate) struct Chooser {
    selector: NicSelector,
    picker: Picker,
}

/// A NIC of the peer that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerPick {
    /// Which.
    pub(crate) nic: PeerNicIndex,
    /// Whether its rail pauses: another one of our NICs may do better.
    pub(crate) pauses: bool,
}

impl Chooser {
    /// Chooses among these NICs by this matrix; the picker decides among equals.
    pub(crate) fn new(
        nics: &Nics,
        matrix: Option<&te_topology::PriorityMatrix>,
        picker: Picker,
    ) -> Self {
        let _ = (nics, matrix, picker);
        todo!()
    }

    /// The NIC of ours for memory at a location; attempts from 1 on walk over all of them. `None`
    /// where none is active.
    pub(crate) fn local_nic(
        &mut self,
        nics: &NicSnapshot,
        location: &MemoryLocation,
        attempt: u16,
    ) -> Option<NicIndex> {
        let _ = (nics, location, attempt);
        todo!()
    }

    /// The NIC of the peer for its memory at `address`; attempts from 1 on walk over all of them.
    pub(crate) fn peer_nic(
        &mut self,
        peer: &PeerView,
        (own, pairing): (&NicName, &Pairing),
        (address, attempt): (u64, u16),
        (rails, now): (&Rails, Instant),
    ) -> Option<PeerPick> {
        let _ = (peer, own, pairing, address, attempt, rails, now);
        todo!()
    }
}
