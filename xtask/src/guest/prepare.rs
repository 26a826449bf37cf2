//! What a guest needs on this machine: packages, a kernel, a base of files, and this program itself.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use crate::debian;
use crate::guest::image::{Base, DRIVER, TOOLS, find_program};
use crate::guest::kernel::Kernel;
use crate::guest::session::QEMU;
use crate::journal::Journal;
use crate::ui;
use crate::workspace::Workspace;

/// Whether guests can be had.
#[derive(Debug)]
pub(crate) enum Ready {
    /// They can.
    Yes(Store),
    /// They cannot, for this reason. It begins as `--no-skip` wants it where nothing can be done.
    No(String),
}

/// All that is kept between runs.
#[derive(Debug)]
pub(crate) struct Store {
    /// The folder that all is in.
    pub(crate) folder: PathBuf,
    /// The kernel.
    pub(crate) kernel: Kernel,
    /// What every guest has.
    pub(crate) base: Base,
    /// This program without what only a debugger reads.
    pub(crate) init: PathBuf,
}

/// Makes what is missing. Another process that does so is waited for.
///
/// # Errors
///
/// For what is no lack of a package: a full disk, a kernel of a form that we do not know.
pub(crate) fn prepare(workspace: &Workspace, journal: &mut Journal) -> anyhow::Result<Ready> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Ready::No("cannot be had here: guests are for x86-64 alone".to_owned()));
    }
    let folder = workspace.target().join("guest");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let lock = File::create(folder.join("lock")).context("cannot make a lock")?;
    lock.lock().context("cannot wait for a lock")?;
    if let Some(by_hand) = install(journal)? {
        return Ok(Ready::No(format!("there is no {QEMU}, or not all that it needs; `{by_hand}`")));
    }
    sweep(&folder.join("runs"));
    let kernel = match Kernel::prepare(&folder.join("kernel"), journal) {
        Ok(kernel) => kernel,
        Err(error) => return Ok(Ready::No(format!("there is no kernel for guests: {error:#}"))),
    };
    let base = Base::prepare(&folder, &kernel)?;
    let init = init(&folder)?;
    Ok(Ready::Yes(Store { folder, kernel, base, init }))
}

/// Why guests cannot be had; `None` where they can.
///
/// # Errors
///
/// As [`prepare`].
pub(crate) fn lacking(
    workspace: &Workspace,
    journal: &mut Journal,
) -> anyhow::Result<Option<String>> {
    Ok(match prepare(workspace, journal)? {
        Ready::Yes(_) => None,
        Ready::No(why) => Some(why),
    })
}

/// Says what takes long. Standard output is the program's that runs in the guest.
#[expect(clippy::print_stderr, reason = "see above")]
pub(crate) fn note(text: &str) {
    eprintln!("guest: {text}");
}

/// Installs packages. Looking at files first makes the usual case quick.
fn install(journal: &mut Journal) -> anyhow::Result<Option<String>> {
    if is_complete() {
        return Ok(None);
    }
    let mut packages = vec!["qemu-system-x86", "busybox-static", "xz-utils", "librdmacm1"];
    packages.push("ibverbs-providers");
    packages.extend(TOOLS.iter().map(|(_, package)| *package));
    packages.sort_unstable();
    packages.dedup();
    note(&format!("guests need {}", packages.join(" ")));
    let by_hand = debian::install(journal, &packages)?;
    // A package may be there, and what it brought be gone.
    let again = || format!("sudo apt-get install -y --reinstall {}", packages.join(" "));
    Ok(by_hand.or_else(|| (!is_complete()).then(again)))
}

fn is_complete() -> bool {
    let mut tools = TOOLS.iter().map(|(name, _)| *name).chain([QEMU, "busybox", "xz"]);
    tools.all(|name| find_program(name).is_ok()) && Path::new(DRIVER).exists()
}

/// Removes what runs that were killed have left. Their names end or begin with their process.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut numbers = name.split('-').filter(|part| part.parse::<u32>().is_ok());
        let is_alive = |process: &str| Path::new("/proc").join(process).exists();
        if numbers.next().is_some_and(|process| !is_alive(process)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// This program, stripped, since every guest unpacks it. It is kept until this program changes, and
/// a while longer: another process may run what this one was before.
fn init(folder: &Path) -> anyhow::Result<PathBuf> {
    // Unlike its path, this is there also when a build has replaced the file meanwhile.
    let own = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let about = fs::metadata(&own).context("cannot look at this program")?;
    let mut hasher = DefaultHasher::new();
    (about.len(), about.modified().ok()).hash(&mut hasher);
    let stripped = folder.join(format!("init-{:016x}", hasher.finish()));
    if stripped.exists() {
        return Ok(stripped);
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_init = entry.file_name().to_string_lossy().starts_with("init-");
        if is_init && age(&entry.path()).is_some_and(|age| age > KEPT) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let fresh = folder.join("fresh-init");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&fresh).arg(&own).stderr(Stdio::null());
    if !strip.status().is_ok_and(|status| status.success()) {
        fs::copy(&own, &fresh).context("cannot copy this program")?;
    }
    fs::rename(&fresh, &stripped).context("cannot keep this program")?;
    Ok(stripped)
}

/// How long a program is kept that is not this one.
const KEPT: Duration = Duration::from_secs(6 * 3600);

fn age(path: &Path) -> Option<Duration> {
    ui::wall_clock().duration_since(fs::metadata(path).ok()?.modified().ok()?).ok()
}
