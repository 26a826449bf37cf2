//! `unsafe` stands only in the files that docs/memory-safety.md names, and each of those needs it.

use crate::rust_text::{self, has_word};
use crate::tidy::Finding;
use crate::tidy::tree::{TextFile, Tree};

const LIST: &str = "docs/memory-safety.md";

/// Compares the files that have `unsafe` with the list.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let listed = listed(tree.text(LIST).unwrap_or_default());
    let mut found: Vec<Finding> = listed
        .iter()
        .filter(|(_, path)| !tree.has(path))
        .map(|(line, path)| Finding::new(LIST, *line, format!("{path} is not there")))
        .collect();
    for file in tree.files().iter().filter(|file| file.path.ends_with(".rs")) {
        let allowed = listed.iter().any(|(_, path)| covers(path, &file.path));
        if let (false, Some(line)) = (allowed, first_unsafe(file)) {
            let what = format!("`unsafe` in a file that {LIST} does not name");
            found.push(Finding::new(&file.path, line, what));
        }
    }
    found
}

/// The paths in the first cells of the list's tables, each with its line: `| `path` | … |`.
fn listed(text: &str) -> Vec<(usize, String)> {
    let path_in = |line: &str| {
        let cell = line.strip_prefix('|')?.split('|').next()?.trim();
        let path = cell.strip_prefix('`')?.strip_suffix('`')?;
        path.contains('/').then(|| path.trim_end_matches('/').to_owned())
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, path_in(line)?))).collect()
}

/// A listed folder covers the files in it.
fn covers(listed: &str, path: &str) -> bool {
    path.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The line with the first `unsafe`, or the first lint that lets it in.
fn first_unsafe(file: &TextFile) -> Option<usize> {
    let lines = rust_text::split(&file.text);
    let lets_in = |code: &str| {
        has_word(code, "unsafe_code") && (has_word(code, "allow") || has_word(code, "expect"))
    };
    lines.iter().position(|l| has_word(&l.code, "unsafe") || lets_in(&l.code)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "# x\n| file | why |\n|---|---|\n| `a/door.rs` | w |\n| `a/verbs/` | w |\n";

    fn check_files(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let mut all = vec![(LIST, DOC), ("a/door.rs", ""), ("a/verbs", "")];
        all.extend(files);
        check(&Tree::of(&all)).into_iter().map(|f| (f.path, f.line)).collect()
    }

    #[test]
    fn a_listed_file_or_folder_may() {
        assert_eq!(check_files(&[("a/verbs/x.rs", "unsafe {}"), ("a/door.rs", "unsafe {}")]), []);
    }

    #[test]
    fn another_file_may_not() {
        let found = check_files(&[("b.rs", "//! unsafe\nlet x = unsafe { y };\n")]);
        assert_eq!(found, [("b.rs".to_owned(), 2)]);
        let found = check_files(&[("b.rs", "#![allow(unsafe_code, reason = \"x\")]\n")]);
        assert_eq!(found, [("b.rs".to_owned(), 1)]);
        assert_eq!(check_files(&[("b.rs", "// unsafe\nf(\"unsafe\");\n")]), []);
    }

    #[test]
    fn a_listed_file_that_is_gone_is_told() {
        let found = check(&Tree::of(&[(LIST, DOC), ("a/verbs", "")]));
        assert_eq!((found[0].path.as_str(), found[0].line), (LIST, 4));
    }
}
