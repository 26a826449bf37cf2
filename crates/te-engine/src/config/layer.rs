//! Lays the variables of the environment over a draft.
//!
//! Nothing here fails: a value that cannot be taken leaves what was there and adds a warning. An
//! empty value counts as not set, except for Mooncake's flags, which are on by being there.

use std::ffi::OsString;

use super::draft::Draft;
use super::environment::Environment;
use super::kind::{Kind, Reading};
use super::variables::{Alias, UNSUPPORTED, Variable, variables};
use super::{Source, rules};

/// Whose variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// `MC_…`
    Mooncake,
    /// `TE_…`, the stronger.
    Own,
}

/// A variable that is set.
struct Found {
    name: String,
    value: OsString,
    /// The name to use instead of this one.
    instead: Option<&'static str>,
}

pub(super) fn apply(draft: &mut Draft, environment: &dyn Environment, layer: Layer) {
    let before = draft.clone();
    let mut bad_ports = false;
    for row in variables() {
        if let Some(found) = find(row, environment, layer) {
            let taken = take(draft, row, &found, layer);
            bad_ports |= !taken && rules::is_port_end(row);
        }
    }
    restore_ports(draft, &before, bad_ports);
    restore_broken(draft, &before);
    if layer == Layer::Mooncake {
        unsupported(draft, environment);
    }
}

fn find(row: &Variable, environment: &dyn Environment, layer: Layer) -> Option<Found> {
    let lookup = |name: &str, instead| {
        let value = environment.value(name)?;
        Some(Found { name: name.to_owned(), value, instead })
    };
    if layer == Layer::Own {
        return lookup(&row.own_name(), None);
    }
    let name = row.mooncake?;
    let mut aliases = row.aliases.iter();
    lookup(name, None).or_else(|| {
        aliases.find_map(|alias| {
            let instead = matches!(alias, Alias::Old(_)).then_some(name);
            lookup(alias.name(), instead)
        })
    })
}

/// False for a value that was refused.
fn take(draft: &mut Draft, row: &Variable, found: &Found, layer: Layer) -> bool {
    let source = Source::Environment { variable: found.name.clone() };
    if let (Kind::Switch { by_presence: Some(means) }, Layer::Mooncake) = (row.kind, layer) {
        draft.set(row, toml::Value::Boolean(means), source);
        return true;
    }
    let text = found.value.to_string_lossy();
    if text.is_empty() {
        return true;
    }
    let reading = match found.value.to_str() {
        Some(text) => row.kind.read(text),
        None => Reading::Refused,
    };
    match reading {
        Reading::Taken(value) => {
            draft.set(row, value, source);
            if let Some(instead) = found.instead {
                draft.warn(row, &found.name, &text, format!("is an old name of {instead}"));
            }
            true
        }
        Reading::Raised(value) => {
            draft.set(row, value, source);
            draft.warn(row, &found.name, &text, "is below the minimum".to_owned());
            true
        }
        Reading::Refused => {
            draft.warn(row, &found.name, &text, format!("is not {}", row.kind));
            false
        }
    }
}

/// One bad end voids the other: half a range from a caller and half from us is nobody's wish.
fn restore_ports(draft: &mut Draft, before: &Draft, bad: bool) {
    if !bad {
        return;
    }
    for row in variables().filter(|row| rules::is_port_end(row)) {
        if let Source::Environment { variable } = draft.source(row)
            && draft.source(row) != before.source(row)
        {
            let value = draft.integer(row).to_string();
            draft.restore(row, before);
            let reason = "is dropped with the other end of the port range".to_owned();
            draft.warn(row, &variable, &value, reason);
        }
    }
}

fn restore_broken(draft: &mut Draft, before: &Draft) {
    for broken in rules::broken(draft) {
        let set: Vec<(&Variable, String, String)> = broken
            .rows
            .iter()
            .filter_map(|row| match draft.source(row) {
                Source::Environment { variable } => {
                    Some((*row, variable, draft.integer(row).to_string()))
                }
                _ => None,
            })
            .collect();
        broken.rows.iter().for_each(|row| draft.restore(row, before));
        let first = broken.rows.first().map_or("", |row| row.field);
        for (row, variable, value) in set {
            let reason = format!("is refused: {first} {}", broken.reason);
            draft.warn(row, &variable, &value, reason);
        }
    }
}

/// Says that something was asked for which this build does not have. The value is not repeated: it
/// may be a password.
fn unsupported(draft: &mut Draft, environment: &dyn Environment) {
    for (name, reason) in UNSUPPORTED {
        if environment.value(name).is_some() {
            let reason = format!("is set, and {reason}");
            draft.warnings.push(super::ConfigWarning::without_effect(name, reason));
        }
    }
}
