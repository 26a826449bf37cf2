//! What is claimed of the wheels, looked at in the files and tried in an environment without anything
//! else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::{PLATFORM, emptied, environment, files_in, install, wheels_in};
use crate::guest::{libraries_of, strings_of};
use crate::journal::Journal;
use crate::run;
use crate::ui;
use crate::workspace::{self, Workspace};

/// Parts of the library of C, which every system has.
const LIBC: &[&str] =
    &["libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"];

/// What every system has beside it.
const ALWAYS: &[&str] = &["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgcc_s.so.1"];

/// What a wheel holds, beside the extension.
const FILES: &[&str] = &["te_engine/__init__.py", "te_engine/compat.py", "te_engine/py.typed"];

/// The newest library of C that may be asked for.
const NEWEST: Version = Version(2, 28);

const LIMIT: Duration = Duration::from_secs(300);

/// Looks at the wheels in `folder`. It is good if they are what they say they are.
pub(crate) fn run(
    workspace: &Workspace,
    journal: &mut Journal,
    folder: &Path,
) -> anyhow::Result<bool> {
    let wheels = wheels_in(folder)?;
    let sources = files_in(folder, "gz")?;
    for file in wheels.iter().chain(&sources) {
        ui::say(&format!("  {} {}", name(file), size(file)?));
    }
    let mut faults = Vec::new();
    match wheels.iter().find(|wheel| !name(wheel).ends_with("-none-any.whl")) {
        Some(wheel) => faults.extend(extension(workspace, journal, wheel)?),
        None => faults.push("there is no wheel with the extension".to_owned()),
    }
    if wheels.len() != 2 || sources.len() != 1 {
        faults.push("there are not two wheels and one archive of sources".to_owned());
    }
    for archive in &sources {
        faults.extend(sources_fault(workspace, journal, archive)?);
    }
    if faults.is_empty() {
        faults.extend(imports(workspace, journal, &wheels)?);
    }
    faults.iter().for_each(|fault| ui::say(&format!("  not good: {fault}")));
    Ok(faults.is_empty())
}

/// A version of the library of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl Version {
    /// From `GLIBC_2.17`, or `GLIBC_2.2.5`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix("GLIBC_")?.split('.');
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// What is wrong with the wheel that has the extension in it.
fn extension(
    workspace: &Workspace,
    journal: &mut Journal,
    wheel: &Path,
) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    if !name(wheel).contains(&format!("-cp311-abi3-{PLATFORM}_")) {
        faults.push(format!("its name does not say cp311-abi3-{PLATFORM}"));
    }
    let content = unpacked(workspace, journal, wheel)?;
    for file in FILES.iter().filter(|file| !content.join(file).exists()) {
        faults.push(format!("{file} is not in it"));
    }
    let library = content.join("te_engine/_native.abi3.so");
    let needed = libraries_of(&library)?.unwrap_or_default();
    let is_foreign = |it: &&String| !LIBC.contains(&it.as_str()) && !ALWAYS.contains(&it.as_str());
    faults.extend(needed.iter().filter(is_foreign).map(|it| format!("it needs {it}")));
    let strings = strings_of(&library)?;
    let newest = strings.iter().filter_map(|text| Version::parse(text)).max();
    let newest = newest.context("the extension names no version of the library of C")?;
    ui::say(&format!("  it needs {}, at most GLIBC_{}.{}", needed.join(" "), newest.0, newest.1));
    if newest > NEWEST {
        faults.push("it needs a newer library of C than its name says".to_owned());
    }
    Ok(faults)
}

/// What is wrong with the archive of sources: cargo must find every crate in it, at the versions that
/// were tried. That they compile is what the wheel shows.
fn sources_fault(
    workspace: &Workspace,
    journal: &mut Journal,
    archive: &Path,
) -> anyhow::Result<Option<String>> {
    let folder = workspace.output("wheel/sources")?;
    emptied(&folder)?;
    let mut unpack = Command::new("tar");
    unpack.arg("-xf").arg(archive).arg("-C").arg(&folder).arg("--strip-components=1");
    ensure!(run::quietly(unpack, journal, LIMIT)?.is_good(), "the sources cannot be unpacked");
    let mut tree = workspace::cargo(&folder, "tree");
    tree.args(["--locked", "--manifest-path", "crates/te-python/Cargo.toml"]);
    let is_good = run::quietly(tree, journal, LIMIT)?.is_good();
    Ok((!is_good).then(|| "cargo does not find everything in the sources".to_owned()))
}

fn unpacked(workspace: &Workspace, journal: &mut Journal, wheel: &Path) -> anyhow::Result<PathBuf> {
    let folder = workspace.output("wheel/content")?;
    emptied(&folder)?;
    let mut command = Command::new("python3");
    command.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder);
    let ended = run::quietly(command, journal, LIMIT)?;
    ensure!(ended.is_good(), "{} cannot be unpacked", wheel.display());
    Ok(folder)
}

/// Imports and uses the wheels where there is nothing else: no other package, no variables, and no
/// RDMA or CUDA library as far as this user may hide them.
fn imports(
    workspace: &Workspace,
    journal: &mut Journal,
    wheels: &[PathBuf],
) -> anyhow::Result<Option<String>> {
    let python = match environment(workspace, journal, "venv-bare", &[])? {
        Ok(python) => python,
        Err(missing) => return Ok(Some(missing)),
    };
    install(journal, &python, wheels)?;
    let mut program = Command::new(python.with_file_name("te"));
    program.arg("--help").env_clear();
    if !run::quietly(program, journal, LIMIT)?.is_good() {
        return Ok(Some("`te --help` fails in a bare environment".to_owned()));
    }
    let script = include_str!("imports.py");
    let mut hidden = Command::new("unshare");
    hidden.args(["--map-root-user", "--mount", "sh", "-c", HIDE, "sh"]);
    hidden.arg(&python).args(["-c", script]).env_clear().env("PATH", "/usr/bin:/bin:/sbin");
    if run::quietly(hidden, journal, LIMIT)?.is_good() {
        ui::say("  imported and used in a bare environment, libraries for RDMA and CUDA hidden");
        return Ok(None);
    }
    let mut plain = Command::new(&python);
    plain.args(["-c", script]).env_clear();
    if run::quietly(plain, journal, LIMIT)?.is_good() {
        ui::say("  imported and used in a bare environment; nothing could be hidden here");
        return Ok(None);
    }
    ui::say(&journal.tail(20)?);
    Ok(Some("it cannot be imported and used in a bare environment".to_owned()))
}

/// Puts nothing in the place of every library that must not be needed, then runs the rest.
const HIDE: &str = "for library in $(/sbin/ldconfig -p | \
    grep -Eo '/.*/(libibverbs|librdmacm|libmlx|libcuda|libnvidia|libnuma)[^ ]*'); do \
    mount --bind /dev/null \"$library\" || exit 77; done; exec \"$@\"";

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn size(file: &Path) -> anyhow::Result<String> {
    let bytes = fs::metadata(file).with_context(|| format!("{} is gone", file.display()))?.len();
    Ok(match bytes {
        0..0x10_0000 => format!("{:.1} KiB", bytes as f64 / f64::from(1 << 10)),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("GLIBC_2.28") > version("GLIBC_2.2.5"));
        assert!(version("GLIBC_2.34") > NEWEST);
        assert_eq!(Version::parse("GLIBC_PRIVATE"), None);
        assert_eq!(Version::parse("GLIBCXX_3.4"), None);
    }
}
