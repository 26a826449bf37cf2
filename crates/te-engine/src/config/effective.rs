//! What is in force, and why: the answer of `te config`.

use std::fmt;
use std::path::PathBuf;

use super::draft::{Sources, shown, tree_of, value_in};
use super::settings::Settings;
use super::variables::variables;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// Nobody set it.
    #[default]
    Default,
    /// A TOML file.
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// A variable of the environment, under the name that was found.
    Environment {
        /// The name.
        variable: String,
    },
    /// The program that uses the engine.
    Program,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => f.write_str(variable),
            Self::Program => f.write_str("program"),
        }
    }
}

/// One setting as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveValue {
    /// Section and key of the TOML form, with a dot between.
    pub name: &'static str,
    /// Our variable.
    pub variable: String,
    /// Mooncake's variable, where there is one.
    pub mooncake_variable: Option<&'static str>,
    /// As a person reads it; without the unit.
    pub value: String,
    /// Who said so.
    pub source: Source,
    /// "s", "ms", "bytes" or nothing.
    pub unit: &'static str,
    /// One line.
    pub meaning: &'static str,
}

pub(super) fn values(settings: &Settings, sources: &Sources) -> Vec<EffectiveValue> {
    // Settings that came through a check always have a tree.
    let tree = tree_of(settings).unwrap_or_default();
    variables()
        .map(|row| EffectiveValue {
            name: row.field,
            variable: row.own_name(),
            mooncake_variable: row.mooncake,
            value: shown(row, value_in(&tree, row)),
            source: sources.get(row.field).cloned().unwrap_or_default(),
            unit: row.kind.unit(),
            meaning: row.meaning,
        })
        .collect()
}
