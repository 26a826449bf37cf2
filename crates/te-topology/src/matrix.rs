//! The affinity matrix: for each location the preferred and the other NICs.
//!
//! On the wire it is the JSON object `{"<location>": [[preferred], [available]], …}`.
//!
//! I1  A value that exists is whole: a text with one bad row gives an error and no matrix.
//! I2  Printing and parsing again gives an equal matrix, equal to the last byte when printed.
//! I3  The NIC list follows the sorted locations, preferred before available, so every process
//!     derives the same list from the same matrix.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::{NicIndex, NicName, ParseNicNameError};

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
        let value: Value = serde_json::from_str(text).map_err(MatrixError::Json)?;
        Self::from_value(&value)
    }

    /// Reads a matrix from JSON that is already parsed, with the same rules as [`Self::parse`].
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn from_value(value: &Value) -> Result<Self, MatrixError> {
        let object =
            value.as_object().ok_or_else(|| MatrixError::NotAnObject { found: kind_of(value) })?;
        if object.len() > MAX_LOCATIONS {
            return Err(MatrixError::TooManyLocations { count: object.len() });
        }
        let mut rows = BTreeMap::new();
        for (location, row) in object {
            let tiers = parse_row(location, row)
                .map_err(|problem| MatrixError::Row { location: shortened(location), problem })?;
            rows.insert(location.clone(), tiers);
        }
        Ok(Self { rows })
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

/// Why a text is no affinity matrix.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The text is no JSON.
    #[error("the matrix is no JSON text")]
    Json(#[source] serde_json::Error),
    /// The root is something else than an object.
    #[error("the matrix is {found}, expected an object")]
    NotAnObject {
        /// What the root is.
        found: &'static str,
    },
    /// More locations than [`MAX_LOCATIONS`].
    #[error("the matrix has {count} locations, at most {MAX_LOCATIONS} are allowed")]
    TooManyLocations {
        /// How many there are.
        count: usize,
    },
    /// One row is wrong; the others were not looked at or are dropped.
    #[error("location \"{location}\" of the matrix: {problem}")]
    Row {
        /// The location, cut to 80 characters.
        location: String,
        /// What is wrong with its row.
        problem: MatrixProblem,
    },
}

impl MatrixError {
    /// The location whose row is wrong, if it is one row.
    pub fn location(&self) -> Option<&str> {
        match self {
            Self::Row { location, .. } => Some(location),
            _ => None,
        }
    }
}

/// What is wrong with one row.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MatrixProblem {
    /// The row is no array.
    #[error("expected two lists of NICs, found {found}")]
    NotAnArray {
        /// What it is.
        found: &'static str,
    },
    /// The row has not exactly two lists.
    #[error("expected two lists of NICs, found {count}")]
    NotTwoLists {
        /// How many elements the row has.
        count: usize,
    },
    /// One of the two is no array.
    #[error("the {list} list is {found}, expected an array of NIC names")]
    NotAList {
        /// `preferred` or `available`.
        list: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// An entry of a list is no text.
    #[error("entry {position} of the {list} list is {found}, expected a NIC name")]
    NotAName {
        /// `preferred` or `available`.
        list: &'static str,
        /// Where in the list, from 0.
        position: usize,
        /// What it is.
        found: &'static str,
    },
    /// An entry of a list is a text that cannot name a NIC.
    #[error("entry {position} of the {list} list: {reason}")]
    BadName {
        /// `preferred` or `available`.
        list: &'static str,
        /// Where in the list, from 0.
        position: usize,
        /// Why.
        reason: ParseNicNameError,
    },
    /// A list is longer than [`MAX_NICS_PER_LIST`].
    #[error("the {list} list has {count} NICs, at most {MAX_NICS_PER_LIST} are allowed")]
    TooManyNics {
        /// `preferred` or `available`.
        list: &'static str,
        /// How many there are.
        count: usize,
    },
    /// The location's name is longer than [`MAX_LOCATION_BYTES`].
    #[error("the name has {bytes} bytes, at most {MAX_LOCATION_BYTES} are allowed")]
    LocationTooLong {
        /// Length in bytes.
        bytes: usize,
    },
}

/// Serialises NIC names as plain strings.
struct Names<'a>(&'a [NicName]);

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(NicName::as_str))
    }
}

fn parse_row(location: &str, row: &Value) -> Result<NicTiers, MatrixProblem> {
    check_location(location)?;
    let lists = row.as_array().ok_or_else(|| MatrixProblem::NotAnArray { found: kind_of(row) })?;
    let [preferred, available] = lists.as_slice() else {
        return Err(MatrixProblem::NotTwoLists { count: lists.len() });
    };
    Ok(NicTiers {
        preferred: parse_list("preferred", preferred)?,
        available: parse_list("available", available)?,
    })
}

fn parse_list(list: &'static str, value: &Value) -> Result<Vec<NicName>, MatrixProblem> {
    let entries =
        value.as_array().ok_or_else(|| MatrixProblem::NotAList { list, found: kind_of(value) })?;
    check_count(list, entries.len())?;
    let name = |(position, entry): (usize, &Value)| {
        let text = entry.as_str().ok_or_else(|| MatrixProblem::NotAName {
            list,
            position,
            found: kind_of(entry),
        })?;
        NicName::parse(text).map_err(|reason| MatrixProblem::BadName { list, position, reason })
    };
    entries.iter().enumerate().map(name).collect()
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
