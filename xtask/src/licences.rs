//! Licences, sources and bans of everything that we build on, against deny.toml.
//!
//! `cargo deny` does the same and more, and takes twenty minutes to compile. This check needs
//! nothing but cargo, so that the rules hold on every machine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::spdx;
use crate::workspace::{self, Package, Workspace};

/// What deny.toml says, as far as this check reads it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    allowed: BTreeSet<String>,
    /// Each with those packages that may depend on it all the same.
    banned: BTreeMap<String, BTreeSet<String>>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many packages were looked at.
    pub(crate) n_packages: usize,
    /// What is against the rules.
    pub(crate) findings: Vec<String>,
}

/// Looks at every package that a build on Linux with all features can use.
pub(crate) fn check(workspace: &Workspace) -> anyhow::Result<Report> {
    let text = std::fs::read_to_string(workspace.path("deny.toml")).context("no deny.toml")?;
    let rules = Rules::parse(&text)?;
    let flags = ["--all-features", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let metadata = workspace::metadata(workspace.root(), &flags)?;
    Ok(judge(&metadata, &rules))
}

fn judge(metadata: &Value, rules: &Rules) -> Report {
    let used = used(metadata);
    let packages = workspace::packages(metadata);
    let packages: Vec<Package<'_>> =
        packages.filter(|package| used.contains(&package.raw()["id"].to_string())).collect();
    let mut findings: Vec<String> =
        packages.iter().flat_map(|package| faults(*package, rules)).collect();
    findings.extend(edges(metadata, &packages).filter_map(|(from, to)| ban(from, to, rules)));
    let registries: BTreeSet<&str> =
        packages.iter().filter_map(|package| package.raw()["source"].as_str()).collect();
    if registries.len() > 1 {
        findings.push(format!("there are several sources: {registries:?}"));
    }
    Report { n_packages: packages.len(), findings }
}

/// The packages in the resolved graph; cargo lists others too.
fn used(metadata: &Value) -> BTreeSet<String> {
    let nodes = metadata["resolve"]["nodes"].as_array();
    nodes.into_iter().flatten().map(|node| node["id"].to_string()).collect()
}

/// Who depends on whom in the resolved graph, by name.
fn edges<'a>(
    metadata: &'a Value,
    packages: &[Package<'a>],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let named = packages.iter().map(|package| (package.raw()["id"].to_string(), package.name()));
    let names: BTreeMap<String, &'a str> = named.collect();
    let name = move |id: &Value| names.get(&id.to_string()).copied().unwrap_or_default();
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    nodes.flat_map(move |node| {
        let from = name(&node["id"]);
        let to = node["deps"].as_array().into_iter().flatten().map(|dep| name(&dep["pkg"]));
        to.map(move |to| (from, to)).collect::<Vec<_>>()
    })
}

fn ban(from: &str, to: &str, rules: &Rules) -> Option<String> {
    let may = rules.banned.get(to)?;
    let is_bad = !may.contains(from);
    is_bad.then(|| format!("{from}: depends on {to}, which is banned for it; deny.toml says why"))
}

fn faults(package: Package<'_>, rules: &Rules) -> Vec<String> {
    let raw = package.raw();
    let name = format!("{} {}", package.name(), raw["version"].as_str().unwrap_or_default());
    let mut faults = Vec::new();
    if let Some(what) = licence_fault(raw["license"].as_str(), rules) {
        faults.push(format!("{name}: {what}"));
    }
    if let Some(source) = raw["source"].as_str().filter(|source| !source.starts_with("registry+")) {
        faults.push(format!("{name}: comes from {source}, not from the crate registry"));
    }
    if raw["source"].is_null() {
        let wild = wildcards(raw);
        faults.extend(wild.map(|to| format!("{name}: depends on any version of {to}")));
    }
    faults
}

fn licence_fault(licence: Option<&str>, rules: &Rules) -> Option<String> {
    let Some(licence) = licence else { return Some("names no licence".to_owned()) };
    match spdx::is_satisfied(licence, |name| rules.allowed.contains(name)) {
        Ok(true) => None,
        Ok(false) => Some(format!("the licence {licence} is not allowed")),
        Err(error) => Some(format!("the licence {licence} cannot be read: {error}")),
    }
}

fn wildcards(raw: &Value) -> impl Iterator<Item = &str> {
    let dependencies = raw["dependencies"].as_array().into_iter().flatten();
    dependencies.filter(|d| d["req"] == "*").filter_map(|d| d["name"].as_str())
}

impl Rules {
    /// Reads the two lists. No TOML parser: xtask has three dependencies, and the file is ours.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let allowed = list(text, "licenses", "allow").into_iter().collect::<BTreeSet<_>>();
        ensure!(!allowed.is_empty(), "deny.toml allows no licence");
        let banned = list(text, "bans", "deny");
        let may = banned.iter().map(|name| wrappers(text, name));
        Ok(Self { allowed, banned: banned.iter().cloned().zip(may).collect() })
    }
}

/// The first string of each line of the list `key` in the table `table`; lists have a line per
/// entry.
fn list(text: &str, table: &str, key: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.skip_while(|line| *line != format!("[{table}]")).skip(1);
    let lines = lines.take_while(|line| !is_table(line));
    let lines = lines.skip_while(|line| *line != format!("{key} = [")).skip(1);
    let entries = lines.take_while(|line| *line != "]").filter(|line| !line.starts_with('#'));
    entries.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
}

/// The packages that may depend on a banned one, from its line.
fn wrappers(text: &str, banned: &str) -> BTreeSet<String> {
    let begins = format!("{{ crate = \"{banned}\"");
    let line = text.lines().map(str::trim).find(|line| line.starts_with(&begins));
    let inside = line.and_then(|line| line.split_once("wrappers = [")?.1.split_once(']'));
    let quoted = inside.map(|(names, _)| names.split('"').skip(1).step_by(2)).into_iter().flatten();
    quoted.map(str::to_owned).collect()
}

fn is_table(line: &str) -> bool {
    line.starts_with('[') && line.ends_with(']') && line.len() > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[licenses]\nallow = [\n    # why\n    \"MIT\", # everybody\n    \"ISC\",\n]\n\
        [bans]\ndeny = [\n    { crate = \"bad\", reason = \"x\" },\n    \
        { crate = \"some\", wrappers = [\"a\", \"b\"], reason = \"x\" },\n]\n";

    fn metadata(licence: &str, source: &str, requirement: &str) -> Value {
        serde_json::json!({
            "resolve": { "nodes": [{ "id": "a" }, { "id": "b" }] },
            "packages": [
                { "id": "a", "name": "ours", "version": "1.0.0", "license": "MIT", "source": null,
                  "dependencies": [{ "name": "b", "req": requirement }] },
                { "id": "b", "name": "theirs", "version": "1.0.0", "license": licence,
                  "source": source, "dependencies": [] },
                { "id": "c", "name": "unused", "version": "1.0.0", "license": "GPL-3.0",
                  "source": "git+x", "dependencies": [] },
            ],
        })
    }

    fn found(licence: &str, source: &str, requirement: &str) -> Vec<String> {
        judge(&metadata(licence, source, requirement), &Rules::parse(DENY).unwrap()).findings
    }

    #[test]
    fn the_lists_are_read_line_by_line() {
        let rules = Rules::parse(DENY).unwrap();
        assert_eq!(rules.allowed.iter().collect::<Vec<_>>(), ["ISC", "MIT"]);
        assert_eq!(rules.banned.keys().collect::<Vec<_>>(), ["bad", "some"]);
        assert_eq!(rules.banned["bad"], BTreeSet::new());
        assert_eq!(rules.banned["some"].iter().collect::<Vec<_>>(), ["a", "b"]);
        assert!(Rules::parse("[bans]\n").is_err());
    }

    #[test]
    fn a_good_graph_has_no_findings() {
        assert!(found("MIT OR GPL-3.0", "registry+x", "^1").is_empty());
    }

    #[test]
    fn each_rule_finds_its_fault() {
        assert_eq!(found("GPL-3.0", "registry+x", "^1").len(), 1);
        assert_eq!(found("MIT", "git+x", "^1").len(), 1);
        assert_eq!(found("MIT", "registry+x", "*").len(), 1);
    }

    #[test]
    fn a_banned_package_is_for_nobody_but_those_that_are_named() {
        let graph = serde_json::json!({
            "resolve": { "nodes": [
                { "id": "1", "deps": [{ "pkg": "3" }] }, { "id": "2", "deps": [{ "pkg": "3" }] },
                { "id": "3", "deps": [{ "pkg": "4" }] }, { "id": "4", "deps": [] },
            ] },
            "packages": [
                { "id": "1", "name": "a", "license": "MIT" },
                { "id": "2", "name": "c", "license": "MIT" },
                { "id": "3", "name": "some", "license": "MIT" },
                { "id": "4", "name": "bad", "license": "MIT" },
            ],
        });
        let found = judge(&graph, &Rules::parse(DENY).unwrap()).findings;
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("c: depends on some"), "{found:?}");
        assert!(found[1].starts_with("some: depends on bad"), "{found:?}");
    }

    #[test]
    fn our_own_file_can_be_read() {
        let workspace = Workspace::open().unwrap();
        let text = std::fs::read_to_string(workspace.path("deny.toml")).unwrap();
        let rules = Rules::parse(&text).unwrap();
        assert!(rules.allowed.contains("Apache-2.0"));
        assert!(rules.banned["bincode"].is_empty());
        assert!(rules.banned["parking_lot"].contains("te-metadata-server"));
    }
}
