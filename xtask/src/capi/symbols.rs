//! What the library offers and what it needs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::guest::libraries_of;
use crate::workspace::Workspace;

const HEADERS: &[&str] =
    &["crates/te-capi/include/transfer_engine_c.h", "crates/te-capi/include/te_c.h"];

/// The symbols of Mooncake's library (te-classic A101–A120). They stand here and not only in a header,
/// so that one which is deleted there is missed.
const PEER: &[&str] = &[
    "allocateBatchID",
    "closeSegment",
    "createTransferEngine",
    "destroyTransferEngine",
    "discoverTopology",
    "enableGracefulShutdown",
    "freeBatchID",
    "freeNotifsMsgBuf",
    "genNotifyInEngine",
    "getLocalIpAndPort",
    "getNicLoadStats",
    "getNotifsFromEngine",
    "getTransferStatus",
    "installTransport",
    "openSegment",
    "openSegmentNoCache",
    "registerLocalMemory",
    "registerLocalMemoryBatch",
    "removeLocalSegment",
    "showLinks",
    "submitTransfer",
    "submitTransferWithNotify",
    "syncSegmentCache",
    "uninstallTransport",
    "unregisterLocalMemory",
    "unregisterLocalMemoryBatch",
    "warmupEfaSegment",
];

/// The only libraries that it may need: those of C, and the loader.
const LIGHT: &[&str] =
    &["libc.", "libm.", "libgcc_s.", "ld-linux", "libpthread.", "libdl.", "librt."];

/// The library offers what the headers declare and nothing else.
pub(crate) fn compare(workspace: &Workspace, library: &Path) -> anyhow::Result<()> {
    let mut declared = BTreeSet::new();
    for header in HEADERS {
        let text = std::fs::read_to_string(workspace.path(header)).context(*header)?;
        declared.extend(functions(&text));
    }
    let offered = offered(library)?;
    let lacking: Vec<_> = declared.difference(&offered).collect();
    let further: Vec<_> = offered.difference(&declared).collect();
    ensure!(lacking.is_empty(), "declared and not there: {lacking:?}");
    ensure!(further.is_empty(), "there and not declared: {further:?}");
    let lost: Vec<_> = PEER.iter().filter(|name| !offered.contains(**name)).collect();
    ensure!(lost.is_empty(), "Mooncake's library has also {lost:?}");
    let ours = offered.iter().filter(|name| !PEER.contains(&name.as_str()));
    let unnamed: Vec<_> = ours.filter(|name| !name.starts_with("te_")).collect();
    ensure!(unnamed.is_empty(), "ours begin with te_, not so {unnamed:?}");
    Ok(())
}

/// The library needs no library but those of C.
pub(crate) fn light(library: &Path) -> anyhow::Result<()> {
    let needed = libraries_of(library)?.context("the library is no library")?;
    let is_heavy = |name: &&String| !LIGHT.iter().any(|light| name.starts_with(light));
    let heavy: Vec<_> = needed.iter().filter(is_heavy).collect();
    ensure!(heavy.is_empty(), "it needs {heavy:?}");
    Ok(())
}

fn offered(library: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut command = Command::new("nm");
    let output =
        command.args(["--dynamic", "--defined-only", "--format=posix"]).arg(library).output();
    let output = output.context("nm cannot be started")?;
    ensure!(output.status.success(), "nm cannot read {}", library.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

/// The functions that a header declares.
fn functions(header: &str) -> BTreeSet<String> {
    let code = without_comments(header);
    let lines = code.lines().filter(|line| !line.starts_with('#'));
    let code = lines.collect::<Vec<_>>().join("\n");
    let declarations = code.split(';').filter_map(|one| one.split_once('('));
    let name = |before: &str| {
        let word = before.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
        let is_name = word.chars().next().is_some_and(char::is_alphabetic);
        is_name.then(|| word.to_owned())
    };
    declarations.filter_map(|(before, _)| name(before)).collect()
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_header_are_found_and_nothing_else() {
        let header = "/* f(x); */\n#define A(x) (x)\nstruct s {\n    int a; /* g() */\n};\n\
                      typedef struct s s_t;\nint one(void *a,\n        int b);\nconst char *two(void);\n";
        let found: Vec<_> = functions(header).into_iter().collect();
        assert_eq!(found, ["one", "two"]);
    }

    #[test]
    fn our_headers_declare_all_of_the_peers() {
        let workspace = Workspace::open().unwrap();
        let text = std::fs::read_to_string(workspace.path(HEADERS[0])).unwrap();
        let found = functions(&text);
        let list: BTreeSet<String> = PEER.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, list);
    }
}
