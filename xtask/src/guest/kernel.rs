//! A Debian kernel for the guest: fetched as a package, unpacked, never installed.
//!
//! It is kept in `target/guest/kernel`. The package's number changes every few weeks, so it is asked
//! of Debian when there is no kernel yet, and one that is there is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::guest::elf;
use crate::guest::prepare::note;
use crate::journal::Journal;
use crate::run;

/// An unpacked kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    folder: PathBuf,
    /// Its version, as `uname -r` says it.
    pub(crate) version: String,
}

/// Modules of each group, without those that they need in turn. Groups after the first two are for
/// some machines only: each module costs an emulated processor time.
pub(crate) const MODULES: &[(&str, &[&str])] = &[
    ("first", &["virtio_pci", "virtio_console"]),
    // `rdma_rxe` does not name the checksum that it asks for by name.
    ("core", &["crc32_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe", "veth", "sch_netem"]),
    ("cards", &["virtio_net"]),
    ("bridge", &["bridge"]),
    ("host", &["9p", "9pnet_virtio", "overlay"]),
];

impl Kernel {
    /// The kernel in `folder`; one is fetched where there is none.
    ///
    /// # Errors
    ///
    /// Where Debian cannot be reached or has no such package.
    pub(crate) fn prepare(folder: &Path, journal: &mut Journal) -> anyhow::Result<Self> {
        if let Some(version) = version_in(folder) {
            return Ok(Self { folder: folder.to_owned(), version });
        }
        let package = package(journal)?;
        note(&format!("fetching {package} for the guest"));
        let fresh = folder.with_extension("new");
        let _ = fs::remove_dir_all(&fresh);
        fs::create_dir_all(&fresh).with_context(|| format!("cannot make {}", fresh.display()))?;
        unpack(&package, &fresh, journal)?;
        let version = version_in(&fresh).context("the package has no kernel with modules")?;
        uncompress(&fresh, &version)?;
        let _ = fs::remove_dir_all(folder);
        fs::rename(&fresh, folder).context("cannot keep the kernel")?;
        Ok(Self { folder: folder.to_owned(), version })
    }

    /// The kernel as an ELF file. An emulated processor needs seconds to unpack a compressed one.
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join(IMAGE)
    }

    /// Every group of modules in the order in which its files are loaded, each file with its path
    /// in the guest. A file that an earlier of the first two groups loads is not named again.
    pub(crate) fn modules(&self) -> anyhow::Result<Vec<(&'static str, Vec<Module>)>> {
        let tree = self.folder.join("lib/modules").join(&self.version);
        let mut found = Found { files: BTreeMap::new(), built_in: built_in(&tree) };
        found.walk(&tree.join("kernel"))?;
        let mut common = BTreeSet::new();
        let mut groups = Vec::new();
        for (group, names) in MODULES {
            let mut order = Order { found: &found, seen: common.clone(), list: Vec::new() };
            names.iter().try_for_each(|name| order.add(name))?;
            if ["first", "core"].contains(group) {
                common = order.seen;
            }
            groups.push((*group, order.list));
        }
        Ok(groups)
    }
}

/// One module.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// Its path in the guest.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

const IMAGE: &str = "vmlinux";

fn version_in(folder: &Path) -> Option<String> {
    let mut entries = fs::read_dir(folder.join("lib/modules")).ok()?.flatten();
    Some(entries.next()?.file_name().to_string_lossy().into_owned())
}

/// The package that Debian's kernel is in today.
fn package(journal: &mut Journal) -> anyhow::Result<String> {
    if let Some(name) = ask_for_package(journal)? {
        return Ok(name);
    }
    let mut update = Command::new("apt-get");
    update.args(["update", "-q"]);
    run::quietly(update, journal, LIMIT)?;
    ask_for_package(journal)?.context("Debian's lists have no linux-image-amd64")
}

fn ask_for_package(journal: &mut Journal) -> anyhow::Result<Option<String>> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "linux-image-amd64"]);
    let mut name = None;
    run::stream(command, journal, LIMIT, |line| {
        let word = line.trim().strip_prefix("Depends: ").filter(|word| word.starts_with("linux-"));
        name = name.take().or_else(|| word.map(str::to_owned));
    })?;
    Ok(name)
}

const LIMIT: Duration = Duration::from_secs(600);

/// Fetches a package and unpacks of it the kernel and the folders that our modules are in.
fn unpack(package: &str, folder: &Path, journal: &mut Journal) -> anyhow::Result<()> {
    let mut fetch = Command::new("apt-get");
    fetch.args(["-q", "-o", "APT::Sandbox::User=root", "download", package]).current_dir(folder);
    let ended = run::quietly(fetch, journal, LIMIT)?;
    ensure!(ended.is_good(), "`apt-get download {package}` failed: {}", ended.text());
    let folders = PARTS.map(|part| format!("'./lib/modules/*/{part}'")).join(" ");
    let mut shell = Command::new("sh");
    shell.current_dir(folder).arg("-c").arg(format!(
        "dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz-*' {folders} && rm ./*.deb"
    ));
    let ended = run::quietly(shell, journal, LIMIT)?;
    ensure!(ended.is_good(), "{package} cannot be unpacked: {}", ended.text());
    Ok(())
}

const PARTS: [&str; 13] = [
    "modules.builtin",
    "kernel/drivers/infiniband/core/*",
    "kernel/drivers/infiniband/sw/*",
    "kernel/drivers/virtio/*",
    "kernel/drivers/char/virtio_console*",
    "kernel/drivers/net/*.ko*",
    "kernel/net/*",
    "kernel/fs/9p/*",
    "kernel/fs/netfs/*",
    "kernel/fs/fscache/*",
    "kernel/fs/*fs/*",
    "kernel/crypto/*",
    "kernel/lib/*",
];

/// Takes the kernel out of the file that boot loaders want: it is xz data within.
fn uncompress(folder: &Path, version: &str) -> anyhow::Result<()> {
    let path = folder.join("boot").join(format!("vmlinuz-{version}"));
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let magic = b"\xfd7zXZ\0";
    let at = bytes.windows(magic.len()).position(|window| window == magic);
    let at =
        at.with_context(|| format!("{} is packed in a way that we do not know", path.display()))?;
    let packed = folder.join("kernel.xz");
    fs::write(&packed, &bytes[at..]).context("cannot write the packed kernel")?;
    let image = folder.join(IMAGE);
    let mut xz = Command::new("xz");
    // Other data follows it.
    xz.args(["-dc", "--single-stream"]).stdin(File::open(&packed).context("cannot read it back")?);
    xz.stdout(File::create(&image).context("cannot write the kernel")?).stderr(Stdio::null());
    let status = xz.status().context("cannot start xz")?;
    let head = fs::read(&image).context("cannot read the kernel")?;
    if !status.success() || !elf::is_elf(&head) {
        bail!("{} cannot be unpacked", path.display());
    }
    let _ = fs::remove_file(packed);
    let _ = fs::remove_dir_all(folder.join("boot"));
    Ok(())
}

/// The module files of a kernel, by name with `_` for `-`.
struct Found {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Found {
    fn walk(&mut self, folder: &Path) -> anyhow::Result<()> {
        let told = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(folder).with_context(told)? {
            let path = entry.with_context(told)?.path();
            if path.is_dir() {
                self.walk(&path)?;
            } else if let Some(name) = module_name(&path) {
                self.files.insert(name, path);
            }
        }
        Ok(())
    }
}

fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".xz").unwrap_or(name).strip_suffix(".ko")?;
    Some(name.replace('-', "_"))
}

fn built_in(tree: &Path) -> BTreeSet<String> {
    let list = fs::read_to_string(tree.join("modules.builtin")).unwrap_or_default();
    list.lines().filter_map(|line| module_name(Path::new(line))).collect()
}

/// Puts what a module needs before it.
struct Order<'a> {
    found: &'a Found,
    seen: BTreeSet<String>,
    list: Vec<Module>,
}

impl Order<'_> {
    fn add(&mut self, name: &str) -> anyhow::Result<()> {
        let name = name.replace('-', "_");
        if self.found.built_in.contains(&name) || !self.seen.insert(name.clone()) {
            return Ok(());
        }
        let file = self.found.files.get(&name);
        let file = file.with_context(|| format!("the kernel has no module {name}"))?;
        let bytes = read_module(file)?;
        for needed in elf::module_needs(&bytes).with_context(|| format!("in {}", file.display()))? {
            self.add(&needed)?;
        }
        self.list.push(Module { path: format!("/lib/modules/{name}.ko"), bytes });
        Ok(())
    }
}

fn read_module(path: &Path) -> anyhow::Result<Vec<u8>> {
    let told = || format!("cannot read {}", path.display());
    if path.extension().is_none_or(|ending| ending != "xz") {
        return fs::read(path).with_context(told);
    }
    let output = Command::new("xz").arg("-dc").arg(path).output().context("cannot start xz")?;
    ensure!(output.status.success(), "{} cannot be unpacked", path.display());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_one_name_however_their_files_are_written() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("kernel/x/ib-core.ko").as_deref(), Some("ib_core"));
        assert_eq!(name("kernel/x/ib_core.ko.xz").as_deref(), Some("ib_core"));
        assert_eq!(name("modules.builtin"), None);
    }
}
