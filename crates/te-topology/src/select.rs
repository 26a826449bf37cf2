//! Which NIC takes the next piece of work: the choice at run time, pure and seeded.
//!
//! I1  NICs are known by name. The index of a NIC is its place in the list that the selector was
//!     made with, and stays the same when others are switched off.
//! I2  The first attempt takes one of the preferred NICs, or of the available ones if none is
//!     preferred; attempt k ≥ 1 takes number (k − 1) mod n of both lists joined, so that n attempts
//!     visit all n.
//! I3  A NIC that is switched off, or that is not in the list, is never chosen.

use std::collections::HashMap;

use thiserror::Error;

use crate::{MemoryLocation, NicIndex, NicName, NicTiers, PriorityMatrix};

mod affinity;
mod picker;

pub use affinity::{AffinityRuleError, PeerAffinity};
pub use picker::Picker;

/// Chooses NICs of one host, ours or a peer's.
///
/// ```
/// use te_topology::{MemoryLocation, NicSelector, Picker, PriorityMatrix};
///
/// let matrix = PriorityMatrix::parse(r#"{"cpu:0":[["a"],["b"]]}"#).unwrap();
/// let selector = NicSelector::new(&matrix);
/// let mut picker = Picker::random(7);
/// let here = MemoryLocation::from("cpu:0");
/// assert_eq!(selector.select(&here, 0, &mut picker).unwrap().name.as_str(), "a");
/// assert_eq!(selector.select(&here, 2, &mut picker).unwrap().name.as_str(), "b");
/// ```
#[derive(Debug, Clone)]
pub struct NicSelector {
    nics: Vec<NicName>,
    is_off: Vec<bool>,
    rows: HashMap<MemoryLocation, Row>,
    wildcard: Row,
    preferred_only: bool,
}

/// Positions in the list of NICs.
#[derive(Debug, Clone, Default)]
struct Row {
    preferred: Vec<usize>,
    available: Vec<usize>,
}

/// A NIC that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicPick<'a> {
    /// Its place in [`NicSelector::nics`].
    pub index: NicIndex,
    /// Its name.
    pub name: &'a NicName,
}

impl NicSelector {
    /// Chooses among the NICs of a matrix, in the order of [`PriorityMatrix::nics`].
    pub fn new(matrix: &PriorityMatrix) -> Self {
        Self::with_nics(matrix, matrix.nics().into_iter().cloned().collect())
    }

    /// Chooses among NICs that were published in an order of their own, as a peer's devices and
    /// keys are: an index is a place in `nics`, whatever the order of the matrix.
    ///
    /// NICs of the matrix that are not published are never chosen. Published NICs that no row
    /// names are chosen for `*` only. Of two NICs of one name the first counts.
    pub fn with_nics(matrix: &PriorityMatrix, nics: Vec<NicName>) -> Self {
        let mut place: HashMap<&NicName, usize> = HashMap::new();
        for (position, nic) in nics.iter().enumerate().take(usize::from(u16::MAX)) {
            place.entry(nic).or_insert(position);
        }
        // A peer's matrix may be large, so each row marks its NICs instead of searching its list.
        let mut marked_by = vec![0_usize; nics.len()];
        let mut row_number = 0;
        let mut row = |tiers: &NicTiers| {
            row_number += 1;
            let mut list = |names: &[NicName]| -> Vec<usize> {
                let places = names.iter().filter_map(|name| place.get(name).copied());
                places
                    .filter(|at| std::mem::replace(&mut marked_by[*at], row_number) != row_number)
                    .collect()
            };
            Row { preferred: list(&tiers.preferred), available: list(&tiers.available) }
        };
        let rows =
            matrix.rows().map(|(name, tiers)| (MemoryLocation::from(name), row(tiers))).collect();
        let mut all: Vec<usize> = place.values().copied().collect();
        all.sort_unstable();
        Self {
            rows,
            wildcard: Row { preferred: all, available: Vec::new() },
            is_off: vec![false; nics.len()],
            nics,
            preferred_only: false,
        }
    }

    /// The same, which uses preferred NICs only where a location has some: a NIC on another NUMA
    /// node is then not even taken after a fault.
    #[must_use]
    pub fn preferred_only(mut self) -> Self {
        self.preferred_only = true;
        self
    }

    /// All NICs, those that are off among them.
    pub fn nics(&self) -> &[NicName] {
        &self.nics
    }

    /// Switches a NIC off; `false` if there is none of this name. Other indices stay.
    pub fn disable(&mut self, nic: &NicName) -> bool {
        self.switch(nic, true)
    }

    /// Switches a NIC on again; `false` if there is none of this name.
    pub fn enable(&mut self, nic: &NicName) -> bool {
        self.switch(nic, false)
    }

    /// Chooses for memory at a location (I2). The location `*` means all NICs.
    ///
    /// # Errors
    /// A location that no row is for; ask again with `*` if that shall not matter. A row without a
    /// NIC that is on.
    pub fn select(
        &self,
        location: &MemoryLocation,
        attempt: u32,
        picker: &mut Picker,
    ) -> Result<NicPick<'_>, SelectError> {
        let position = self.position(self.row(location)?, attempt, picker);
        self.pick(position, location)
    }

    /// As [`Self::select`]; where no row is for the location, or no NIC of it is on, among all NICs.
    /// Allocates nothing.
    pub fn select_or_any(
        &self,
        location: &MemoryLocation,
        attempt: u32,
        picker: &mut Picker,
    ) -> Option<NicPick<'_>> {
        let row = self.row_of(location).and_then(|row| self.position(row, attempt, picker));
        let position = row.or_else(|| self.position(&self.wildcard, attempt, picker))?;
        self.nic_at(position)
    }

    /// Chooses the NIC of the name `hint` if the location has it and it is on, whatever the
    /// attempt; else as [`Self::select`] does.
    ///
    /// # Errors
    /// As for [`Self::select`].
    pub fn select_hinted(
        &self,
        location: &MemoryLocation,
        hint: &NicName,
        attempt: u32,
        picker: &mut Picker,
    ) -> Result<NicPick<'_>, SelectError> {
        let (preferred, available) = self.candidates(self.row(location)?);
        let named = |position: &usize| self.nics[*position] == *hint;
        match preferred.chain(available).find(named) {
            Some(position) => self.pick(Some(position), location),
            None => self.select(location, attempt, picker),
        }
    }

    /// Chooses, for memory of an accelerator, among the peer's preferred NICs that the rules pair
    /// with our NIC `local`; else as [`Self::select`] does.
    ///
    /// # Errors
    /// As for [`Self::select`].
    pub fn select_paired(
        &self,
        location: &MemoryLocation,
        (rules, local): (&PeerAffinity, &NicName),
        attempt: u32,
        picker: &mut Picker,
    ) -> Result<NicPick<'_>, SelectError> {
        let paired = rules.peers(local);
        if !matches!(location, MemoryLocation::Device { .. }) || paired.is_empty() {
            return self.select(location, attempt, picker);
        }
        let (preferred, _) = self.candidates(self.row(location)?);
        let of_name = |name: &NicName| preferred.clone().find(|at| self.nics[*at] == *name);
        let candidates: Vec<usize> = paired.iter().filter_map(of_name).collect();
        let at = match attempt.checked_sub(1) {
            None => picker.pick(candidates.len()),
            Some(step) => (step as usize).checked_rem(candidates.len()),
        };
        match at {
            Some(at) => self.pick(candidates.get(at).copied(), location),
            None => self.select(location, attempt, picker),
        }
    }

    fn switch(&mut self, nic: &NicName, off: bool) -> bool {
        let mut found = false;
        for (position, name) in self.nics.iter().enumerate() {
            if name == nic {
                self.is_off[position] = off;
                found = true;
            }
        }
        found
    }

    fn row(&self, location: &MemoryLocation) -> Result<&Row, SelectError> {
        let unknown = || SelectError::UnknownLocation { location: location.clone() };
        self.row_of(location).ok_or_else(unknown)
    }

    fn row_of(&self, location: &MemoryLocation) -> Option<&Row> {
        if location.is_wildcard() { Some(&self.wildcard) } else { self.rows.get(location) }
    }

    /// The place of the NIC that an attempt takes (I2).
    fn position(&self, row: &Row, attempt: u32, picker: &mut Picker) -> Option<usize> {
        let (mut preferred, mut available) = self.candidates(row);
        let (n_preferred, n_available) = (preferred.clone().count(), available.clone().count());
        match (attempt.checked_sub(1), n_preferred) {
            (None, 0) => picker.pick(n_available).and_then(|at| available.nth(at)),
            (None, n) => picker.pick(n).and_then(|at| preferred.nth(at)),
            (Some(step), n) => {
                let at = (step as usize).checked_rem(n + n_available);
                at.and_then(|at| preferred.chain(available).nth(at))
            }
        }
    }

    /// The preferred and the available NICs of a row that are on.
    fn candidates<'a>(
        &'a self,
        row: &'a Row,
    ) -> (impl Iterator<Item = usize> + Clone + 'a, impl Iterator<Item = usize> + Clone + 'a) {
        let on = |list: &'a [usize]| list.iter().copied().filter(|at| !self.is_off[*at]);
        let strict = self.preferred_only && !row.preferred.is_empty();
        (on(&row.preferred), on(if strict { &[] } else { &row.available }))
    }

    fn nic_at(&self, position: usize) -> Option<NicPick<'_>> {
        Some(NicPick { index: NicIndex::new(position)?, name: self.nics.get(position)? })
    }

    fn pick(
        &self,
        position: Option<usize>,
        location: &MemoryLocation,
    ) -> Result<NicPick<'_>, SelectError> {
        let nic = position.and_then(|position| self.nic_at(position));
        nic.ok_or_else(|| SelectError::NoNic { location: location.clone() })
    }
}

/// Why no NIC was chosen. Both are what the classic interface calls "device not found".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The matrix has no row for the location.
    #[error("no row of the topology is for location \"{location}\"")]
    UnknownLocation {
        /// The location.
        location: MemoryLocation,
    },
    /// The row has no NIC that is on.
    #[error("no NIC that is switched on serves location \"{location}\"")]
    NoNic {
        /// The location.
        location: MemoryLocation,
    },
}

#[cfg(test)]
mod tests;
