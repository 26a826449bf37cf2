//! The addresses of requests.

use std::fmt::Write as _;

/// Where the requests of a store go.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// `http://host:port`
    origin: String,
    /// `/metadata`, perhaps with a query.
    path: String,
}

impl Target {
    pub(super) fn new(origin: String, path: String) -> Self {
        Self { origin, path }
    }

    /// B7: where a key stands.
    pub(super) fn key(&self, key: &str) -> String {
        let sign = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{}{sign}key={}", self.origin, self.path, encoded(key))
    }

    /// A path of our own server.
    pub(super) fn api(&self, path: &str) -> String {
        format!("{}/v1/{path}", self.origin)
    }
}

/// Percent-encodes all but letters, digits and `-._~`.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B7: the address of a key, percent-encoded as the peer does.
    #[test]
    fn b07_keys_are_percent_encoded() {
        let target = |path: &str| Target::new("http://a:1".into(), path.into());
        let key = target("/metadata").key("mooncake/ram/node-a:17001");
        assert_eq!(key, "http://a:1/metadata?key=mooncake%2Fram%2Fnode-a%3A17001");
        assert_eq!(target("/m?x=1").key("a b~é"), "http://a:1/m?x=1&key=a%20b~%C3%A9");
        assert_eq!(target("/m").api("keys"), "http://a:1/v1/keys");
    }
}
