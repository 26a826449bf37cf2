//! Targets that stay while many samples are taken: Mooncake's and ours.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::machine::pause;
use super::tools::{Mooncake, Tools, measured};
use crate::ui::Stopwatch;

/// Which target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Mooncake,
    MooncakeOnOneCore,
    Te,
}

/// The running ones.
#[derive(Debug, Default)]
pub(crate) struct Targets(BTreeMap<Kind, Target>);

#[derive(Debug)]
struct Target {
    child: Child,
    segment: String,
}

impl Targets {
    /// The segment's name and the process, which is started if it does not run.
    pub(crate) fn get(&mut self, kind: Kind, tools: &Tools) -> anyhow::Result<(String, u32)> {
        if let Some(target) = self.0.get(&kind) {
            return Ok((target.segment.clone(), target.child.id()));
        }
        let target = match (kind, &tools.mooncake) {
            (Kind::Te, _) => te(tools)?,
            (_, Ok(peer)) => mooncake(tools, peer, kind == Kind::MooncakeOnOneCore)?,
            (_, Err(reason)) => bail!("{reason}"),
        };
        let told = (target.segment.clone(), target.child.id());
        self.0.insert(kind, target);
        Ok(told)
    }

    /// Their processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.values().map(|target| target.child.id()).collect()
    }

    /// Ends all.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        for target in self.0.values_mut() {
            target.child.kill().context("cannot end a target")?;
            target.child.wait().context("cannot wait for a target")?;
        }
        self.0.clear();
        Ok(())
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        // On the way out of an error; that one is told.
        let _ = self.end();
    }
}

/// Room for the largest work with it.
const ROOM: &str = "134217728";

fn mooncake(tools: &Tools, peer: &Mooncake, on_one_core: bool) -> anyhow::Result<Target> {
    let log = tools.folder.join(format!("mooncake-target-{on_one_core}.log"));
    let file = fs::File::create(&log).context("cannot write a log")?;
    let mut command = measured(tools, &peer.bench, on_one_core);
    command.args(["--mode=target", "--metadata_server=P2PHANDSHAKE", "--protocol=tcp"]);
    command.args(["--local_server_name=127.0.0.1", &format!("--buffer_size={ROOM}")]);
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().context("cannot share a log")?)
        .stderr(file);
    let mut child = command.spawn().context("cannot start Mooncake's target")?;
    let watch = Stopwatch::start();
    while watch.elapsed() < Duration::from_secs(20) {
        pause(Duration::from_millis(50));
        let text = fs::read_to_string(&log).unwrap_or_default();
        if let Some(segment) = listening(&text) {
            // It tells its name a moment before it can be asked.
            pause(Duration::from_millis(500));
            return Ok(Target { child, segment });
        }
        if child.try_wait().context("cannot look at Mooncake's target")?.is_some() {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    bail!("Mooncake's target tells no name, see {}", log.display())
}

/// The name in Mooncake's line about listening.
fn listening(log: &str) -> Option<String> {
    let line = log.lines().find(|line| line.contains("listening on"))?;
    let from = line.find("127.0.0.1:")?;
    let name: String =
        line[from..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
    Some(name.trim_end_matches('.').to_owned())
}

fn te(tools: &Tools) -> anyhow::Result<Target> {
    let mut command: Command = measured(tools, &tools.te, false);
    command.args(["serve", "--json", "--size", ROOM]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start te serve")?;
    let output = child.stdout.take().context("it has an output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("te serve tells nothing")?;
    let value: Value = serde_json::from_str(&line).context("te serve tells no JSON")?;
    let segment = value["segment"].as_str().context("te serve tells no name")?.to_owned();
    Ok(Target { child, segment })
}

#[cfg(test)]
mod tests {
    use super::listening;

    #[test]
    fn the_name_is_found_in_the_log() {
        let log =
            "I1 a.cpp:1] x\nI2 b.cpp:2] RPC using P2P handshake, listening on 127.0.0.1:15347\n";
        assert_eq!(listening(log).as_deref(), Some("127.0.0.1:15347"));
        assert_eq!(listening("nothing"), None);
    }
}
