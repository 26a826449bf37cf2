//! Texts inside frames: notifications and the endpoint handshake.
//!
//! Encoded texts end with a newline, as the peers' do. Unknown keys are ignored.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::ShapeError;
use crate::json::{self, Node};

/// Most queue pairs that one endpoint handshake may list.
pub const MAX_QUEUE_PAIRS: usize = 4096;

/// A message from the user of one engine to the user of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notify {
    /// Who sends it; a free text that nothing vouches for.
    pub name: String,
    /// The message.
    #[serde(rename = "notify_msg")]
    pub msg: String,
}

impl Notify {
    /// The text of a frame.
    pub fn encode(&self) -> Vec<u8> {
        line(json::to_bytes(self))
    }

    /// Reads the text of a frame. An absent name is an empty one.
    ///
    /// # Errors
    /// Text that is no JSON object, or a field that is missing or no string.
    pub fn decode(body: &[u8]) -> Result<Self, MessageError> {
        Self::read(&parse(body)?)
    }

    fn read(value: &Value) -> Result<Self, MessageError> {
        let root = Node::root(value);
        root.object()?;
        let name = root.field("name").map(|name| name.text(usize::MAX)).transpose()?;
        Ok(Self {
            name: name.unwrap_or_default().to_owned(),
            msg: root.required("notify_msg")?.text(usize::MAX)?.to_owned(),
        })
    }
}

/// The answer to a notification. Every engine reads an empty `notify_msg` as "not taken"; why it
/// was not stands in the key `te`, which Mooncake does not look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyAnswer {
    Taken,
    /// So many wait already.
    Full {
        waiting: u64,
    },
    Refused,
}

/// [`NotifyAnswer`] as it is written.
#[derive(Serialize)]
struct WrittenAnswer {
    name: &'static str,
    notify_msg: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    te: Option<WrittenReason>,
}

#[derive(Serialize)]
struct WrittenReason {
    refused: &'static str,
    waiting: u64,
}

impl NotifyAnswer {
    pub(crate) fn encode(self) -> Vec<u8> {
        let notify_msg = if self == Self::Taken { "success" } else { "" };
        let te = match self {
            Self::Full { waiting } => Some(WrittenReason { refused: FULL, waiting }),
            Self::Taken | Self::Refused => None,
        };
        line(json::to_bytes(&WrittenAnswer { name: "", notify_msg, te }))
    }

    /// Reads an answer. A reason of unknown shape is no reason.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, MessageError> {
        let value = parse(body)?;
        if !Notify::read(&value)?.msg.is_empty() {
            return Ok(Self::Taken);
        }
        let waiting = value.pointer("/te/waiting").and_then(Value::as_u64);
        let is_full = value.pointer("/te/refused").and_then(Value::as_str) == Some(FULL);
        Ok(waiting.filter(|_| is_full).map_or(Self::Refused, |waiting| Self::Full { waiting }))
    }
}

/// The word for "no room" in an answer.
const FULL: &str = "full";

/// One side of an endpoint handshake.
///
/// The default value is what an engine without NICs answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EndpointMessage {
    /// The sender's GID as text; empty when it tells none.
    pub local_gid: String,
    /// The sender's LID; 0 on Ethernet.
    pub local_lid: u16,
    /// `<server>@<nic>` of the sender.
    pub local_nic_path: String,
    /// Text that the transports make sense of.
    pub payload: String,
    /// `<server>@<nic>` of the receiver.
    pub peer_nic_path: String,
    /// One number per queue pair of the endpoint.
    pub qp_num: Vec<QpNumber>,
    /// Whether the sender's queue pairs are ready; `None` from engines that do not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_ack: Option<bool>,
    /// Why the handshake is refused; empty when it is not.
    pub reply_msg: String,
}

impl EndpointMessage {
    /// An answer that only says why the handshake is refused.
    pub fn refusal(reason: impl Into<String>) -> Self {
        Self { reply_msg: reason.into(), ..Self::default() }
    }

    /// Whether this is an answer that refuses.
    pub fn is_refusal(&self) -> bool {
        !self.reply_msg.is_empty()
    }

    /// The text of a frame.
    pub fn encode(&self) -> Vec<u8> {
        line(json::to_bytes(self))
    }

    /// Reads the text of a frame. Absent fields are empty, 0 or `None`.
    ///
    /// # Errors
    /// Text that is no JSON object, or a field of the wrong type or range.
    pub fn decode(body: &[u8]) -> Result<Self, MessageError> {
        let value = parse(body)?;
        let root = Node::root(&value);
        root.object()?;
        let text = |name| -> Result<String, ShapeError> {
            let text = root.field(name).map(|node| node.text(usize::MAX)).transpose()?;
            Ok(text.unwrap_or_default().to_owned())
        };
        let lid = root.field("local_lid").map(|lid| lid.number(u64::from(u16::MAX)));
        Ok(Self {
            local_gid: text("local_gid")?,
            local_lid: lid.transpose()?.unwrap_or(0),
            local_nic_path: text("local_nic_path")?,
            payload: text("payload")?,
            peer_nic_path: text("peer_nic_path")?,
            qp_num: queue_pairs(&root)?,
            ready_ack: root.field("ready_ack").map(|node| node.boolean()).transpose()?,
            reply_msg: text("reply_msg")?,
        })
    }
}

/// The number of a queue pair: 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct QpNumber(u32);

impl QpNumber {
    /// The greatest number.
    pub const MAX: Self = Self(0xff_ffff);

    /// A number as a NIC issued it or a peer told it.
    ///
    /// # Errors
    /// A number of more than 24 bits.
    pub const fn new(number: u32) -> Result<Self, QpNumberError> {
        if number > Self::MAX.0 { Err(QpNumberError { number }) } else { Ok(Self(number)) }
    }

    /// The number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for QpNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qp#{}", self.0)
    }
}

/// A number has more than the 24 bits of a queue pair number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{number} has more than the 24 bits of a queue pair number")]
pub struct QpNumberError {
    number: u32,
}

/// Why the text of a frame is not what its type says.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The text is no JSON, or nested too deeply.
    #[error("the text is no JSON")]
    Json(#[source] serde_json::Error),
    /// A field is missing or has the wrong type or value.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl MessageError {
    /// The field that is wrong, where the text is JSON; empty for its root.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Shape(shape) => Some(shape.path()),
        }
    }
}

/// Parses a text whose content does not matter, only that it is JSON.
pub(crate) fn parse(body: &[u8]) -> Result<Value, MessageError> {
    serde_json::from_slice(body).map_err(MessageError::Json)
}

/// Ends a text the way the peers do.
pub(crate) fn line(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

fn queue_pairs(root: &Node<'_>) -> Result<Vec<QpNumber>, ShapeError> {
    let Some(list) = root.field("qp_num") else { return Ok(Vec::new()) };
    let number = |node: Node<'_>| node.number(u64::from(QpNumber::MAX.0)).map(QpNumber);
    list.elements(MAX_QUEUE_PAIRS)?.map(number).collect()
}

#[cfg(test)]
mod tests;
