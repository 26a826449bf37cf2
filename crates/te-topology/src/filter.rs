//! Which NICs of a host may be used at all, by name.

use crate::{Machine, NicName};

/// Names that are let in, or kept out. It is asked before anything is ranked.
///
/// ```
/// use te_topology::{NicFilter, NicName};
///
/// let filter = NicFilter::new(["mlx5_0", " mlx5_1 "], ["mlx5_0"]);
/// assert!(filter.keeps(&NicName::parse("mlx5_1").unwrap()));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicFilter {
    allowed: Vec<String>,
    refused: Vec<String>,
}

impl NicFilter {
    /// A filter of two lists; spaces around names and empty names do not count.
    ///
    /// If names are allowed, only those are let in and the other list says nothing. If both are
    /// empty, everything is let in.
    pub fn new<'a>(
        allowed: impl IntoIterator<Item = &'a str>,
        refused: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self { allowed: names(allowed), refused: names(refused) }
    }

    /// Whether a NIC may be used.
    pub fn keeps(&self, nic: &NicName) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == nic.as_str());
        match self.allowed.is_empty() {
            true => !named(&self.refused),
            false => named(&self.allowed),
        }
    }

    /// Names that are allowed and that the machine does not have: worth a warning.
    pub fn absent<'a>(&'a self, machine: &Machine) -> Vec<&'a str> {
        let here = |name: &&str| machine.nic(name).is_none();
        self.allowed.iter().map(String::as_str).filter(here).collect()
    }
}

fn names<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let trimmed = list.into_iter().map(str::trim);
    trimmed.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
