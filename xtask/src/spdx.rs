//! Licence expressions as manifests write them: `(MIT OR Apache-2.0) AND Unicode-3.0`.

use std::iter::Peekable;

use anyhow::{bail, ensure};

/// Whether a choice that the expression leaves us uses only allowed licences.
///
/// # Errors
///
/// For what is no expression.
pub(crate) fn is_satisfied(
    expression: &str,
    is_allowed: impl Fn(&str) -> bool,
) -> anyhow::Result<bool> {
    let words = words(expression);
    let mut parser = Parser { words: words.iter().map(String::as_str).peekable(), is_allowed };
    let satisfied = parser.any()?;
    let rest = parser.words.next();
    ensure!(rest.is_none(), "`{expression}`: `{}` is unexpected", rest.unwrap_or_default());
    Ok(satisfied)
}

/// `/` is how old manifests write OR.
fn words(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Parser<'a, I: Iterator<Item = &'a str>, F> {
    words: Peekable<I>,
    is_allowed: F,
}

impl<'a, I: Iterator<Item = &'a str>, F: Fn(&str) -> bool> Parser<'a, I, F> {
    fn any(&mut self) -> anyhow::Result<bool> {
        let mut satisfied = self.all()?;
        while self.words.next_if_eq(&"OR").is_some() {
            // Both sides are read, also where the first already satisfies.
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    fn all(&mut self) -> anyhow::Result<bool> {
        let mut satisfied = self.one()?;
        while self.words.next_if_eq(&"AND").is_some() {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    fn one(&mut self) -> anyhow::Result<bool> {
        match self.words.next() {
            Some("(") => {
                let satisfied = self.any()?;
                ensure!(self.words.next() == Some(")"), "a bracket is not closed");
                Ok(satisfied)
            }
            Some(name) if !["OR", "AND", "WITH", ")"].contains(&name) => self.licence(name),
            Some(other) => bail!("`{other}` is unexpected"),
            None => bail!("it ends too early"),
        }
    }

    /// A licence with an exception is a licence of its own in the list of what is allowed.
    fn licence(&mut self, name: &str) -> anyhow::Result<bool> {
        if self.words.next_if_eq(&"WITH").is_none() {
            return Ok((self.is_allowed)(name));
        }
        let Some(exception) = self.words.next() else { bail!("an exception is missing") };
        Ok((self.is_allowed)(&format!("{name} WITH {exception}")) || (self.is_allowed)(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expected: bool) {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        let found = is_satisfied(expression, |name| allowed.contains(&name)).unwrap();
        assert_eq!(found, expected, "{expression}");
    }

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("MIT/GPL-3.0", true);
        check("MIT AND GPL-3.0", false);
        check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
        check("MIT OR GPL-3.0 AND BSD-2-Clause", true);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("GPL-3.0 WITH Classpath-exception-2.0", false);
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["", "MIT OR", "(MIT", "MIT)", "MIT MIT", "AND MIT"] {
            assert!(is_satisfied(text, |_| true).is_err(), "{text}");
        }
    }
}
