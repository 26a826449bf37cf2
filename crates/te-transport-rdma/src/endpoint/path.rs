//! The name of a NIC between hosts: `<server>@<nic>`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use te_topology::NicName;

/// See the module. Cheap to clone; found in maps by its text.
#[derive(Clone)]
pub(crate) struct NicPath {
    text: Arc<str>,
    /// Where the `@` is.
    at: usize,
}

impl NicPath {
    /// The path of a NIC of a server.
    pub(crate) fn new(server: &str, nic: &NicName) -> Self {
        Self { text: format!("{server}@{nic}").into(), at: server.len() }
    }

    /// Reads a path; `None` for a text without both parts. A server's name may hold an `@`, a NIC's
    /// does not.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let at = text.rfind('@').filter(|at| *at > 0)?;
        NicName::parse(&text[at + 1..]).ok()?;
        Some(Self { text: text.into(), at })
    }

    pub(crate) fn server(&self) -> &str {
        &self.text[..self.at]
    }

    pub(crate) fn nic(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// The text, shared.
    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for NicPath {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NicPath {}

impl Hash for NicPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Borrow<str> for NicPath {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for NicPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for NicPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_server_and_a_nic() {
        let path = NicPath::parse("127.0.0.1:15936@rxe0").unwrap();
        assert_eq!((path.server(), path.nic()), ("127.0.0.1:15936", "rxe0"));
        assert_eq!(path, NicPath::new("127.0.0.1:15936", &NicName::parse("rxe0").unwrap()));
        assert_eq!(NicPath::parse("a@b@rxe0").unwrap().server(), "a@b");
        for wrong in ["", "@", "rxe0", "@rxe0", "node@", "node@\u{1}"] {
            assert_eq!(NicPath::parse(wrong), None, "{wrong:?}");
        }
    }
}
