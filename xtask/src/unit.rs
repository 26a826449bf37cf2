//! The suite `unit`: every crate by itself.

use crate::artifacts::{self, Selection};
use crate::journal::Journal;
use crate::outcome::TestResult;
use crate::runner::Runner;
use crate::suites::Order;
use crate::workspace::Workspace;

/// The crates and the features that their tests need. They are built together, since one build
/// with all features costs a third of eight; that each feature also stands alone is the business
/// of the suite `features`.
const CRATES: &[(&str, &[&str])] = &[
    ("te-sync", &[]),
    ("te-topology", &[]),
    ("te-metadata", &["http", "redis", "testing", "tls"]),
    ("te-metadata-server", &["tls"]),
    ("te-segment", &["testing"]),
    ("te-transport", &["testing"]),
    ("te-verbs", &["testing"]),
    ("te-transport-rdma", &["testing"]),
    ("te-transport-shm", &["testing"]),
    ("te-transport-tcp", &["testing"]),
    ("te-draw", &[]),
    ("te-engine", &["async", "testing"]),
    ("te-compat", &[]),
    ("te-cli", &[]),
    ("te-capi", &[]),
    ("te-mooncake", &[]),
    ("xtask", &[]),
];

/// Crates whose tests are suites: an extension cannot be linked into a test program.
#[cfg(test)]
const ELSEWHERE: &[&str] = &["te-python", "te-suites"];

/// The features with which the tests of `package` are built.
pub(crate) fn features_of(package: &str) -> &'static [&'static str] {
    CRATES.iter().find(|(name, _)| *name == package).map_or(&[], |(_, features)| features)
}

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let runner = Runner::new(workspace, order);
    let all = selection();
    let mut programs = artifacts::build_tests(workspace, journal, &all)?;
    programs.extend(artifacts::build_tests(workspace, journal, &of_the_suites())?);
    let mut results = Vec::new();
    for program in &programs {
        results.extend(runner.run_program(journal, program)?);
    }
    results.extend(runner.run_doc_tests(journal, doc_tests(workspace, &all, order))?);
    Ok(results)
}

/// All test programs of the crates, with the features that their tests need.
pub(crate) fn selection() -> Selection {
    let feature = |(name, features): &(&str, &[&str])| {
        features.iter().map(|feature| format!("{name}/{feature}")).collect::<Vec<_>>()
    };
    Selection {
        packages: CRATES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        features: CRATES.iter().flat_map(feature).collect(),
        ..Selection::default()
    }
}

/// What te-suites offers its own tests; the tests themselves are suites of their own.
fn of_the_suites() -> Selection {
    let packages = vec!["te-suites".to_owned()];
    let targets = vec!["--lib".to_owned(), "--bins".to_owned()];
    Selection { packages, targets, ..Selection::default() }
}

fn doc_tests(workspace: &Workspace, all: &Selection, order: &Order) -> std::process::Command {
    let mut libraries = all.clone();
    libraries.packages.retain(|name| has_library(workspace, name));
    let mut command = workspace.cargo("test");
    command.args(["--doc", "--no-fail-fast"]).args(libraries.flags());
    command.arg("--").args(order.filter.iter());
    command
}

fn has_library(workspace: &Workspace, name: &str) -> bool {
    let package = workspace.packages().find(|package| package.name() == name);
    let targets = package.and_then(|package| package.raw()["targets"].as_array());
    targets.into_iter().flatten().any(|target| target["kind"][0] == "lib")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_workspace_is_tested() {
        let workspace = Workspace::open().unwrap();
        let listed: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
        let here: Vec<&str> = workspace.packages().map(|package| package.name()).collect();
        let missing: Vec<_> = here
            .iter()
            .filter(|name| !ELSEWHERE.contains(name) && !listed.contains(name))
            .collect();
        assert!(missing.is_empty(), "{missing:?} are in no suite");
    }

    #[test]
    fn listed_features_exist_and_testing_is_never_forgotten() {
        let workspace = Workspace::open().unwrap();
        for package in workspace.packages().filter(|package| !ELSEWHERE.contains(&package.name())) {
            let there = package.features();
            let listed = features_of(package.name());
            assert!(listed.iter().all(|feature| there.contains(feature)), "{}", package.name());
            let testing = there.contains(&"testing");
            assert_eq!(testing, listed.contains(&"testing"), "{}", package.name());
        }
    }
}
