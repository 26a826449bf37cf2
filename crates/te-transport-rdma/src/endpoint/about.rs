//! What our own engines say to each other in the payload of a handshake, beside Mooncake's fields.
//!
//! ```text
//!   {"te":{"incarnation":"…32 hex digits…","reads":16}}
//! ```
//!
//! It is sent to those that say in their descriptor that they are of our kind, and in answers to those
//! that sent it. Others find an empty payload, as between engines of theirs.

use serde_json::{Value, json};
use te_metadata::Incarnation;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct About {
    /// Which process it is.
    pub(crate) incarnation: Incarnation,
    /// READs that its NIC takes at once on a queue pair; at least 1.
    pub(crate) reads: u8,
}

impl About {
    pub(crate) fn to_payload(self) -> String {
        let Self { incarnation, reads } = self;
        json!({"te": {"incarnation": incarnation.to_string(), "reads": reads}}).to_string()
    }

    /// `None` for a payload of an engine of another kind.
    pub(crate) fn read(payload: &str) -> Option<Self> {
        // Most payloads are empty.
        if payload.is_empty() {
            return None;
        }
        let value: Value = serde_json::from_str(payload).ok()?;
        let te = value.get("te")?;
        let incarnation = te.get("incarnation")?.as_str()?.parse().ok()?;
        let reads = u8::try_from(te.get("reads")?.as_u64()?).ok()?.max(1);
        Some(Self { incarnation, reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_says_the_other_reads_and_other_payloads_say_nothing() {
        let about = About { incarnation: Incarnation::from_u128(0xab), reads: 4 };
        let text = about.to_payload();
        assert_eq!(text, r#"{"te":{"incarnation":"000000000000000000000000000000ab","reads":4}}"#);
        assert_eq!(About::read(&text), Some(about));
        assert_eq!(About::read(&text.replace(":4", ":0")).map(|about| about.reads), Some(1));
        let wrong =
            [text.replace("ab\"", "xy\""), text.replace(":4", ":256"), text.replace("te", "x")];
        for other in
            wrong.iter().map(String::as_str).chain(["", "x", "[]", r#"{"te":{"fence":1}}"#])
        {
            assert_eq!(About::read(other), None, "{other}");
        }
    }
}
