//! Where things are, and how cargo is called.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::ui;

/// The checkout that this program was built from.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
    metadata: Value,
}

impl Workspace {
    /// Finds the root and asks cargo about the packages in it.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.parent().context("xtask lies below the root of the workspace")?;
        let metadata = metadata(root, &["--no-deps"])?;
        let target = metadata["target_directory"].as_str().context("cargo names its target")?;
        Ok(Self { root: root.to_owned(), target: PathBuf::from(target), metadata })
    }

    /// The top folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the top folder.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Cargo's target folder.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// A path for our own output below the target folder; the folders above it are made.
    pub(crate) fn output(&self, relative: &str) -> anyhow::Result<PathBuf> {
        let path = self.target.join("xtask").join(relative);
        let parent = path.parent().context("a path below target has a parent")?;
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder {}", parent.display()))?;
        Ok(path)
    }

    /// Waits until no other `cargo xtask` runs tests in this target folder: two at once would mix
    /// their logs and spoil each other's times. It lasts until the value is dropped.
    pub(crate) fn exclusive(&self) -> anyhow::Result<File> {
        let path = self.output("lock")?;
        let told = || format!("cannot lock {}", path.display());
        let file = File::create(&path).with_context(told)?;
        if file.try_lock().is_err() {
            ui::say("waiting for another cargo xtask that runs tests");
            file.lock().with_context(told)?;
        }
        Ok(file)
    }

    /// The packages of the workspace.
    pub(crate) fn packages(&self) -> impl Iterator<Item = Package<'_>> {
        packages(&self.metadata)
    }

    /// A cargo command in the top folder, without colours.
    pub(crate) fn cargo(&self, verb: &str) -> Command {
        cargo(&self.root, verb)
    }
}

/// One package in the answer of `cargo metadata`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package<'a>(&'a Value);

impl<'a> Package<'a> {
    /// Its name.
    pub(crate) fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// The names of its features, without `default`, sorted.
    pub(crate) fn features(self) -> Vec<&'a str> {
        let features = self.0["features"].as_object();
        features
            .into_iter()
            .flatten()
            .map(|(k, _)| k.as_str())
            .filter(|k| *k != "default")
            .collect()
    }

    /// Whether it has features that are on unless a user says no.
    pub(crate) fn has_default(self) -> bool {
        self.0["features"]["default"].as_array().is_some_and(|list| !list.is_empty())
    }

    /// The whole answer about it.
    pub(crate) fn raw(self) -> &'a Value {
        self.0
    }
}

/// The packages in an answer of `cargo metadata`.
pub(crate) fn packages(metadata: &Value) -> impl Iterator<Item = Package<'_>> {
    metadata["packages"].as_array().into_iter().flatten().map(Package)
}

/// Runs `cargo metadata` in `folder`.
pub(crate) fn metadata(folder: &Path, flags: &[&str]) -> anyhow::Result<Value> {
    let mut command = cargo(folder, "metadata");
    command.args(["--format-version", "1"]).args(flags);
    let output = command.output().context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// A cargo command in `folder`, without colours.
pub(crate) fn cargo(folder: &Path, verb: &str) -> Command {
    // Cargo names itself to the programs that it runs; outside of cargo the search path has it.
    let program = option_env!("CARGO").filter(|path| Path::new(path).exists()).unwrap_or("cargo");
    let mut command = Command::new(program);
    command.arg(verb).current_dir(folder).env("CARGO_TERM_COLOR", "never");
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_PKG_NAME");
    command
}

/// A command line as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy());
    let words = words.map(|w| if w.contains(' ') { format!("'{w}'") } else { w.into_owned() });
    words.collect::<Vec<_>>().join(" ")
}
