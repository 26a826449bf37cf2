//! `bench`: how fast this is, beside others that do the same work in the same rounds.
//!
//! ```text
//!   round: group: sample, sample, …     a group is what is compared: us, Mooncake, iperf3, …
//!                   │
//!      cache line ─ run ─ cache line    and what others used of the machine meanwhile
//! ```
//!
//! The two cores of a small virtual machine are at times near to each other and at times far apart,
//! and everything that crosses between them is then 2.5 times slower, so that samples are compared
//! only within a round, and only where a cache line took about as long before and after both.
//! A sample during which others used the machine is tried again, ours like everybody's; the quietest
//! try counts, and is marked if it was not quiet.
//!
//! Nothing of this is part of a test: figures are printed and judged, never asserted.

mod contender;
mod groups;
mod machine;
mod micro;
mod page;
mod peers;
mod python;
mod record;
mod revision;
mod sample;
mod tools;
mod verdict;

use std::collections::VecDeque;

use anyhow::{Context as _, ensure};

use crate::flags::BenchFlags;
use crate::journal::Journal;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

use groups::Group;
use machine::Machine;
use sample::Sample;
use tools::Tools;

pub(crate) use page::{draw, example};

/// Measures, prints, writes the report. Figures that miss their bar are no failure of the verb.
pub(crate) fn run(workspace: &Workspace, flags: &BenchFlags) -> anyhow::Result<bool> {
    let watch = Stopwatch::start();
    let groups = chosen(flags);
    if flags.only.as_deref() == Some("list") {
        groups::all()
            .iter()
            .for_each(|group| ui::say(&format!("{:<16} {}", group.name, group.about)));
        return Ok(true);
    }
    let is_micro = flags.only.as_deref().is_some_and(micro::is_asked_for);
    ensure!(!groups.is_empty() || is_micro, "no group has this name; `--only list` prints all");
    ensure!(flags.rounds > 0 && flags.seconds > 0.0, "nothing can be measured in no time");
    ensure!(!flags.keep || flags.only.is_none(), "what is kept is a whole run, not a part of one");
    let _alone = workspace.exclusive()?;
    let mut journal = Journal::create(workspace, "bench")?;
    let tools = Tools::prepare(workspace, &mut journal, flags)?;
    let samples = if flags.again {
        record::read(workspace)?
    } else {
        let samples = measure(&tools, &groups, flags, &mut journal)?;
        record::write(workspace, &samples)?;
        samples
    };
    let micro = micro::figures(workspace, &mut journal, flags)?;
    let conditions = if flags.again {
        record::read_conditions(workspace)?
    } else {
        let conditions = machine::conditions(workspace, flags, &tools, &samples);
        record::write_conditions(workspace, &conditions)?;
        conditions
    };
    let mut verdicts = verdict::all(&samples, &micro);
    if flags.only.is_some() {
        verdicts.retain(verdict::Verdict::is_run);
    }
    ui::say(&verdict::table(&verdicts));
    conditions.iter().for_each(|line| ui::say(line));
    let report = page::write(workspace, &tools, (&samples, &micro), &verdicts, &conditions)?;
    if flags.keep {
        record::keep(workspace, (&samples, &micro), &verdicts, &conditions)?;
    }
    ui::say(&format!("bench: {} samples in {}; {report}", samples.len(), watch.text()));
    Ok(true)
}

fn chosen(flags: &BenchFlags) -> Vec<Group> {
    let wanted = |group: &Group| {
        flags.only.as_ref().is_none_or(|part| part == "list" || group.name.contains(part.as_str()))
    };
    let with_revision =
        |group: &Group| flags.against.is_some() || !group.name.starts_with("against");
    groups::all().into_iter().filter(wanted).filter(with_revision).collect()
}

fn measure(
    tools: &Tools,
    groups: &[Group],
    flags: &BenchFlags,
    journal: &mut Journal,
) -> anyhow::Result<Vec<Sample>> {
    let mut machine = Machine::new(tools, flags.seconds)?;
    let mut samples = Vec::new();
    let mut told = Vec::new();
    for round in 0..flags.rounds {
        // What is judged near goes to the end of the round once where the cores are far.
        let mut waiting: VecDeque<(&Group, bool)> =
            groups.iter().map(|group| (group, group.name.starts_with("tcp-"))).collect();
        while let Some((group, can_wait)) = waiting.pop_front() {
            if can_wait && !machine.is_near()? {
                waiting.push_back((group, false));
                continue;
            }
            for contender in &group.contenders {
                let sample = machine.sample(round, group, contender);
                let sample = sample.unwrap_or_else(|why| {
                    Sample::absent(round, group, contender, format!("{why:#}"))
                });
                journal.line(&sample.json().to_string())?;
                tell(&sample, &mut told);
                samples.push(sample);
            }
        }
    }
    machine.end().context("a target did not end")?;
    Ok(samples)
}

/// A line for a person who waits; that something is absent is said once.
fn tell(sample: &Sample, told: &mut Vec<String>) {
    let label = format!("{} {}", sample.group, sample.contender);
    let what = match &sample.absent {
        Some(_) if told.contains(&label) => return,
        Some(why) => format!("absent: {why}"),
        None => sample.line(),
    };
    ui::say(&format!("  {}  {label:<42} {what}", sample.round));
    if sample.absent.is_some() {
        told.push(label);
    }
}
