//! A child process that speaks one JSON object a line on its standard streams.
//!
//! One thread reads its output, one its error stream (the last lines are kept for the text of a
//! failure). Every answer has a deadline. The child is killed by its own process id when the value
//! is dropped, and nothing else ever is.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::clock::wait_for;

/// The child.
#[derive(Debug)]
pub struct LineChild {
    label: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Tail,
}

impl LineChild {
    /// Starts `command`; `label` names it in failures.
    ///
    /// # Panics
    /// When it cannot be started.
    #[track_caller]
    pub fn start(label: &str, mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|cause| panic!("cannot start {label}: {cause}"));
        let stdin = child.stdin.take();
        let lines = child.stdout.take().map(read_lines).expect("stdout is piped above");
        let errors = child.stderr.take().map(Tail::of).expect("stderr is piped above");
        Self { label: label.to_owned(), child, stdin, lines, errors }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one object. A child that is dead shows at the next [`receive`](Self::receive).
    pub fn send(&mut self, object: &Value) {
        let line = format!("{object}\n");
        if let Some(stdin) = &mut self.stdin {
            // A broken pipe means that the child is dead, which the answer tells with its status.
            let _ = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
        }
    }

    /// The next line, as JSON.
    ///
    /// # Errors
    /// A sentence with the exit status and the last lines of its error stream, when it died, sent
    /// something else, or was silent for `limit`.
    pub fn receive(&mut self, limit: Duration) -> Result<Value, String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&line).map_err(|cause| {
                self.failure(&format!("said `{line}`, which is no JSON: {cause}"))
            }),
            Err(RecvTimeoutError::Timeout) => Err(self.failure(&format!("no answer in {limit:?}"))),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.wait(Duration::from_secs(5));
                Err(self.failure(&format!("ended, {}", told(status))))
            }
        }
    }

    /// How it ended, or `None` while it lives.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_for(limit, || self.status())
    }

    /// Sends it a signal by name (`STOP`, `CONT`, `TERM`).
    ///
    /// # Panics
    /// When `kill` cannot be run.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        send_signal(self.pid().into(), name);
    }

    /// Stops it, and waits until every thread of it stands.
    ///
    /// # Panics
    /// When one runs on for five seconds.
    #[track_caller]
    pub fn stop(&self) {
        self.signal("STOP");
        let stands = || self.states().iter().all(|state| *state == 'T').then_some(());
        crate::clock::wait_until(Duration::from_secs(5), "a process that was stopped", stands);
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When `kill` cannot be run.
    #[track_caller]
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// The state of each of its threads, as the kernel names it.
    fn states(&self) -> Vec<char> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let state = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            stat.rsplit_once(')')?.1.trim_start().chars().next()
        };
        tasks.into_iter().flatten().flatten().filter_map(state).collect()
    }

    /// Ends it at once, as a crash would, and reaps it.
    pub fn kill(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes its input.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// The last lines of its error stream.
    pub fn errors(&self) -> String {
        self.errors.text()
    }

    /// How many lines its error stream has had so far.
    pub fn error_lines(&self) -> usize {
        self.errors.n_lines.load(Ordering::Relaxed)
    }

    fn failure(&self, what: &str) -> String {
        format!("{} (pid {}): {what}\n{}", self.label, self.pid(), self.errors.text())
    }
}

impl Drop for LineChild {
    fn drop(&mut self) {
        self.kill();
    }
}

fn told(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "but still runs".to_owned(), |status| status.to_string())
}

fn read_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The last lines of a stream, and the number of all.
#[derive(Debug, Clone, Default)]
struct Tail {
    last: Arc<Mutex<VecDeque<String>>>,
    n_lines: Arc<AtomicUsize>,
}

impl Tail {
    const LINES: usize = 30;

    fn of(stream: impl Read + Send + 'static) -> Self {
        let tail = Self::default();
        let kept = tail.clone();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!(stream.read_until(b'\n', &mut line), Ok(n) if n > 0) {
                kept.push(String::from_utf8_lossy(&line).trim_end().to_owned());
                line.clear();
            }
        });
        tail
    }

    fn push(&self, line: String) {
        self.n_lines.fetch_add(1, Ordering::Relaxed);
        let mut lines = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > Self::LINES {
            lines.pop_front();
        }
    }

    fn text(&self) -> String {
        let lines = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("    {line}\n")).collect()
    }
}

/// Sends a signal by name to a process that the test has started, or one of its nodes.
///
/// # Panics
/// When `kill` cannot be run.
#[track_caller]
pub fn send_signal(pid: u64, name: &str) {
    let done = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(done.is_ok(), "cannot run kill: {done:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> LineChild {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        LineChild::start("a shell", command)
    }

    #[test]
    fn an_answer_comes_as_json_and_a_death_with_its_last_words() {
        let mut child = shell("read line; echo \"$line\"; echo farewell >&2; exit 7");
        child.send(&serde_json::json!({ "op": "ping" }));
        assert_eq!(child.receive(Duration::from_secs(10)).unwrap()["op"], "ping");
        let death = child.receive(Duration::from_secs(10)).unwrap_err();
        assert!(death.contains("exit status: 7"), "{death}");
    }

    #[test]
    fn silence_has_an_end() {
        let mut child = shell("read line; read line");
        let silence = child.receive(Duration::from_millis(50)).unwrap_err();
        assert!(silence.contains("no answer in 50ms"), "{silence}");
    }
}
