//! Where variables are read from: the process, or a map in a test.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

/// A set of named values, usually the process's environment.
///
/// ```
/// use std::collections::BTreeMap;
/// use te_engine::Environment;
///
/// let map = BTreeMap::from([("MC_FORCE_TCP", "1")]);
/// assert!(map.value("MC_FORCE_TCP").is_some());
/// assert!(map.value("MC_LOG_DIR").is_none());
/// ```
pub trait Environment: fmt::Debug {
    /// The value of a variable, or none if it is not there. An empty value is a value.
    fn value(&self, name: &str) -> Option<OsString>;
}

/// The environment of this process. Read while an engine's configuration is loaded and never
/// after, so that a later change of a variable has no effect and no data race.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    fn value(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}

impl<K, V> Environment for BTreeMap<K, V>
where
    K: Borrow<str> + Ord + fmt::Debug,
    V: AsRef<OsStr> + fmt::Debug,
{
    fn value(&self, name: &str) -> Option<OsString> {
        self.get(name).map(|value| value.as_ref().to_owned())
    }
}
