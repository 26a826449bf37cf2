//! The suite `memory`: the code that touches registered memory, and the machines that decide where
//! bytes go, under AddressSanitizer and under valgrind.
//!
//! The first is built into the tests: it finds what compiled Rust and the runtime's own calls do
//! wrong, at a fifth of the speed. The second watches a plain test program and also sees bytes that
//! were never written; it is ten times as slow again and runs one thread at a time, so that it gets
//! only unit tests.
//!
//! Engine memory is mapped, not allocated, so that neither sees the end of a registered buffer: that
//! no byte beside one changes, the tests look at themselves.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::artifacts::{self, Selection, TestProgram};
use crate::debian;
use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::runner::{Choice, Runner};
use crate::suites::Order;
use crate::ui;
use crate::workspace::Workspace;

/// One way of watching memory.
struct Watch {
    name: &'static str,
    /// What is built, and with which features.
    packages: &'static [&'static str],
    features: &'static [&'static str],
    /// Flags that choose among the targets.
    targets: &'static [&'static str],
    /// The program that watches, with its flags; none if it is built in.
    under: &'static [&'static str],
    /// Variables for the tests.
    env: &'static [(&'static str, &'static str)],
    /// Tests that say nothing there, and why. Parts of names.
    without: &'static [(&'static str, &'static str)],
}

const ASAN: Watch = Watch {
    name: "asan",
    packages: &["te-segment", "te-transport", "te-transport-shm", "te-transport-tcp"],
    features: &[
        "te-segment/testing",
        "te-transport/testing",
        "te-transport-shm/testing",
        "te-transport-tcp/testing",
    ],
    // With a target named, build scripts and macros are not watched.
    targets: &["--lib", "--tests", "--target", TARGET],
    under: &[],
    env: &[("ASAN_OPTIONS", "detect_stack_use_after_return=1")],
    without: &[],
};

const VALGRIND: Watch = Watch {
    name: "valgrind",
    packages: &["te-segment", "te-transport-tcp"],
    features: &["te-segment/testing", "te-transport-tcp/testing"],
    targets: &["--lib"],
    under: &[
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/valgrind.supp"),
    ],
    env: &[("PROPTEST_CASES", "8")],
    without: &[],
};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How long one program may take.
const LIMIT: Duration = Duration::from_secs(1200);

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let mut results = sanitized(workspace, journal, order)?;
    results.extend(under_valgrind(workspace, journal, order)?);
    Ok(results)
}

fn sanitized(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    if !has_runtime() {
        let why = "this compiler has no AddressSanitizer; `rustup toolchain install stable` \
                   installs one that has";
        return Ok(vec![skipped(&ASAN, why)]);
    }
    let mut selection = selection(&ASAN);
    let folder = workspace.target().join("asan").display().to_string();
    selection.targets.extend(["--target-dir".to_owned(), folder]);
    // The flag is not stable, and the compiler takes it only when told that this is known.
    selection.env = vec![("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address")];
    watch(workspace, journal, order, (&ASAN, &selection))
}

fn under_valgrind(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    if let Some(by_hand) = debian::install(journal, &["valgrind"])? {
        return Ok(vec![skipped(&VALGRIND, &format!("valgrind is missing; `{by_hand}`"))]);
    }
    watch(workspace, journal, order, (&VALGRIND, &selection(&VALGRIND)))
}

fn selection(watch: &Watch) -> Selection {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Selection {
        packages: owned(watch.packages),
        features: owned(watch.features),
        targets: owned(watch.targets),
        ..Selection::default()
    }
}

fn watch(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
    (watch, selection): (&Watch, &Selection),
) -> anyhow::Result<Vec<TestResult>> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let runner = Runner {
        workspace,
        level: order.level,
        env: watch.env.iter().map(owned).collect(),
        one_by_one: false,
        limit: LIMIT,
        filter: order.filter.clone(),
    };
    let skip = watch.without.iter().map(|(test, _)| *test).collect();
    let is_built_in = watch.under.is_empty();
    let choice = Choice { under: watch.under, skip, only: Vec::new() };
    let mut results = Vec::new();
    for program in artifacts::build_tests(workspace, journal, selection)? {
        ensure!(!is_built_in || is_sanitized(&program)?, "{} was built without it", program.prefix);
        let program =
            TestProgram { prefix: format!("{}::{}", watch.name, program.prefix), ..program };
        let found = runner.run_some(journal, &program, &choice)?;
        if found.iter().any(is_crash) {
            ui::say(&report(&journal.tail(usize::MAX)?));
        }
        results.extend(found);
    }
    Ok(results)
}

/// What a watcher said, from what a program printed.
fn report(printed: &str) -> String {
    let lines = printed.lines().filter(|line| !line.starts_with("test ") && !line.is_empty());
    lines.take(REPORT_LINES).collect::<Vec<_>>().join("\n")
}

/// How many lines of a report are shown; the log has all.
const REPORT_LINES: usize = 60;

/// What a watcher finds ends the program, not a test.
fn is_crash(result: &TestResult) -> bool {
    result.id.ends_with("(the program itself)")
}

/// Whether AddressSanitizer is in a program: a build that lost the flag would find nothing wrong.
fn is_sanitized(program: &TestProgram) -> anyhow::Result<bool> {
    let mut command = Command::new(&program.program);
    let output = command.arg("--list").env("ASAN_OPTIONS", "help=1").output();
    let output = output.context("cannot start a test program")?;
    Ok(String::from_utf8_lossy(&output.stderr).contains("AddressSanitizer"))
}

/// Whether the compiler brings the runtime of AddressSanitizer.
fn has_runtime() -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let folder = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let files = folder.and_then(std::fs::read_dir).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
    cfg!(target_arch = "x86_64") && names.any(|name| name.contains("rt.asan"))
}

fn skipped(watch: &Watch, reason: &str) -> TestResult {
    ui::say(&format!("  skipped: {}: {reason}", watch.name));
    TestResult::new(format!("{}::(all)", watch.name), Outcome::Skipped(reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_among_results() {
        let printed =
            "$ valgrind x\n\ntest a ... ok\n==7== Invalid read\n==7==    at 0x1\ntest b ... ok\n";
        assert_eq!(report(printed), "$ valgrind x\n==7== Invalid read\n==7==    at 0x1");
    }

    #[test]
    fn every_package_and_feature_is_there_and_every_absent_test_has_a_reason() {
        let workspace = Workspace::open().unwrap();
        for watch in [&ASAN, &VALGRIND] {
            for name in watch.packages {
                let package = workspace.packages().find(|package| package.name() == *name);
                assert!(package.is_some(), "{name}");
                let feature = format!("{name}/testing");
                let has = package.unwrap().features().contains(&"testing");
                assert_eq!(has, watch.features.contains(&feature.as_str()), "{feature}");
            }
            assert!(watch.without.iter().all(|(test, why)| !test.is_empty() && !why.is_empty()));
        }
    }
}
