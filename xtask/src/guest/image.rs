//! The first file system of a guest: a base that is kept, and what one run adds.
//!
//! The base has the modules, a shell, the tools that make links, the RDMA libraries and their
//! plug-in for soft-RoCE. It is kept in `target/guest` under a key of all that went into it. What a
//! run adds is a second archive behind the first; the kernel unpacks one after the other.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::guest::cpio::Archive;
use crate::guest::init::MODULE_LISTS;
use crate::guest::job::{JOB_PATH, Job};
use crate::guest::kernel::Kernel;
use crate::guest::libraries::{self, Files};

/// A base that is ready.
#[derive(Debug)]
pub(crate) struct Base {
    archive: PathBuf,
    /// Paths that are in it.
    has: BTreeSet<String>,
}

/// Programs that the guest has as `/usr/bin/NAME`, each with the Debian package that it is from.
pub(crate) const TOOLS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("rdma", "iproute2"),
    ("ibv_devinfo", "ibverbs-utils"),
    ("ibv_rc_pingpong", "ibverbs-utils"),
];

/// What makes the RDMA library look for the driver of soft-RoCE.
pub(crate) const DRIVER: &str = "/etc/libibverbs.d/rxe.driver";

/// Libraries that programs open by name.
const OPENED: &[&str] = &["libibverbs.so.1", "librdmacm.so.1", "libgcc_s.so.1"];

const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

impl Base {
    /// The base in `folder` for this kernel; it is made anew where something of it has changed.
    pub(crate) fn prepare(folder: &Path, kernel: &Kernel) -> anyhow::Result<Self> {
        let files = files()?;
        let key = key(kernel, &files)?;
        let (archive, list) = (folder.join("base.cpio"), folder.join("base.txt"));
        let kept = fs::read_to_string(&list).unwrap_or_default();
        if archive.exists() && kept.lines().next() == Some(&key) {
            return Ok(Self { archive, has: kept.lines().skip(1).map(str::to_owned).collect() });
        }
        let _ = fs::remove_file(&list);
        // Another process may read the one that was there.
        let fresh = folder.join("base.new");
        write_base(&fresh, kernel, &files)?;
        fs::rename(&fresh, &archive).context("cannot keep the base")?;
        let has: BTreeSet<String> = files.into_keys().collect();
        let text = [&key].into_iter().chain(&has).map(|line| format!("{line}\n"));
        fs::write(&list, text.collect::<String>()).context("cannot write the list of the base")?;
        Ok(Self { archive, has })
    }

    /// Writes the file system of one run: the base, the first process, the job and its files.
    pub(crate) fn write_run(&self, to: &Path, payload: &Payload) -> anyhow::Result<()> {
        let told = || format!("cannot write {}", to.display());
        let mut file = File::create(to).with_context(told)?;
        let mut base = File::open(&self.archive).context("cannot read the base")?;
        std::io::copy(&mut base, &mut file).with_context(told)?;
        let mut archive = Archive::new(BufWriter::new(file));
        archive.file(JOB_PATH, 0o644, payload.job.to_text().as_bytes())?;
        archive.folder(&payload.job.folder)?;
        let mut files = Files::new();
        libraries::add(&mut files, &payload.init)?;
        archive.file("/init", 0o755, &read(&payload.init)?)?;
        for (path, file) in &payload.files {
            put_tree(&mut archive, path, file)?;
            libraries_below(&mut files, file)?;
        }
        for (path, file) in files.iter().filter(|(path, _)| !self.has.contains(*path)) {
            put_file(&mut archive, path, file)?;
        }
        archive.finish()?.flush().with_context(told)
    }
}

/// What one run adds to the base.
#[derive(Debug)]
pub(crate) struct Payload {
    /// The program that is the guest's first process.
    pub(crate) init: PathBuf,
    /// What it does.
    pub(crate) job: Job,
    /// Files and folders of the host, by their paths in the guest.
    pub(crate) files: Files,
}

/// All files of the host that the base has.
fn files() -> anyhow::Result<Files> {
    let mut files = Files::new();
    let mut add = |path: String, file: PathBuf| -> anyhow::Result<()> {
        libraries::add(&mut files, &file)?;
        files.insert(path, file);
        Ok(())
    };
    for (tool, _) in TOOLS {
        add(format!("/usr/bin/{tool}"), find_program(tool)?)?;
    }
    add("/usr/bin/busybox".to_owned(), find_program("busybox")?)?;
    for name in OPENED {
        let file = Path::new(LIBRARIES).join(name);
        add(libraries::guest_path(&file)?, file)?;
    }
    let plugins = fs::read_dir(format!("{LIBRARIES}/libibverbs"));
    let mut plugins = plugins.context("there are no RDMA drivers")?.flatten();
    let rxe = plugins.find(|entry| entry.file_name().to_string_lossy().starts_with("librxe-"));
    let rxe = rxe.context("there is no RDMA driver for soft-RoCE")?.path();
    add(libraries::guest_path(&rxe)?, rxe)?;
    add(DRIVER.to_owned(), PathBuf::from(DRIVER))?;
    Ok(files)
}

/// A program of the host, in the folders where Debian puts them.
pub(crate) fn find_program(name: &str) -> anyhow::Result<PathBuf> {
    let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file()).with_context(|| format!("there is no program {name}"))
}

fn key(kernel: &Kernel, files: &Files) -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    (FORM, &kernel.version, NET, crate::guest::kernel::MODULES).hash(&mut hasher);
    for (path, file) in files {
        let about =
            fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
        (path, about.len(), about.modified().ok()).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Changes whenever what is made below from the same files changes.
const FORM: u32 = 1;

/// The script that makes links.
const NET: &str = include_str!("net.sh");

/// Folders that are links on every Debian since version 12.
const MERGED: &[(&str, &str)] =
    &[("/bin", "usr/bin"), ("/sbin", "usr/sbin"), ("/lib", "usr/lib"), ("/lib64", "usr/lib64")];

const FOLDERS: &[&str] = &[
    "/dev",
    "/proc",
    "/sys",
    "/tmp",
    "/run",
    "/out",
    "/etc/te",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/modules",
    "/mnt",
    "/var/tmp",
];

fn write_base(to: &Path, kernel: &Kernel, files: &Files) -> anyhow::Result<()> {
    let told = || format!("cannot write {}", to.display());
    let mut archive = Archive::new(BufWriter::new(File::create(to).with_context(told)?));
    FOLDERS.iter().try_for_each(|folder| archive.folder(folder))?;
    MERGED.iter().try_for_each(|(path, target)| archive.link(path, target))?;
    for (path, file) in files {
        put_file(&mut archive, path, file)?;
    }
    for applet in applets()? {
        let path = format!("/usr/bin/{applet}");
        if !files.contains_key(&path) {
            archive.link(&path, "busybox")?;
        }
    }
    for (group, modules) in kernel.modules()? {
        let list: String = modules.iter().map(|module| format!("{}\n", module.path)).collect();
        archive.file(&format!("{MODULE_LISTS}/{group}"), 0o644, list.as_bytes())?;
        for module in modules {
            archive.file(&format!("/usr{}", module.path), 0o644, &module.bytes)?;
        }
    }
    archive.file("/usr/bin/te-net", 0o755, NET.as_bytes())?;
    archive.file("/etc/passwd", 0o644, b"root:x:0:0:root:/:/bin/sh\n")?;
    archive.file("/etc/group", 0o644, b"root:x:0:\n")?;
    archive.file("/etc/hosts", 0o644, b"127.0.0.1 localhost\n127.0.0.1 guest\n")?;
    archive.file("/etc/nsswitch.conf", 0o644, b"hosts: files\npasswd: files\ngroup: files\n")?;
    archive.finish()?.flush().with_context(told)
}

/// The programs that busybox can be.
fn applets() -> anyhow::Result<Vec<String>> {
    let output = Command::new(find_program("busybox")?).arg("--list").output();
    let output = output.context("cannot start busybox")?;
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(list.lines().any(|line| line == "insmod"), "this busybox is not the static one");
    Ok(list.lines().filter(|name| *name != "busybox").map(str::to_owned).collect())
}

/// Puts a file, or a folder with all that is in it.
fn put_tree(archive: &mut Archive<impl Write>, path: &str, file: &Path) -> anyhow::Result<()> {
    if !file.is_dir() {
        return put_file(archive, path, file);
    }
    archive.folder(path)?;
    for (name, child) in children(file)? {
        put_tree(archive, &format!("{path}/{name}"), &child)?;
    }
    Ok(())
}

fn libraries_below(files: &mut Files, file: &Path) -> anyhow::Result<()> {
    if !file.is_dir() {
        return libraries::add(files, file);
    }
    children(file)?.into_iter().try_for_each(|(_, child)| libraries_below(files, &child))
}

/// What is in a folder, in the order of names. Links to folders would lead round in circles.
fn children(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let told = || format!("cannot read {}", folder.display());
    let mut list = Vec::new();
    for entry in fs::read_dir(folder).with_context(told)? {
        let path = entry.with_context(told)?.path();
        let is_plain = path.is_file() || path.is_dir() && !path.is_symlink();
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        list.extend(name.filter(|_| is_plain).map(|name| (name, path)));
    }
    list.sort();
    Ok(list)
}

fn put_file(archive: &mut Archive<impl Write>, path: &str, file: &Path) -> anyhow::Result<()> {
    let mode = file.metadata().map_or(0o644, |about| about.permissions().mode());
    archive.file(path, mode, &read(file)?)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
