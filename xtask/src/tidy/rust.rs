//! What holds for every Rust file.

use crate::rust_text::{self, Line, has_word};
use crate::tidy::Finding;
use crate::tidy::tree::TextFile;

/// A file longer than this asks to be two.
const MAX_LINES: usize = 600;

/// Files that may be longer, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Looks at the header, the length and at words that must not be committed.
pub(crate) fn check(file: &TextFile) -> Vec<Finding> {
    let tell = |line: usize, what: String| Finding::new(&file.path, line, what);
    let mut found = Vec::new();
    if !file.text.starts_with("//!") {
        found.push(tell(1, "a file begins with `//!`: what it is for".to_owned()));
    }
    let n_lines = file.text.lines().count();
    if n_lines > MAX_LINES && !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
        found.push(tell(0, format!("{n_lines} lines; more than {MAX_LINES} is two files")));
    }
    for (index, line) in rust_text::split(&file.text).iter().enumerate() {
        found.extend(unfinished(line).map(|what| tell(index + 1, what)));
    }
    found
}

/// What a line leaves for later.
fn unfinished(line: &Line) -> Option<String> {
    let macros = ["todo", "unimplemented"].into_iter();
    let mut macros = macros.filter(|name| is_macro(&line.code, name));
    if let Some(name) = macros.next() {
        return Some(format!("`{name}!` is not finished work"));
    }
    if ["#[ignore", "#![ignore"].iter().any(|attribute| line.code.contains(attribute)) {
        return Some("an ignored test is no test; one that cannot run calls a skip".to_owned());
    }
    let marks = ["TODO", "FIXME", "XXX"];
    let mark = marks.into_iter().find(|mark| has_word(&line.comment, mark))?;
    Some(format!("`{mark}` is for an issue, not for a comment"))
}

fn is_macro(code: &str, name: &str) -> bool {
    has_word(code, name) && code.contains(&format!("{name}!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        let file = TextFile { path: "a.rs".to_owned(), text: text.to_owned() };
        check(&file).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_header_is_asked_for() {
        assert_eq!(lines("//! What it is.\n"), NONE);
        assert_eq!(lines("use x;\n"), [1]);
        assert_eq!(lines("// no header\n"), [1]);
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_not_in_strings() {
        assert_eq!(lines("//! x\nfn f() { todo!() }\n"), [2]);
        assert_eq!(lines("//! x\nfn f() { g(\"todo!\") }\n"), NONE);
        assert_eq!(lines("//! x\n#[ignore = \"slow\"]\nfn f() {}\n"), [2]);
        assert_eq!(lines("//! x\n// TODO: later\n"), [2]);
    }

    #[test]
    fn a_long_file_is_found() {
        let long = format!("//! x\n{}", "\n".repeat(MAX_LINES));
        assert_eq!(lines(&long), [0]);
        assert_eq!(lines(&format!("//! x\n{}", "\n".repeat(MAX_LINES - 1))), NONE);
    }
}
