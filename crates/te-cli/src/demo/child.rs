//! The second process, as the first one sees it: a line of commands, a line of answers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, ChildStdin, ChildStdout, Stdio};

use serde_json::Value;

use super::differs;
use crate::args::Common;
use crate::error::{CliError, Failure, system_text};
use crate::program::Program;

/// A running `te demo-target`. Dropping it closes its standard input, at which it ends.
pub(super) struct Child {
    process: Process,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    segment: String,
    address: u64,
}

impl Child {
    pub(super) fn start(common: &Common, size: u64) -> Result<Self, CliError> {
        let mut command = Program::command().map_err(|cause| lost(system_text(&cause)))?;
        command.arg("demo-target").arg(size.to_string());
        if let Some(path) = &common.config {
            command.arg("--config").arg(path);
        }
        command.args(std::iter::repeat_n("-v", common.verbose.into()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|cause| lost(system_text(&cause)))?;
        let commands = process.stdin.take();
        let Some(output) = process.stdout.take() else {
            return Err(lost("it has no output"));
        };
        let answers = BufReader::new(output);
        let mut child = Self { process, commands, answers, segment: String::new(), address: 0 };
        child.greet()?;
        Ok(child)
    }

    pub(super) fn segment(&self) -> &str {
        &self.segment
    }

    /// Where its buffer begins, in its own address space.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Has it fill its buffer with a pattern.
    pub(super) fn fill(&mut self, seed: u64, length: u64) -> Result<(), CliError> {
        match self.ask(&format!("fill {seed} {length}"))?.as_str() {
            "ok" => Ok(()),
            other => Err(lost(other)),
        }
    }

    /// Has it compare its buffer with a pattern.
    pub(super) fn check(&mut self, seed: u64, length: u64) -> Result<(), CliError> {
        let answer = self.ask(&format!("check {seed} {length}"))?;
        match answer.strip_prefix("differs ").map(str::parse) {
            None if answer == "equal" => Ok(()),
            Some(Ok(position)) => Err(differs("written", position)),
            _ => Err(lost(answer)),
        }
    }

    /// Ends it and waits until it is gone.
    pub(super) fn end(&mut self) -> Result<(), CliError> {
        self.commands = None;
        let status = self.process.wait().map_err(|cause| lost(system_text(&cause)))?;
        if status.success() { Ok(()) } else { Err(lost(format!("it ended with {status}"))) }
    }

    fn greet(&mut self) -> Result<(), CliError> {
        let line = self.answer()?;
        let value: Value = serde_json::from_str(&line).map_err(|_| lost(&line))?;
        match (value["segment"].as_str(), value["address"].as_u64()) {
            (Some(segment), Some(address)) => {
                self.segment = segment.to_owned();
                self.address = address;
                Ok(())
            }
            _ => Err(lost(line)),
        }
    }

    fn ask(&mut self, question: &str) -> Result<String, CliError> {
        let Some(commands) = &mut self.commands else {
            return Err(lost("it has ended"));
        };
        writeln!(commands, "{question}").map_err(|cause| lost(system_text(&cause)))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String, CliError> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => Err(lost("it ended early")),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(cause) => Err(lost(system_text(&cause))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.commands = None;
        // It may be stopped, or hang: nobody wants it any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lost(cause: impl std::fmt::Display) -> CliError {
    CliError::new(Failure::Other, "demo: the second process is of no use", cause)
}
