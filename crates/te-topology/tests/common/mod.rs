//! What the tests of machines share: fixtures, scratch folders, the folder with real data, skips.
#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "a skip is told to the person who tests")]

pub(crate) mod fixture;
pub(crate) mod oracle;
pub(crate) mod tags;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use te_topology::{Affinity, Machine, MemoryLocation, NicName, PriorityMatrix, Reach};

/// Says why a test does not run here, for the person and for the file in `TE_SKIP_LOG`.
#[expect(clippy::disallowed_methods, reason = "the test runner says where skips are counted")]
pub(crate) fn skip(test: &str, reason: &str) {
    println!("skip {test}: {reason}");
    if let Some(path) = std::env::var_os("TE_SKIP_LOG") {
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        let line = format!("{test}\t{reason}\n");
        std::io::Write::write_all(&mut file.unwrap(), line.as_bytes()).unwrap();
    }
}

/// The folder with data of real machines, which is not part of the project: `TE_REAL_DATA`, or
/// `../shared/real-data` beside the workspace.
#[expect(clippy::disallowed_methods, reason = "a tester may keep the data elsewhere")]
pub(crate) fn real_data(test: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/real-data");
    let folder = std::env::var_os("TE_REAL_DATA").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    skip(test, "cannot be had here: the data of real machines; name its folder in TE_REAL_DATA");
    None
}

/// The files of a folder with an ending, sorted.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.to_str().is_some_and(|path| path.ends_with(ending))).collect();
    files.sort();
    files
}

/// A folder that goes away with the value.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Trees are tens of thousands of files, which disks of test machines make slowly.
        let memory = PathBuf::from("/dev/shm");
        let above = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let path = above.join(format!("te-topology-{}-{number}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn matrix(machine: &Machine) -> PriorityMatrix {
    Affinity::of(machine).matrix(Reach::All).unwrap()
}

pub(crate) fn strings(names: &[NicName]) -> Vec<&str> {
    names.iter().map(NicName::as_str).collect()
}

/// The preferred NICs of a location, sorted.
pub(crate) fn preferred(machine: &Machine, location: &str) -> BTreeSet<String> {
    let affinity = Affinity::of(machine);
    let row = affinity.row(&MemoryLocation::from(location)).unwrap_or_else(|| {
        panic!("no row for {location}");
    });
    row.groups.first().map(|g| g.nics.iter().map(NicName::to_string).collect()).unwrap_or_default()
}

/// Unpacks an archive; an error is the reason to skip.
pub(crate) fn unpack(archive: &Path, to: &Path, options: &[&str]) -> Result<(), String> {
    let mut tar = process::Command::new("tar");
    tar.args(options).arg("-xjf").arg(archive).arg("-C").arg(to);
    let reason = match tar.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).replace(['\n', '\t'], " "),
        Err(error) => error.to_string(),
    };
    Err(format!("type: apt-get install -y tar bzip2 ({reason})"))
}

/// lstopo's XML of version 3 as version 2 had it: what we read differs in the types of devices.
pub(crate) fn as_version_2(text: &str) -> String {
    let mut text = text.replace("version=\"3.0\"", "version=\"2.0\"");
    for (bits, number) in [(48, 3), (16, 2), (12, 5), (64, 4), (4, 1), (1, 0), (2, 0), (8, 5)] {
        let (from, to) = (format!("osdev_type=\"{bits}\""), format!("osdev_Type=\"{number}\""));
        text = text.replace(&from, &to);
    }
    text.replace("osdev_Type", "osdev_type")
}
