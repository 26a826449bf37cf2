//! The Python environment with the published Mooncake, in `target/venv`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::debian;
use crate::journal::Journal;
use crate::run;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// Whether the real peer can be run.
#[derive(Debug)]
pub(crate) enum Peer {
    /// With this interpreter.
    Ready(String),
    /// Not, for this reason, which ends with what to type.
    Missing(String),
}

/// The peer's version is part of what we claim, so it is exact.
const PEER: &str = "mooncake-transfer-engine-non-cuda==0.3.13.post1";

const PACKAGES: &[&str] = &["numpy", PEER];

/// Libraries that the peer's own library is linked with.
const LIBRARIES: &[&str] = &["libibverbs1", "librdmacm1", "libnuma1"];

/// Makes the environment if it is not there or does not work.
pub(crate) fn prepare(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<Peer> {
    let folder = workspace.target().join("venv");
    let python = folder.join("bin/python");
    if works(&python, journal)? {
        return Ok(Peer::Ready(python.display().to_string()));
    }
    let watch = Stopwatch::start();
    ui::say("  preparing Python with the published Mooncake in target/venv");
    let mut wanted = LIBRARIES.to_vec();
    wanted.push("python3-venv");
    if let Some(by_hand) = debian::install(journal, &wanted)? {
        return Ok(missing("Debian packages", &by_hand));
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    if !run::quietly(venv, journal, LIMIT)?.is_good() {
        return Ok(missing("a Python environment", "python3 -m venv target/venv"));
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PACKAGES);
    let by_hand = format!("target/venv/bin/python -m pip install {}", PACKAGES.join(" "));
    if !run::quietly(pip, journal, LIMIT)?.is_good() {
        return Ok(missing("the published Mooncake", &by_hand));
    }
    if !works(&python, journal)? {
        return Ok(missing(
            "a Mooncake that can be imported",
            &format!("{by_hand}  # see the log"),
        ));
    }
    ui::say(&format!("  ready in {}", watch.text()));
    Ok(Peer::Ready(python.display().to_string()))
}

const LIMIT: Duration = Duration::from_secs(900);

fn works(python: &Path, journal: &mut Journal) -> anyhow::Result<bool> {
    if !python.exists() {
        return Ok(false);
    }
    let mut command = Command::new(python);
    command.args(["-c", CHECK, PEER]);
    Ok(run::quietly(command, journal, LIMIT)?.is_good())
}

/// Imports what the suite uses, and compares the version with that of `NAME==VERSION`.
const CHECK: &str = "import sys, importlib.metadata as m, numpy, mooncake.engine; \
    name, version = sys.argv[1].split('=='); assert m.version(name) == version, m.version(name)";

fn missing(what: &str, by_hand: &str) -> Peer {
    Peer::Missing(format!("{what} could not be installed; by hand: {by_hand}"))
}
