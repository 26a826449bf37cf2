//! The suite `loom`: the lock-free parts, in every order in which their threads can run.
//!
//! A model is a test in a module `#[cfg(all(test, loom))]`. With that switch a crate's atomics are
//! loom's, which work inside models only: so a build has a target folder of its own, and only the
//! models of it are run.

use std::time::Duration;

use crate::artifacts::{self, Selection};
use crate::journal::Journal;
use crate::outcome::TestResult;
use crate::runner::{Choice, Runner};
use crate::suites::Order;
use crate::workspace::Workspace;

/// Where there are models.
struct Models {
    package: &'static str,
    /// The module whose submodule has the models, as it begins their names.
    module: &'static str,
}

const MODELS: &[Models] = &[Models { package: "te-engine", module: "turnstile" }];

/// The number of orders grows fast; one that hangs is told from one that is large by this.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let runner = Runner {
        workspace,
        level: order.level,
        env: Vec::new(),
        one_by_one: true,
        limit: LIMIT,
        filter: None,
    };
    let mut results = Vec::new();
    for models in MODELS.iter().filter(|models| is_wanted(models, order)) {
        let choice = Choice { only: vec![models.module], ..Choice::default() };
        for program in &artifacts::build_tests(workspace, journal, &selection(workspace, models))? {
            results.extend(runner.run_some(journal, program, &choice)?);
        }
    }
    Ok(results)
}

fn is_wanted(models: &Models, order: &Order) -> bool {
    let part_of = |text: &String| models.package.contains(text) || models.module.contains(text);
    order.filter.as_ref().is_none_or(part_of)
}

fn selection(workspace: &Workspace, models: &Models) -> Selection {
    let folder = workspace.target().join("loom").display().to_string();
    let flags = ["--lib", "--no-default-features", "--target-dir"].map(str::to_owned);
    Selection {
        packages: vec![models.package.to_owned()],
        targets: flags.into_iter().chain([folder]).collect(),
        env: vec![("RUSTFLAGS", "--cfg loom")],
        ..Selection::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files below a folder that have models.
    fn with_models(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                with_models(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                if text.contains("cfg(all(test, loom))") {
                    found.push(path);
                }
            }
        }
    }

    #[test]
    fn every_model_is_run() {
        let workspace = Workspace::open().unwrap();
        let mut found = Vec::new();
        with_models(&workspace.path("crates"), &mut found);
        let file = |Models { package, module }: &Models| {
            let path = module.replace("::", "/");
            workspace.path(&format!("crates/{package}/src/{path}.rs"))
        };
        let mut listed: Vec<_> = MODELS.iter().map(file).collect();
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
    }
}
