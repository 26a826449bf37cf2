//! What holds for every text file.

use crate::tidy::Finding;
use crate::tidy::tree::TextFile;

/// Looks for blanks at line ends, a missing last line end and paths of somebody's machine.
pub(crate) fn check(file: &TextFile) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut tell = |what: String| found.push(Finding::new(&file.path, index + 1, what));
        if line.ends_with([' ', '\t']) && !file.path.ends_with(".tsv") {
            tell("blanks at the end of the line".to_owned());
        }
        if let Some(place) = machine_path(line) {
            tell(format!("`{place}` is a place on one machine"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        found.push(Finding::new(&file.path, 0, "the last line has no end"));
    }
    found
}

/// Folders in which people keep their own things. Written in two parts, so that this file does not
/// find itself.
const HOMES: &[(&str, &str)] = &[("/ho", "me/"), ("/ro", "ot/"), ("/Us", "ers/"), ("/wo", "rk/")];

fn machine_path(line: &str) -> Option<String> {
    HOMES.iter().map(|(a, b)| format!("{a}{b}")).find(|home| {
        line.match_indices(home.as_str()).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-/~*>".contains(c))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<(usize, String)> {
        let file = TextFile { path: path.to_owned(), text: text.to_owned() };
        check(&file).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn blanks_at_line_ends_are_found() {
        assert_eq!(whats("a.md", "x\ny \n").len(), 1);
        assert_eq!(whats("a.tsv", "x\t\n"), []);
    }

    #[test]
    fn a_last_line_without_an_end_is_found() {
        assert_eq!(whats("a.md", "x")[0].0, 0);
        assert_eq!(whats("a.md", ""), []);
    }

    #[test]
    fn a_place_on_one_machine_is_found() {
        let place = format!("see {}{}x", "/ho", "me/");
        assert_eq!(whats("a.md", &format!("{place}\n")).len(), 1);
        let inside = format!("crates{}{}x\n", "/wo", "rk/");
        assert_eq!(whats("a.md", &inside), []);
    }
}
