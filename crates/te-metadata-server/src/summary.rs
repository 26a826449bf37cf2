//! What the status page says about a value: its protocol, its buffers, or where it can be reached.
//!
//! Values come from outside and may be anything. Nothing here fails, and a value of any size
//! costs its reading and a few hundred bytes: lists are counted, not kept.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What a value looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Summary {
    /// A segment's descriptor.
    Segment {
        /// As it stands there; several are joined by commas.
        protocol: String,
        n_buffers: u64,
        /// Sum of their lengths, at most `u64::MAX`.
        bytes: u64,
        /// Digests of the chunks in which the rest of the buffers stand, at most [`MAX_CHUNKS`].
        chunks: Vec<String>,
    },
    /// Further buffers of a segment that has too many for one value.
    Chunk { n_buffers: u64, bytes: u64 },
    /// Where an engine's handshake port is.
    Rpc { address: String },
    /// A JSON object that is neither.
    Other,
    /// No JSON object at all.
    Malformed,
}

/// Reads `value`.
pub(crate) fn summarise(value: &[u8]) -> Summary {
    match serde_json::from_slice::<Facts>(value) {
        Ok(Facts { protocol: Some(protocol), buffers, te, .. }) => {
            let Buffers { n, bytes } = buffers.unwrap_or_default();
            let chunks = te.map(Te::digests).unwrap_or_default();
            Summary::Segment { protocol, n_buffers: n, bytes, chunks }
        }
        Ok(Facts { buffers: Some(Buffers { n, bytes }), .. }) => {
            Summary::Chunk { n_buffers: n, bytes }
        }
        Ok(Facts { host: Some(host), port: Some(port), .. }) => {
            Summary::Rpc { address: format!("{host}:{port}") }
        }
        Ok(_) => Summary::Other,
        Err(_) => Summary::Malformed,
    }
}

/// Longest text of a value that is shown, in characters.
const LONGEST: usize = 256;

/// Chunks of one segment that are told. A hundred thousand buffers have about ten.
const MAX_CHUNKS: usize = 256;

#[derive(Default)]
struct Facts {
    protocol: Option<String>,
    buffers: Option<Buffers>,
    host: Option<String>,
    port: Option<u64>,
    te: Option<Te>,
}

/// The object `te` of our own engines, as far as it names chunks.
#[derive(Deserialize)]
struct Te {
    extensions: Option<Extensions>,
}

#[derive(Deserialize)]
struct Extensions {
    buffer_chunks: Option<Chunks>,
}

#[derive(Deserialize)]
struct Chunks {
    chunks: Vec<Chunk>,
}

#[derive(Deserialize)]
struct Chunk {
    digest: String,
}

impl Te {
    fn digests(self) -> Vec<String> {
        let list = self.extensions.and_then(|extensions| extensions.buffer_chunks);
        let chunks = list.into_iter().flat_map(|list| list.chunks);
        chunks.map(|chunk| shortened(chunk.digest)).take(MAX_CHUNKS).collect()
    }
}

#[derive(Default)]
struct Buffers {
    n: u64,
    bytes: u64,
}

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FactsVisitor)
    }
}

struct FactsVisitor;

impl<'de> Visitor<'de> for FactsVisitor {
    type Value = Facts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
        let mut facts = Facts::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "protocol" => facts.protocol = map.next_value::<Loose>()?.text(),
                "buffers" => facts.buffers = Some(map.next_value()?),
                "te" => facts.te = map.next_value()?,
                "ip_or_host_name" => facts.host = map.next_value::<Loose>()?.text(),
                "rpc_port" => facts.port = map.next_value::<Loose>()?.number(),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(facts)
    }
}

impl<'de> Deserialize<'de> for Buffers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BuffersVisitor)
    }
}

struct BuffersVisitor;

impl<'de> Visitor<'de> for BuffersVisitor {
    type Value = Buffers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of buffers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Buffers, A::Error> {
        let mut sum = Buffers::default();
        while let Some(buffer) = list.next_element::<Buffer>()? {
            sum.n += 1;
            sum.bytes = sum.bytes.saturating_add(buffer.length);
        }
        Ok(sum)
    }
}

#[derive(Deserialize)]
struct Buffer {
    length: u64,
}

/// A value of any type, of which text and numbers are kept.
#[derive(Deserialize)]
#[serde(untagged)]
enum Loose {
    Text(String),
    Number(u64),
    Texts(Vec<String>),
    Any(IgnoredAny),
}

impl Loose {
    fn text(self) -> Option<String> {
        let text = match self {
            Self::Text(text) => text,
            Self::Texts(texts) => texts.join(","),
            Self::Number(_) | Self::Any(_) => return None,
        };
        Some(shortened(text))
    }

    fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }
}

fn shortened(text: String) -> String {
    if text.chars().count() > LONGEST {
        text.chars().take(LONGEST).chain(['…']).collect()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(protocol: &str, n_buffers: u64, bytes: u64) -> Summary {
        Summary::Segment { protocol: protocol.to_owned(), n_buffers, bytes, chunks: Vec::new() }
    }

    #[track_caller]
    fn check(value: &str, expected: Summary) {
        assert_eq!(summarise(value.as_bytes()), expected, "{value:.200}");
    }

    #[test]
    fn descriptors_are_counted_and_summed() {
        check(r#"{"protocol":"tcp","buffers":[]}"#, segment("tcp", 0, 0));
        check(r#"{"name":"x","protocol":"rdma"}"#, segment("rdma", 0, 0));
        check(
            r#"{"buffers":[{"addr":1,"length":10,"name":"a","rkey":[1]},{"length":5}],"protocol":"tcp","x":{"y":[1]}}"#,
            segment("tcp", 2, 15),
        );
        check(r#"{"protocol":["rdma","tcp"]}"#, segment("rdma,tcp", 0, 0));
    }

    #[test]
    fn a_segment_in_parts_names_its_chunks() {
        let main = r#"{"protocol":"tcp","buffers":[{"length":1}],"te":{"version":1,"extensions":{"buffer_chunks":{"total":3,"chunks":[{"count":2,"digest":"9c01"}]}}}}"#;
        let Summary::Segment { chunks, .. } = summarise(main.as_bytes()) else { panic!() };
        assert_eq!(chunks, ["9c01"]);
        let chunk = r#"{"buffers":[{"length":7},{"length":8}],"first":1,"te_incarnation":"x"}"#;
        check(chunk, Summary::Chunk { n_buffers: 2, bytes: 15 });
        check(r#"{"protocol":"tcp","te":null}"#, segment("tcp", 0, 0));
        check(r#"{"protocol":"tcp","te":{"extensions":{"other":1}}}"#, segment("tcp", 0, 0));
        check(r#"{"protocol":"tcp","te":5}"#, Summary::Malformed);
    }

    #[test]
    fn where_an_engine_is_reached_is_told() {
        let address = "10.0.0.1:15001".to_owned();
        check(r#"{"ip_or_host_name":"10.0.0.1","rpc_port":15001}"#, Summary::Rpc { address });
    }

    #[test]
    fn anything_else_is_named_for_what_it_is() {
        for malformed in
            ["", "null", "5", "[1]", "{", "\u{0}", "{\"protocol\":\"tcp\",\"buffers\":7}"]
        {
            check(malformed, Summary::Malformed);
        }
        check(r#"{"protocol":"tcp","buffers":[{"length":"x"}]}"#, Summary::Malformed);
        check(r#"{"protocol":"tcp","buffers":[{"length":-1}]}"#, Summary::Malformed);
        check(r#"{"protocol":{"a":1}}"#, Summary::Other);
        check(r#"{"ip_or_host_name":"h","rpc_port":"x"}"#, Summary::Other);
        check("{}", Summary::Other);
    }

    #[test]
    fn huge_and_deep_values_cost_little() {
        let deep = format!("{{\"protocol\":\"tcp\",\"x\":{}", "[".repeat(100_000));
        check(&deep, Summary::Malformed);
        let sum = r#"{"protocol":"tcp","buffers":[{"length":18446744073709551615},{"length":2}]}"#;
        check(sum, segment("tcp", 2, u64::MAX));
        let long = format!("{{\"protocol\":\"{}\"}}", "é".repeat(10_000));
        let Summary::Segment { protocol, .. } = summarise(long.as_bytes()) else { panic!() };
        assert_eq!(protocol.chars().count(), LONGEST + 1);
    }

    proptest! {
        #[test]
        fn any_value_is_looked_at_without_harm(value in ".{0,60}", cut in 0..60_usize) {
            let _ = summarise(value.as_bytes());
            let whole = r#"{"protocol":["a"],"buffers":[{"length":1}],"rpc_port":1}"#;
            let _ = summarise(&[&whole.as_bytes()[..cut.min(whole.len())], value.as_bytes()].concat());
        }
    }
}
