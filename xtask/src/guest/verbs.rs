//! The verbs of `guest`, and what this program is when cargo uses it to run tests.
#![expect(clippy::print_stderr, reason = "standard output is the program's own")]

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::guest::budget::Limits;
use crate::guest::end::{End, SKIPPED_CODE};
use crate::guest::flags::{CaptureFlags, GuestFlags, GuestVerb, MachineFlags, RunFlags};
use crate::guest::job::OUT;
use crate::guest::libraries::{self, Files};
use crate::guest::machine::{self, Machine};
use crate::guest::prepare::{self, Ready, Store};
use crate::guest::probe;
use crate::guest::request::{Accel, Request};
use crate::guest::session::{Report, Stream};
use crate::journal::Journal;
use crate::ui::{self, seconds};
use crate::workspace::Workspace;

/// Runs one verb. A guest that cannot be had is [`SKIPPED_CODE`].
pub(crate) fn run(flags: &GuestFlags) -> anyhow::Result<ExitCode> {
    match &flags.verb {
        GuestVerb::Run(flags) => run_program(flags),
        GuestVerb::Capture(flags) => capture(flags),
        GuestVerb::Prepare => with_store(|store| {
            ui::say(&format!("kernel {}, in {}", store.kernel.version, store.folder.display()));
            Ok(ExitCode::SUCCESS)
        }),
        GuestVerb::Machines => {
            machines();
            Ok(ExitCode::SUCCESS)
        }
        GuestVerb::Runner(flags) => runner(flags),
        GuestVerb::Probe(flags) => probe::run(&flags.words),
    }
}

fn machines() {
    let header = ["machine", "devices", "nodes", "what it is"].map(str::to_owned).to_vec();
    let row = |machine: Machine| {
        let nodes = machine.nodes.len().to_string();
        vec![
            machine.name.to_owned(),
            machine.n_devices().to_string(),
            nodes,
            machine.about.to_owned(),
        ]
    };
    let rows: Vec<_> = [header].into_iter().chain(machine::all().into_iter().map(row)).collect();
    ui::say(ui::table(&rows, &[1, 2]).trim_end());
}

/// Cargo splits the value at blanks, and takes it in place of what it would start.
fn runner(flags: &MachineFlags) -> anyhow::Result<ExitCode> {
    let own = std::env::current_exe().context("cannot tell what program this is")?;
    ensure!(!own.to_string_lossy().contains(' '), "cargo takes no runner with a blank in its path");
    let machine = flags.of()?.name;
    let words = match machine {
        "own" => format!("--nics {} --nodes {}", flags.nics.unwrap_or(2), flags.nodes.unwrap_or(1)),
        name => format!("--machine {name}"),
    };
    let command = format!("{} guest run {words} --memory {} --", own.display(), flags.memory);
    ui::say(&format!("export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER='{command}'"));
    Ok(ExitCode::SUCCESS)
}

impl MachineFlags {
    fn of(&self) -> anyhow::Result<Machine> {
        match (self.nics, self.nodes) {
            (None, None) => Machine::named(&self.machine),
            (nics, nodes) => {
                let nodes = nodes.unwrap_or(1);
                Machine::with(nics.unwrap_or_else(|| nodes.max(2)), nodes)
            }
        }
    }
}

fn with_store(then: impl FnOnce(&Store) -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::open()?;
    let mut journal = Journal::create(&workspace, "guest-prepare")?;
    match prepare::prepare(&workspace, &mut journal)? {
        Ready::Yes(store) => then(&store),
        Ready::No(why) => {
            eprintln!("guest: skipped: {why}");
            Ok(ExitCode::from(SKIPPED_CODE))
        }
    }
}

fn run_program(flags: &RunFlags) -> anyhow::Result<ExitCode> {
    with_store(|store| {
        let mut request = request(flags)?;
        let skips = SkipLog::of_this_process(&mut request, store);
        let report = request.run(store, &mut hand_on)?;
        tell(&report, flags.verbose);
        if let Some(skips) = skips {
            skips.hand_back()?;
        }
        Ok(ExitCode::from(report.end.code()))
    })
}

/// Output of the program is ours.
fn hand_on(stream: Stream, bytes: &[u8]) {
    // A reader that has gone away is not the program's concern.
    let _ = match stream {
        Stream::Out => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
        Stream::Err => io::stderr().write_all(bytes),
    };
}

fn tell(report: &Report, is_verbose: bool) {
    if is_verbose {
        eprintln!("{}", report.console);
        eprintln!(
            "guest: booted in {}, ended after {}, {} of processor time",
            seconds(report.boot),
            seconds(report.wall),
            seconds(report.cpu)
        );
    }
    if !report.end.is_own() {
        eprintln!("guest: {}", report.end.text());
    }
    if matches!(report.end, End::Lost(_) | End::Panic(_)) && !is_verbose {
        let lines: Vec<&str> = report.console.lines().collect();
        lines[lines.len().saturating_sub(20)..]
            .iter()
            .for_each(|line| eprintln!("guest: | {line}"));
    }
}

fn request(flags: &RunFlags) -> anyhow::Result<Request> {
    let mut request = Request::new(flags.machine.of()?, flags.program.clone());
    request.memory_mib = flags.machine.memory;
    request.folder = std::env::current_dir().context("cannot tell the folder")?;
    request.out.clone_from(&flags.out);
    request.whole_host = flags.whole_host;
    request.accel = Accel::of(&flags.accel)?;
    request.is_verbose = flags.verbose;
    request.limits = Limits {
        time: Duration::from_secs(flags.timeout),
        cpu: Duration::from_secs(flags.cpu),
        output: flags.output.saturating_mul(1 << 20),
        ..Limits::default()
    };
    for word in &flags.file {
        let (file, path) = place(word)?;
        request.files.insert(path, file);
    }
    request.env = inherited();
    if !request.whole_host {
        request.files.extend(named_by(&request.env)?);
    }
    for word in &flags.env {
        request.env.push(variable(word)?);
    }
    Ok(request)
}

/// `PATH` or `PATH=GUEST PATH`.
fn place(word: &str) -> anyhow::Result<(PathBuf, String)> {
    let (file, path) = word.split_once('=').unwrap_or((word, ""));
    let file = PathBuf::from(file);
    ensure!(file.exists(), "{} is not there", file.display());
    let path = if path.is_empty() { libraries::guest_path(&file)? } else { path.to_owned() };
    Ok((file, path))
}

/// `NAME=VALUE`, or `NAME` for the value that it has here.
#[expect(clippy::disallowed_methods, reason = "a person says which variable is handed on")]
fn variable(word: &str) -> anyhow::Result<(String, String)> {
    match word.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => {
            let value = std::env::var(word).with_context(|| format!("{word} is not set"))?;
            Ok((word.to_owned(), value))
        }
    }
}

/// What a test finds in its environment when it is started by cargo or by a suite.
fn inherited() -> Vec<(String, String)> {
    std::env::vars().filter(|(name, _)| is_for_tests(name)).collect()
}

fn is_for_tests(name: &str) -> bool {
    let beginnings = ["TE_", "MC_", "RUST_", "PROPTEST_", "CARGO_PKG_"];
    let names = ["CARGO_MANIFEST_DIR", "LD_LIBRARY_PATH"];
    let is_ours = [SKIP_LOG, "TE_OUT", "TE_GUEST"].contains(&name);
    !is_ours && (names.contains(&name) || beginnings.iter().any(|start| name.starts_with(start)))
}

/// Programs that variables such as `TE_BIN` name come along.
fn named_by(env: &[(String, String)]) -> anyhow::Result<Files> {
    let ours = env.iter().filter(|(name, _)| name.starts_with("TE_"));
    let files =
        ours.map(|(_, value)| Path::new(value)).filter(|path| path.is_absolute() && path.is_file());
    files.map(|file| Ok((libraries::guest_path(file)?, file.to_owned()))).collect()
}

/// The variable that names the file in which a test says that it could not run.
const SKIP_LOG: &str = "TE_SKIP_LOG";

/// Carries the skip log of tests in the guest to that of this machine.
struct SkipLog {
    here: PathBuf,
    came: PathBuf,
    is_ours: bool,
}

impl SkipLog {
    const NAME: &str = "skips.tsv";

    #[expect(clippy::disallowed_methods, reason = "the variable is part of the protocol of tests")]
    fn of_this_process(request: &mut Request, store: &Store) -> Option<Self> {
        let here = PathBuf::from(std::env::var_os(SKIP_LOG)?);
        let is_ours = request.out.is_none();
        let own = || store.folder.join("runs").join(format!("skips-{}", std::process::id()));
        let out = request.out.get_or_insert_with(own).clone();
        request.env.push((SKIP_LOG.to_owned(), format!("{OUT}/{}", Self::NAME)));
        Some(Self { here, came: out, is_ours })
    }

    fn hand_back(self) -> anyhow::Result<()> {
        let skips = fs::read(self.came.join(Self::NAME)).unwrap_or_default();
        if self.is_ours {
            let _ = fs::remove_dir_all(&self.came);
        }
        let told = || format!("cannot write {}", self.here.display());
        let mut log = fs::File::options().append(true).create(true).open(&self.here);
        log.as_mut()
            .map_err(|error| io::Error::new(error.kind(), error.to_string()))
            .and_then(|log| log.write_all(&skips))
            .with_context(told)
    }
}

/// A tree of files of `/sys` and `/proc`, as such trees are commonly handed about.
fn capture(flags: &CaptureFlags) -> anyhow::Result<ExitCode> {
    with_store(|store| {
        let report = capture_to(store, &flags.machine.of()?, flags.machine.memory, &flags.file)?;
        tell(&report, false);
        Ok(ExitCode::from(report.end.code()))
    })
}

/// Boots a machine and writes its tree to a tar file.
pub(crate) fn capture_to(
    store: &Store,
    machine: &Machine,
    memory_mib: u32,
    file: &Path,
) -> anyhow::Result<Report> {
    let words = ["guest", "probe", "capture"].map(str::to_owned);
    let command = [store.init.display().to_string()].into_iter().chain(words).collect();
    let tree = store.folder.join("runs").join(format!("capture-{}", std::process::id()));
    let mut request = Request::new(machine.clone(), command);
    request.memory_mib = memory_mib;
    request.out = Some(tree.clone());
    let report = request.run(store, &mut hand_on)?;
    let mut tar = Command::new("tar");
    // No times and no owners: the same machine gives the same file but for its random addresses.
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf"]);
    let status =
        tar.arg(file).arg("-C").arg(&tree).arg(".").status().context("cannot start tar")?;
    let _ = fs::remove_dir_all(&tree);
    ensure!(status.success(), "tar cannot write {}", file.display());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_find_in_their_environment_is_handed_on() {
        let handed = ["TE_FULL", "TE_BIN", "MC_MTU", "RUST_BACKTRACE", "CARGO_MANIFEST_DIR"];
        assert!(handed.into_iter().all(is_for_tests));
        let kept = ["PATH", "HOME", "TE_SKIP_LOG", "TE_OUT", "CARGO_TARGET_DIR", "USER"];
        assert!(!kept.into_iter().any(is_for_tests));
    }

    #[test]
    fn a_file_has_its_own_path_or_another() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let word = manifest.display().to_string();
        assert!(place(&word).unwrap().1.ends_with("/Cargo.toml"));
        assert_eq!(place(&format!("{word}=/x/y")).unwrap(), (manifest, "/x/y".to_owned()));
        assert!(place("/not/there").is_err());
        assert_eq!(variable("A=b=c").unwrap(), ("A".to_owned(), "b=c".to_owned()));
    }
}
