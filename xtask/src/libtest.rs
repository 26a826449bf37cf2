//! Reading what Rust's own test harness prints, line by line.
//!
//! I1  Every result that a summary line counts was seen as a line of its own, or the difference is
//!     reported as a failure: a result that we cannot read must not look like a pass.
//! I2  What a test printed is never taken for a result: between `successes:` or `failures:` and
//!     the summary line only text is collected.

use std::collections::BTreeMap;

/// What the harness says of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// `ok`
    Ok,
    /// `FAILED`
    Failed,
    /// `ignored`, with the reason that the attribute gives, if any.
    Ignored(String),
}

/// Reads the output of one test program or of one run of doc tests.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    seen: Vec<(String, Verdict)>,
    /// A test that has begun and printed something before its verdict.
    pending: Option<String>,
    in_captured: bool,
    captured: Vec<String>,
    n_claimed: usize,
    n_summaries: usize,
}

impl Parser {
    /// Takes one line; returns the test whose result it completes.
    pub(crate) fn feed(&mut self, line: &str) -> Option<&(String, Verdict)> {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.in_captured = false;
            self.n_summaries += 1;
            self.n_claimed += claimed(counts);
            return None;
        }
        if line == "successes:" || line == "failures:" {
            self.in_captured = true;
        }
        if self.in_captured {
            self.captured.push(line.to_owned());
            return None;
        }
        let (name, verdict) = self.result_in(line)?;
        self.seen.push((name, verdict));
        self.seen.last()
    }

    /// Every result so far, in the order of arrival.
    pub(crate) fn seen(&self) -> &[(String, Verdict)] {
        &self.seen
    }

    /// What is wrong with the output as a whole, once it has ended; see I1.
    pub(crate) fn complaint(&self) -> Option<String> {
        if let Some(name) = &self.pending {
            return Some(format!("`{name}` began and never reported a result"));
        }
        if self.n_summaries == 0 {
            return Some("it ended without a summary".to_owned());
        }
        let n_seen = self.seen.len();
        let all = self.n_claimed == n_seen;
        (!all).then(|| format!("it counted {} results, {n_seen} were seen", self.n_claimed))
    }

    /// What failed tests printed, by test.
    pub(crate) fn captured(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut current = None;
        for line in &self.captured {
            if line == "failures:" || line == "successes:" {
                current = None;
            } else if let Some(name) = section_name(line) {
                current = Some(name);
                sections.entry(name).or_default();
            } else if let Some(lines) = current.and_then(|name| sections.get_mut(name)) {
                lines.push(line);
            }
        }
        sections
    }

    fn result_in(&mut self, line: &str) -> Option<(String, Verdict)> {
        if let Some((name, rest)) = begun(line) {
            self.pending = None;
            let verdict = verdict(rest);
            if verdict.is_none() {
                self.pending = Some(name);
                return None;
            }
            return Some((name, verdict?));
        }
        let verdict = verdict(line)?;
        Some((self.pending.take()?, verdict))
    }
}

/// Why a failed test failed, in one line, out of what it printed.
pub(crate) fn first_words(captured: &[&str]) -> String {
    let at = captured.iter().position(|line| line.contains("panicked at"));
    let from = at.map_or(0, |at| at + 1);
    let words = captured[from..].iter().map(|line| line.trim());
    let words = words.take_while(|line| *line != "stack backtrace:").filter(|l| !l.is_empty());
    let text = words.take(2).collect::<Vec<_>>().join(" ");
    text.chars().take(160).collect()
}

/// `test NAME ... REST`
fn begun(line: &str) -> Option<(String, &str)> {
    let rest = line.strip_prefix("test ")?;
    let (name, rest) =
        rest.split_once(" ... ").or_else(|| Some((rest.strip_suffix(" ...")?, "")))?;
    Some((name.trim_end_matches(" - should panic").to_owned(), rest))
}

fn verdict(text: &str) -> Option<Verdict> {
    match text.trim_end() {
        "ok" => Some(Verdict::Ok),
        "FAILED" => Some(Verdict::Failed),
        "ignored" => Some(Verdict::Ignored(String::new())),
        other => other.strip_prefix("ignored, ").map(|why| Verdict::Ignored(why.to_owned())),
    }
}

/// The sum of passed, failed and ignored in `ok. 3 passed; 0 failed; 0 ignored; …`.
fn claimed(counts: &str) -> usize {
    let counted = |part: &str| {
        let mut words = part.rsplit(' ');
        let noun = words.next()?;
        let number = words.next()?.parse::<usize>().ok()?;
        ["passed", "failed", "ignored"].contains(&noun).then_some(number)
    };
    counts.split(';').filter_map(|part| counted(part.trim())).sum()
}

/// `---- NAME stdout ----`
fn section_name(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parser {
        let mut parser = Parser::default();
        for line in text.lines() {
            parser.feed(line);
        }
        parser
    }

    fn check(text: &str, expected: &[(&str, Verdict)]) {
        let parser = parse(text);
        let expected: Vec<_> = expected.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        assert_eq!(parser.seen(), expected);
    }

    #[test]
    fn the_three_verdicts() {
        check(
            "running 4 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest d ... ignored\n\
             test e ... ignored, needs a device\n",
            &[
                ("a::b", Verdict::Ok),
                ("a::c", Verdict::Failed),
                ("d", Verdict::Ignored(String::new())),
                ("e", Verdict::Ignored("needs a device".into())),
            ],
        );
    }

    #[test]
    fn doc_tests_keep_their_place_as_name() {
        check(
            "test src/a.rs - a::B (line 7) ... ok\ntest src/a.rs - (line 9) - compile fail ... ok\n",
            &[
                ("src/a.rs - a::B (line 7)", Verdict::Ok),
                ("src/a.rs - (line 9) - compile fail", Verdict::Ok),
            ],
        );
    }

    #[test]
    fn should_panic_is_no_part_of_the_name() {
        check("test a - should panic ... ok\n", &[("a", Verdict::Ok)]);
    }

    #[test]
    fn a_verdict_may_come_after_lines_that_a_child_printed() {
        check("test a ... hello\nworld\nok\n", &[("a", Verdict::Ok)]);
    }

    #[test]
    fn a_bare_ok_belongs_to_nobody() {
        check("ok\ntest a ... ok\nok\n", &[("a", Verdict::Ok)]);
    }

    #[test]
    fn what_a_test_printed_is_not_a_result() {
        let text = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\ntest b ... ok\n\n\
                    failures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; \
                    0 measured; 3 filtered out; finished in 0.01s\n";
        check(text, &[("a", Verdict::Failed)]);
        let parser = parse(text);
        assert_eq!(parser.complaint(), None);
        assert_eq!(parser.captured()["a"], ["test b ... ok", ""]);
    }

    #[test]
    fn two_summaries_are_added() {
        let text = "test a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n\
                    test b ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
        assert_eq!(parse(text).complaint(), None);
    }

    #[test]
    fn a_missing_summary_or_result_is_complained_about() {
        let lost = "test a ... ok\ntest result: ok. 2 passed; 0 failed; 0 ignored\n";
        assert_eq!(parse(lost).complaint().unwrap(), "it counted 2 results, 1 were seen");
        assert_eq!(parse("test a ... ok\n").complaint().unwrap(), "it ended without a summary");
        let hung = parse("test a ... x\n").complaint().unwrap();
        assert_eq!(hung, "`a` began and never reported a result");
    }

    #[test]
    fn the_reason_of_a_failure_is_the_line_after_the_panic() {
        let captured =
            ["before", "thread 'a' panicked at src/a.rs:1:2:", "left is", "  right", "n"];
        let short = ["thread 'a' panicked at src/a.rs:1:2:", "4 s", "stack backtrace:", "0: x"];
        assert_eq!(first_words(&short), "4 s");
        assert_eq!(first_words(&captured), "left is right");
        assert_eq!(first_words(&[]), "");
    }
}
