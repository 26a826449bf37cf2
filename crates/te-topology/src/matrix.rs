//! The affinity matrix: for each location the preferred and the other NICs.
//!
//! On the wire it is the JSON object `{"<location>": [[preferred], [available]], …}`.
//!
//! I1  A value that exists is whole: a text with bad rows gives an error with all faults, and no
//!     matrix.
//! I2  Printing and parsing again gives an equal matrix, equal to the last byte when printed.
//! I3  The NIC list follows the sorted locations, preferred before available, so every process
//!     derives the same list from the same matrix.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::{NicIndex, NicName};

mod error;
mod object;

pub use error::{MatrixError, MatrixProblem, RowFault};
use object::Pairs;

/// Most locations that a matrix may have.
pub const MAX_LOCATIONS: usize = 4096;
/// Most NICs in one list of a row.
pub const MAX_NICS_PER_LIST: usize = 1024;
/// Longest name of a location, in bytes.
pub const MAX_LOCATION_BYTES: usize = 1024;

/// Which NICs serve which location.
///
/// ```
/// use te_topology::PriorityMatrix;
///
/// let text = r#"{"cpu:0":[["mlx5_0"],["mlx5_1"]]}"#;
/// let matrix: PriorityMatrix = text.parse().unwrap();
/// assert_eq!(matrix.nics()[1].as_str(), "mlx5_1");
/// assert_eq!(matrix.to_string(), text);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriorityMatrix {
    rows: BTreeMap<String, NicTiers>,
}

/// The NICs of one location, near ones first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicTiers {
    /// NICs to try first.
    pub preferred: Vec<NicName>,
    /// NICs that also reach the location.
    pub available: Vec<NicName>,
}

impl PriorityMatrix {
    /// A matrix without locations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the JSON text of a matrix.
    ///
    /// # Errors
    /// Text that is no JSON, a root that is no object, a row that is not exactly two arrays of NIC
    /// names, or more than the limits of this module allow. Nothing is kept of a bad text.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        match serde_json::from_str(text).map_err(MatrixError::Json)? {
            Pairs::Object(pairs) => Self::from_pairs(pairs.iter().map(|(k, v)| (k.as_str(), v))),
            Pairs::Other(found) => Err(MatrixError::NotAnObject { found }),
        }
    }

    /// Reads a matrix from JSON that is already parsed, with the same rules as [`Self::parse`].
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn from_value(value: &Value) -> Result<Self, MatrixError> {
        let object =
            value.as_object().ok_or_else(|| MatrixError::NotAnObject { found: kind_of(value) })?;
        Self::from_pairs(object.iter().map(|(location, row)| (location.as_str(), row)))
    }

    fn from_pairs<'a>(
        pairs: impl ExactSizeIterator<Item = (&'a str, &'a Value)>,
    ) -> Result<Self, MatrixError> {
        if pairs.len() > MAX_LOCATIONS {
            return Err(MatrixError::TooManyLocations { count: pairs.len() });
        }
        let mut rows = BTreeMap::new();
        let mut faults = Vec::new();
        for (location, row) in pairs {
            let (tiers, mut problems) = parse_row(location, row);
            if rows.insert(location.to_owned(), tiers).is_some() {
                problems.push(MatrixProblem::Twice);
            }
            let fault = |problem| RowFault { location: shortened(location), problem };
            faults.extend(problems.into_iter().map(fault));
        }
        MatrixError::of_faults(faults).map_or(Ok(Self { rows }), Err)
    }

    /// The matrix as a JSON value.
    pub fn to_value(&self) -> Value {
        let list =
            |nics: &[NicName]| Value::from(nics.iter().map(NicName::as_str).collect::<Vec<_>>());
        let row =
            |tiers: &NicTiers| Value::Array(vec![list(&tiers.preferred), list(&tiers.available)]);
        Value::Object(self.rows.iter().map(|(name, tiers)| (name.clone(), row(tiers))).collect())
    }

    /// Sets the row of a location and returns the row that was there.
    ///
    /// # Errors
    /// A row or a name above the limits of this module; the matrix is then unchanged.
    pub fn insert(
        &mut self,
        location: &str,
        tiers: NicTiers,
    ) -> Result<Option<NicTiers>, MatrixError> {
        let row_error = |problem| MatrixError::Row { location: shortened(location), problem };
        check_location(location).map_err(row_error)?;
        for (list, nics) in [("preferred", &tiers.preferred), ("available", &tiers.available)] {
            check_count(list, nics.len()).map_err(row_error)?;
        }
        if !self.rows.contains_key(location) && self.rows.len() == MAX_LOCATIONS {
            return Err(MatrixError::TooManyLocations { count: MAX_LOCATIONS + 1 });
        }
        Ok(self.rows.insert(location.to_owned(), tiers))
    }

    /// The row of a location, by its exact name.
    pub fn get(&self, location: &str) -> Option<&NicTiers> {
        self.rows.get(location)
    }

    /// All rows, sorted by the bytes of the location's name.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &NicTiers)> {
        self.rows.iter().map(|(name, tiers)| (name.as_str(), tiers))
    }

    /// Every NIC once, in order of first appearance (I3).
    pub fn nics(&self) -> Vec<&NicName> {
        let mut seen = HashSet::new();
        let rows = self.rows.values();
        let all = rows.flat_map(|row| row.preferred.iter().chain(&row.available));
        all.filter(|nic| seen.insert(*nic)).collect()
    }

    /// The position of a NIC in [`Self::nics`].
    pub fn nic_index(&self, nic: &NicName) -> Option<NicIndex> {
        self.nics().iter().position(|candidate| *candidate == nic).and_then(NicIndex::new)
    }

    /// The row of the location `*`: every NIC once, all preferred.
    pub fn wildcard(&self) -> NicTiers {
        NicTiers { preferred: self.nics().into_iter().cloned().collect(), available: Vec::new() }
    }

    /// Whether no row names a NIC.
    pub fn is_empty(&self) -> bool {
        self.rows.values().all(|row| row.preferred.is_empty() && row.available.is_empty())
    }
}

impl FromStr for PriorityMatrix {
    type Err = MatrixError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for PriorityMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for PriorityMatrix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.rows.len()))?;
        for (name, tiers) in &self.rows {
            map.serialize_entry(name, &[Names(&tiers.preferred), Names(&tiers.available)])?;
        }
        map.end()
    }
}

/// Serialises NIC names as plain strings.
struct Names<'a>(&'a [NicName]);

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(NicName::as_str))
    }
}

/// The row as far as it can be read, and everything that is wrong with it.
fn parse_row(location: &str, row: &Value) -> (NicTiers, Vec<MatrixProblem>) {
    let mut problems: Vec<MatrixProblem> = check_location(location).err().into_iter().collect();
    let mut tiers = NicTiers::default();
    match row.as_array().map(Vec::as_slice) {
        Some([preferred, available]) => {
            tiers.preferred = parse_list("preferred", preferred, &mut problems);
            tiers.available = parse_list("available", available, &mut problems);
        }
        Some(lists) => problems.push(MatrixProblem::NotTwoLists { count: lists.len() }),
        None => problems.push(MatrixProblem::NotAnArray { found: kind_of(row) }),
    }
    (tiers, problems)
}

fn parse_list(
    list: &'static str,
    value: &Value,
    problems: &mut Vec<MatrixProblem>,
) -> Vec<NicName> {
    let Some(entries) = value.as_array() else {
        problems.push(MatrixProblem::NotAList { list, found: kind_of(value) });
        return Vec::new();
    };
    if let Err(problem) = check_count(list, entries.len()) {
        problems.push(problem);
        return Vec::new();
    }
    let mut names = Vec::with_capacity(entries.len());
    for (position, entry) in entries.iter().enumerate() {
        match entry.as_str().map(NicName::parse) {
            Some(Ok(name)) => names.push(name),
            Some(Err(reason)) => problems.push(MatrixProblem::BadName { list, position, reason }),
            None => {
                problems.push(MatrixProblem::NotAName { list, position, found: kind_of(entry) });
            }
        }
    }
    names
}

fn check_location(location: &str) -> Result<(), MatrixProblem> {
    if location.len() > MAX_LOCATION_BYTES {
        return Err(MatrixProblem::LocationTooLong { bytes: location.len() });
    }
    Ok(())
}

fn check_count(list: &'static str, count: usize) -> Result<(), MatrixProblem> {
    if count > MAX_NICS_PER_LIST {
        return Err(MatrixProblem::TooManyNics { list, count });
    }
    Ok(())
}

fn shortened(location: &str) -> String {
    location.chars().take(80).collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
