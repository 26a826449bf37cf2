//! The suite `rdma`: the transport over a fake fabric here, and over real verbs in emulated machines.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::artifacts::{self, Selection, TestProgram};
use crate::journal::Journal;
use crate::oracles::Oracle;
use crate::outcome::{Outcome, TestResult};
use crate::pyenv::{self, Peer};
use crate::runner::{Choice, Runner};
use crate::suites::Order;
use crate::workspace::Workspace;
use crate::{debian, guest, run, system, ui, unit};

/// One emulated machine, and the module of `te_suites::rdma` whose tests it runs.
struct Boot {
    module: &'static str,
    machine: &'static [&'static str],
    /// Whether the tests need the published peer.
    peer: bool,
}

const BOOTS: &[Boot] = &[
    Boot { module: "star::", machine: &["--nics", "8", "--memory", "2048"], peer: false },
    Boot {
        module: "wheel::",
        machine: &["--nics", "4", "--whole-host", "--memory", "2048"],
        peer: true,
    },
];

/// The longest that the tests of one machine may take, in seconds that the machine could run.
const LIMIT: &str = "600";

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let runner = Runner::new(workspace, order);
    let mut results = Vec::new();
    // The programs of the suite `unit`, so that they are built once.
    let all = artifacts::build_tests(workspace, journal, &unit::selection())?;
    for program in all.iter().filter(|program| CRATES.contains(&program.package.as_str())) {
        results.extend(runner.run_program(journal, program)?);
    }
    results.extend(HEADERS.run(&runner, journal)?);
    results.extend(in_guests(runner, journal, order)?);
    Ok(results)
}

/// The committed bindings against those that are made of the installed headers.
const HEADERS: Oracle = Oracle {
    id: "te-oracles::verbs",
    test: &["--features", "verbs", "--test", "verbs"],
    // The crate's other test program wants hwloc as soon as one of them is built.
    packages: &[
        "libibverbs-dev",
        "librdmacm-dev",
        "libclang-dev",
        "libhwloc-dev",
        "libudev-dev",
        "pkg-config",
    ],
    what: "set of headers of libibverbs",
};

/// Their tests run over the fake fabric.
const CRATES: &[&str] = &["te-verbs", "te-transport-rdma"];

fn in_guests(
    runner: Runner<'_>,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    let workspace = runner.workspace;
    if let Some(why) = guest::lacking(workspace, journal)? {
        ui::say(&format!("  without guests: {why}"));
        return Ok(vec![TestResult::new("te_suites::rdma::(all)", Outcome::Skipped(why))]);
    }
    let mut runner = Runner { env: system::programs(workspace, journal, false)?, ..runner };
    runner.env.extend(shim(workspace, journal)?);
    (runner.one_by_one, runner.filter) = (true, None);
    let program = program(workspace, journal)?;
    let names = names(&program)?;
    let mut results = Vec::new();
    for boot in BOOTS {
        let is_wanted = |name: &&String| {
            name.starts_with(boot.module)
                && order.filter.as_ref().is_none_or(|text| name.contains(text.as_str()))
        };
        let wanted: Vec<&str> = names.iter().filter(is_wanted).map(String::as_str).collect();
        if !wanted.is_empty() {
            results.extend(boot.run(&mut runner, journal, &program, wanted)?);
        }
    }
    Ok(results)
}

impl Boot {
    fn run(
        &self,
        runner: &mut Runner<'_>,
        journal: &mut Journal,
        program: &TestProgram,
        only: Vec<&str>,
    ) -> anyhow::Result<Vec<TestResult>> {
        let usual = runner.env.len();
        if self.peer {
            match pyenv::prepare(runner.workspace, journal)? {
                Peer::Ready(python) => runner.env.push(("TE_PEER_PYTHON".to_owned(), python)),
                Peer::Missing(why) => {
                    ui::say(&format!("  without the peer: {why}"));
                    let id = format!("te_suites::rdma::{}(all)", self.module);
                    return Ok(vec![TestResult::new(id, Outcome::Skipped(why))]);
                }
            }
        }
        let own = std::env::current_exe().context("cannot tell what program this is")?;
        let own = own.to_str().context("this program's path is not UTF-8")?;
        ui::say(&format!("  a guest with {}", self.machine.join(" ")));
        let under = [&[own, "guest", "run"], self.machine, &["--timeout", LIMIT, "--"]].concat();
        let choice = Choice { under: &under, only, ..Choice::default() };
        let results = runner.run_some(journal, program, &choice);
        runner.env.truncate(usual);
        results
    }
}

/// What makes the published peer's NICs give up; tests that need it say so where it cannot be made.
fn shim(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<Option<(String, String)>> {
    if let Some(by_hand) = debian::install(journal, &["gcc", "libibverbs-dev"])? {
        ui::say(&format!("  without a peer whose NICs give up; to have it: {by_hand}"));
        return Ok(None);
    }
    let library = workspace.output("retry.so")?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
    gcc.arg(workspace.path("crates/te-suites/shim/retry.c")).args([
        "-Wl,--no-as-needed",
        "-libverbs",
        "-ldl",
    ]);
    let ended = run::quietly(gcc, journal, Duration::from_secs(120))?;
    ensure!(
        ended.is_good(),
        "crates/te-suites/shim/retry.c does not compile; see {}",
        journal.shown()
    );
    Ok(Some(("TE_RETRY_SHIM".to_owned(), library.display().to_string())))
}

fn program(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<TestProgram> {
    let features = vec!["te-suites/rdma".to_owned()];
    let selection = Selection { features, ..system::selection("rdma") };
    let mut programs = artifacts::build_tests(workspace, journal, &selection)?;
    programs.pop().context("te-suites has no test program `rdma`")
}

/// The tests of the program, each of which has a machine to run on.
fn names(program: &TestProgram) -> anyhow::Result<BTreeSet<String>> {
    let mut command = Command::new(&program.program);
    command.args(["--list", "--format", "terse"]).current_dir(&program.folder);
    let output = command.output().context("cannot start the test program")?;
    ensure!(output.status.success(), "{} does not list its tests", program.prefix);
    let text = String::from_utf8_lossy(&output.stdout);
    let names: BTreeSet<String> =
        text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    let homeless =
        names.iter().find(|name| !BOOTS.iter().any(|boot| name.starts_with(boot.module)));
    ensure!(homeless.is_none(), "no machine runs {homeless:?}; xtask/src/rdma.rs has them");
    Ok(names)
}
