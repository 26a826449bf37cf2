//! The second process, as the first one sees it.

use std::io::{BufRead, BufReader};
use std::process::{Child as Process, ChildStdin, Stdio};

use serde_json::Value;

use super::args::Bench;
use super::settings::Settings;
use crate::args::Common;
use crate::error::{CliError, Failure, system_text};
use crate::program::Program;

/// A running `te bench-target`. Dropping it closes its standard input, at which it ends.
pub(super) struct Child {
    process: Process,
    input: Option<ChildStdin>,
    segment: String,
    address: u64,
}

impl Child {
    pub(super) fn start(
        common: &Common,
        args: &Bench,
        settings: &Settings,
    ) -> Result<Self, CliError> {
        let mut command = Program::command().map_err(|cause| lost(system_text(&cause)))?;
        command.arg("bench-target").arg(args.most_memory().to_string()).envs(settings);
        if args.engine_memory {
            command.arg("--engine-memory");
        }
        if args.huge_pages {
            command.arg("--huge-pages");
        }
        if let Some(path) = &common.config {
            command.arg("--config").arg(path);
        }
        command.args(std::iter::repeat_n("-v", common.verbose.into()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|cause| lost(system_text(&cause)))?;
        let input = process.stdin.take();
        let output = process.stdout.take();
        let mut child = Self { process, input, segment: String::new(), address: 0 };
        let mut line = String::new();
        if let Some(output) = output {
            let read = BufReader::new(output).read_line(&mut line);
            read.map_err(|cause| lost(system_text(&cause)))?;
        }
        child.take_greeting(&line)?;
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

    /// Ends it and waits until it is gone.
    pub(super) fn end(&mut self) -> Result<(), CliError> {
        self.input = None;
        let status = self.process.wait().map_err(|cause| lost(system_text(&cause)))?;
        if status.success() { Ok(()) } else { Err(lost(format!("it ended with {status}"))) }
    }

    fn take_greeting(&mut self, line: &str) -> Result<(), CliError> {
        let value: Value = serde_json::from_str(line).map_err(|_| lost("it did not start"))?;
        match (value["segment"].as_str(), value["address"].as_u64()) {
            (Some(segment), Some(address)) => {
                self.segment = segment.to_owned();
                self.address = address;
                Ok(())
            }
            _ => Err(lost(line)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.input = None;
        // It may be stopped, or hang: nobody wants it any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lost(cause: impl std::fmt::Display) -> CliError {
    CliError::new(Failure::Other, "bench: the second process is of no use", cause)
}
