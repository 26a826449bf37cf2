//! The suites of te-suites: real processes on this machine.
//!
//! They run against debug builds of `te` and `te-node`: overflow checks and debug assertions are
//! then on in both processes, and what they catch is worth more here than speed is.

use std::time::Duration;

use anyhow::ensure;

use crate::artifacts::{self, Selection};
use crate::debian;
use crate::flags::Level;
use crate::journal::Journal;
use crate::outcome::{Outcome, TestResult};
use crate::pyenv::{self, Peer};
use crate::runner::{CHAOS_SECONDS, Runner};
use crate::suites::{Order, PeerUse};
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// Runs the suite `name`.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    name: &str,
    peer: PeerUse,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let file = format!("crates/te-suites/tests/{name}.rs");
    ensure!(workspace.path(&file).exists(), "the suite {name} is to be {file}, which is not there");
    // Where it cannot be had, the tests that need it say so and are skipped.
    debian::install(journal, TOOLS)?;
    let has_etcd = name == METADATA && services(journal)?;
    let mut env = programs(workspace, journal, has_etcd)?;
    let features = if has_etcd { vec!["te-suites/etcd".to_owned()] } else { Vec::new() };
    if peer != PeerUse::None {
        match pyenv::prepare(workspace, journal)? {
            Peer::Ready(python) => env.push(("TE_PEER_PYTHON".to_owned(), python)),
            Peer::Missing(reason) if peer == PeerUse::All => {
                return Ok(vec![all_skipped(name, &reason)]);
            }
            Peer::Missing(reason) => ui::say(&format!("  without the peer: {reason}")),
        }
    }
    let programs = {
        let selection = Selection { features, ..selection(name) };
        artifacts::build_tests(workspace, journal, &selection)?
    };
    let runner = Runner {
        workspace,
        level: order.level,
        env,
        one_by_one: true,
        limit: limit(order.level),
        filter: order.filter.clone(),
    };
    let mut results = Vec::new();
    for program in &programs {
        results.extend(runner.run_program(journal, program)?);
    }
    Ok(results)
}

/// How long the program of a suite may run; what was asked for comes on top.
#[expect(clippy::disallowed_methods, reason = "a person says it to the test, and so to its limit")]
fn limit(level: Level) -> Duration {
    let asked = std::env::var(CHAOS_SECONDS).ok().and_then(|text| text.parse().ok());
    let usual = if level == Level::Full { 3600 } else { 1500 };
    Duration::from_secs(usual).saturating_add(Duration::from_secs(asked.unwrap_or(0)))
}

/// Tools that the tests start: `ip` and `tc` for network namespaces.
const TOOLS: &[&str] = &["iproute2"];

/// The suite that starts services of others.
const METADATA: &str = "metadata";

/// The services of the suite `metadata`, the tool that makes certificates, and what a client of
/// etcd needs to be built.
const SERVICES: &[&str] = &[
    "etcd-server",
    "etcd-client",
    "redis-server",
    "openssl",
    "protobuf-compiler",
    "libprotobuf-dev",
];

/// Installs the services where that is allowed, and says whether a client of etcd can be built;
/// tests of what is missing say so and are skipped.
fn services(journal: &mut Journal) -> anyhow::Result<bool> {
    let were_there = debian::are_installed(&["etcd-server", "redis-server"]);
    if let Some(by_hand) = debian::install(journal, SERVICES)? {
        ui::say(&format!("  tests of what is missing are skipped; to have it: {by_hand}"));
    }
    if !were_there {
        // Debian starts them as units; the tests start their own.
        debian::stop_units(journal, &["etcd", "redis-server"])?;
    }
    Ok(debian::are_installed(&["protobuf-compiler", "libprotobuf-dev"]))
}

/// The program of one suite.
pub(crate) fn selection(name: &str) -> Selection {
    Selection {
        packages: vec!["te-suites".to_owned()],
        targets: vec!["--test".to_owned(), name.to_owned()],
        ..Selection::default()
    }
}

/// Builds `te` and `te-node`; returns the variables that say where they are. Each is built by
/// itself, so that `te` has the features that it is shipped with.
pub(crate) fn programs(
    workspace: &Workspace,
    journal: &mut Journal,
    has_etcd: bool,
) -> anyhow::Result<Vec<(String, String)>> {
    let watch = Stopwatch::start();
    let etcd: &[&str] = if has_etcd { &["--features", "te-cli/etcd"] } else { &[] };
    artifacts::build_programs(
        workspace,
        journal,
        &[&["--package", "te-cli", "--bins"], etcd].concat(),
    )?;
    artifacts::build_programs(workspace, journal, &["--package", "te-suites", "--bins"])?;
    if watch.elapsed() > Duration::from_secs(2) {
        ui::say(&format!("  te and te-node built in {}", watch.text()));
    }
    let at = |program: &str| workspace.target().join("debug").join(program).display().to_string();
    Ok(vec![("TE_BIN".to_owned(), at("te")), ("TE_NODE".to_owned(), at("te-node"))])
}

fn all_skipped(name: &str, reason: &str) -> TestResult {
    ui::say(&format!("  skipped: {reason}"));
    TestResult::new(format!("te_suites::{name}::(all)"), Outcome::Skipped(reason.to_owned()))
}
