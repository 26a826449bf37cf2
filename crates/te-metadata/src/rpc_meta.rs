//! The address record that a metadata store holds for each engine.

use serde::Serialize;
use serde_json::Value;

use crate::Incarnation;
use crate::descriptor::{DecodeError, incarnation};
use crate::json::{self, Node};

/// Where the owner of a segment answers peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RpcMeta {
    /// Host name or IP address, without brackets.
    pub ip_or_host_name: String,
    /// Port of the peer link.
    pub rpc_port: u16,
    /// Which run of our engine wrote it; Mooncake writes none and ignores ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub te_incarnation: Option<Incarnation>,
}

impl RpcMeta {
    /// The record as a store holds it: compact JSON without a newline.
    pub fn encode(&self) -> Vec<u8> {
        json::to_bytes(self)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// Text that is no JSON, a field that is missing or has the wrong type, a port above 65535.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let value: Value = serde_json::from_slice(bytes).map_err(DecodeError::Json)?;
        let root = Node::root(&value);
        root.object()?;
        let incarnation = root.field("te_incarnation").map(|node| incarnation(&node));
        Ok(Self {
            te_incarnation: incarnation.transpose()?,
            ip_or_host_name: root.required("ip_or_host_name")?.non_empty_text(1024)?.to_owned(),
            rpc_port: root.required("rpc_port")?.number(u64::from(u16::MAX))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B11: a captured record is read and written byte by byte.
    #[test]
    fn b11_captured_record_round_trips() {
        let bytes = br#"{"ip_or_host_name":"127.0.0.1","rpc_port":15969}"#;
        let record = RpcMeta::decode(bytes).unwrap();
        assert_eq!((record.ip_or_host_name.as_str(), record.rpc_port), ("127.0.0.1", 15969));
        assert_eq!((record.te_incarnation, record.encode()), (None, bytes.to_vec()));
        let ours = RpcMeta { te_incarnation: Some(Incarnation::from_u128(0xab)), ..record };
        let text = br#"{"ip_or_host_name":"127.0.0.1","rpc_port":15969,"te_incarnation":"000000000000000000000000000000ab"}"#;
        assert_eq!(ours.encode(), text);
        assert_eq!(RpcMeta::decode(text).unwrap(), ours);
    }

    #[test]
    fn wrong_records_name_the_field() {
        for (text, says) in [
            ("[]", "an array"),
            ("{}", "ip_or_host_name"),
            (r#"{"ip_or_host_name":1,"rpc_port":1}"#, "ip_or_host_name"),
            (r#"{"ip_or_host_name":"","rpc_port":1}"#, "ip_or_host_name"),
            (r#"{"ip_or_host_name":"a","rpc_port":70000}"#, "rpc_port"),
            (r#"{"ip_or_host_name":"a","rpc_port":-1}"#, "rpc_port"),
            (r#"{"ip_or_host_name":"a","rpc_port":"1"}"#, "rpc_port"),
            (r#"{"ip_or_host_name":"a","rpc_port":1,"te_incarnation":7}"#, "te_incarnation"),
            (r#"{"ip_or_host_name":"a","rpc_port":1,"te_incarnation":"x"}"#, "te_incarnation"),
        ] {
            let error = RpcMeta::decode(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }
}
