//! Starting a command, reading what it prints line by line, and ending it at its time limit.
//!
//! One thread reads the pipe that standard output and standard error share; the caller's thread
//! gets the lines, writes the log and watches the clock. A process that outlives its parent and
//! keeps the pipe open is not waited for longer than [`AFTER_EXIT`].

use std::io::{BufRead as _, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;

use crate::journal::Journal;
use crate::ui::Stopwatch;
use crate::workspace::shown;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// We killed it after its time limit.
    TimedOut(Duration),
}

impl Ended {
    /// Whether it exited with code 0.
    pub(crate) fn is_good(self) -> bool {
        self == Self::Exit(0)
    }

    /// In words.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Exit(code) => format!("exit code {code}"),
            Self::Signal(signal) => format!("ended by signal {signal}"),
            Self::TimedOut(limit) => format!("killed after {} s", limit.as_secs()),
        }
    }
}

/// Runs `command`, logs it and each line it prints, and hands the lines to `on_line`.
///
/// # Errors
///
/// Only where the command cannot be started or the log cannot be written; a command that fails is
/// an [`Ended`].
pub(crate) fn stream(
    mut command: Command,
    journal: &mut Journal,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> anyhow::Result<Ended> {
    let name: String = shown(&command).chars().take(LONGEST_NAME).collect();
    journal.line(&format!("$ {name}"))?;
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null());
    command.stderr(writer.try_clone().context("cannot share a pipe")?).stdout(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    // The command holds the writing ends; while it lives the pipe would never end.
    drop(command);
    let mut job = Job { lines: read_lines(reader), watch: Stopwatch::start(), limit };
    let ended = job.follow(&mut child, |line| {
        on_line(line);
        // Cargo's messages to programs are long, and say nothing to a reader of the log.
        if line.starts_with("{\"reason\":") { Ok(()) } else { journal.line(line) }
    })?;
    journal.line(&format!("# {} after {}", ended.text(), job.watch.text()))?;
    journal.flush()?;
    Ok(ended)
}

/// Like [`stream`], for a caller that reads the log and not the lines.
pub(crate) fn quietly(
    command: Command,
    journal: &mut Journal,
    limit: Duration,
) -> anyhow::Result<Ended> {
    stream(command, journal, limit, |_| ())
}

/// How much of a command line is shown; some list a hundred tests.
const LONGEST_NAME: usize = 400;

/// How long the pipe may stay open after the command has ended.
const AFTER_EXIT: Duration = Duration::from_secs(2);

/// How often a silent command is looked at.
const LOOK: Duration = Duration::from_millis(50);

struct Job {
    lines: Receiver<String>,
    watch: Stopwatch,
    limit: Duration,
}

impl Job {
    fn follow(
        &mut self,
        child: &mut Child,
        mut take: impl FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<Ended> {
        let mut end: Option<(Ended, Stopwatch)> = None;
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => take(&line)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return match end {
                        Some((ended, _)) => Ok(ended),
                        None => self.wait(child),
                    };
                }
            }
            match end {
                None => end = self.look(child)?.map(|ended| (ended, Stopwatch::start())),
                Some((ended, since)) if since.elapsed() > AFTER_EXIT => {
                    take("# a process that it left behind still holds its output")?;
                    return Ok(ended);
                }
                Some(_) => {}
            }
        }
    }

    /// Waits for a command that has closed its output.
    fn wait(&self, child: &mut Child) -> anyhow::Result<Ended> {
        loop {
            if let Some(ended) = self.look(child)? {
                return Ok(ended);
            }
            // The channel is closed, so that this waits the whole time.
            let (_keep, silent) = mpsc::channel::<()>();
            let _ = silent.recv_timeout(LOOK);
        }
    }

    /// How the command ended, if it has; kills it at its limit.
    fn look(&self, child: &mut Child) -> anyhow::Result<Option<Ended>> {
        if let Some(status) = child.try_wait().context("cannot wait for a command")? {
            return Ok(Some(from_status(status)));
        }
        if self.watch.elapsed() < self.limit {
            return Ok(None);
        }
        kill_tree(child.id());
        child.wait().context("cannot wait for a killed command")?;
        Ok(Some(Ended::TimedOut(self.limit)))
    }
}

fn from_status(status: ExitStatus) -> Ended {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exit(code),
        (None, signal) => Ended::Signal(signal.unwrap_or(0)),
    }
}

fn read_lines(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            let text = String::from_utf8_lossy(&line);
            if sender.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// Kills a process and all that descend from it. A test that hangs has often started others, and
/// killing only the test would leave them running.
fn kill_tree(root: u32) {
    let table = process_table();
    let mut doomed = vec![root];
    let mut at = 0;
    while at < doomed.len() {
        let parent = doomed[at];
        doomed.extend(table.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    let ids = doomed.iter().map(u32::to_string);
    // If `kill` cannot be started, the wait that follows shows it by not ending.
    let _ = Command::new("kill").arg("-KILL").args(ids).stderr(Stdio::null()).status();
}

/// Each process with its parent.
fn process_table() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, parent_of(pid)?))).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in brackets and may hold anything, brackets too.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn shell(script: &str, limit: Duration) -> (Ended, Vec<String>) {
        let workspace = Workspace::open().unwrap();
        let name = format!("selftest/{}", script.len());
        let mut journal = Journal::create(&workspace, &name).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let ended = stream(command, &mut journal, limit, |line| lines.push(line.to_owned()));
        (ended.unwrap(), lines)
    }

    #[test]
    fn both_streams_arrive_in_order() {
        let script = "echo one; echo two >&2; echo three; exit 3";
        let (ended, lines) = shell(script, Duration::from_secs(20));
        assert_eq!(ended, Ended::Exit(3));
        assert_eq!(lines, ["one", "two", "three"]);
    }

    #[test]
    fn a_command_and_its_children_are_killed_at_the_limit() {
        let limit = Duration::from_millis(300);
        let (ended, _) = shell("sh -c 'sleep 61.5; true' ; true", limit);
        assert_eq!(ended, Ended::TimedOut(limit));
        let alive = process_table().into_iter().any(|(pid, _)| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(5).any(|w| w == b"\x0061.5")
        });
        assert!(!alive, "the grandchild was left behind");
    }

    #[test]
    fn a_signal_is_told_apart_from_an_exit_code() {
        let (ended, _) = shell("kill -SEGV $$", Duration::from_secs(20));
        assert_eq!(ended, Ended::Signal(11));
    }

    #[test]
    fn a_process_left_behind_does_not_hold_us_up() {
        let (ended, lines) = shell("sleep 30 & echo started", Duration::from_secs(25));
        assert_eq!(ended, Ended::Exit(0));
        assert_eq!(lines[0], "started");
        assert_eq!(lines.len(), 2);
    }
}
