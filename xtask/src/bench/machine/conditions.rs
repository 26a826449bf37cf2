//! Under which conditions samples were taken, in sentences.

use std::fs;
use std::process::Command;

use crate::bench::sample::{Sample, State};
use crate::bench::tools::Tools;
use crate::flags::BenchFlags;
use crate::ui;
use crate::workspace::Workspace;

/// A few lines for whoever compares figures.
pub(crate) fn conditions(
    workspace: &Workspace,
    flags: &BenchFlags,
    tools: &Tools,
    samples: &[Sample],
) -> Vec<String> {
    let taken: Vec<&Sample> = samples.iter().filter(|one| one.absent.is_none()).collect();
    let rounds = samples.iter().map(|one| one.round + 1).max().unwrap_or(0);
    let count = |state| taken.iter().filter(|one| one.state() == state).count();
    let disturbed = taken.iter().filter(|one| !one.is_quiet()).count();
    let raised = if tools.is_raised {
        "all measured programs, ours and others', ran before everything else (autogroup -15)"
    } else {
        "measured programs had the usual priority: without root it cannot be raised"
    };
    vec![
        format!("{}, revision {}", machine(), revision(workspace)),
        format!("{} in turns, samples of {} s; {raised}", ui::count(rounds as usize, "round"), flags.seconds),
        format!(
            "{}: in {} the cores were near (a cache line took less than 120 ns before and after), in {} far, in {} it changed",
            ui::count(taken.len(), "sample"),
            count(State::Near),
            count(State::Far),
            count(State::Mixed),
        ),
        format!("in {disturbed} of them others used more than 0.2 of a core, after up to three tries"),
        "complete means for us, Mooncake and libfabric that the bytes are in place; what NIXL promises is not known; CPU of Mooncake is that of the middle of its run".to_owned(),
    ]
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let n_cores = info.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = model.unwrap_or("a processor that tells no name");
    format!("{n_cores} cores of {model}, Linux {}", kernel.trim())
}

fn revision(workspace: &Workspace) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(workspace.root()).args(["describe", "--always", "--dirty"]);
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}
