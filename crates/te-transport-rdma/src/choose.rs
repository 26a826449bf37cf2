//! Which of our NICs, and which of the peer's, the next bytes take. Pure: the same calls give the
//! same answers.
//!
//! I1  A NIC of ours that is not active is never chosen.
//! I2  A rail that pauses is chosen only where no other NIC of the peer is left.
//! I3  With n NICs of ours and m of the peer's, n × m attempts that follow each other after the first
//!     visit every pair, so that one that works is found.

mod rails;

use std::time::Instant;

use te_topology::{
    MemoryLocation, NicIndex, NicName, NicPick, NicSelector, Picker, PriorityMatrix,
};

pub(crate) use self::rails::Rails;
use crate::config::Pairing;
use crate::nic::{NicSnapshot, Nics};
use crate::peer::{PeerNicIndex, PeerView};
use crate::published::Reader;

/// Chooses. Each thread has its own.
#[derive(Debug)]
pub(crate) struct Chooser {
    nics: Reader<NicSnapshot>,
    /// How many of them are active.
    n_active: u32,
    selector: NicSelector,
    pairing: Pairing,
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
        matrix: Option<&PriorityMatrix>,
        pairing: Pairing,
        picker: Picker,
    ) -> Self {
        let names = nics.iter().map(|nic| nic.name().clone()).collect();
        let empty = PriorityMatrix::new();
        let selector = NicSelector::with_nics(matrix.unwrap_or(&empty), names);
        let mut new = Self { nics: nics.reader(), n_active: 0, selector, pairing, picker };
        new.follow();
        new
    }

    /// The NIC of ours for memory at a location; attempts from 1 on walk over all of them. `None`
    /// where none is active.
    pub(crate) fn local_nic(
        &mut self,
        location: &MemoryLocation,
        attempt: u16,
    ) -> Option<NicIndex> {
        if self.nics.refresh() {
            self.follow();
        }
        let Self { selector, picker, .. } = self;
        let pick = selector.select_or_any(location, attempt.into(), picker)?;
        Some(pick.index)
    }

    /// The NIC of the peer for its memory at `address`, from our NIC `own` with these rails; attempts
    /// from 1 on walk over all of them. `None` where the peer has no active one.
    pub(crate) fn peer_nic(
        &mut self,
        peer: &PeerView,
        (own, rails): (&NicName, &Rails),
        (address, attempt): (u64, u16),
        now: Instant,
    ) -> Option<PeerPick> {
        let location = peer.location(address);
        let attempt = across(u32::from(attempt), self.n_active, peer.n_active());
        let paused = |nic| rails.paused_until(now, &peer.nic(nic)?.path);
        let first = self.first(peer, own, &location, attempt)?;
        let Some(until) = paused(first) else {
            return Some(PeerPick { nic: first, pauses: false });
        };
        let mut best = (until, first);
        // Only a faulty rail leads here, and the first one that is open ends it.
        let steps = 1..=u32::try_from(peer.nics().len()).unwrap_or(u32::MAX);
        for location in [&*location, &MemoryLocation::Any] {
            for step in steps.clone() {
                let attempt = attempt.saturating_add(step);
                let pick = peer.selector().select_or_any(location, attempt, &mut self.picker);
                let Some(nic) = pick.and_then(index) else { break };
                match paused(nic) {
                    None => return Some(PeerPick { nic, pauses: false }),
                    Some(until) if until < best.0 => best = (until, nic),
                    Some(_) => {}
                }
            }
        }
        Some(PeerPick { nic: best.1, pauses: true })
    }

    /// The NIC of the peer, whatever its rail is like. What pairs NICs holds for first attempts only:
    /// others shall get elsewhere.
    fn first(
        &mut self,
        peer: &PeerView,
        own: &NicName,
        location: &MemoryLocation,
        attempt: u32,
    ) -> Option<PeerNicIndex> {
        let Self { pairing, picker, .. } = self;
        let selector = peer.selector();
        let paired = match (attempt, pairing) {
            (0, Pairing::SameName) => {
                let hinted = [location, &MemoryLocation::Any].into_iter().find_map(|location| {
                    let pick = selector.select_hinted(location, own, 0, picker).ok()?;
                    (pick.name == own).then_some(pick)
                });
                hinted.or_else(|| selector.select_or_any(location, 0, picker))
            }
            (0, Pairing::Rules(rules)) => {
                let paired = selector.select_paired(location, (rules, own), 0, picker);
                paired.ok().or_else(|| selector.select_or_any(location, 0, picker))
            }
            _ => selector.select_or_any(location, attempt, picker),
        };
        index(paired?)
    }

    /// Switches NICs on and off as they are now.
    fn follow(&mut self) {
        let Self { nics, selector, n_active, .. } = self;
        *n_active = 0;
        for (_, view) in nics.iter() {
            match view.link {
                Ok(_) => selector.enable(&view.name),
                Err(_) => selector.disable(&view.name),
            };
            *n_active += u32::from(view.link.is_ok());
        }
    }
}

/// The attempt that counts for the peer's NICs. Attempt k takes our NIC k mod n; if it took the peer's
/// NIC k mod m, pairs would be missed where n and m have a common divisor. So each walk over our
/// NICs begins one NIC of the peer's further than the one before.
fn across(attempt: u32, n: u32, m: u32) -> u32 {
    let (Some(step), Some(behind)) = (attempt.checked_sub(1), n.checked_rem(m)) else {
        return attempt;
    };
    let walks = step.checked_div(n).unwrap_or(0);
    attempt.saturating_add(walks.saturating_mul((m + 1 - behind) % m))
}

fn index(pick: NicPick<'_>) -> Option<PeerNicIndex> {
    PeerNicIndex::new(pick.index.position())
}

#[cfg(test)]
mod tests;
