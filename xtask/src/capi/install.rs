//! The library, its headers and its pkg-config file, as they stand on a machine that has them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::workspace::Workspace;

const HEADERS: &str = "crates/te-capi/include";
const TEMPLATE: &str = "crates/te-capi/transfer_engine.pc.in";
const LIBRARY: &str = "libtransfer_engine.so";

/// Where they stand.
#[derive(Debug)]
pub(crate) struct Installed {
    /// `include`, `lib` and `lib/pkgconfig` are in it.
    pub(crate) folder: PathBuf,
    /// The shared library.
    pub(crate) library: PathBuf,
}

/// Puts what was built for tests into `target/xtask/capi/prefix`.
pub(crate) fn install(workspace: &Workspace) -> anyhow::Result<Installed> {
    let folder = workspace.output("capi/prefix")?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder)
            .context("the folder of the C library cannot be emptied")?;
    }
    let (include, lib) = (folder.join("include"), folder.join("lib"));
    for made in [&include, &lib.join("pkgconfig")] {
        std::fs::create_dir_all(made).with_context(|| format!("no {}", made.display()))?;
    }
    for entry in std::fs::read_dir(workspace.path(HEADERS)).context(HEADERS)? {
        let header = entry.context(HEADERS)?;
        copy(&header.path(), &include.join(header.file_name()))?;
    }
    let library = lib.join(LIBRARY);
    copy(&workspace.target().join("debug").join(LIBRARY), &library)?;
    let template = std::fs::read_to_string(workspace.path(TEMPLATE)).context(TEMPLATE)?;
    let text = filled(&template, &folder.display().to_string(), &version(workspace)?);
    let file = lib.join("pkgconfig/transfer_engine.pc");
    std::fs::write(file, text).context("the pkg-config file cannot be written")?;
    Ok(Installed { folder, library })
}

impl Installed {
    /// The folder for `PKG_CONFIG_PATH`.
    pub(crate) fn pkg_config(&self) -> PathBuf {
        self.folder.join("lib/pkgconfig")
    }

    /// What a compiler is told, and that the program finds the library when it runs.
    ///
    /// # Errors
    /// pkg-config does not take its file.
    pub(crate) fn flags(&self) -> anyhow::Result<Vec<String>> {
        let mut command = Command::new("pkg-config");
        command.args(["--cflags", "--libs", "transfer_engine"]);
        let output = command.env("PKG_CONFIG_PATH", self.pkg_config()).output();
        let output = output.context("pkg-config cannot be started")?;
        let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(output.status.success(), "pkg-config: {told}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut flags: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        flags.push(format!("-Wl,-rpath,{}", self.folder.join("lib").display()));
        Ok(flags)
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display()))?;
    Ok(())
}

fn filled(template: &str, prefix: &str, version: &str) -> String {
    template.replace("@prefix@", prefix).replace("@version@", version)
}

fn version(workspace: &Workspace) -> anyhow::Result<String> {
    let package = workspace.packages().find(|package| package.name() == "te-capi");
    let version = package.and_then(|package| package.raw()["version"].as_str());
    version.map(str::to_owned).context("te-capi has no version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_filled() {
        let workspace = Workspace::open().unwrap();
        let template = std::fs::read_to_string(workspace.path(TEMPLATE)).unwrap();
        let text = filled(&template, "/opt/te", &version(&workspace).unwrap());
        assert!(text.starts_with("prefix=/opt/te\n") && !text.contains('@'), "{text}");
        assert!(text.contains("Version: 0."), "{text}");
    }
}
