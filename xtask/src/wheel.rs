//! Wheels of te-python: for users (`cargo xtask wheel`), and for this machine (`--dev`, and the suite
//! `python`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::debian;
use crate::flags::WheelFlags;
use crate::journal::Journal;
use crate::run;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

mod check;

/// What makes wheels. Another version may make other files.
const MATURIN: &str = "maturin==1.16.0";

/// A linker that knows the symbols of old libraries of C.
const ZIG: &str = "ziglang==0.17.1";

/// What the shim is built with.
const SETUPTOOLS: &[&str] = &["setuptools==80.9.0", "wheel==0.45.1"];

/// The oldest library of C that the wheel is for.
const PLATFORM: &str = "manylinux_2_28";

/// Everything that can be in it.
const ALL_FEATURES: &str = "tcp,shm,rdma,http,redis,etcd,tls";

const LIMIT: Duration = Duration::from_secs(3600);

/// A Python environment, or what is missing for it, which ends with what to type.
pub(crate) type Made = Result<PathBuf, String>;

/// Makes the wheels. It is good if they are what they say they are.
pub(crate) fn run(workspace: &Workspace, flags: &WheelFlags) -> anyhow::Result<bool> {
    let mut journal = Journal::create(workspace, "wheel")?;
    let watch = Stopwatch::start();
    if flags.dev {
        return match install_dev(workspace, &mut journal)? {
            Ok(python) => {
                ui::say(&format!("{} has te_engine ({})", python.display(), watch.text()));
                Ok(true)
            }
            Err(missing) => {
                ui::say(&missing);
                Ok(false)
            }
        };
    }
    let mut shop = match Shop::open(workspace, &mut journal, &[MATURIN, ZIG])? {
        Ok(shop) => shop,
        Err(missing) => {
            ui::say(&missing);
            return Ok(false);
        }
    };
    let out = workspace.target().join("wheels");
    shop.release(&out)?;
    ui::say(&format!("built in {}", watch.text()));
    check::run(workspace, &mut journal, &out)
}

/// Builds te-python as `cargo build` does, installs it with the shim into an environment of its own,
/// `target/venv-te`, and gives its interpreter. What is up to date is not built again.
///
/// # Errors
/// It does not build; what cannot be had on this machine is an answer.
pub(crate) fn install_dev(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<Made> {
    let python = match environment(workspace, journal, "venv-te", &["numpy"])? {
        Ok(python) => python,
        missing => return Ok(missing),
    };
    let out = workspace.target().join("wheels-dev");
    match Shop::open(workspace, journal, &[MATURIN])? {
        Ok(mut shop) => shop.develop(&out)?,
        Err(missing) => return Ok(Err(missing)),
    }
    install(journal, &python, &wheels_in(&out)?)?;
    Ok(Ok(python))
}

/// Installs wheels over whatever was there before, with nothing that they depend on.
pub(crate) fn install(
    journal: &mut Journal,
    python: &Path,
    wheels: &[PathBuf],
) -> anyhow::Result<()> {
    let mut pip = pip(python, "install");
    pip.args(["--force-reinstall", "--no-deps"]).args(wheels);
    good(journal, pip, "the wheels cannot be installed")
}

/// The wheels in a folder, sorted.
pub(crate) fn wheels_in(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    files_in(folder, "whl")
}

/// Makes `target/NAME` with these packages, if it is not there yet.
pub(crate) fn environment(
    workspace: &Workspace,
    journal: &mut Journal,
    name: &str,
    packages: &[&str],
) -> anyhow::Result<Made> {
    let folder = workspace.target().join(name);
    let python = folder.join("bin/python");
    let mark = folder.join("packages");
    let wanted = packages.join("\n");
    if python.exists() && fs::read_to_string(&mark).is_ok_and(|made| made == wanted) {
        return Ok(Ok(python));
    }
    if let Some(by_hand) = debian::install(journal, &["python3-venv"])? {
        return Ok(Err(missing("Debian packages", &by_hand)));
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    if !run::quietly(venv, journal, LIMIT)?.is_good() {
        let by_hand = format!("python3 -m venv {}", folder.display());
        return Ok(Err(missing("a Python environment", &by_hand)));
    }
    let mut pip = pip(&python, "install");
    pip.args(packages);
    if !packages.is_empty() && !run::quietly(pip, journal, LIMIT)?.is_good() {
        let by_hand = format!("target/{name}/bin/python -m pip install {}", packages.join(" "));
        return Ok(Err(missing("packages from PyPI", &by_hand)));
    }
    fs::write(&mark, wanted).context("cannot write into a Python environment")?;
    Ok(Ok(python))
}

/// Where wheels are made.
struct Shop<'a> {
    workspace: &'a Workspace,
    journal: &'a mut Journal,
    python: PathBuf,
}

impl<'a> Shop<'a> {
    fn open(
        workspace: &'a Workspace,
        journal: &'a mut Journal,
        tools: &[&str],
    ) -> anyhow::Result<Result<Self, String>> {
        // The one for users can do all that the other one can.
        let name = if tools.contains(&ZIG) { "venv-wheel" } else { "venv-build" };
        let packages = [tools, SETUPTOOLS].concat();
        let made = environment(workspace, journal, name, &packages)?;
        Ok(made.map(|python| Self { workspace, journal, python }))
    }

    /// A build for this machine. Symbols go, since packing them takes longer than building.
    fn develop(&mut self, out: &Path) -> anyhow::Result<()> {
        emptied(out)?;
        let mut maturin = self.maturin("build");
        maturin.args(["--profile", "dev", "--compatibility", "linux", "--auditwheel", "skip"]);
        self.make(maturin, out)?;
        self.shim(out)
    }

    /// A build for every machine, and the sources of it.
    fn release(&mut self, out: &Path) -> anyhow::Result<()> {
        emptied(out)?;
        let packages = ["protobuf-compiler", "libprotobuf-dev"];
        if let Some(by_hand) = debian::install(self.journal, &packages)? {
            anyhow::bail!("{}", missing("protoc, for etcd,", &by_hand));
        }
        let mut maturin = self.maturin("build");
        maturin.args(["--profile", "release", "--zig", "--compatibility", PLATFORM]);
        maturin.args(["--auditwheel", "check", "--no-default-features"]);
        maturin.args(["--features", ALL_FEATURES, "--target", "x86_64-unknown-linux-gnu"]);
        self.make(maturin, out)?;
        let sdist = self.maturin("sdist");
        self.make(sdist, out)?;
        self.shim(out)
    }

    fn maturin(&self, verb: &str) -> Command {
        let folder = self.python.parent().unwrap_or_else(|| Path::new("."));
        let mut command = Command::new(folder.join("maturin"));
        command.arg(verb).current_dir(self.workspace.root());
        command.args(["--manifest-path", "crates/te-python/Cargo.toml"]);
        // It looks for the linker that it is to use in the environment that is active.
        command.env("PATH", search_path(folder));
        command
    }

    fn make(&mut self, mut command: Command, out: &Path) -> anyhow::Result<()> {
        command.arg("--out").arg(out);
        good(self.journal, command, "the wheel does not build")
    }

    /// The wheel with `mooncake/engine.py`. It is built in a copy, since the build leaves files
    /// beside the sources.
    fn shim(&mut self, out: &Path) -> anyhow::Result<()> {
        let copy = self.workspace.output("shim/pyproject.toml")?;
        let copy = copy.parent().context("a file has a folder")?;
        emptied(copy)?;
        let source = self.workspace.path("crates/te-python/shim");
        fs::create_dir_all(copy.join("mooncake")).context("cannot copy the shim")?;
        for file in ["pyproject.toml", "README.md", "mooncake/engine.py"] {
            fs::copy(source.join(file), copy.join(file)).context("cannot copy the shim")?;
        }
        let mut command = pip(&self.python, "wheel");
        command.args(["--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(out).arg(copy);
        good(self.journal, command, "the shim does not build")
    }
}

/// The search path of programs, with a folder before all others.
#[expect(
    clippy::disallowed_methods,
    reason = "it is handed on to a program, and sets nothing here"
)]
fn search_path(first: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(first.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}

fn pip(python: &Path, verb: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check"]);
    command
}

fn good(journal: &mut Journal, command: Command, what: &str) -> anyhow::Result<()> {
    let ended = run::quietly(command, journal, LIMIT)?;
    if !ended.is_good() {
        ui::say(&journal.tail(60)?);
    }
    ensure!(ended.is_good(), "{what} ({}); the log is {}", ended.text(), journal.shown());
    Ok(())
}

fn emptied(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("cannot empty the folder of the wheels")?;
    }
    fs::create_dir_all(folder).context("cannot make the folder of the wheels")
}

fn files_in(folder: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == ending)).collect();
    found.sort();
    Ok(found)
}

fn missing(what: &str, by_hand: &str) -> String {
    format!("{what} could not be installed; by hand: {by_hand}")
}
