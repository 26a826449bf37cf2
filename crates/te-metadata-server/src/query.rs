//! The part of a request's target after the question mark.
//!
//! It is read as forms are: `%41` is a byte, `+` is a blank. So do Mooncake's servers.

/// Names and values, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

/// A name or value is no UTF-8 once it is decoded, or a `%` is not followed by two hex digits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadQuery;

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, BadQuery> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        decoded.collect::<Result<_, _>>().map(Self)
    }

    /// The first value with this name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The first value with this name as a whole number; an error if it is none.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, BadQuery> {
        let Some(text) = self.text(name) else { return Ok(None) };
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadQuery);
        }
        text.parse().map(Some).map_err(|_| BadQuery)
    }
}

fn decode(text: &str) -> Result<String, BadQuery> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let high = bytes.next().and_then(hex).ok_or(BadQuery)?;
                let low = bytes.next().and_then(hex).ok_or(BadQuery)?;
                high << 4 | low
            }
            plain => plain,
        });
    }
    String::from_utf8(out).map_err(|_| BadQuery)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_arrive_as_clients_encode_them() {
        let check = |text: &str, key: Option<&str>| {
            assert_eq!(Query::parse(text).unwrap().text("key"), key, "{text}");
        };
        check("key=mooncake%2Fram%2F10.0.0.1%3A15001", Some("mooncake/ram/10.0.0.1:15001"));
        check("key=mooncake/ram/a", Some("mooncake/ram/a"));
        check("a=b&key=x+y%2Bz&key=second", Some("x y+z"));
        check("key=%C3%A9=1", Some("é=1"));
        check("key", Some(""));
        check("kex=1", None);
        check("", None);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for bad in ["key=%", "key=%4", "key=%zz", "key=%FF", "%C3=1"] {
            assert_eq!(Query::parse(bad), Err(BadQuery), "{bad}");
        }
    }

    #[test]
    fn numbers_are_digits() {
        let number = |text: &str| Query::parse(text).unwrap().number("n");
        assert_eq!(number("n=007"), Ok(Some(7)));
        assert_eq!(number("n=18446744073709551615"), Ok(Some(u64::MAX)));
        assert_eq!(number(""), Ok(None));
        for bad in ["n=", "n=-1", "n=%2B1", "n=1.0", "n=18446744073709551616", "n=x"] {
            assert_eq!(number(bad), Err(BadQuery), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_harm(text in ".{0,80}") {
            let _ = Query::parse(&text);
        }
    }
}
