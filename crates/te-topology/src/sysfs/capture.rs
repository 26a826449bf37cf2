//! Machines as one text file: what was read of a tree, a line for each file and link.
//!
//! ```text
//! # a comment
//! sys/class/infiniband/mlx5_0        ->  ../../devices/pci0000:00/…/infiniband/mlx5_0
//! sys/devices/pci0000:00/…/class     0x020700
//! sys/class/net/
//! ```
//!
//! Columns are separated by tabs; a path that ends in a slash is a folder. In texts `\n`, `\t` and
//! `\\` stand for a line's end, a tab and a backslash. A path may begin with a slash.

use std::collections::BTreeMap;
use std::fmt::Write;

use thiserror::Error;

use super::SysTree;
use super::tree::Entry;

/// Longest capture that is read, in bytes.
pub const MAX_CAPTURE_BYTES: usize = 64 << 20;
const MAX_LINES: usize = 1_000_000;
const MAX_PATH_BYTES: usize = 4096;
const LINK: &str = "->";

impl SysTree {
    /// The tree that a capture describes.
    ///
    /// # Errors
    /// A text above [`MAX_CAPTURE_BYTES`] or with too many lines, and a line that is none of a
    /// capture.
    pub fn from_capture(text: &str) -> Result<Self, CaptureError> {
        if text.len() > MAX_CAPTURE_BYTES {
            return Err(CaptureError::TooLong { bytes: text.len() });
        }
        let mut entries = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            if index >= MAX_LINES {
                return Err(CaptureError::TooManyLines);
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (path, entry) = parse_line(line).ok_or(CaptureError::Line { line: index + 1 })?;
            entries.insert(path, entry);
        }
        Ok(Self::in_memory(entries))
    }

    /// The text from which [`Self::from_capture`] gives the same machine.
    ///
    /// It holds what [`read_tree`](super::read_tree) reads and nothing else: no host name, no
    /// hardware address, no GID, no serial number.
    pub fn capture(&self) -> String {
        let recording = self.recording();
        super::read_tree(&recording);
        let mut text = String::from("# what te-topology reads of /sys and /proc\n");
        for (path, entry) in recording.recorded() {
            // A String takes everything that is written to it.
            let _ = match entry {
                Entry::Text(content) => {
                    writeln!(text, "{path}\t{}", escaped(needed(&path, &content)))
                }
                Entry::Link(target) => writeln!(text, "{path}\t{LINK}\t{}", escaped(&target)),
                Entry::Folder if path.is_empty() => Ok(()),
                Entry::Folder => writeln!(text, "{path}/"),
            };
        }
        text
    }
}

/// Why a text is no capture.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// More than [`MAX_CAPTURE_BYTES`].
    #[error("the capture has {bytes} bytes, at most {MAX_CAPTURE_BYTES} are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// More lines than any machine needs.
    #[error("the capture has more than {MAX_LINES} lines")]
    TooManyLines,
    /// A line without a path, with a path that leads out, or with more than three columns.
    #[error("line {line} is no line of a capture")]
    Line {
        /// Counted from 1.
        line: usize,
    },
}

/// A driver's description of a GPU also has what identifies the very piece; one line is needed.
fn needed<'a>(path: &str, text: &'a str) -> &'a str {
    let model = || text.lines().find(|line| line.starts_with("Model:")).unwrap_or_default();
    if path.ends_with("/information") { model() } else { text }
}

fn parse_line(line: &str) -> Option<(String, Entry)> {
    let mut columns = line.split('\t');
    let path = columns.next()?.trim().trim_start_matches('/');
    let entry = match (columns.next(), columns.next(), columns.next()) {
        (None | Some(""), None, None) if path.ends_with('/') => Entry::Folder,
        (None, None, None) => return None,
        (Some(text), None, None) => Entry::Text(unescaped(text)),
        (Some(LINK), Some(target), None) => Entry::Link(unescaped(target)),
        _ => return None,
    };
    let path = path.trim_end_matches('/');
    let parts_are_fine = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    let fine = parts_are_fine && path.len() <= MAX_PATH_BYTES;
    fine.then(|| (path.to_owned(), entry))
}

fn escaped(text: &str) -> String {
    let text = text.trim_end_matches('\n');
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t")
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            (c, false) => plain.push(c),
        }
    }
    plain
}
