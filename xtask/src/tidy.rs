//! `tidy`: house rules that no compiler knows.
//!
//! Each rule is a file, takes the tree or one file of it, and returns findings. It is also a test
//! of this crate, so that a plain `cargo test` keeps the rules.

mod crates;
mod guards;
mod layers;
mod links;
mod rust;
mod text;
mod tree;
mod unsafety;

use crate::tidy::tree::Tree;
use crate::ui::{self, Stopwatch};
use crate::workspace::Workspace;

/// One thing that is not as it should be.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the top of the workspace.
    pub(crate) path: String,
    /// The line, from 1; 0 is the file as a whole.
    pub(crate) line: usize,
    /// What is wrong and what would be right.
    pub(crate) what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

/// Prints what is not tidy. It is good if that is nothing.
pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<bool> {
    let watch = Stopwatch::start();
    let tree = Tree::read(workspace.root())?;
    let found = findings(workspace, &tree);
    for Finding { path, line, what } in &found {
        match line {
            0 => ui::say(&format!("{path}: {what}")),
            _ => ui::say(&format!("{path}:{line}: {what}")),
        }
    }
    let files = ui::count(tree.files().len(), "file");
    ui::say(&format!("tidy: {}, {files} in {}", ui::count(found.len(), "finding"), watch.text()));
    Ok(found.is_empty())
}

fn findings(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let mut all = layers::check(workspace.packages());
    all.extend(crates::check(tree));
    all.extend(guards::check(tree));
    all.extend(unsafety::check(tree));
    all.extend(links::check(tree));
    for file in tree.files() {
        all.extend(text::check(file));
        if file.path.ends_with(".rs") {
            all.extend(rust::check(file));
        }
    }
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let workspace = Workspace::open().unwrap();
        let tree = Tree::read(workspace.root()).unwrap();
        assert_eq!(findings(&workspace, &tree), []);
    }
}
