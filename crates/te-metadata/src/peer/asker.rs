//! Who asks for a descriptor.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What whoever asks for a descriptor says of itself. A question carries the asker's own descriptor,
/// or nothing that tells anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asker {
    protocol: Option<Box<str>>,
    is_ours: bool,
}

/// What counts of an asker's descriptor. The rest is passed over, whatever it is.
#[derive(Deserialize, Default)]
struct Told {
    protocol: Option<Box<str>>,
    te: Option<IgnoredAny>,
}

impl Asker {
    /// Reads a question. One of another shape than a descriptor's tells nothing.
    pub fn read(question: &[u8]) -> Self {
        let Told { protocol, te } = serde_json::from_slice(question).unwrap_or_default();
        Self { protocol, is_ours: te.is_some() }
    }

    /// The protocol that it speaks, as it writes it.
    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// Whether it is an engine of our kind, which finds in a descriptor all ways that there are.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asker_tells_its_protocol_and_its_kind_and_nothing_else_counts() {
        let read = |text: &str| {
            let asker = Asker::read(text.as_bytes());
            (asker.protocol().map(str::to_owned), asker.is_ours())
        };
        let wheel = r#"{"buffers":[{"addr":1}],"name":"a","protocol":"tcp"}"#;
        assert_eq!(read(wheel), (Some("tcp".to_owned()), false));
        let ours = r#"{"protocol":"rdma","te":{"v":1}}"#;
        assert_eq!(read(ours), (Some("rdma".to_owned()), true));
        for odd in ["{}", "", "[]", "no JSON", r#"{"protocol":7}"#, r#"{"protocol":["tcp"]}"#] {
            assert_eq!(read(odd), (None, false), "{odd}");
        }
    }
}
