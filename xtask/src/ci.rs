//! `ci`: everything that a change must pass, in order, cheap things first.
//!
//! A step that fails does not stop the others: one run tells everything that is to be done.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::flags::{CiFlags, Level, TestFlags};
use crate::journal::Journal;
use crate::ui::{self, Stopwatch};
use crate::workspace::{self, Workspace};
use crate::{deny, licences, needed, run, test, tidy};

/// Runs all steps and prints what each of them said. It is good if all are.
pub(crate) fn run(workspace: &Workspace, flags: &CiFlags) -> anyhow::Result<bool> {
    let mut journal = Journal::create(workspace, "ci")?;
    let mut steps = Steps { workspace, journal: &mut journal, failed: Vec::new() };
    steps.cargo("format", &["fmt", "--all", "--check"], &[])?;
    // Without `--all`, which would follow their paths into our crates.
    let mut consumers = workspace::cargo(&workspace.path("consumers"), "fmt");
    consumers.arg("--check");
    steps.command("format of the consumers", consumers)?;
    let mut oracles = workspace::cargo(&workspace.path("crates/te-oracles"), "fmt");
    oracles.arg("--check");
    steps.command("format of te-oracles", oracles)?;
    steps.step("tidy", |workspace, _| tidy::run(workspace))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-Dwarnings"];
    steps.cargo("lints", &clippy, &[])?;
    let testing = ["--features", "te-engine/testing,te-engine/async,te-suites/testing"];
    let clippy = [&clippy[..3], &testing, &clippy[3..]].concat();
    steps.cargo("lints with the features for tests", &clippy, &[])?;
    let docs = ["doc", "--workspace", "--no-deps"];
    steps.cargo("documentation", &docs, &[("RUSTDOCFLAGS", "-Dwarnings")])?;
    steps.step("licences, bans and sources", |workspace, _| own_licences(workspace))?;
    let may_install = flags.level.level() == Level::Full;
    steps.step("cargo deny", |workspace, journal| deny::run(workspace, journal, may_install))?;
    // Cargo keeps the unpacked sources of a package by its version and this folder, also after they
    // have changed, so each run has a folder of its own.
    let folder = format!("target/xtask/package-{}", std::process::id());
    let package = ["package", "--workspace", "--allow-dirty", "--quiet", "--target-dir", &folder];
    steps.cargo("packages", &package, &[])?;
    drop(std::fs::remove_dir_all(&folder));
    steps.step("cold release build of te", cold_build)?;
    if !flags.no_test {
        let test = TestFlags { level: flags.level, no_skip: false };
        steps.step("test", |workspace, _| test::run(workspace, &test))?;
    }
    let failed = steps.failed;
    match failed.len() {
        0 => ui::say("ci: all steps passed"),
        _ => ui::say(&format!("ci: failed: {}", failed.join(", "))),
    }
    Ok(failed.is_empty())
}

struct Steps<'a> {
    workspace: &'a Workspace,
    journal: &'a mut Journal,
    failed: Vec<String>,
}

impl Steps<'_> {
    /// A step that says for itself what it does.
    fn step(
        &mut self,
        name: &str,
        work: impl FnOnce(&Workspace, &mut Journal) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        let good = work(self.workspace, self.journal).unwrap_or_else(|error| {
            ui::error(&format!("{error:#}"));
            false
        });
        ui::say(&format!("{} {name} ({})", if good { "ok    " } else { "FAILED" }, watch.text()));
        if !good {
            self.failed.push(name.to_owned());
        }
        Ok(())
    }

    /// A step that is one cargo command in the top folder.
    fn cargo(&mut self, name: &str, words: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
        let (verb, flags) = words.split_first().context("a cargo command has a verb")?;
        let mut command = self.workspace.cargo(verb);
        command.args(flags).envs(env.iter().copied());
        self.command(name, command)
    }

    /// A step that is one command; the end of its output is shown if it fails.
    fn command(&mut self, name: &str, command: Command) -> anyhow::Result<()> {
        self.step(name, |_, journal| {
            let good = run::quietly(command, journal, STEP_LIMIT)?.is_good();
            if !good {
                ui::say(&journal.tail(SHOWN)?);
            }
            Ok(good)
        })
    }
}

const STEP_LIMIT: Duration = Duration::from_secs(1800);

/// How many lines of a failed command are shown.
const SHOWN: usize = 80;

fn own_licences(workspace: &Workspace) -> anyhow::Result<bool> {
    let report = licences::check(workspace)?;
    report.findings.iter().for_each(|finding| ui::say(&format!("  {finding}")));
    ui::say(&format!("  {} looked at", ui::count(report.n_packages, "package")));
    Ok(report.findings.is_empty())
}

/// What a stranger waits for before `te` exists, on two cores.
const COLD_BUILD_LIMIT: Duration = Duration::from_secs(180);

/// Builds `te` as it is shipped into an empty folder, and looks at what it and every other program here
/// needs to start. Downloads come before and do not count.
fn cold_build(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<bool> {
    run::quietly(workspace.cargo("fetch"), journal, STEP_LIMIT)?;
    let folder = workspace.output("cold")?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context("cannot empty the folder of the cold build")?;
    }
    let mut build = workspace.cargo("build");
    build.args(["--release", "--package", "te-cli", "--jobs", "2", "--target-dir"]).arg(&folder);
    let watch = Stopwatch::start();
    let ended = run::quietly(build, journal, STEP_LIMIT)?;
    let time = watch.elapsed();
    if !ended.is_good() {
        ui::say(&journal.tail(40)?);
        return Ok(false);
    }
    let program = folder.join("release/te");
    let is_light = needed::check(workspace, std::slice::from_ref(&program))?;
    let size = std::fs::metadata(&program).context("the build made no te")?.len();
    ui::say(&format!(
        "  {} with 2 jobs, allowed are {}; te is {:.1} MiB",
        ui::seconds(time),
        ui::seconds(COLD_BUILD_LIMIT),
        size as f64 / f64::from(1 << 20)
    ));
    std::fs::remove_dir_all(&folder).context("cannot remove the folder of the cold build")?;
    Ok(time <= COLD_BUILD_LIMIT && is_light)
}
