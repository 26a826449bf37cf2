//! Every variable against every odd value.

use super::super::EffectiveValue;
use super::super::kind::Kind;
use super::super::variables::{Alias, Variable, variables};
use super::{EngineConfig, Source, effective, load};

/// The odd values that field reports name.
const VALUES: &[&str] =
    &["", " ", "abc", "-1", "0", "1e3", "99999999999999999999", "0x10", "1 ", "TRUE", "yes", "０"];

/// Whether a value is one that the variable takes; written by kind, apart from the reader.
fn is_good(row: &Variable, value: &str) -> bool {
    match &row.kind {
        Kind::Switch { .. } => ["0", "TRUE", "yes"].contains(&value),
        Kind::Integer(integer) => value == "0" && (integer.min == 0 || integer.zero.is_some()),
        Kind::Choice { numbers, .. } => {
            (value == "0" && numbers.contains(&0)) || (value == "-1" && numbers.contains(&-1))
        }
        Kind::Word { .. } | Kind::Address | Kind::NicAddresses | Kind::NicIndices => false,
        Kind::Text | Kind::Secret | Kind::Path => true,
        Kind::Names => value != " ",
        Kind::Ports => value == "0" || value == "1 ",
    }
}

fn is_presence(row: &Variable) -> bool {
    matches!(row.kind, Kind::Switch { by_presence: Some(_) })
}

/// All names of a row: Mooncake's, other names of it, ours.
fn names(row: &Variable) -> Vec<String> {
    let mut names: Vec<String> = row.mooncake.iter().map(ToString::to_string).collect();
    names.extend(row.aliases.iter().map(|alias| alias.name().to_owned()));
    names.push(row.own_name());
    names
}

#[test]
fn fb49_every_variable_with_every_odd_value_starts_in_range_and_says_what_it_uses() {
    // FB49: nothing panics or exits; a value is taken whole or the default stays with one warning.
    let defaults = EngineConfig::default();
    let mut cases = 0;
    for row in variables() {
        for name in names(row) {
            for value in VALUES {
                check(row, &name, value, &defaults);
                cases += 1;
            }
        }
    }
    assert!(cases > 60 * 2 * VALUES.len(), "{cases} cases");
}

fn check(row: &Variable, name: &str, value: &str, defaults: &EngineConfig) {
    let config = load(&[(name, value)]);
    let case = format!("{name}={value:?}");
    in_range(&config, &case);
    others_untouched(&config, defaults, row.field, &case);
    let (shown, source) = effective(&config, row.field);
    let by_presence = is_presence(row) && name.starts_with("MC_");
    if value.is_empty() && !by_presence {
        assert_eq!((shown, source), effective(defaults, row.field), "{case}: empty is not set");
        assert!(config.warnings().is_empty(), "{case}");
    } else if by_presence || is_good(row, value) {
        assert_eq!(source, Source::Environment { variable: name.to_owned() }, "{case}");
        let old = row.aliases.iter().any(|alias| matches!(alias, Alias::Old(old) if *old == name));
        assert_eq!(config.warnings().len(), usize::from(old), "{case}: {:?}", config.warnings());
    } else {
        refused(row, &config, defaults, &case, name);
    }
}

/// One warning with variable, value, and what is in force instead.
fn refused(row: &Variable, config: &EngineConfig, defaults: &EngineConfig, case: &str, name: &str) {
    let [warning] = config.warnings() else {
        panic!("{case}: {:?}", config.warnings());
    };
    assert_eq!(warning.variable(), name, "{case}");
    assert!(!warning.value().is_empty() && !warning.reason().is_empty(), "{case}");
    let (shown, _) = effective(config, row.field);
    let (default, _) = effective(defaults, row.field);
    // Only the sync call's limit is lifted to its minimum instead of being refused.
    if shown != default {
        assert_eq!((row.field, shown.as_str()), ("engine.transfer_timeout_seconds", "5"), "{case}");
    }
    assert!(warning.kept().starts_with(&format!("using {shown} (")), "{case}: {warning}");
}

fn in_range(config: &EngineConfig, case: &str) {
    let tree = toml::Table::try_from((**config).clone()).unwrap();
    for row in variables() {
        let (section, key) = row.path();
        if let Some(value) = tree[section].get(key) {
            assert!(row.kind.accepts(value), "{case}: {} = {value}", row.field);
        }
    }
    assert!(config.peer.port_min <= config.peer.port_max, "{case}");
}

fn others_untouched(config: &EngineConfig, defaults: &EngineConfig, field: &str, case: &str) {
    let others = |config: &EngineConfig| -> Vec<EffectiveValue> {
        config.effective().into_iter().filter(|value| value.name != field).collect()
    };
    assert_eq!(others(config), others(defaults), "{case}");
}
