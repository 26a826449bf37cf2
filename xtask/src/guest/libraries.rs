//! Which files a program needs beside itself: its loader, its libraries, and theirs.
//!
//! The search is that of the loader of Debian: folders that the file names, `LD_LIBRARY_PATH`, then
//! the system's own. Plug-ins that a library opens by name while it runs are in no header; who wants
//! one adds it as a root of its own.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::guest::elf;

/// The system's folders, most likely first.
const FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/local/lib",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
];

/// Files by the path that they have in the guest.
pub(crate) type Files = BTreeMap<String, PathBuf>;

/// Adds what `file` needs, without `file` itself, to `files`. A file that is no ELF file needs
/// nothing.
///
/// # Errors
///
/// For a file that cannot be read, and for a library that is nowhere.
pub(crate) fn add(files: &mut Files, file: &Path) -> anyhow::Result<()> {
    add_in(files, file, &preferred())
}

/// The path in the guest of a file of this machine: its folder without symbolic links, so that no
/// file is put into the guest twice, and its own name, by which it is asked for.
pub(crate) fn guest_path(file: &Path) -> anyhow::Result<String> {
    let told = || format!("{} is not there", file.display());
    let absolute = std::path::absolute(file).with_context(told)?;
    let folder = absolute.parent().with_context(told)?.canonicalize().with_context(told)?;
    let path = folder.join(absolute.file_name().with_context(told)?);
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

fn add_in(files: &mut Files, file: &Path, preferred: &[PathBuf]) -> anyhow::Result<()> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if !elf::is_elf(&bytes) {
        return Ok(());
    }
    let needs = elf::needs(&bytes).with_context(|| format!("in {}", file.display()))?;
    let own = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let own = own.parent().unwrap_or_else(|| Path::new("/")).to_owned();
    let mut folders: Vec<PathBuf> = needs.folders.iter().map(|text| expand(text, &own)).collect();
    folders.extend(preferred.iter().cloned());
    folders.extend(FOLDERS.iter().map(PathBuf::from));
    let mut wanted: Vec<PathBuf> = needs.loader.iter().map(PathBuf::from).collect();
    for name in &needs.libraries {
        let found = find(name, &folders);
        wanted.push(found.with_context(|| {
            format!("{} needs {name}, which is in no folder of libraries", file.display())
        })?);
    }
    for library in wanted {
        let path = guest_path(&library)?;
        if let Entry::Vacant(place) = files.entry(path) {
            place.insert(library.clone());
            add_in(files, &library, preferred)?;
        }
    }
    Ok(())
}

fn find(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn expand(folder: &str, own: &Path) -> PathBuf {
    let own = own.display().to_string();
    PathBuf::from(folder.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
}

/// Cargo names the folders of Rust's own libraries in this variable.
#[expect(clippy::disallowed_methods, reason = "the loader's own variable, read as the loader does")]
fn preferred() -> Vec<PathBuf> {
    let list = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&list).filter(|path| path.is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_brings_its_loader_and_libc() {
        let mut files = Files::new();
        add(&mut files, &std::env::current_exe().unwrap()).unwrap();
        let has = |part: &str| files.keys().any(|path| path.contains(part));
        assert!(has("/libc.so.6"), "{files:?}");
        assert!(has("/ld-linux"), "{files:?}");
        assert!(files.values().all(|path| path.is_file()));
        let linked = files.keys().any(|path| path.starts_with("/lib/"));
        assert!(!linked || !Path::new("/lib").is_symlink(), "folders are real ones: {files:?}");
    }

    #[test]
    fn a_script_needs_nothing() {
        let mut files = Files::new();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        add(&mut files, &manifest).unwrap();
        assert!(files.is_empty());
    }

    #[test]
    fn the_origin_is_the_folder_of_the_file() {
        assert_eq!(expand("$ORIGIN/../lib", Path::new("/a/b")), Path::new("/a/b/../lib"));
        assert_eq!(expand("${ORIGIN}", Path::new("/a")), Path::new("/a"));
    }
}
