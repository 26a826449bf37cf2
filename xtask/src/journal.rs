//! The log of one suite or step: every command and every line that it printed.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::workspace::Workspace;

/// An open log.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    shown: String,
    file: BufWriter<File>,
}

impl Journal {
    /// Starts `target/xtask/NAME.log` anew.
    pub(crate) fn create(workspace: &Workspace, name: &str) -> anyhow::Result<Self> {
        let path = workspace.output(&format!("{name}.log"))?;
        let file = File::create(&path)
            .with_context(|| format!("cannot write the log {}", path.display()))?;
        let shown = path.strip_prefix(workspace.root()).unwrap_or(&path).display().to_string();
        Ok(Self { path, shown, file: BufWriter::new(file) })
    }

    /// Adds one line. A log that cannot be written stops the run: without it a failure could not
    /// be explained.
    pub(crate) fn line(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.file, "{line}").with_context(|| format!("cannot write {}", self.shown))
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.file.flush().with_context(|| format!("cannot write {}", self.shown))
    }

    /// The path as a person would type it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// At most `n` last lines of the last command, without those that only say that work goes on.
    pub(crate) fn tail(&mut self, n: usize) -> anyhow::Result<String> {
        self.flush()?;
        Ok(tail(&read(&self.path)?, n))
    }
}

fn tail(text: &str, n: usize) -> String {
    let from = text.rfind("\n$ ").map_or(0, |at| at + 1);
    let lines: Vec<&str> = text[from..].lines().filter(|line| !is_chatter(line)).collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}

/// Cargo's lines of progress.
fn is_chatter(line: &str) -> bool {
    let verbs = ["Compiling", "Checking", "Finished", "Blocking", "Downloading", "Downloaded"];
    let word = line.split_whitespace().next().unwrap_or_default();
    line.starts_with(' ') && verbs.contains(&word)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn a_tail_is_the_end_of_the_last_command() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 9), "a");
        assert_eq!(tail("", 3), "");
        assert_eq!(tail("$ x\na\n$ y\nb\n", 9), "$ y\nb");
    }

    #[test]
    fn progress_of_cargo_is_left_out() {
        assert_eq!(tail("   Compiling x v1\nerror: y\n    Finished z\n", 9), "error: y");
        assert_eq!(tail("  Compiling is hard\nCompiling\n", 9), "Compiling");
    }
}
