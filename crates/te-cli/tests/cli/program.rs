//! Running `te`, and a `te serve` that ends with its test.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use serde_json::Value;

/// The program, in an environment without settings of the person who runs the test.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_te"));
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("MC_") || name.starts_with("TE_") {
            command.env_remove(key);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap()
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Checks that there is one line of error that begins so.
    #[track_caller]
    pub(crate) fn told(self, begin: &str) -> Self {
        let lines: Vec<&str> = self.err.lines().collect();
        assert_eq!(lines.len(), 1, "{self:?}");
        assert!(lines[0].starts_with(begin), "{}\nis not\n{begin}", lines[0]);
        self
    }
}

/// Runs `te` with these words.
pub(crate) fn te(words: &[&str]) -> Ended {
    te_with_input(words, b"")
}

/// Runs `te` with these words and this standard input.
pub(crate) fn te_with_input(words: &[&str], input: &[u8]) -> Ended {
    let mut command = command();
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || {
        // A program that fails early does not read to the end.
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        out: output.stdout,
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running `te serve --json --until-eof`.
pub(crate) struct Served {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    pub(crate) segment: String,
    pub(crate) address: String,
    pub(crate) length: u64,
}

impl Served {
    pub(crate) fn start(words: &[&str]) -> Self {
        let mut command = command();
        command.args(["serve", "--json", "--until-eof"]).args(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let (segment, address) = (String::new(), String::new());
        let mut served = Self { child, stdin, lines, segment, address, length: 0 };
        let first = served.line();
        served.segment = first["segment"].as_str().unwrap().to_owned();
        served.address = first["address"].as_str().unwrap().to_owned();
        served.length = first["length"].as_u64().unwrap();
        served
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Closes its standard input and waits; gives what else it printed.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        self.stdin = None;
        self.wait()
    }

    /// Sends a signal by name and waits until the process is gone.
    pub(crate) fn end_by(mut self, signal: &str) -> (ExitStatus, String) {
        self.signal(signal);
        self.wait()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    fn wait(&mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap(), rest)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file that is gone when the test ends.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("te-cli-{}-{name}", std::process::id())))
    }

    pub(crate) fn with(name: &str, bytes: &[u8]) -> Self {
        let scratch = Self::new(name);
        std::fs::write(&scratch.0, bytes).unwrap();
        scratch
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Bytes that repeat nowhere nearby.
pub(crate) fn some_bytes(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(len)
    .collect()
}
