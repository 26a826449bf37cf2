//! A configuration while it is put together, layer over layer.
//!
//! Values live in one TOML tree of two levels, section and key, so that a row of the table finds
//! its value by name. Turning the tree into [`Settings`] is serde's work.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::error::{ConfigWarning, SettingProblem};
use super::kind::Kind;
use super::settings::Settings;
use super::variables::Variable;
use super::{EngineConfig, Source};

/// What stands in the place of a secret.
pub(super) const HIDDEN: &str = "(hidden)";

/// Where each value comes from; what is not in it is a default.
pub(crate) type Sources = BTreeMap<&'static str, Source>;

#[derive(Debug, Clone)]
pub(super) struct Draft {
    tree: Table,
    sources: Sources,
    pub(super) warnings: Vec<ConfigWarning>,
}

impl Draft {
    /// Defaults only.
    pub(super) fn new() -> Result<Self, SettingProblem> {
        let tree = tree_of(&Settings::default())?;
        Ok(Self { tree, sources: Sources::new(), warnings: Vec::new() })
    }

    /// What a program made; for checking only.
    pub(super) fn of(tree: Table, sources: Sources) -> Self {
        Self { tree, sources, warnings: Vec::new() }
    }

    pub(super) fn value(&self, row: &Variable) -> Option<&Value> {
        value_in(&self.tree, row)
    }

    pub(super) fn integer(&self, row: &Variable) -> i64 {
        self.value(row).and_then(Value::as_integer).unwrap_or_default()
    }

    pub(super) fn source(&self, row: &Variable) -> Source {
        self.sources.get(row.field).cloned().unwrap_or_default()
    }

    pub(super) fn set(&mut self, row: &Variable, value: Value, source: Source) {
        let (section, key) = row.path();
        if let Some(Value::Table(section)) = self.tree.get_mut(section) {
            section.insert(key.to_owned(), value);
            self.sources.insert(row.field, source);
        }
    }

    /// Puts a value back to what it was in `earlier`.
    pub(super) fn restore(&mut self, row: &Variable, earlier: &Self) {
        let (section, key) = row.path();
        if let Some(Value::Table(section)) = self.tree.get_mut(section) {
            match earlier.value(row) {
                Some(value) => section.insert(key.to_owned(), value.clone()),
                None => section.remove(key),
            };
        }
        match earlier.sources.get(row.field) {
            Some(source) => self.sources.insert(row.field, source.clone()),
            None => self.sources.remove(row.field),
        };
    }

    /// Tells that a variable was not taken as it stands. Call it when the value that is kept is
    /// in the tree.
    pub(super) fn warn(&mut self, row: &Variable, name: &str, value: &str, reason: String) {
        let kept = shown(row, self.value(row));
        let value = if matches!(row.kind, Kind::Secret) { HIDDEN } else { value };
        let kept = format!("using {kept} ({})", self.source(row));
        self.warnings.push(ConfigWarning::new(name, value, kept, reason));
    }

    pub(super) fn finish(self) -> Result<EngineConfig, SettingProblem> {
        let settings = Value::Table(self.tree).try_into().map_err(|cause| mismatch(&cause))?;
        Ok(EngineConfig { settings, sources: self.sources, warnings: self.warnings })
    }
}

/// Settings as a tree.
pub(super) fn tree_of(settings: &Settings) -> Result<Table, SettingProblem> {
    Table::try_from(settings).map_err(|cause| mismatch(&cause))
}

pub(super) fn value_in<'a>(tree: &'a Table, row: &Variable) -> Option<&'a Value> {
    let (section, key) = row.path();
    tree.get(section)?.get(key)
}

/// A value as a person reads it.
pub(super) fn shown(row: &Variable, value: Option<&Value>) -> String {
    match value {
        None => row.unset.to_owned(),
        Some(_) if matches!(row.kind, Kind::Secret) => HIDDEN.to_owned(),
        Some(Value::String(text)) if text.is_empty() => "empty".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(entries)) if entries.is_empty() => "empty".to_owned(),
        Some(Value::Array(entries)) => {
            let entries: Vec<String> =
                entries.iter().map(|entry| shown(row, Some(entry))).collect();
            entries.join(",")
        }
        Some(Value::Integer(0)) => match row.kind.zero() {
            Some(meaning) => format!("0 ({meaning})"),
            None => "0".to_owned(),
        },
        Some(other) => other.to_string(),
    }
}

fn mismatch(cause: &dyn std::error::Error) -> SettingProblem {
    let reason = cause.to_string().trim_end().replace('\n', " ");
    SettingProblem { place: None, key: "settings".to_owned(), reason }
}
