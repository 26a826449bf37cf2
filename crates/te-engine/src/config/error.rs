//! What is wrong with a configuration: warnings, which never stop an engine, and errors of a file
//! or a program, which do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A variable that was set and not taken as it stands. The engine logs each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigWarning {
    variable: String,
    value: String,
    kept: String,
    reason: String,
}

impl ConfigWarning {
    pub(super) fn new(variable: &str, value: &str, kept: String, reason: String) -> Self {
        Self { variable: variable.to_owned(), value: quoted(value), kept, reason }
    }

    /// A variable that this build cannot serve; its value may be a secret and is not kept.
    pub(super) fn without_effect(variable: &str, reason: String) -> Self {
        let (value, kept) = (String::new(), "it has no effect".to_owned());
        Self { variable: variable.to_owned(), value, kept, reason }
    }

    /// The variable as it was set, old names included.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// Its value in quotation marks, control characters escaped, a long one cut; empty where the
    /// value may be a secret.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The value that is in force instead, and where it comes from.
    pub fn kept(&self) -> &str {
        &self.kept
    }

    /// What is wrong, as the end of a sentence that begins with the variable.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let equals = if self.value.is_empty() { "" } else { "=" };
        write!(f, "{}{equals}{} {}; {}", self.variable, self.value, self.reason, self.kept)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read. Check its name and permissions.
    #[error("cannot read configuration file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The file is far longer than a configuration can be.
    #[error("configuration file {} is longer than {max} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        max: u64,
    },
    /// The file is not TOML.
    #[error("{}, line {line}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the TOML reader said.
        reason: String,
    },
    /// Settings that do not exist or may not have their value; all of them.
    #[error("{}", listed(problems))]
    Settings {
        /// At least one.
        problems: Vec<SettingProblem>,
    },
}

/// One setting that cannot stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingProblem {
    /// File and line, or none when a program set it.
    pub place: Option<(PathBuf, usize)>,
    /// Section and key, with a dot between.
    pub key: String,
    /// What is wrong, as the end of a sentence that begins with the key.
    pub reason: String,
}

impl fmt::Display for SettingProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((path, line)) = &self.place {
            write!(f, "{}, line {line}: ", path.display())?;
        }
        write!(f, "{} {}", self.key, self.reason)
    }
}

fn listed(problems: &[SettingProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Longest part of a refused value that is repeated in a warning, in characters.
const MAX_SHOWN: usize = 64;

fn quoted(value: &str) -> String {
    match value.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}
