//! The test programs with the feature `testing`, and runs of some of their tests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::artifacts::{self, Selection, TestProgram, read_if_there};
use crate::journal::Journal;
use crate::libtest::{Parser, Verdict};
use crate::run::{self, Ended};
use crate::runner;
use crate::sabotage::table::Switch;
use crate::skips::SkipLog;
use crate::unit;
use crate::workspace::Workspace;

/// How long one program may run: a guard that is off may well hang a test.
const LIMIT: Duration = Duration::from_secs(120);

/// Test programs by package, each with the names of its tests.
#[derive(Debug)]
pub(crate) struct Programs<'a> {
    workspace: &'a Workspace,
    by_package: BTreeMap<String, Vec<(TestProgram, Vec<String>)>>,
    env: Vec<(String, String)>,
}

/// What a run of the tests of one switch found.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// How many tests reported a result.
    pub(crate) n_tests: usize,
    /// Those that failed; also a program that crashed.
    pub(crate) failed: Vec<String>,
    /// Those that said that they cannot run, with the reason.
    pub(crate) skipped: Vec<String>,
    /// Whether a program had to be killed.
    pub(crate) hung: bool,
}

impl Run {
    /// Reads one program's results.
    fn of(prefix: &str, parser: &Parser, skips: &SkipLog, ended: Ended) -> Self {
        let mut run = Self { n_tests: parser.seen().len(), ..Self::default() };
        for (name, verdict) in parser.seen() {
            match (verdict, skips.reason(name)) {
                (Verdict::Failed, _) => run.failed.push(format!("{prefix}::{name}")),
                (_, Some(reason)) => run.skipped.push(format!("{prefix}::{name}: {reason}")),
                _ => {}
            }
        }
        run.hung = matches!(ended, Ended::TimedOut(_));
        if run.failed.is_empty() && !run.hung && !ended.is_good() {
            run.failed.push(format!("{prefix} ({})", ended.text()));
        }
        run
    }

    /// Adds another program's results.
    fn add(&mut self, other: Self) {
        self.n_tests += other.n_tests;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.hung |= other.hung;
    }

    /// Why this run is no basis to compare with.
    pub(crate) fn fault(&self) -> Option<String> {
        match (self.hung, self.failed.first(), self.skipped.first(), self.n_tests) {
            (true, ..) => Some("the tests hang".to_owned()),
            (_, Some(test), ..) => Some(format!("{test} fails")),
            (_, _, Some(test), _) => Some(format!("skipped: {test}")),
            (.., 0) => Some("the filter finds no test".to_owned()),
            _ => None,
        }
    }
}

impl<'a> Programs<'a> {
    /// Builds the tests of every package that a switch names.
    pub(crate) fn build(
        workspace: &'a Workspace,
        journal: &mut Journal,
        switches: &[Switch],
    ) -> anyhow::Result<Self> {
        let mut programs = Self { workspace, by_package: BTreeMap::new(), env: Vec::new() };
        for switch in switches {
            if !programs.by_package.contains_key(&switch.package) {
                let listed = programs.build_package(journal, &switch.package)?;
                programs.by_package.insert(switch.package.clone(), listed);
            }
        }
        Ok(programs)
    }

    fn build_package(
        &mut self,
        journal: &mut Journal,
        package: &str,
    ) -> anyhow::Result<Vec<(TestProgram, Vec<String>)>> {
        if package == "te-suites" {
            self.build_started_programs(journal)?;
        }
        let built = artifacts::build_tests(self.workspace, journal, &selection(package))?;
        built.into_iter().map(|program| list(&program).map(|names| (program, names))).collect()
    }

    /// `te` and `te-node` for the system tests. The second is moved to a place of its own, where no
    /// other build replaces it with one that has no switches.
    fn build_started_programs(&mut self, journal: &mut Journal) -> anyhow::Result<()> {
        let node = ["--package", "te-suites", "--bins", "--features", "te-suites/testing"];
        artifacts::build_programs(self.workspace, journal, &["--package", "te-cli", "--bins"])?;
        artifacts::build_programs(self.workspace, journal, &node)?;
        let debug = self.workspace.target().join("debug");
        let kept = self.workspace.output("sabotage/te-node")?;
        std::fs::copy(debug.join("te-node"), &kept).context("cannot copy te-node")?;
        let variable = |name: &str, path: PathBuf| (name.to_owned(), path.display().to_string());
        self.env = vec![variable("TE_BIN", debug.join("te")), variable("TE_NODE", kept)];
        Ok(())
    }

    /// Runs the tests of a switch, with the guard on or off.
    pub(crate) fn run(
        &self,
        journal: &mut Journal,
        switch: &Switch,
        off: bool,
    ) -> anyhow::Result<Run> {
        let mut run = Run::default();
        for (program, names) in self.by_package.get(&switch.package).into_iter().flatten() {
            let chosen: Vec<&String> =
                names.iter().filter(|name| is_chosen(program, name, switch)).collect();
            if !chosen.is_empty() {
                run.add(self.run_program(journal, program, &chosen, off.then_some(switch))?);
            }
        }
        Ok(run)
    }

    fn run_program(
        &self,
        journal: &mut Journal,
        program: &TestProgram,
        names: &[&String],
        off: Option<&Switch>,
    ) -> anyhow::Result<Run> {
        let skip_log = self.workspace.output("sabotage/skips.tsv")?;
        std::fs::write(&skip_log, "").context("cannot empty the skip log")?;
        let mut command = Command::new(&program.program);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        runner::forget_settings(&mut command);
        command.arg("--exact").args(names).env("TE_SKIP_LOG", &skip_log);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.envs(off.map(|switch| ("TE_SABOTAGE", &switch.name)));
        let mut parser = Parser::default();
        let ended = run::stream(command, journal, LIMIT, |line| {
            parser.feed(line);
        })?;
        let skips = SkipLog::parse(&read_if_there(&skip_log)?);
        Ok(Run::of(&program.prefix, &parser, &skips, ended))
    }
}

fn is_chosen(program: &TestProgram, name: &str, switch: &Switch) -> bool {
    let full = format!("{}::{name}", program.prefix);
    switch.filter.iter().any(|part| full.contains(part.as_str()))
}

fn selection(package: &str) -> Selection {
    let mut features = unit::features_of(package);
    if package == "te-suites" {
        features = &["testing"];
    }
    Selection {
        packages: vec![package.to_owned()],
        features: features.iter().map(|feature| format!("{package}/{feature}")).collect(),
        ..Selection::default()
    }
}

/// The names of the tests in a program.
fn list(program: &TestProgram) -> anyhow::Result<Vec<String>> {
    let mut command = Command::new(&program.program);
    command.args(["--list", "--format", "terse"]).current_dir(&program.folder);
    let output = command.output().context("cannot start a test program")?;
    ensure!(output.status.success(), "{} does not list its tests", program.prefix);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(text: &str, skips: &str, ended: Ended) -> Run {
        let mut parser = Parser::default();
        text.lines().for_each(|line| {
            parser.feed(line);
        });
        Run::of("te_x", &parser, &SkipLog::parse(skips), ended)
    }

    #[test]
    fn a_good_run_is_a_basis() {
        assert_eq!(run_of("test a ... ok\n", "", Ended::Exit(0)).fault(), None);
    }

    #[test]
    fn what_fails_skips_hangs_or_is_not_there_is_no_basis() {
        let fails = run_of("test a ... FAILED\n", "", Ended::Exit(101));
        assert_eq!(fails.fault().unwrap(), "te_x::a fails");
        let skips = run_of("test a ... ok\n", "a\tno root\n", Ended::Exit(0));
        assert_eq!(skips.fault().unwrap(), "skipped: te_x::a: no root");
        let hangs = run_of("", "", Ended::TimedOut(LIMIT));
        assert_eq!(hangs.fault().unwrap(), "the tests hang");
        assert_eq!(run_of("", "", Ended::Exit(0)).fault().unwrap(), "the filter finds no test");
    }

    #[test]
    fn a_crash_counts_as_a_failure() {
        let crash = run_of("test a ... ok\n", "", Ended::Signal(11));
        assert_eq!(crash.failed, ["te_x (ended by signal 11)"]);
    }
}
