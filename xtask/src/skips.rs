//! The file in which a running test says that it could not run, and why.
//!
//! A test appends one line, `NAME<TAB>REASON`, to the file named by `TE_SKIP_LOG` and returns.
//! The harness then reports it as passed; we count it as skipped.

/// What begins the reason of a skip that no installation on this machine could cure.
const NOT_HERE: &str = "cannot be had here:";

/// The lines of one skip log.
#[derive(Debug, Default)]
pub(crate) struct SkipLog(Vec<(String, String)>);

impl SkipLog {
    /// Reads the lines. A line without a reason counts, and says that the reason is missing.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        Self(lines.map(entry).collect())
    }

    /// The reason why the test `path` was skipped, if it was. The log may name the test with its
    /// modules or by its last name alone.
    pub(crate) fn reason(&self, path: &str) -> Option<&str> {
        let last = path.rsplit("::").next();
        let found = self.0.iter().find(|(name, _)| name == path || Some(name.as_str()) == last);
        found.map(|(_, reason)| reason.as_str())
    }

    /// Names that belong to none of `paths`. They are mistakes: a skip that is lost would count
    /// as a pass.
    pub(crate) fn strangers<'a>(&'a self, paths: &[&str]) -> Vec<&'a str> {
        let known = |name: &str| {
            paths.iter().any(|path| *path == name || path.rsplit("::").next() == Some(name))
        };
        self.0.iter().map(|(name, _)| name.as_str()).filter(|name| !known(name)).collect()
    }
}

/// Whether a skip with this reason is one that `--no-skip` allows.
pub(crate) fn is_allowed(reason: &str) -> bool {
    reason.starts_with(NOT_HERE)
}

fn entry(line: &str) -> (String, String) {
    match line.split_once('\t') {
        Some((name, reason)) if !reason.trim().is_empty() => {
            (name.trim().to_owned(), reason.trim().to_owned())
        }
        _ => (line.trim().to_owned(), "no reason was given".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_found_by_its_path_or_its_last_name() {
        let log = SkipLog::parse("a::b\tno device\nc\tno root\n");
        assert_eq!(log.reason("a::b"), Some("no device"));
        assert_eq!(log.reason("x::c"), Some("no root"));
        assert_eq!(log.reason("b"), None);
        assert_eq!(log.reason("x::cc"), None);
    }

    #[test]
    fn a_line_without_a_reason_still_counts() {
        let log = SkipLog::parse("a\n\nb\t \n");
        assert_eq!(log.reason("a"), Some("no reason was given"));
        assert_eq!(log.reason("m::b"), Some("no reason was given"));
    }

    #[test]
    fn a_name_that_no_test_has_is_a_stranger() {
        let log = SkipLog::parse("a::b\tr\nmain\tr\n");
        assert_eq!(log.strangers(&["a::b", "c"]), ["main"]);
    }

    #[test]
    fn only_one_beginning_is_allowed_to_be_skipped() {
        assert!(is_allowed("cannot be had here: an RDMA device"));
        assert!(!is_allowed("python3-venv is missing"));
    }
}
