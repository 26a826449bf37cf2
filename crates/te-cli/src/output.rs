//! Standard output: results only, and no panic when its reader is gone.

use std::io::{self, IsTerminal, Write};

use crate::error::CliError;

/// Prints one line at once, so that a program that waits for it gets it.
pub(crate) fn line(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|cause| CliError::output(&cause))
}

/// Prints a text that ends its own lines.
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    bytes(text.as_bytes())
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|cause| CliError::output(&cause))
}

/// Prints JSON on one line.
pub(crate) fn json(value: &serde_json::Value) -> Result<(), CliError> {
    line(&value.to_string())
}

/// Tells a person something beside the results; a program that reads our results never sees it.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether a person reads standard output.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}
