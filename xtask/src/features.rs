//! The suite `features`: each crate builds alone, with each of its features, without warnings.
//!
//! Cargo unifies features over everything that it builds at once, so that a crate may lean on a
//! feature which only its neighbour asked for. Alone, it cannot.

use std::time::Duration;

use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::run;
use crate::suites::Order;
use crate::ui::{self, Stopwatch};
use crate::workspace::{Package, Workspace};

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let mut results = Vec::new();
    let products = workspace.packages().filter(|package| !OURS_ONLY.contains(&package.name()));
    for build in products.flat_map(builds) {
        if order.filter.as_ref().is_none_or(|text| build.id().contains(text)) {
            results.push(check(workspace, journal, &build)?);
        }
    }
    Ok(results)
}

/// Packages that no user builds.
const OURS_ONLY: &[&str] = &["xtask", "te-suites"];

/// One package with one set of features.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Build {
    package: String,
    features: Option<Vec<String>>,
}

impl Build {
    /// Its name among the results.
    pub(crate) fn id(&self) -> String {
        match &self.features {
            None => format!("{}::(default features)", self.package),
            Some(features) if features.is_empty() => format!("{}::(no feature)", self.package),
            Some(features) => format!("{}::{}", self.package, features.join("+")),
        }
    }

    /// The flags for cargo.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--package".to_owned(), self.package.clone()];
        if let Some(features) = &self.features {
            flags.push("--no-default-features".to_owned());
            if !features.is_empty() {
                flags.extend(["--features".to_owned(), features.join(",")]);
            }
        }
        flags
    }
}

/// The builds of a package: as it comes, bare, with each feature alone, with all.
pub(crate) fn builds(package: Package<'_>) -> Vec<Build> {
    builds_of(package.name(), &package.features(), package.has_default())
}

fn builds_of(package: &str, features: &[&str], has_default: bool) -> Vec<Build> {
    let build = |features: Option<&[&str]>| Build {
        package: package.to_owned(),
        features: features.map(|list| list.iter().map(|f| (*f).to_owned()).collect()),
    };
    let mut builds = vec![build(None)];
    // Without a feature named `default`, a package as it comes is bare already.
    builds.extend(has_default.then(|| build(Some(&[]))));
    builds.extend(features.iter().map(|feature| build(Some(&[*feature]))));
    if features.len() > 1 {
        builds.push(build(Some(features)));
    }
    builds
}

fn check(
    workspace: &Workspace,
    journal: &mut Journal,
    build: &Build,
) -> anyhow::Result<TestResult> {
    let mut command = workspace.cargo("check");
    command.args(build.flags());
    let watch = Stopwatch::start();
    let mut n_warnings = 0;
    let ended = run::stream(command, journal, Duration::from_secs(900), |line| {
        n_warnings += usize::from(is_warning(line));
    })?;
    let outcome = match (ended.is_good(), n_warnings) {
        (true, 0) => Outcome::Passed,
        (true, n) => Outcome::Failed(format!("builds with {}", ui::count(n, "warning"))),
        (false, _) => Outcome::Failed("does not build".to_owned()),
    };
    ui::say(&format!("  {:<8} {:>9}  {}", outcome.word(), watch.text(), build.id()));
    if outcome != Outcome::Passed {
        ui::say(&journal.tail(25)?);
    }
    Ok(TestResult { id: build.id(), outcome, time: Some(watch.elapsed()) })
}

/// Whether the compiler warns. Its closing count, `warning: NAME generated 2 warnings`, would
/// count twice.
fn is_warning(line: &str) -> bool {
    line.starts_with("warning") && !line.contains("generated ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(features: &[&str]) -> Vec<String> {
        builds_of("te-x", features, true).iter().map(Build::id).collect()
    }

    #[test]
    fn each_feature_stands_alone_and_all_stand_together() {
        let bare = builds_of("te-x", &[], false);
        assert_eq!(bare.iter().map(Build::id).collect::<Vec<_>>(), ["te-x::(default features)"]);
        let one = ["te-x::(default features)", "te-x::(no feature)", "te-x::a"];
        assert_eq!(ids(&["a"]), one);
        assert_eq!(ids(&["a", "b"])[3..], ["te-x::b", "te-x::a+b"]);
    }

    #[test]
    fn flags_name_the_features() {
        let builds = builds_of("te-x", &["a", "b"], true);
        assert_eq!(builds[0].flags(), ["--package", "te-x"]);
        let all = ["--package", "te-x", "--no-default-features", "--features", "a,b"];
        assert_eq!(builds[4].flags(), all);
    }

    #[test]
    fn the_closing_count_is_no_warning_of_its_own() {
        assert!(is_warning("warning: unused import"));
        assert!(!is_warning("warning: `te-x` (lib) generated 1 warning"));
        assert!(!is_warning("    Checking te-x v0.1.0"));
    }
}
