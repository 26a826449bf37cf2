//! The suite `topology`: what hardware is where, and who is near whom; on machines in files, on this
//! one, on emulated ones, and against what others read.

use anyhow::Context as _;

use crate::artifacts::{self, TestProgram};
use crate::guest::{self, AffinityPrograms};
use crate::journal::Journal;
use crate::oracles::Oracle;
use crate::outcome::TestResult;
use crate::runner::{Choice, Runner};
use crate::suites::Order;
use crate::workspace::Workspace;
use crate::{debian, system, unit};

/// Runs the suite.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    order: &Order,
) -> anyhow::Result<Vec<TestResult>> {
    // lstopo reads the same trees; `ip` makes network namespaces. Tests without them are skipped.
    debian::install(journal, &["hwloc-nox", "bzip2", "iproute2"])?;
    let runner = Runner {
        env: system::programs(workspace, journal, false)?,
        ..Runner::new(workspace, order)
    };
    // The programs of the suite `unit`, so that they are built once.
    let mut programs = artifacts::build_tests(workspace, journal, &unit::selection())?;
    programs.extend(artifacts::build_tests(workspace, journal, &system::selection("field"))?);
    let mut results = Vec::new();
    for (program, only) in programs.iter().filter_map(|program| Some((program, only(program)?))) {
        let choice = Choice { only: only.to_vec(), ..Choice::default() };
        results.extend(runner.run_some(journal, program, &choice)?);
    }
    results.extend(guest::run_affinity(
        workspace,
        journal,
        order,
        &in_guest(workspace, &programs)?,
    )?);
    results.extend(HWLOC.run(&runner, journal)?);
    Ok(results)
}

/// Which tests of a program are about topology; an empty list means all, `None` that it has none.
fn only(program: &TestProgram) -> Option<&'static [&'static str]> {
    match (program.package.as_str(), program.prefix.as_str()) {
        ("te-topology" | "te-draw", _) | (_, "te_engine::topology") => Some(&[]),
        ("te-engine", "te_engine") => Some(&["address::"]),
        ("te-cli", "te_cli::cli") => Some(&["topo::", "fault34"]),
        ("te-suites", "te_suites::field") => Some(&["addresses::"]),
        _ => None,
    }
}

fn in_guest(workspace: &Workspace, programs: &[TestProgram]) -> anyhow::Result<AffinityPrograms> {
    let kernel = programs.iter().find(|program| program.prefix == "te_topology::kernel");
    let kernel_tests = kernel.context("te-topology has no test program `kernel`")?.program.clone();
    Ok(AffinityPrograms { te: workspace.target().join("debug/te"), kernel_tests })
}

/// The hwloc library as a second reader.
const HWLOC: Oracle = Oracle {
    id: "te-oracles",
    test: &["--test", "hwloc"],
    packages: &["libhwloc-dev", "libudev-dev", "pkg-config"],
    what: "hwloc library",
};
