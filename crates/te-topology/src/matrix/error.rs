//! What is wrong with a text that is no matrix.

use thiserror::Error;

use super::{MAX_LOCATION_BYTES, MAX_LOCATIONS, MAX_NICS_PER_LIST};
use crate::ParseNicNameError;

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
    /// One row is wrong; the others are dropped.
    #[error("location \"{location}\" of the matrix: {problem}")]
    Row {
        /// The location, cut to 80 characters.
        location: String,
        /// What is wrong with its row.
        problem: MatrixProblem,
    },
    /// There are several faults, in one row or in several; nothing is kept.
    #[error("the matrix has {} faults: {}", faults.len(), listed(faults))]
    Rows {
        /// All of them, in the order of the text.
        faults: Vec<RowFault>,
    },
}

impl MatrixError {
    /// The location of the first row that is wrong, if it is one row or several.
    pub fn location(&self) -> Option<&str> {
        match self {
            Self::Row { location, .. } => Some(location),
            Self::Rows { faults } => faults.first().map(|fault| fault.location.as_str()),
            _ => None,
        }
    }

    /// The error for the faults of rows that were found; `None` if there are none.
    pub(super) fn of_faults(mut faults: Vec<RowFault>) -> Option<Self> {
        if faults.len() > 1 {
            return Some(Self::Rows { faults });
        }
        faults.pop().map(|RowFault { location, problem }| Self::Row { location, problem })
    }
}

/// One fault of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("location \"{location}\": {problem}")]
pub struct RowFault {
    /// The location, cut to 80 characters.
    pub location: String,
    /// What is wrong with its row.
    pub problem: MatrixProblem,
}

/// The first faults, since a message with all of thousands helps nobody.
fn listed(faults: &[RowFault]) -> String {
    let mut text: Vec<String> = faults.iter().take(MAX_LISTED).map(RowFault::to_string).collect();
    if faults.len() > MAX_LISTED {
        text.push(format!("and {} more", faults.len() - MAX_LISTED));
    }
    text.join("; ")
}

const MAX_LISTED: usize = 20;

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
    /// The same location stands in the text more than once.
    #[error("it stands in the matrix more than once")]
    Twice,
    /// The location's name is longer than [`MAX_LOCATION_BYTES`].
    #[error("the name has {bytes} bytes, at most {MAX_LOCATION_BYTES} are allowed")]
    LocationTooLong {
        /// Length in bytes.
        bytes: usize,
    },
}
