//! What the caller of a suite says through the environment, read in this one place.
#![expect(clippy::disallowed_methods, reason = "the edge where suites read the environment")]

use std::path::PathBuf;

/// The Python program that has the real peer's wheel: `TE_PEER_PYTHON`.
pub fn peer_python() -> Option<PathBuf> {
    std::env::var_os("TE_PEER_PYTHON").map(PathBuf::from).filter(|path| path.exists())
}

/// The real peer's own benchmark program, found beside its Python package.
pub fn peer_bench() -> Option<PathBuf> {
    let venv = peer_python()?.parent()?.parent()?.to_owned();
    let versions = std::fs::read_dir(venv.join("lib")).ok()?;
    versions
        .flatten()
        .map(|entry| entry.path().join("site-packages/mooncake/transfer_engine_bench"))
        .find(|path| path.exists())
}

/// The library that makes the real peer's NICs give up: `TE_RETRY_SHIM`.
pub fn retry_shim() -> Option<PathBuf> {
    std::env::var_os("TE_RETRY_SHIM").map(PathBuf::from).filter(|path| path.exists())
}

/// The program `te`: `TE_BIN`, else the debug build.
pub fn te_bin() -> PathBuf {
    program("TE_BIN", "te")
}

/// The program `te-node`: `TE_NODE`, else the debug build.
pub fn te_node() -> PathBuf {
    program("TE_NODE", "te-node")
}

/// Whether the long forms were asked for: `TE_LEVEL=full`, as `cargo xtask test --full` sets it, or
/// `TE_FULL=1` for a person who runs one test.
pub fn full() -> bool {
    let is = |variable: &str, word: &str| std::env::var_os(variable).is_some_and(|v| v == word);
    is("TE_LEVEL", "full") || is("TE_FULL", "1")
}

/// How many seconds of chaos: `TE_CHAOS_SECONDS`, else 600 at the full level, else 60.
pub fn chaos_seconds() -> u64 {
    let usual = if full() { 600 } else { 60 };
    number("TE_CHAOS_SECONDS").unwrap_or(usual)
}

/// The seed of a run that is to be repeated: `TE_CHAOS_SEED`.
pub fn chaos_seed() -> Option<u64> {
    number("TE_CHAOS_SEED")
}

/// The emulated machine that this is: `TE_GUEST`, which `cargo xtask guest` sets.
pub fn guest() -> Option<String> {
    std::env::var("TE_GUEST").ok()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The file that collects skipped tests: `TE_SKIP_LOG`.
pub(crate) fn skip_log() -> Option<PathBuf> {
    std::env::var_os("TE_SKIP_LOG").map(PathBuf::from)
}

fn program(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return PathBuf::from(path);
    }
    // A test runs from target/PROFILE/deps; programs lie one folder above.
    let here = std::env::current_exe().unwrap_or_default();
    let folder = here.parent().and_then(|deps| deps.parent()).map(PathBuf::from);
    folder.unwrap_or_default().join(name)
}
