//! Where machines come from, and the files that pictures go to.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use te_topology::{MAX_CAPTURE_BYTES, MAX_XML_BYTES, Machine, read_machine, read_sysfs};

use crate::error::{CliError, Failure, chain};
use crate::output;

/// The machine that a file, a folder or standard input describes, and what to call it; without any
/// it is this machine.
pub(super) fn read(from: Option<&Path>) -> Result<(Machine, String), CliError> {
    let Some(path) = from else {
        return Ok((read_sysfs(Path::new("/")), "this machine".to_owned()));
    };
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if path.is_dir() {
        return Ok((folder(path)?, title));
    }
    let standard_input = path == Path::new("-");
    let text = if standard_input { limited(io::stdin().lock()) } else { file(path) };
    let text = text.map_err(|cause| CliError::file("cannot read", path, &cause))?;
    let machine = read_machine(&text).map_err(|error| {
        CliError::new(Failure::Local, format!("cannot read {}", path.display()), chain(&error))
            .hint("it takes lstopo XML, NCCL XML, or what `te topo capture` writes")
    })?;
    Ok((machine, if standard_input { "standard input".to_owned() } else { title }))
}

/// Writes a text to a file, or to standard output for `-`.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    if path == Path::new("-") {
        return output::text(text);
    }
    fs::write(path, text).map_err(|cause| CliError::file("cannot write", path, &cause))
}

fn folder(path: &Path) -> Result<Machine, CliError> {
    if path.join("sys").is_dir() {
        return Ok(read_sysfs(path));
    }
    let cause = "the folder holds no folder `sys`";
    Err(CliError::new(Failure::Local, format!("cannot read {}", path.display()), cause))
}

fn file(path: &Path) -> io::Result<String> {
    limited(File::open(path)?)
}

fn limited(input: impl Read) -> io::Result<String> {
    let most = MAX_CAPTURE_BYTES.max(MAX_XML_BYTES) as u64;
    let mut text = String::new();
    // One byte more than a reader takes, so that it tells that this is too long.
    input.take(most + 1).read_to_string(&mut text)?;
    Ok(text)
}
