//! Links in our documents lead somewhere.

use crate::tidy::Finding;
use crate::tidy::tree::{TextFile, Tree};

/// Follows each relative link of each Markdown file, to its file and to its heading.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files().iter().filter(|file| file.path.ends_with(".md"));
    documents.flat_map(|file| check_document(tree, file)).collect()
}

fn check_document(tree: &Tree, file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, target) in links(&file.text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        if let Some(what) = dead(tree, &file.path, &target) {
            found.push(Finding::new(&file.path, line, what));
        }
    }
    found
}

/// What is wrong with a link from the document `from`.
fn dead(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { Some(from.to_owned()) } else { resolve(from, path) };
    let Some(path) = path else {
        return Some(format!("the link to {target} leads out of the workspace"));
    };
    if path.is_empty() {
        return None;
    }
    if !tree.has(&path) {
        return Some(format!("the link to {target} is dead: there is no {path}"));
    }
    let headings = headings(tree.text(&path).unwrap_or_default());
    let missing =
        !heading.is_empty() && path.ends_with(".md") && !headings.iter().any(|h| h == heading);
    missing.then(|| format!("the link to {target} is dead: {path} has no such heading"))
}

/// The path that `target` means in the document `from`; empty for the top folder.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of `[text](target)`, each with its line; code is left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, content) in prose(text) {
        let plain = without_code(content);
        for (at, _) in plain.match_indices("](") {
            let rest = &plain[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            found.push((line, target.to_owned()));
        }
    }
    found
}

/// The anchors of the headings, as the usual viewers make them.
fn headings(text: &str) -> Vec<String> {
    let titles = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    titles.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// Lines outside fenced code, from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut in_fence = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            found.push((index + 1, line));
        }
    }
    found
}

/// A line with what stands in back-quotes blanked.
fn without_code(line: &str) -> String {
    let mut in_code = false;
    let mut blank = |c: char| {
        in_code ^= c == '`';
        if in_code { ' ' } else { c }
    };
    line.chars().map(&mut blank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_link(target: &str) -> usize {
        let text = format!("# A title, here\nsee [x]({target}) and `[y](nowhere)`\n");
        let tree = Tree::of(&[("docs/a.md", &text), ("docs/b.md", "## Two words\n"), ("c.rs", "")]);
        check(&tree).len()
    }

    #[test]
    fn links_to_files_and_headings_are_followed() {
        assert_eq!(check_link("b.md"), 0);
        assert_eq!(check_link("./b.md#two-words"), 0);
        assert_eq!(check_link("../c.rs"), 0);
        assert_eq!(check_link("#a-title-here"), 0);
        assert_eq!(check_link("https://example.org/x"), 0);
    }

    #[test]
    fn dead_ones_are_found() {
        assert_eq!(check_link("c.md"), 1);
        assert_eq!(check_link("b.md#three-words"), 1);
        assert_eq!(check_link("../../b.md"), 1, "a clone has nothing outside");
    }

    #[test]
    fn code_is_no_link() {
        assert_eq!(links("```\n[a](b)\n```\n`[a](b)`\n"), []);
    }
}
