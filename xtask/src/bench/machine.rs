//! Takes samples: the state of the machine before and after, a program between, another try where
//! others disturbed it.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::contender::{Contender, Who};
use super::groups::Group;
use super::peers::{Kind, Targets};
use super::sample::{Figures, NEAR, Sample, State};
use super::tools::{Tools, measured};
use crate::ui::Stopwatch;

mod conditions;
mod programs;

pub(crate) use conditions::conditions;

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    tools: &'a Tools,
    seconds: f64,
    targets: Targets,
    /// Whether bytes are checked in a pass before a sample of ours.
    verify: bool,
}

/// What a program printed, and the processor time that two processes used while it ran.
struct Ran {
    output: String,
    /// Seconds since the start, and what was used by then: of the program, and of the target.
    used: Vec<(f64, f64, f64)>,
}

/// How often a sample is tried until nobody disturbs it.
const TRIES: u32 = 3;

impl<'a> Machine<'a> {
    pub(crate) fn new(tools: &'a Tools, seconds: f64) -> anyhow::Result<Self> {
        let machine = Self { tools, seconds, targets: Targets::default(), verify: true };
        machine.line().context("the round trip of a cache line cannot be measured")?;
        Ok(machine)
    }

    /// The quietest of a few tries, of those in one state if there are some.
    pub(crate) fn sample(
        &mut self,
        round: u32,
        group: &Group,
        contender: &Contender,
    ) -> anyhow::Result<Sample> {
        self.verify = round == 0;
        self.prepare(contender)?;
        let mut best: Option<Sample> = None;
        for tries in 1..=TRIES {
            let sample = self.attempt(round, group, contender)?;
            let sample = Sample { tries, ..sample };
            // Between two states it tells nothing, however quiet it was.
            let rank = |one: &Sample| (one.state() == State::Mixed, one.others);
            if best.as_ref().is_none_or(|best| rank(&sample) < rank(best)) {
                best = Some(sample);
            }
            if best.as_ref().is_some_and(|best| best.is_quiet() && best.state() != State::Mixed) {
                break;
            }
        }
        best.context("a sample is tried at least once")
    }

    /// Whether the cores are near to each other now.
    pub(crate) fn is_near(&self) -> anyhow::Result<bool> {
        Ok(self.line()? < NEAR)
    }

    /// Ends the targets.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        self.targets.end()
    }

    /// Starts what stays, so that its start is in no sample.
    fn prepare(&mut self, contender: &Contender) -> anyhow::Result<()> {
        let kind = match (&contender.who, contender.on_one_core) {
            (Who::Mooncake | Who::MooncakeLatency { .. } | Who::TeToMooncake, false) => {
                Kind::Mooncake
            }
            (Who::Mooncake | Who::MooncakeLatency { .. } | Who::TeToMooncake, true) => {
                Kind::MooncakeOnOneCore
            }
            (Who::MooncakeToTe, _) => Kind::Te,
            _ => return Ok(()),
        };
        self.targets.get(kind, self.tools).map(drop)
    }

    fn attempt(
        &mut self,
        round: u32,
        group: &Group,
        contender: &Contender,
    ) -> anyhow::Result<Sample> {
        let before = self.line()?;
        let (usage, watch) = (self.usage()?, Stopwatch::start());
        let figures = self.figures(contender)?;
        let took = watch.elapsed().as_secs_f64();
        let used = self.usage()?;
        let after = self.line()?;
        // The kernel counts in hundredths of a second.
        let others = ((used.0 - usage.0) - (used.1 - usage.1)) / took.max(0.01);
        Ok(Sample {
            round,
            group: group.name.to_owned(),
            contender: contender.label.clone(),
            figures,
            line: (before, after),
            others: others.max(0.0),
            tries: 1,
            absent: None,
        })
    }

    /// Round trip of a cache line between the cores, nanoseconds.
    fn line(&self) -> anyhow::Result<f64> {
        let mut command = measured(self.tools, &self.tools.machine, false);
        command.arg("cacheline");
        let ran = self.run(command, None)?;
        json(&ran.output)?["round_trip_ns"].as_f64().context("machine tells no round trip")
    }

    /// Seconds of processor time of the whole machine so far, and those of ours.
    fn usage(&self) -> anyhow::Result<(f64, f64)> {
        let whole = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let own = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
        let targets: f64 = self.targets.pids().into_iter().map(used).sum();
        Ok((busy(&whole), with_children(&own) + targets))
    }

    /// Runs a program to its end.
    fn run(&self, mut command: Command, target: Option<u32>) -> anyhow::Result<Ran> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a program")?;
        let watch = Stopwatch::start();
        let limit = Duration::from_secs(60) + Duration::from_secs_f64(self.seconds * 4.0);
        let mut taken = Vec::new();
        // What they print fits into a pipe.
        while child.try_wait().context("cannot wait for a program")?.is_none() {
            let at = watch.elapsed();
            taken.push((at.as_secs_f64(), used(child.id()), target.map_or(0.0, used)));
            if at > limit {
                child.kill().context("cannot end a program")?;
                child.wait().context("cannot wait for a program")?;
                bail!("it took longer than {} s", limit.as_secs());
            }
            pause(Duration::from_millis(10));
        }
        let output = child.wait_with_output().context("cannot wait for a program")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{}", last_line(&errors));
        Ok(Ran { output: text + &errors, used: taken })
    }
}

/// Rests without a busy core.
pub(crate) fn pause(time: Duration) {
    // The channel is open and silent, so that this waits the whole time.
    let (_keep, silent) = mpsc::channel::<()>();
    let _ = silent.recv_timeout(time);
}

/// The first line that is JSON.
fn json(output: &str) -> anyhow::Result<Value> {
    let mut found = output.lines().filter_map(|line| serde_json::from_str(line).ok());
    found.find(|value: &Value| value.is_object()).with_context(|| last_line(output))
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it says nothing").chars().take(300).collect()
}

/// Seconds that the living threads of a process used, by the scheduler's account.
fn used(pid: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let nanoseconds = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// Seconds that all cores together were not idle, from `/proc/stat`.
fn busy(stat: &str) -> f64 {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_ascii_whitespace().filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; the rest is in user already.
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (ticks.iter().take(8).sum::<f64>() - idle) / TICKS
}

/// Seconds of a process and of its children that have ended, from `/proc/PID/stat`.
fn with_children(stat: &str) -> f64 {
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = behind_name.split_ascii_whitespace().skip(11).take(4);
    fields.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// The kernel's unit for the above is the same on all its machines: a hundredth of a second.
const TICKS: f64 = 100.0;

/// Figures in the form that our own programs print.
fn plain(value: &Value) -> Figures {
    let number = |key: &str| value[key].as_f64();
    Figures {
        rate: number("gigabytes_per_second"),
        requests: number("requests_per_second"),
        p50: number("p50_us"),
        p99: number("p99_us"),
        cpu_here: number("cpu_here"),
        cpu_there: number("cpu_there"),
        value: number("value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_read_from_what_the_kernel_tells() {
        assert_eq!(busy("cpu  100 0 50 1000 500 10 20 20 7 0\ncpu0 1\n"), 2.0);
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 100 200 0 0 11 22 33 44 20 0 1 0";
        assert_eq!(with_children(stat), 1.1);
        assert!(used(std::process::id()) > 0.0);
        assert_eq!(used(u32::MAX), 0.0);
    }

    #[test]
    fn json_is_found_among_other_lines() {
        assert_eq!(json("I0 log\n{\"a\":1}\n").unwrap()["a"], 1);
        assert_eq!(json("no\nte: why\n\n").unwrap_err().to_string(), "te: why");
    }
}
