//! A topology that the user wrote, instead of the one that is found.
//!
//! The file is a matrix of two lists or a ranked topology; which of them shows in its members.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use crate::{Machine, MatrixError, NicName, PriorityMatrix, RankedError, RankedTopology};

/// Longest file that is read, in bytes.
pub const MAX_CUSTOM_BYTES: usize = 16 << 20;

/// What a user's file says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CustomTopology {
    /// `{location: [[preferred], [available]]}`.
    Matrix(PriorityMatrix),
    /// `{nics: […], mems: […]}`.
    Ranked(RankedTopology),
}

impl CustomTopology {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is empty or too long, or is wrong; then nothing of it is used,
    /// and every fault is named.
    pub fn read(file: &Path) -> Result<Self, CustomTopologyError> {
        let fail = |reason| CustomTopologyError::Unreadable { file: file.to_owned(), reason };
        let mut text = String::new();
        let open = File::open(file).map_err(fail)?;
        open.take(MAX_CUSTOM_BYTES as u64 + 1).read_to_string(&mut text).map_err(fail)?;
        Self::parse(&text, file)
    }

    /// Reads a text; `file` is where it is from, for errors.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, CustomTopologyError> {
        let file = file.to_owned();
        if text.len() > MAX_CUSTOM_BYTES {
            return Err(CustomTopologyError::TooLong { file });
        }
        if text.trim().is_empty() {
            return Err(CustomTopologyError::Empty { file });
        }
        let value: Option<Value> = serde_json::from_str(text).ok();
        if value.is_some_and(|value| is_ranked(&value)) {
            let ranked = RankedTopology::parse(text);
            return ranked
                .map(Self::Ranked)
                .map_err(|source| CustomTopologyError::Ranked { file, source });
        }
        let matrix = PriorityMatrix::parse(text);
        matrix.map(Self::Matrix).map_err(|source| CustomTopologyError::Matrix { file, source })
    }

    /// The matrix that is published and chosen from.
    ///
    /// # Errors
    /// More locations or NICs than a matrix can have.
    pub fn matrix(&self) -> Result<PriorityMatrix, MatrixError> {
        match self {
            Self::Matrix(matrix) => Ok(matrix.clone()),
            Self::Ranked(ranked) => ranked.matrix(),
        }
    }

    /// Checks that the machine has every NIC that is named.
    ///
    /// # Errors
    /// The NICs that it does not have. RDMA is off then; what needs no NIC works on.
    pub fn check(&self, machine: &Machine, file: &Path) -> Result<(), CustomTopologyError> {
        let named: Vec<&str> = match self {
            Self::Matrix(matrix) => matrix.nics().into_iter().map(NicName::as_str).collect(),
            // Numbers of other kinds of NICs are not ours to look for.
            Self::Ranked(ranked) => {
                let rdma = ranked.nics().iter().filter(|nic| nic.kind == 0);
                rdma.map(|nic| nic.name.as_str()).collect()
            }
        };
        let absent = named.into_iter().filter(|name| machine.nic(name).is_none());
        let nics: Vec<String> = absent.map(str::to_owned).collect();
        match nics.is_empty() {
            true => Ok(()),
            false => Err(CustomTopologyError::AbsentNics { file: file.to_owned(), nics }),
        }
    }
}

/// Why a user's topology is not used. Every message names the file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CustomTopologyError {
    /// The file cannot be read.
    #[error("the custom topology {} cannot be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        reason: io::Error,
    },
    /// There is nothing in it.
    #[error("the custom topology {} is empty", file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// It is longer than [`MAX_CUSTOM_BYTES`].
    #[error("the custom topology {} has more than {MAX_CUSTOM_BYTES} bytes", file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
    },
    /// It is no matrix of two lists.
    #[error("the custom topology {} is wrong", file.display())]
    Matrix {
        /// The file.
        file: PathBuf,
        /// All faults.
        #[source]
        source: MatrixError,
    },
    /// It has nics and mems, and is no ranked topology.
    #[error("the custom topology {} is wrong", file.display())]
    Ranked {
        /// The file.
        file: PathBuf,
        /// All faults.
        #[source]
        source: RankedError,
    },
    /// It names NICs that this host does not have.
    #[error(
        "the custom topology {} names {}, which this host does not have",
        file.display(), nics.join(", ")
    )]
    AbsentNics {
        /// The file.
        file: PathBuf,
        /// The NICs.
        nics: Vec<String>,
    },
}

impl CustomTopologyError {
    /// The file.
    pub fn file(&self) -> &Path {
        match self {
            Self::Unreadable { file, .. }
            | Self::Empty { file }
            | Self::TooLong { file }
            | Self::Matrix { file, .. }
            | Self::Ranked { file, .. }
            | Self::AbsentNics { file, .. } => file,
        }
    }

    /// Whether there was no text at all: the classic engine discovers then, without a word.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Empty { .. })
    }
}

fn is_ranked(value: &Value) -> bool {
    let member = |name| value.get(name).is_some_and(Value::is_array);
    let is_row = |name: &str| {
        value.get(name).and_then(Value::as_array).is_some_and(|r| {
            // A location may be called "nics", and its row is two lists.
            r.len() == 2 && r.iter().all(Value::is_array)
        })
    };
    member("nics") && member("mems") && !is_row("nics")
}

#[cfg(test)]
mod tests;
