//! Each guard that can be switched off has a line in docs/sabotage.tsv.

use crate::tidy::Finding;
use crate::tidy::tree::Tree;

const TABLE: &str = "docs/sabotage.tsv";

/// The call that asks whether a guard is off; written in two parts, so that this file has none.
const CALL: &str = concat!("is_", "off(\"");

/// Looks for guards of the crates that the table does not name.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let table = tree.text(TABLE).unwrap_or_default();
    let named: Vec<&str> = table.lines().filter_map(|line| line.split('\t').next()).collect();
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| is_product(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let names = guards(line).filter(|name| !named.contains(name));
            found.extend(names.map(|name| {
                let what = format!("the guard `{name}` is missing in {TABLE}");
                Finding::new(&file.path, index + 1, what)
            }));
        }
    }
    found
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs")
}

/// The guards that a line of code asks for; in documentation it is an example.
fn guards(line: &str) -> impl Iterator<Item = &str> {
    let code = if line.trim_start().starts_with("//") { "" } else { line };
    code.split(CALL).skip(1).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_without_a_line_is_found() {
        let code = format!("//! x\n// {CALL}c\")\nif {CALL}a\") || {CALL}b\") {{}}\n");
        let tree = Tree::of(&[(TABLE, "switch\na\tte-x\tf\tp\n"), ("crates/x/src/a.rs", &code)]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].what.contains("`b`")), (3, true));
    }
}
