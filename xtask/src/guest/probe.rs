//! What tests of the guest run in it: it looks around, or ends in one of the ways in which programs
//! end.
//!
//! Everything that it prints is a line of its own: `device NAME netdev NODE state`, `node N ...`.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::guest::job::OUT;
use crate::ui;

/// Does what the words say.
pub(crate) fn run(words: &[String]) -> anyhow::Result<ExitCode> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["look"] => look()?,
        ["exit", code] => return Ok(ExitCode::from(code.parse::<u8>().context("no exit code")?)),
        ["signal", name] => signal(name)?,
        ["hang"] => {
            fs::write(Path::new(OUT).join("before"), "it hung").context("cannot leave a file")?;
            hang("the program hangs");
        }
        ["spin"] => spin(),
        ["flood"] => flood(),
        ["eat"] => eat(),
        ["leave", text] => leave(text)?,
        ["panic"] => fs::write("/proc/sysrq-trigger", "c").context("cannot crash the kernel")?,
        ["capture"] => capture(Path::new("/"), Path::new(OUT))?,
        _ => bail!("nothing known is asked for"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints RDMA devices and NUMA nodes.
fn look() -> anyhow::Result<()> {
    for device in names("/sys/class/infiniband")? {
        let about = PathBuf::from("/sys/class/infiniband").join(&device);
        let netdev = line(&about.join("ports/1/gid_attrs/ndevs/0"));
        let state = line(&about.join("ports/1/state"));
        let node = node_of(&netdev).map_or_else(|| "none".to_owned(), |node| node.to_string());
        ui::say(&format!("device {device} netdev {netdev} node {node} state {state}"));
    }
    for node in names("/sys/devices/system/node")?.iter().filter_map(|n| n.strip_prefix("node")) {
        let about = PathBuf::from(format!("/sys/devices/system/node/node{node}"));
        let (cpus, far) = (line(&about.join("cpulist")), line(&about.join("distance")));
        ui::say(&format!("node {node} cpus {cpus} distance {far}"));
    }
    for device in names("/sys/bus/pci/devices")? {
        let about = PathBuf::from("/sys/bus/pci/devices").join(&device);
        if line(&about.join("class")).starts_with("0x03") {
            ui::say(&format!("display {device} node {}", line(&about.join("numa_node"))));
        }
    }
    Ok(())
}

/// The node of the nearest device above a netdev that names one.
fn node_of(netdev: &str) -> Option<u32> {
    let device = fs::canonicalize(format!("/sys/class/net/{netdev}/device")).ok()?;
    let with_node = device.ancestors().find(|folder| folder.join("numa_node").exists())?;
    line(&with_node.join("numa_node")).parse().ok()
}

fn names(folder: &str) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {folder}"))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn line(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Ends this process by a signal.
fn signal(name: &str) -> anyhow::Result<()> {
    let own = std::process::id().to_string();
    Command::new("kill").args([&format!("-{name}"), &own]).status().context("cannot start kill")?;
    hang("the signal did not come");
    Ok(())
}

/// Waits for ever without a processor.
fn hang(words: &str) {
    ui::say(words);
    let (_keep, silent) = mpsc::channel::<()>();
    let _ = silent.recv_timeout(Duration::MAX / 4);
}

/// Uses a processor for ever.
fn spin() {
    ui::say("the program spins");
    let mut n = 0_u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

/// Prints for ever.
fn flood() {
    let line = [b'x'; 4096];
    while io::stdout().write_all(&line).is_ok() {}
}

/// Takes memory for ever, and uses it.
fn eat() {
    let mut all = Vec::new();
    loop {
        all.push(vec![0x5a_u8; 8 << 20]);
        std::hint::black_box(&all);
    }
}

/// Leaves a file with this text, an executable one, a link and an empty folder.
fn leave(text: &str) -> anyhow::Result<()> {
    let out = Path::new(OUT);
    fs::create_dir_all(out.join("folder/empty")).context("cannot make a folder")?;
    fs::write(out.join("folder/text"), text).context("cannot leave a file")?;
    fs::write(out.join("large"), vec![0x5a; 3 << 20]).context("cannot leave a large file")?;
    std::os::unix::fs::symlink("text", out.join("folder/link")).context("cannot leave a link")?;
    io::stderr().write_all(b"left on purpose\n").context("cannot print")
}

/// Parts of a tree that say what hardware is where.
const PARTS: &[&str] = &[
    "sys/devices/pci",
    "sys/devices/system/node",
    "sys/devices/system/cpu",
    "sys/devices/virtual/infiniband",
    "sys/devices/virtual/net",
    "sys/devices/virtual/dmi",
    "sys/class/infiniband",
    "sys/class/net",
    "sys/class/drm",
    "sys/bus/pci/devices",
    "sys/bus/pci/slots",
    "sys/bus/node/devices",
    "sys/bus/cpu/devices",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/mounts",
    "proc/net/route",
];

/// Copies the parts below `root` to `out`: folders, links as they are, and files that can be read.
fn capture(root: &Path, out: &Path) -> anyhow::Result<()> {
    for part in PARTS {
        let (parent, start) = part.rsplit_once('/').context("a part lies in a folder")?;
        let parent_names = fs::read_dir(root.join(parent)).into_iter().flatten().flatten();
        for name in parent_names.map(|entry| entry.file_name()) {
            let name = name.to_string_lossy().into_owned();
            // `pci` stands for all host bridges: pci0000:00, pci0000:40.
            let is_wanted = name == start || start == "pci" && name.starts_with("pci0");
            if is_wanted {
                let path = Path::new(parent).join(name);
                copy(&root.join(&path), &out.join(&path))?;
            }
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let Ok(about) = from.symlink_metadata() else { return Ok(()) };
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    let told = || format!("cannot write {}", to.display());
    if about.is_symlink() {
        let target =
            fs::read_link(from).with_context(|| format!("cannot read {}", from.display()))?;
        return std::os::unix::fs::symlink(target, to).with_context(told);
    }
    if about.is_dir() {
        fs::create_dir_all(to).with_context(told)?;
        for entry in fs::read_dir(from).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if is_wanted(&name.to_string_lossy()) {
                copy(&entry.path(), &to.join(name))?;
            }
        }
        return Ok(());
    }
    // Registers of devices and the like are large, and files that ask for an action cannot be read.
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let is_text = !["resource", "rom", "vpd"].iter().any(|start| name.starts_with(start));
    match fs::read(from) {
        Ok(bytes) if is_text && bytes.len() <= LARGEST => fs::write(to, bytes).with_context(told),
        _ => Ok(()),
    }
}

/// Counters say nothing of where hardware is; tables of GIDs have 1024 places, nearly all empty.
fn is_wanted(name: &str) -> bool {
    let is_counter = ["power", "statistics", "hw_counters"].contains(&name);
    !is_counter && name.parse::<u32>().map_or(true, |number| number < 64)
}

/// The largest file of a captured tree; those that say something are far smaller.
const LARGEST: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_copied_with_its_links_and_without_counters() {
        let root = std::env::temp_dir().join(format!("te-probe-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (from, to) = (root.join("from"), root.join("to"));
        let device = from.join("sys/devices/pci0000:20/0000:20:00.0");
        fs::create_dir_all(device.join("power")).unwrap();
        fs::create_dir_all(device.join("gids")).unwrap();
        fs::create_dir_all(from.join("sys/bus/pci/devices")).unwrap();
        fs::write(device.join("numa_node"), "1\n").unwrap();
        fs::write(device.join("resource0"), "registers").unwrap();
        fs::write(device.join("power/state"), "x").unwrap();
        fs::write(device.join("gids/63"), "kept").unwrap();
        fs::write(device.join("gids/64"), "left").unwrap();
        fs::write(from.join("sys/devices/other"), "x").unwrap();
        let target = "../../../devices/pci0000:20/0000:20:00.0";
        std::os::unix::fs::symlink(target, from.join("sys/bus/pci/devices/0000:20:00.0")).unwrap();
        capture(&from, &to).unwrap();
        let through = to.join("sys/bus/pci/devices/0000:20:00.0");
        assert_eq!(fs::read_to_string(through.join("numa_node")).unwrap(), "1\n");
        assert!(through.join("gids/63").exists());
        for absent in ["resource0", "power", "gids/64"] {
            assert!(!through.join(absent).exists(), "{absent}");
        }
        assert!(!to.join("sys/devices/other").exists());
        fs::remove_dir_all(root).unwrap();
    }
}
