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

    /// The last `n` lines written.
    pub(crate) fn tail(&mut self, n: usize) -> anyhow::Result<String> {
        self.flush()?;
        Ok(tail(&read(&self.path)?, n))
    }
}

/// The last `n` lines of `text`.
fn tail(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}

fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn a_tail_is_at_most_the_whole() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 9), "a");
        assert_eq!(tail("", 3), "");
    }
}
