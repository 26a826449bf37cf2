//! What is measured with: programs that are built or installed, or the reason why they are not there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use super::revision;
use crate::artifacts;
use crate::debian;
use crate::flags::BenchFlags;
use crate::journal::Journal;
use crate::pyenv::{self, Peer};
use crate::run;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// A thing, or why it cannot be had.
pub(crate) type Maybe<T> = Result<T, String>;

/// All programs.
#[derive(Debug)]
pub(crate) struct Tools {
    /// `te` as it is shipped.
    pub(crate) te: PathBuf,
    /// `te` of another revision.
    pub(crate) before: Maybe<PathBuf>,
    /// `c/machine.c`.
    pub(crate) machine: PathBuf,
    pub(crate) mooncake: Maybe<Mooncake>,
    pub(crate) iperf: Maybe<()>,
    pub(crate) nixl: Maybe<PathBuf>,
    pub(crate) libfabric: Maybe<PathBuf>,
    /// Whether measured programs run before those of others.
    pub(crate) is_raised: bool,
    /// Where our own files are, `target/bench`.
    pub(crate) folder: PathBuf,
}

/// The published Mooncake.
#[derive(Debug)]
pub(crate) struct Mooncake {
    pub(crate) bench: PathBuf,
    pub(crate) python: PathBuf,
    /// `latency.py`.
    pub(crate) latency: PathBuf,
}

impl Tools {
    /// Builds and installs what is missing.
    pub(crate) fn prepare(
        workspace: &Workspace,
        journal: &mut Journal,
        flags: &BenchFlags,
    ) -> anyhow::Result<Self> {
        let watch = Stopwatch::start();
        ui::say("building te, and what it is compared with");
        let folder = workspace.target().join("bench");
        std::fs::create_dir_all(&folder).context("cannot make target/bench")?;
        artifacts::build_programs(
            workspace,
            journal,
            &["--release", "--package", "te-cli", "--bins"],
        )?;
        // Other programs of this workspace may replace it while we measure.
        let te = folder.join("te");
        std::fs::copy(workspace.target().join("release/te"), &te).context("cannot copy te")?;
        let before = match &flags.against {
            Some(name) => revision::build(workspace, journal, name)?,
            None => Err("no --against".to_owned()),
        };
        let by_hand = debian::install(journal, &["gcc", "libc6-dev"])?;
        if let Some(by_hand) = by_hand {
            anyhow::bail!("there is no C compiler: {by_hand}");
        }
        let machine = compile(journal, &folder, "machine", &[])?.map_err(anyhow::Error::msg)?;
        let tools = Self {
            te,
            before,
            machine,
            mooncake: mooncake(workspace, journal, &folder)?,
            iperf: installed(journal, &["iperf3"])?,
            nixl: nixl(workspace, journal, &folder)?,
            libfabric: libfabric(journal, &folder)?,
            is_raised: is_raised(),
            folder,
        };
        ui::say(&format!("ready in {}", watch.text()));
        Ok(tools)
    }
}

/// A command that runs before those of others where that is allowed, on one core if that is wished.
pub(crate) fn measured(tools: &Tools, program: &Path, on_one_core: bool) -> Command {
    let mut words: Vec<&str> = Vec::new();
    if tools.is_raised {
        words.extend(["setsid", "sh", "-c", RAISE, "sh"]);
    }
    if on_one_core {
        words.extend(["taskset", "--cpu-list", "0"]);
    }
    let mut command = match words.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    // Settings of the person who measures are not those of what is measured.
    for (name, _) in std::env::vars_os() {
        let known = ["MC_", "TE_", "UCX_", "NIXL_", "FI_"];
        if known.iter().any(|begin| name.to_string_lossy().starts_with(begin)) {
            command.env_remove(&name);
        }
    }
    command
}

/// The scheduler shares the cores among sessions, so that a plain nice value does nothing.
const RAISE: &str = "echo -15 > /proc/self/autogroup; exec \"$@\"";

fn is_raised() -> bool {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", "echo -15 > /proc/self/autogroup"]);
    command.output().is_ok_and(|output| output.status.success())
}

fn installed(journal: &mut Journal, packages: &[&str]) -> anyhow::Result<Maybe<()>> {
    Ok(match debian::install(journal, packages)? {
        None => Ok(()),
        Some(by_hand) => Err(format!("not installed: {by_hand}")),
    })
}

fn mooncake(
    workspace: &Workspace,
    journal: &mut Journal,
    folder: &Path,
) -> anyhow::Result<Maybe<Mooncake>> {
    let python = match pyenv::prepare(workspace, journal)? {
        Peer::Ready(python) => PathBuf::from(python),
        Peer::Missing(reason) => return Ok(Err(reason)),
    };
    // A folder of its own: Python looks for modules beside a script first.
    let scripts = folder.join("python");
    std::fs::create_dir_all(&scripts).context("cannot make target/bench/python")?;
    let latency = scripts.join("latency.py");
    std::fs::write(&latency, include_str!("latency.py")).context("cannot write latency.py")?;
    let libraries = workspace.target().join("venv/lib");
    let found = std::fs::read_dir(&libraries).into_iter().flatten().flatten();
    let mut benches = found
        .map(|entry| entry.path().join("site-packages/mooncake/transfer_engine_bench"))
        .filter(|path| path.exists());
    Ok(match benches.next() {
        Some(bench) => Ok(Mooncake { bench, python, latency }),
        None => Err("the wheel has no transfer_engine_bench".to_owned()),
    })
}

/// The exact version whose interface `c/nixl.c` declares.
const NIXL: &str = "nixl-cu12==1.5.1";

fn nixl(
    workspace: &Workspace,
    journal: &mut Journal,
    folder: &Path,
) -> anyhow::Result<Maybe<PathBuf>> {
    let wheel = folder.join("nixl");
    let own = wheel.join(".nixl_cu12.mesonpy.libs");
    if !own.join("libnixl_capi.so").exists() {
        ui::say("  installing NIXL without what it depends on in target/bench/nixl");
        let mut pip = Command::new(workspace.target().join("venv/bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.arg("--target").arg(&wheel).arg(NIXL);
        let by_hand = format!("pip install --no-deps --target target/bench/nixl {NIXL}");
        let ended = run::quietly(pip, journal, LIMIT);
        if !ended.is_ok_and(run::Ended::is_good) {
            return Ok(Err(format!("NIXL could not be installed; by hand: {by_hand}")));
        }
    }
    let (own, others) = (own.display().to_string(), wheel.join("nixl_cu12.libs"));
    let others = others.display().to_string();
    let flags = [
        format!("-L{own}"),
        "-lnixl_capi".to_owned(),
        format!("-Wl,-rpath,{own}"),
        format!("-Wl,-rpath-link,{own}:{others}"),
    ];
    compile(journal, folder, "nixl", &flags)
}

fn libfabric(journal: &mut Journal, folder: &Path) -> anyhow::Result<Maybe<PathBuf>> {
    match installed(journal, &["libfabric-dev"])? {
        Ok(()) => compile(journal, folder, "libfabric", &["-lfabric".to_owned()]),
        Err(reason) => Ok(Err(reason)),
    }
}

/// Builds `c/NAME.c`.
fn compile(
    journal: &mut Journal,
    folder: &Path,
    name: &str,
    flags: &[String],
) -> anyhow::Result<Maybe<PathBuf>> {
    let sources = [
        ("machine.c", include_str!("c/machine.c")),
        ("pair.h", include_str!("c/pair.h")),
        ("nixl.c", include_str!("c/nixl.c")),
        ("libfabric.c", include_str!("c/libfabric.c")),
    ];
    let source = folder.join("c");
    std::fs::create_dir_all(&source).context("cannot make target/bench/c")?;
    for (file, text) in sources {
        std::fs::write(source.join(file), text).with_context(|| format!("cannot write {file}"))?;
    }
    let program = folder.join(format!("{name}-bench"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wextra", "-pthread", "-o"]).arg(&program);
    gcc.arg(source.join(format!("{name}.c"))).args(flags);
    let ended = run::quietly(gcc, journal, LIMIT)?;
    Ok(if ended.is_good() {
        Ok(program)
    } else {
        Err(format!("{name}.c does not compile here; see {}", journal.shown()))
    })
}

const LIMIT: Duration = Duration::from_secs(600);
