//! Rust source as text: what is code, what is comment.
//!
//! No parser: strings, characters and comments are recognised, which is enough to find a word
//! where it means something.

/// One line of a source file. Both parts keep their place; what belongs to the other part, and the
/// inside of strings, is blank.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// What the compiler sees.
    pub(crate) code: String,
    /// What a reader sees besides.
    pub(crate) comment: String,
}

/// Splits a source file.
pub(crate) fn split(text: &str) -> Vec<Line> {
    let mut splitter = Splitter { chars: text.chars().collect(), at: 0, lines: Vec::new() };
    splitter.lines.push(Line::default());
    while splitter.at < splitter.chars.len() {
        splitter.step();
    }
    splitter.lines
}

/// Whether `word` stands in `code` as a word of its own.
pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

struct Splitter {
    chars: Vec<char>,
    at: usize,
    lines: Vec<Line>,
}

impl Splitter {
    fn step(&mut self) {
        let rest = &self.chars[self.at..];
        match rest {
            ['/', '/', ..] => self.line_comment(),
            ['/', '*', ..] => self.block_comment(),
            ['"', ..] => self.string(),
            ['r', '"' | '#', ..] if self.begins_a_word() => self.raw_string(1),
            ['b' | 'c', 'r', '"' | '#', ..] if self.begins_a_word() => self.raw_string(2),
            ['\'', ..] => self.quote(),
            _ => self.code(1),
        }
    }

    fn begins_a_word(&self) -> bool {
        self.at == 0 || !is_name(self.chars[self.at - 1])
    }

    /// Takes characters as code.
    fn code(&mut self, n: usize) {
        self.take(n, |line, c| {
            line.code.push(c);
            line.comment.push(' ');
        });
    }

    /// Takes characters that belong to neither part.
    fn blank(&mut self, n: usize) {
        self.take(n, |line, _| {
            line.code.push(' ');
            line.comment.push(' ');
        });
    }

    fn comment(&mut self, n: usize) {
        self.take(n, |line, c| {
            line.code.push(' ');
            line.comment.push(c);
        });
    }

    fn take(&mut self, n: usize, put: impl Fn(&mut Line, char)) {
        for _ in 0..n {
            let Some(&c) = self.chars.get(self.at) else { return };
            self.at += 1;
            if c == '\n' {
                self.lines.push(Line::default());
            } else if let Some(line) = self.lines.last_mut() {
                put(line, c);
            }
        }
    }

    fn line_comment(&mut self) {
        let rest = &self.chars[self.at..];
        let n = rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
        self.comment(n);
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match &self.chars[self.at..] {
                [] => return,
                ['/', '*', ..] => {
                    depth += 1;
                    self.comment(2);
                }
                ['*', '/', ..] => {
                    depth -= 1;
                    self.comment(2);
                    if depth == 0 {
                        return;
                    }
                }
                _ => self.comment(1),
            }
        }
    }

    fn string(&mut self) {
        self.code(1);
        loop {
            match &self.chars[self.at..] {
                [] => return,
                ['\\', _, ..] => self.blank(2),
                ['"', ..] => return self.code(1),
                _ => self.blank(1),
            }
        }
    }

    /// `r"…"`, `r#"…"#` after a prefix of `prefix` letters; `r#name` is a name.
    fn raw_string(&mut self, prefix: usize) {
        let rest = &self.chars[self.at + prefix..];
        let n_hashes = rest.iter().take_while(|c| **c == '#').count();
        if rest.get(n_hashes) != Some(&'"') {
            return self.code(prefix + n_hashes);
        }
        self.code(prefix + n_hashes + 1);
        while self.at < self.chars.len() {
            let rest = &self.chars[self.at..];
            let hashes = rest.iter().skip(1).take_while(|c| **c == '#').count();
            if rest[0] == '"' && hashes >= n_hashes {
                return self.code(1 + n_hashes);
            }
            self.blank(1);
        }
    }

    /// A character, or a lifetime.
    fn quote(&mut self) {
        match &self.chars[self.at..] {
            ['\'', '\\', _, rest @ ..] => {
                let n = rest.iter().position(|c| *c == '\'').unwrap_or(rest.len());
                self.blank(n + 4);
            }
            ['\'', _, '\'', ..] => self.blank(3),
            _ => self.code(1),
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &[&str], comment: &[&str]) {
        let lines = split(text);
        let trimmed = |part: fn(&Line) -> &str| -> Vec<String> {
            lines.iter().map(|line| part(line).trim().to_owned()).collect()
        };
        assert_eq!(trimmed(|line| &line.code), code);
        assert_eq!(trimmed(|line| &line.comment), comment);
    }

    #[test]
    fn comments_are_not_code() {
        check("a // b \"c\nd", &["a", "d"], &["// b \"c", ""]);
        check("a /* b /* c */ d */ e", &["a                   e"], &["/* b /* c */ d */"]);
    }

    #[test]
    fn the_inside_of_strings_is_neither() {
        check(r#"f("x // y \" z") // w"#, &[r#"f("           ")"#], &["// w"]);
        check("r#\"a \" // b\"# c", &["r#\"        \"# c"], &[""]);
        check("br\"a\" c", &["br\" \" c"], &[""]);
    }

    #[test]
    fn lines_stay_in_place_inside_a_string() {
        check("a \"x\ny\" b", &["a \"", "\" b"], &["", ""]);
    }

    #[test]
    fn a_quote_is_a_character_or_a_lifetime() {
        check("x('\"') y", &["x(   ) y"], &[""]);
        check("&'a str // c", &["&'a str"], &["// c"]);
        check(r"x('\'', '\u{1f}') y", &["x(    ,         ) y"], &[""]);
        check("r#type x", &["r#type x"], &[""]);
    }

    #[test]
    fn a_word_is_not_a_part_of_a_name() {
        assert!(has_word("  unsafe { }", "unsafe"));
        assert!(!has_word("deny(unsafe_code)", "unsafe"));
        assert!(!has_word("make_unsafe()", "unsafe"));
    }
}
