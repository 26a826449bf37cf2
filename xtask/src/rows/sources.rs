//! Whether the sources changed after a suite ran.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Context as _;

use crate::suites::Kind;
use crate::workspace::Workspace;

/// A source file of the suite that is newer than `since`, if there is one.
pub(crate) fn newer(
    workspace: &Workspace,
    kind: Kind,
    since: SystemTime,
) -> anyhow::Result<Option<String>> {
    let places: &[&str] = match kind {
        Kind::Unit => &["Cargo.toml", "Cargo.lock", "crates", "xtask"],
        Kind::Guest => &["Cargo.toml", "Cargo.lock", "xtask/src/guest"],
        Kind::Topology | Kind::Rdma => &["Cargo.toml", "Cargo.lock", "crates", "xtask/src/guest"],
        Kind::Consumers => &["Cargo.toml", "Cargo.lock", "crates", "consumers"],
        Kind::Features
        | Kind::System(_)
        | Kind::Loom
        | Kind::Memory
        | Kind::Capi
        | Kind::Python => &["Cargo.toml", "Cargo.lock", "crates"],
    };
    for place in places {
        let found = newer_below(&workspace.path(place), since)?;
        if let Some(path) = found {
            let shown = path.strip_prefix(workspace.root()).unwrap_or(&path);
            return Ok(Some(shown.display().to_string()));
        }
    }
    Ok(None)
}

/// Lock files that suites make.
const COPIES: &[&str] = &["consumers/Cargo.lock", "te-oracles/Cargo.lock"];

/// Looks below a folder, or at a file. Documents do not change what a test finds.
fn newer_below(path: &Path, since: SystemTime) -> anyhow::Result<Option<std::path::PathBuf>> {
    let told = || format!("cannot look at {}", path.display());
    let about = std::fs::metadata(path).with_context(told)?;
    if !about.is_dir() {
        let counts = !COPIES.iter().any(|copy| path.ends_with(copy))
            && path.extension().is_none_or(|ending| ending != "md");
        let newer = about.modified().with_context(told)? > since;
        return Ok((counts && newer).then(|| path.to_owned()));
    }
    for entry in std::fs::read_dir(path).with_context(told)? {
        let entry = entry.with_context(told)?;
        let name = entry.file_name();
        if name == "target" || name == "__pycache__" {
            continue;
        }
        if let Some(found) = newer_below(&entry.path(), since)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changed_later_is_found_and_a_document_is_not() {
        let workspace = Workspace::open().unwrap();
        let folder = workspace.output("selftest/sources/consumers/x").unwrap();
        let folder = folder.parent().unwrap();
        for name in ["a.rs", "b.md", "Cargo.lock"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let modified = std::fs::metadata(folder.join("a.rs")).unwrap().modified().unwrap();
        let hour = std::time::Duration::from_secs(3600);
        assert_eq!(newer_below(folder, modified - hour).unwrap(), Some(folder.join("a.rs")));
        assert_eq!(newer_below(folder, modified + hour).unwrap(), None);
    }
}
