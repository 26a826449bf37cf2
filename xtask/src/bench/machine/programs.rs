//! How each program is started, and how its words become figures.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Figures, Kind, Machine, Ran, json, measured, pause, plain};
use crate::bench::contender::{Contender, Who, Work};
use crate::bench::tools::Maybe;

impl Machine<'_> {
    /// Runs the program of a contender.
    pub(super) fn figures(&mut self, contender: &Contender) -> anyhow::Result<Figures> {
        let work = contender.work;
        match &contender.who {
            Who::Te(options) => self.te(contender, None, options),
            Who::TeBefore(options) => self.te_before(contender, options),
            Who::TeToMooncake => {
                let (segment, pid) = self.targets.get(Kind::Mooncake, self.tools)?;
                self.te(contender, Some((&segment, pid)), "--transport tcp")
            }
            Who::Mooncake => {
                let one = contender.on_one_core;
                let kind = if one { Kind::MooncakeOnOneCore } else { Kind::Mooncake };
                self.mooncake(contender, kind)
            }
            Who::MooncakeToTe => self.mooncake(contender, Kind::Te),
            Who::MooncakeLatency { pause_us } => self.mooncake_latency(contender, *pause_us),
            Who::Iperf(streams) => self.iperf(contender, *streams),
            Who::Memcpy => self.own(&Ok(self.tools.machine.clone()), &["memcpy"], work, None),
            Who::ProcessVm => {
                let words = ["vm", work.op.capitals()];
                self.own(&Ok(self.tools.machine.clone()), &words, work, None)
            }
            Who::Nixl(ways) => {
                self.own(&self.tools.nixl, &[work.op.capitals()], work, Some(("UCX_TLS", ways)))
            }
            Who::Libfabric => self.own(&self.tools.libfabric, &[work.op.capitals()], work, None),
            Who::Idle => self.idle(),
        }
    }

    fn te(
        &self,
        contender: &Contender,
        target: Option<(&str, u32)>,
        options: &str,
    ) -> anyhow::Result<Figures> {
        let mut command = measured(self.tools, &self.tools.te, contender.on_one_core);
        self.say_work(&mut command, contender.work, options);
        if let Some((segment, _)) = target {
            command.arg(segment);
        }
        // What this checks is in no figure; it takes long where much is moved.
        if self.verify {
            command.arg("--verify");
        }
        self.te_figures(command, target.map(|(_, pid)| pid))
    }

    /// An older `te` may not know all options; it is not told to check.
    fn te_before(&self, contender: &Contender, options: &str) -> anyhow::Result<Figures> {
        let program = self.tools.before.as_ref().map_err(|why| anyhow::Error::msg(why.clone()))?;
        let mut command = measured(self.tools, program, contender.on_one_core);
        self.say_work(&mut command, contender.work, options);
        self.te_figures(command, None)
    }

    fn say_work(&self, command: &mut Command, work: Work, options: &str) {
        command.args(["bench", "--json", "--op", work.op.word()]);
        command.args(["--block", &work.block.to_string(), "--batch", &work.batch.to_string()]);
        command.args(["--duration", &self.seconds.to_string()]);
        command.args(options.split_ascii_whitespace());
    }

    fn te_figures(&self, command: Command, target: Option<u32>) -> anyhow::Result<Figures> {
        let ran = self.run(command, target)?;
        let value = json(&ran.output)?;
        let (asked, used) = (value["asked"].as_str(), value["transport"].as_str());
        // An older te does not tell.
        let fits = asked.is_none() || asked == used;
        ensure!(fits, "asked for {asked:?}, bytes were moved by {used:?}");
        let cpu = |side: &str| value["cpu_seconds_per_gigabyte"][side].as_f64();
        let rate = value["gigabytes_per_second"].as_f64();
        // Of a target that is not its own child te knows nothing.
        let there = cpu("there").or_else(|| Some(ran.share()?.1 / rate?));
        Ok(Figures {
            rate,
            requests: value["requests_per_second"].as_f64(),
            p50: value["latency_us"]["p50"].as_f64(),
            p99: value["latency_us"]["p99"].as_f64(),
            cpu_here: cpu("here"),
            cpu_there: there,
            value: None,
        })
    }

    /// Mooncake's own bench as initiator. It takes whole seconds.
    fn mooncake(&mut self, contender: &Contender, kind: Kind) -> anyhow::Result<Figures> {
        let (segment, pid) = self.targets.get(kind, self.tools)?;
        let peer = wanted(&self.tools.mooncake)?;
        let Work { op, block, batch } = contender.work;
        let seconds = self.seconds.ceil().max(1.0);
        let room = (block * u64::from(batch)).max(64 << 20);
        let mut command = measured(self.tools, &peer.bench, contender.on_one_core);
        command.args(["--mode=initiator", "--metadata_server=P2PHANDSHAKE", "--protocol=tcp"]);
        command.args(["--local_server_name=127.0.0.1", "--threads=1", "--report_precision=4"]);
        command.arg(format!("--segment_id={segment}")).arg(format!("--operation={}", op.word()));
        command.arg(format!("--block_size={block}")).arg(format!("--batch_size={batch}"));
        command.arg(format!("--duration={seconds}")).arg(format!("--buffer_size={room}"));
        let ran = self.run(command, Some(pid))?;
        let (took, batches) = mooncake_result(&ran.output).context("Mooncake tells no result")?;
        let requests = batches * f64::from(batch);
        let rate = requests * size(block) / took / 1e9;
        let cpu = ran.share();
        Ok(Figures {
            rate: Some(rate),
            requests: Some(requests / took),
            cpu_here: cpu.map(|cpu| cpu.0 / rate),
            cpu_there: cpu.map(|cpu| cpu.1 / rate),
            ..Figures::default()
        })
    }

    fn mooncake_latency(&mut self, contender: &Contender, us: u32) -> anyhow::Result<Figures> {
        let (segment, pid) = self.targets.get(Kind::Mooncake, self.tools)?;
        let peer = wanted(&self.tools.mooncake)?;
        let mut command = measured(self.tools, &peer.python, contender.on_one_core);
        command.arg(&peer.latency).arg(segment).arg(contender.work.op.word());
        command.arg(contender.work.block.to_string()).arg(self.seconds.to_string());
        command.arg((f64::from(us) / 1e6).to_string());
        Ok(plain(&json(&self.run(command, Some(pid))?.output)?))
    }

    fn iperf(&self, contender: &Contender, streams: u32) -> anyhow::Result<Figures> {
        wanted(&self.tools.iperf)?;
        let program = std::path::Path::new("iperf3");
        let mut server = measured(self.tools, program, contender.on_one_core);
        server.args(["-s", "-1", "-p", PORT, "-B", "127.0.0.1"]);
        server.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut server = server.spawn().context("cannot start iperf3")?;
        // It does not tell when it is ready.
        pause(Duration::from_millis(200));
        let mut client = measured(self.tools, program, contender.on_one_core);
        client.args(["-c", "127.0.0.1", "-p", PORT, "-J", "-t", &self.seconds.ceil().to_string()]);
        client.args(["-P", &streams.to_string()]);
        let ran = self.run(client, None);
        let _ = server.kill();
        server.wait().context("cannot wait for iperf3")?;
        let value: Value = serde_json::from_str(&ran?.output).context("iperf3 tells no JSON")?;
        let end = &value["end"];
        let received = |key: &str| end["sum_received"][key].as_f64();
        let (bytes, took) =
            received("bytes").zip(received("seconds")).context("iperf3 moved nothing")?;
        let cpu = |key: &str| {
            Some(end["cpu_utilization_percent"][key].as_f64()? / 100.0 * took / (bytes / 1e9))
        };
        Ok(Figures {
            rate: Some(bytes / took / 1e9),
            cpu_here: cpu("host_total"),
            cpu_there: cpu("remote_total"),
            ..Figures::default()
        })
    }

    /// A program of ours in C.
    fn own(
        &self,
        program: &Maybe<std::path::PathBuf>,
        words: &[&str],
        work: Work,
        variable: Option<(&str, &str)>,
    ) -> anyhow::Result<Figures> {
        let mut command = measured(self.tools, wanted(program)?, false);
        command.args(words).arg(work.block.to_string()).arg(work.batch.to_string());
        command.arg(self.seconds.to_string()).envs(variable);
        Ok(plain(&json(&self.run(command, None)?.output)?))
    }

    fn idle(&self) -> anyhow::Result<Figures> {
        let mut command = measured(self.tools, &self.tools.te, false);
        command.args(["bench-idle", "100", &self.seconds.max(2.0).to_string()]);
        command.env("TE_TRANSPORTS", "tcp");
        let value = json(&self.run(command, None)?.output)?["cpu_percent"].as_f64();
        Ok(Figures { value, ..Figures::default() })
    }
}

impl Ran {
    /// Cores that the program and its target used while the target did the middle nine tenths of its
    /// work: neither the start nor the end of a program is its work, and both last as they like.
    fn share(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.used.first()?, self.used.last()?);
        let reached = |part: f64| {
            let wanted = first.2 + (last.2 - first.2) * part;
            self.used.iter().find(|used| used.2 >= wanted)
        };
        let (from, to) = (reached(0.05)?, reached(0.95)?);
        let took = to.0 - from.0;
        (took > 0.0).then(|| ((to.1 - from.1) / took, (to.2 - from.2) / took))
    }
}

fn wanted<T>(tool: &Maybe<T>) -> anyhow::Result<&T> {
    tool.as_ref().map_err(|why| anyhow::Error::msg(why.clone()))
}

/// Seconds and batches in the line of Mooncake's bench.
fn mooncake_result(output: &str) -> Option<(f64, f64)> {
    let line = output.lines().find(|line| line.contains("batch count"))?;
    let after = |word: &str| -> Option<f64> {
        let rest = &line[line.find(word)? + word.len()..];
        let number: String =
            rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        number.trim_end_matches('.').parse().ok()
    };
    Some((after("duration")?, after("batch count")?))
}

#[expect(clippy::cast_precision_loss, reason = "a block is far shorter than 2^53 bytes")]
fn size(block: u64) -> f64 {
    block as f64
}

/// A port that nothing usual has.
const PORT: &str = "15201";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::contender::Op;

    #[test]
    fn the_result_of_mooncake_is_read() {
        let line =
            "I1130 a.cpp:2] Test completed: duration 1.0012, batch count 215, throughput 1.8 GB/s";
        assert_eq!(mooncake_result(line), Some((1.0012, 215.0)));
        assert_eq!(mooncake_result("nothing"), None);
    }

    #[test]
    fn the_share_is_that_of_the_work() {
        // A second of work between a start and an end that last half a second each.
        let at = |n: i32| {
            let (t, work) = (f64::from(n) / 100.0, (f64::from(n) / 100.0 - 0.5).clamp(0.0, 1.0));
            // When its threads end, the account of the program shrinks.
            (t, if n > 170 { 0.1 } else { 0.2 + work * 1.5 }, 7.0 + work * 0.5)
        };
        let ran = Ran { output: String::new(), used: (0..=200).map(at).collect() };
        let (here, there) = ran.share().unwrap();
        assert!((here - 1.5).abs() < 1e-6 && (there - 0.5).abs() < 1e-6, "{here} {there}");
        assert_eq!(Ran { output: String::new(), used: Vec::new() }.share(), None);
    }

    #[test]
    fn operations_have_the_words_of_each_program() {
        assert_eq!((Op::Write.word(), Op::Read.capitals()), ("write", "READ"));
    }
}
