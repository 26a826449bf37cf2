//! The bearer token.

use std::fmt;
use std::hint::black_box;

use crate::error::TokenError;

/// What a client must show. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Takes 16 to 4096 visible ASCII characters; blanks and line ends around them are cut off,
    /// since the text usually comes from a file.
    ///
    /// # Errors
    ///
    /// [`TokenError`] says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        match text.len() {
            0..16 => Err(TokenError::TooShort),
            4097.. => Err(TokenError::TooLong),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Err(TokenError::Character),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// Whether `header`, the value of `Authorization`, shows this token. The time it takes tells
    /// nothing about the token but its length.
    pub(crate) fn is_shown_by(&self, header: &[u8]) -> bool {
        let Some((scheme, shown)) = header.split_at_checked(7) else { return false };
        if !scheme.eq_ignore_ascii_case(b"bearer ") || shown.len() != self.0.len() {
            return false;
        }
        let pairs = shown.iter().zip(self.0.as_bytes());
        pairs.fold(0, |differing, (a, b)| black_box(differing | (a ^ b))) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef";

    #[test]
    fn only_the_whole_token_is_shown() {
        let token = Token::parse(GOOD).unwrap();
        for header in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"] {
            assert!(token.is_shown_by(header.as_bytes()), "{header}");
        }
        for header in [
            "",
            "Bearer ",
            "Bearer 0123456789abcdee",
            "Bearer 0123456789abcdef0",
            "Bearer  0123456789abcdef",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(!token.is_shown_by(header.as_bytes()), "{header}");
        }
    }

    #[test]
    fn a_file_may_end_with_a_line_end_and_a_weak_token_is_refused() {
        assert_eq!(Token::parse(&format!("{GOOD}\n")), Token::parse(GOOD));
        assert_eq!(Token::parse("short"), Err(TokenError::TooShort));
        assert_eq!(Token::parse(&"x".repeat(4097)), Err(TokenError::TooLong));
        assert_eq!(Token::parse("0123456789 abcdef"), Err(TokenError::Character));
        assert_eq!(Token::parse("0123456789abcdefé"), Err(TokenError::Character));
        assert_eq!(format!("{:?}", Token::parse(GOOD).unwrap()), "Token(…)");
    }
}
