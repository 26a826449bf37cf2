//! No program and no library that others load needs RDMA libraries to start: they are loaded when the
//! program runs, so that one build serves machines with and without.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::guest::libraries_of;
use crate::ui;
use crate::workspace::Workspace;

/// What must never be linked. Their providers come with them.
const LOADED_AT_RUN_TIME: &[&str] = &["libibverbs", "librdmacm", "libmlx5", "libmlx4", "libefa"];

/// Looks at every program and library that stands in the folders of debug and release builds, and in
/// `more`. It is good if none of them needs what is loaded at run time.
///
/// # Errors
/// Nothing was built yet, or a file cannot be read.
pub(crate) fn check(workspace: &Workspace, more: &[PathBuf]) -> anyhow::Result<bool> {
    let mut files = more.to_vec();
    for profile in ["debug", "release"] {
        files.extend(built(&workspace.path("target").join(profile))?);
    }
    ensure!(!files.is_empty(), "nothing was built that could be looked at");
    let mut is_good = true;
    for file in &files {
        for library in unwanted(file)? {
            ui::say(&format!("  {} needs {library}", file.display()));
            is_good = false;
        }
    }
    ui::say(&format!("  {} looked at", ui::count(files.len(), "program or library")));
    Ok(is_good)
}

/// Programs and shared libraries of a folder.
fn built(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.context("a folder of builds cannot be read")?.path();
        let is_candidate = path.extension().is_none_or(|extension| extension == "so");
        if is_candidate && path.is_file() && libraries_of(&path)?.is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// What a file needs and must not.
fn unwanted(file: &Path) -> anyhow::Result<Vec<String>> {
    let needed = libraries_of(file)?.unwrap_or_default();
    let is_unwanted =
        |library: &String| LOADED_AT_RUN_TIME.iter().any(|name| library.starts_with(name));
    Ok(needed.into_iter().filter(is_unwanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_libc_and_no_rdma() {
        let own = std::env::current_exe().unwrap();
        let needed = libraries_of(&own).unwrap().unwrap();
        assert!(needed.iter().any(|library| library.starts_with("libc.so")), "{needed:?}");
        assert_eq!(unwanted(&own).unwrap(), Vec::<String>::new());
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert_eq!(libraries_of(&text).unwrap(), None, "no program");
    }

    /// Whatever is built here by now: programs in both profiles, libraries for C and Python.
    #[test]
    fn what_is_built_needs_no_rdma_library() {
        let workspace = Workspace::open().unwrap();
        let own = std::env::current_exe().unwrap();
        assert!(check(&workspace, &[own]).unwrap());
    }
}
