//! Writes `docs/configuration.md` from the table of variables.

use super::draft::{shown, tree_of, value_in};
use super::kind::Kind;
use super::settings::Settings;
use super::variables::{Alias, UNSUPPORTED, Variable, variables};

/// The reference of all settings as Markdown: the text of `docs/configuration.md`, which
/// `te config --markdown` prints.
pub fn configuration_reference() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut section = "";
    for row in variables() {
        if row.path().0 != section {
            section = row.path().0;
            text.push_str(&heading(section));
        }
        text.push_str(&line(row));
    }
    text.push_str(&closing());
    text
}

fn heading(section: &str) -> String {
    let about = match section {
        "metadata" => "Where descriptors come from and how long they are believed.",
        "peer" => "The port on which peers ask for descriptors, and our questions to theirs.",
        "engine" => "Batches, tasks, retries, deadlines.",
        "tcp" => "Bytes over TCP.",
        "topology" => {
            "Which NICs are near which memory. Read and checked always; used where NICs are discovered."
        }
        "log" => "What is logged, and where.",
        "rdma" => "Bytes over RDMA. Read and checked always; used where the RDMA transport is.",
        _ => "",
    };
    format!(
        "\n## `[{section}]`\n\n{about}\n\n\
         | key | variables | allowed | default | meaning |\n|---|---|---|---|---|\n"
    )
}

fn line(row: &Variable) -> String {
    let tree = tree_of(&Settings::default()).unwrap_or_default();
    let default = match value_in(&tree, row) {
        Some(toml::Value::Integer(number)) if *number != 0 => amount(*number, row),
        value => shown(row, value),
    };
    let (key, allowed, meaning) = (row.path().1, allowed(row), row.meaning);
    format!("| `{key}` | {} | {allowed} | {default} | {meaning} |\n", names(row))
}

fn names(row: &Variable) -> String {
    let mut names: Vec<String> = row.mooncake.iter().map(|name| format!("`{name}`")).collect();
    for alias in row.aliases {
        let remark = if matches!(alias, Alias::Old(_)) { " (old name)" } else { "" };
        names.push(format!("`{}`{remark}", alias.name()));
    }
    names.push(format!("`{}`", row.own_name()));
    names.join(", ")
}

fn allowed(row: &Variable) -> String {
    match &row.kind {
        Kind::Switch { by_presence: Some(means) } => {
            format!("`MC_`: there = {}; else on or off", if *means { "on" } else { "off" })
        }
        Kind::Switch { by_presence: None } => "on or off".to_owned(),
        Kind::Integer(integer) => {
            let zero = match integer.zero {
                Some(meaning) => format!("; 0 = {meaning}"),
                None => String::new(),
            };
            format!("{} to {}{zero}", amount(integer.min, row), amount(integer.max, row))
        }
        Kind::Choice { unit, .. } => format!("{} {unit}", row.kind).trim_end().to_owned(),
        Kind::Word { any_case: true, .. } => format!("{}, in any case", row.kind),
        other => other.to_string(),
    }
}

/// A number with its unit; bytes in the largest binary unit that fits evenly.
fn amount(number: i64, row: &Variable) -> String {
    match row.kind.unit() {
        "" => number.to_string(),
        "bytes" => binary(number),
        unit => format!("{number} {unit}"),
    }
}

fn binary(number: i64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    UNITS.iter().find(|(_, bits)| number >= 1 << bits && number % (1 << bits) == 0).map_or_else(
        || format!("{number} bytes"),
        |(unit, bits)| format!("{} {unit}", number >> bits),
    )
}

fn closing() -> String {
    let names: Vec<String> = UNSUPPORTED.iter().map(|(name, _)| format!("`{name}`")).collect();
    format!(
        "\n## Variables that only give a warning\n\n\
         These ask for something that is not in this build; when one is set, the engine says so\n\
         instead of doing something else in silence: {}.\n",
        names.join(", ")
    )
}

const INTRODUCTION: &str = "\
# Configuration

This page is printed by `te config --markdown` from the table in
`crates/te-engine/src/config/variables.rs`; a test compares the two. `te config` prints what is in
force where you are, and why.

## Where a value comes from

From the weakest to the strongest:

1. the default;
2. a TOML file, named by `te --config FILE`, by the program, or by the variable `TE_CONFIG`;
3. Mooncake's variables, `MC_…`, with Mooncake's meaning;
4. our variables, `TE_…`;
5. the program that uses the engine (`EngineConfig::adjust`, options of `te`).

Everything is read once, when the engine is built. A variable that changes later has no effect.

## How a value is read

- **Whole numbers** are ASCII digits and nothing else: no sign, blank, unit, exponent or other base.
- **On or off** is one of 1, true, yes, on, 0, false, no, off, in any case.
- **Flags of Mooncake** marked \"there = on\" below are switched by being set at all: also
  `MC_FORCE_TCP=0` and an empty value mean on. To undo one that you inherit, set its `TE_…` variable,
  which takes the words for on and off.
- **An empty value** counts as not set, except for those flags.
- **A bad value of a variable** never stops anything. What the weaker sources say stays in force and
  one warning names the variable, the value and what is used instead. The two ends of the port range
  go together: when one is bad, or the two do not fit, neither is taken.
- **A bad TOML file** is an error with file, line and key, and so is an unknown section or key.

```toml
[tcp]
lanes_per_peer = 8

[engine]
request_timeout_ms = 20000
```
";
