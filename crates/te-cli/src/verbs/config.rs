//! `te config`: what is in force, and why.

use std::fmt::Write;

use serde_json::{Value, json};
use te_engine::{EffectiveValue, EngineConfig, Source, configuration_reference};

use crate::args::{Common, Config};
use crate::error::CliError;
use crate::output;
use crate::session;
use crate::units;

pub(crate) fn run(common: &Common, args: &Config) -> Result<(), CliError> {
    if args.markdown {
        return output::text(&configuration_reference());
    }
    let config = session::load_config(common)?;
    let values: Vec<EffectiveValue> = config
        .effective()
        .into_iter()
        .filter(|value| !args.changed || value.source != Source::Default)
        .collect();
    if common.json {
        return output::line(&format!("{:#}", as_json(&config, &values)));
    }
    for warning in config.warnings() {
        output::note(&format!("te: {warning}"));
    }
    if values.is_empty() {
        return output::line("every setting has its default");
    }
    output::text(&table(&values, args.long))
}

fn table(values: &[EffectiveValue], long: bool) -> String {
    let width = |text: fn(&EffectiveValue) -> usize| values.iter().map(text).max().unwrap_or(0);
    let keys = width(|value| split(value).1.len());
    let shown = width(|value| with_unit(value).chars().count());
    let mut text = String::new();
    let mut section = "";
    for value in values {
        let (own, key) = split(value);
        if own != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{own}]");
            section = own;
        }
        let value_shown = with_unit(value);
        let _ = writeln!(text, "{key:<keys$}  {value_shown:<shown$}  {}", value.source);
        if long {
            text.push_str(&details(value));
        }
    }
    text
}

fn details(value: &EffectiveValue) -> String {
    let mut names = vec![value.variable.as_str()];
    names.extend(value.mooncake_variable);
    format!("    {}\n    {}\n", value.meaning, names.join(", "))
}

fn split(value: &EffectiveValue) -> (&'static str, &'static str) {
    value.name.split_once('.').unwrap_or(("", value.name))
}

/// A value that is a number gets its unit; one that is a word needs none.
fn with_unit(value: &EffectiveValue) -> String {
    match (value.value.parse::<u64>(), value.unit) {
        (Ok(bytes), "bytes") => units::length(bytes),
        (Ok(number), unit) if !unit.is_empty() => format!("{number} {unit}"),
        _ => value.value.clone(),
    }
}

fn as_json(config: &EngineConfig, values: &[EffectiveValue]) -> Value {
    let settings: Vec<Value> = values
        .iter()
        .map(|value| {
            json!({
                "name": value.name,
                "value": value.value,
                "unit": value.unit,
                "source": value.source.to_string(),
                "variable": value.variable,
                "mooncake_variable": value.mooncake_variable,
                "meaning": value.meaning,
            })
        })
        .collect();
    let warnings: Vec<String> = config.warnings().iter().map(ToString::to_string).collect();
    json!({ "settings": settings, "warnings": warnings })
}
