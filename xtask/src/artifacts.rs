//! Test programs: which there are, and where cargo put them.
//!
//! Cargo builds them and says where they are; we start them ourselves. So each result is known
//! with its package, each program has its own skip log, time and limit, and the same programs can
//! be run many times (`sabotage`).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::journal::Journal;
use crate::run;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// What to build test programs of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Names of packages.
    pub(crate) packages: Vec<String>,
    /// Features as `package/feature`.
    pub(crate) features: Vec<String>,
    /// Flags that choose among the targets, for example `--lib`; none takes all.
    pub(crate) targets: Vec<String>,
    /// Variables for the compiler.
    pub(crate) env: Vec<(&'static str, &'static str)>,
}

impl Selection {
    /// The flags for cargo.
    pub(crate) fn flags(&self) -> Vec<String> {
        let packages = self.packages.iter().flat_map(|name| ["--package".to_owned(), name.clone()]);
        let mut flags: Vec<String> = packages.collect();
        if !self.features.is_empty() {
            flags.extend(["--features".to_owned(), self.features.join(",")]);
        }
        flags.extend(self.targets.iter().cloned());
        flags
    }
}

/// One test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// The package that it belongs to.
    pub(crate) package: String,
    /// What begins the names of its tests: `te_metadata`, or `te_suites::faults` for a file in
    /// `tests/`.
    pub(crate) prefix: String,
    /// What to start.
    pub(crate) program: PathBuf,
    /// The folder of its package, in which cargo would start it.
    pub(crate) folder: PathBuf,
}

/// Builds test programs.
///
/// # Errors
///
/// Where they do not compile; the compiler's words have then been printed.
pub(crate) fn build_tests(
    workspace: &Workspace,
    journal: &mut Journal,
    selection: &Selection,
) -> anyhow::Result<Vec<TestProgram>> {
    let mut command = workspace.cargo("test");
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    command.args(selection.flags()).envs(selection.env.iter().copied());
    let watch = Stopwatch::start();
    let mut programs = Vec::new();
    let ended = run::stream(command, journal, BUILD_LIMIT, |line| programs.extend(artifact(line)))?;
    if !ended.is_good() {
        ui::say(&journal.tail(60)?);
        bail!("the tests do not build ({}); the log is {}", ended.text(), journal.shown());
    }
    if watch.elapsed() > Duration::from_secs(2) {
        ui::say(&format!("  built in {}", watch.text()));
    }
    programs.sort_by(|a, b| a.prefix.cmp(&b.prefix));
    Ok(programs)
}

/// Builds programs that tests start, and says nothing unless that fails.
pub(crate) fn build_programs(
    workspace: &Workspace,
    journal: &mut Journal,
    flags: &[&str],
) -> anyhow::Result<()> {
    let mut command = workspace.cargo("build");
    command.args(flags);
    let ended = run::quietly(command, journal, BUILD_LIMIT)?;
    if !ended.is_good() {
        ui::say(&journal.tail(60)?);
        bail!("`cargo build {}` failed; the log is {}", flags.join(" "), journal.shown());
    }
    Ok(())
}

/// A cold build of everything takes a few minutes on two cores; this is for one that hangs.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// The test program that a line of cargo's JSON announces.
fn artifact(line: &str) -> Option<TestProgram> {
    let message: Value = line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
    let program = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned();
    let package = package_name(&message)?;
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let prefix = prefix(&package, kind, target);
    Some(TestProgram { package, prefix, program: PathBuf::from(program), folder })
}

/// The name in `path+file:///…/te-cli#0.1.0` or `…/folder#te-cli@0.1.0`.
fn package_name(message: &Value) -> Option<String> {
    let id = message["package_id"].as_str()?;
    let (place, tail) = id.rsplit_once('#')?;
    let name = match tail.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next()?,
    };
    Some(name.to_owned())
}

fn prefix(package: &str, kind: &str, target: &str) -> String {
    let target = target.replace('-', "_");
    match kind {
        "test" => format!("{}::{target}", package.replace('-', "_")),
        _ => target,
    }
}

/// Reads a skip log or another small file that may be absent.
pub(crate) fn read_if_there(path: &std::path::Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        other => other.with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, kind: &str, name: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/x/y/Cargo.toml",
            "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},
            "executable":"/t/exe"}}"#
        )
        .replace('\n', " ")
    }

    #[test]
    fn the_package_is_read_from_both_forms_of_its_id() {
        let short = artifact(&message("path+file:///x/te-cli#0.1.0", "bin", "te", true)).unwrap();
        assert_eq!((short.package.as_str(), short.prefix.as_str()), ("te-cli", "te"));
        let id = "path+file:///x/other#te-suites@0.1.0";
        let long = artifact(&message(id, "test", "fault-a", true)).unwrap();
        assert_eq!(long.prefix, "te_suites::fault_a");
        assert_eq!(long.folder, PathBuf::from("/x/y"));
    }

    #[test]
    fn programs_that_are_no_tests_and_other_lines_are_left_out() {
        assert_eq!(artifact(&message("path+file:///x/a#0.1.0", "bin", "te", false)), None);
        assert_eq!(artifact("   Compiling te v0.1.0"), None);
        assert_eq!(artifact("{not json"), None);
    }
}
