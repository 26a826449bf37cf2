//! What holds for every crate, and for the crate of the suites.

use crate::suites::{Kind, SUITES};
use crate::tidy::Finding;
use crate::tidy::tree::Tree;

/// Looks at manifests, READMEs and the list of suites.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files() {
        let Some(name) = crate_of(&file.path) else { continue };
        if !file.text.contains("[lints]\nworkspace = true") {
            found.push(Finding::new(&file.path, 0, "it does not take the lints of the workspace"));
        }
        let readme = format!("crates/{name}/README.md");
        if !file.text.contains("publish = false") && !tree.has(&readme) {
            found.push(Finding::new(&file.path, 0, "a crate has a README.md"));
        }
    }
    found.extend(unlisted_suites(tree));
    found
}

/// A file of system tests that no suite runs would never be run.
fn unlisted_suites(tree: &Tree) -> Vec<Finding> {
    let runs_them = |kind: &Kind| matches!(kind, Kind::System { .. } | Kind::Rdma);
    let listed =
        |name: &str| SUITES.iter().any(|suite| suite.name == name && runs_them(&suite.kind));
    let suites = tree.files().iter().filter_map(|file| {
        let name = file.path.strip_prefix("crates/te-suites/tests/")?.strip_suffix(".rs")?;
        (!name.contains('/')).then_some((file, name))
    });
    suites
        .filter(|(_, name)| !listed(name))
        .map(|(file, name)| {
            Finding::new(&file.path, 0, format!("`{name}` is missing in xtask/src/suites.rs"))
        })
        .collect()
}

/// The crate whose manifest this is.
fn crate_of(path: &str) -> Option<&str> {
    let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
    (!name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_takes_the_lints_and_has_a_readme() {
        let good = "[lints]\nworkspace = true\n";
        let tree = Tree::of(&[("crates/a/Cargo.toml", good), ("crates/a/README.md", "")]);
        assert_eq!(check(&tree), []);
        assert_eq!(check(&Tree::of(&[("crates/a/Cargo.toml", "")])).len(), 2);
    }

    #[test]
    fn a_file_of_tests_that_no_suite_runs_is_found() {
        let tree = |name: &str| Tree::of(&[(name, "")]);
        assert_eq!(check(&tree("crates/te-suites/tests/faults.rs")), []);
        assert_eq!(check(&tree("crates/te-suites/tests/new.rs")).len(), 1);
        assert_eq!(check(&tree("crates/te-suites/tests/common/mod.rs")), []);
    }
}
