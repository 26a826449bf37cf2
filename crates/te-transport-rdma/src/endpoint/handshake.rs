//! The messages of an endpoint handshake: what we write and how we read what peers write.
//!
//! ```text
//!   active                                   passive
//!     request: GID, paths, queue pairs  ──▶    connects its queue pairs
//!     connects its own                  ◀──    answer: the same, mirrored
//!     ready                             ──▶    may send from here on
//!     may send from here on             ◀──    all empty
//! ```
//!
//! I1  Only `reply_msg` says whether an answer refuses; other fields of a refusal may be filled.
//! I2  What a peer says changes nothing but the endpoint it speaks of; its GID is used to reach it,
//!     never to choose ours.

use std::net::Ipv6Addr;

use te_metadata::{EndpointMessage, PeerError, QpNumber, sabotage};
use te_topology::Gid;
use te_transport::{FaultClass, Phase, SliceFault};
use te_verbs::VerbsError;
use thiserror::Error;

use super::about::About;
use super::path::NicPath;

/// What one end says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) gid: Gid,
    pub(crate) lid: u16,
    /// Paired with the peer's by position.
    pub(crate) queue_pairs: Vec<QpNumber>,
}

/// What a peer said of its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerEnds {
    pub(crate) ends: Ends,
    /// Whether it knows the ready-ack; else both are connected at once.
    pub(crate) acks: bool,
    /// What it says of itself as one of our own engines.
    pub(crate) about: Option<About>,
}

/// Why two NICs did not connect.
#[derive(Debug, Error)]
pub(crate) enum HandshakeError {
    /// The peer was not reached, or answered what is no answer.
    #[error("the peer did not answer the handshake")]
    Peer(#[source] PeerError),
    /// The peer refused.
    #[error("the peer refuses: {reason}")]
    Refused {
        /// In its words.
        reason: Box<str>,
    },
    /// The peer refused, and its answer shows the likely cause.
    #[error(
        "{} cannot be reached from {}: their GIDs are of different classes; the peer refuses: {reason}",
        short(.ours), short(.theirs)
    )]
    RefusedGidClass {
        /// Ours.
        ours: Gid,
        /// The peer's.
        theirs: Gid,
        /// In its words.
        reason: Box<str>,
    },
    /// Both sides must use as many queue pairs.
    #[error("the peer uses {theirs} queue pairs and we {ours}: its setting must be ours")]
    QueuePairCount {
        /// Ours.
        ours: usize,
        /// The peer's.
        theirs: usize,
    },
    /// The answer is from or for other NICs than those asked.
    #[error("the answer is for {got}, not for {wanted}")]
    NotMirrored {
        /// What it should be for.
        wanted: Box<str>,
        /// What it is for.
        got: Box<str>,
    },
    /// The text is no GID.
    #[error("\"{text}\" is no GID of a peer")]
    BadGid {
        /// As the peer wrote it.
        text: Box<str>,
    },
    /// A call of ours failed.
    #[error("a queue pair could not be connected")]
    Verbs(#[source] VerbsError),
    /// The way to the peer's GID was refused: the classes of the GIDs differ.
    #[error("{} cannot reach {}: their GIDs are of different classes", short(.ours), short(.theirs))]
    GidClass {
        /// Ours.
        ours: Gid,
        /// The peer's.
        theirs: Gid,
    },
    /// The NIC is not in use.
    #[error("the NIC {nic} is not active")]
    Inactive {
        /// Its name.
        nic: Box<str>,
    },
    /// The peer was not reached a moment ago, and it is too early for another try.
    #[error("connecting to {server} pauses")]
    Paused {
        /// The peer.
        server: Box<str>,
    },
    /// The endpoint gave way to another one meanwhile.
    #[error("the endpoint was replaced while it connected")]
    Replaced,
    /// It took too long.
    #[error("connecting took too long")]
    TimedOut,
}

impl HandshakeError {
    /// What slices that waited for the connection end with. Nothing of them was sent.
    pub(crate) fn fault(&self) -> SliceFault {
        let (class, phase) = match self {
            Self::Peer(error) if error.is_retryable() => (FaultClass::Peer, Phase::Connect),
            Self::Peer(_) => (FaultClass::Rail, Phase::Handshake),
            Self::Inactive { .. } => (FaultClass::Rail, Phase::Queue),
            Self::Paused { .. } | Self::TimedOut => (FaultClass::Peer, Phase::Connect),
            _ => (FaultClass::Rail, Phase::Handshake),
        };
        SliceFault::new(class, phase, self.text())
    }

    /// With its cause, in one line.
    pub(crate) fn text(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// The question of the active side.
pub(crate) fn request(us: &NicPath, them: &NicPath, ends: &Ends) -> EndpointMessage {
    EndpointMessage {
        local_gid: ends.gid.byte_text(),
        local_lid: ends.lid,
        local_nic_path: us.as_str().to_owned(),
        payload: String::new(),
        peer_nic_path: them.as_str().to_owned(),
        qp_num: ends.queue_pairs.clone(),
        ready_ack: Some(false),
        reply_msg: String::new(),
    }
}

/// The second question: our queue pairs are connected.
pub(crate) fn ready(question: EndpointMessage) -> EndpointMessage {
    EndpointMessage { ready_ack: Some(true), ..question }
}

/// The answer of the passive side.
pub(crate) fn answer(us: &NicPath, them: &NicPath, ends: &Ends) -> EndpointMessage {
    request(us, them, ends)
}

/// A refusal that still says what our end is.
pub(crate) fn filled_refusal(answer: EndpointMessage, reason: String) -> EndpointMessage {
    EndpointMessage { reply_msg: reason, ..answer }
}

/// Reads what a peer says of its end, in a question or an answer.
pub(crate) fn read_peer(message: &EndpointMessage) -> Result<PeerEnds, HandshakeError> {
    let bad = || HandshakeError::BadGid { text: message.local_gid.as_str().into() };
    let gid = Gid::parse_bytes(&message.local_gid).filter(|gid| !gid.is_null()).ok_or_else(bad)?;
    let queue_pairs = message.qp_num.clone();
    let ends = Ends { gid, lid: message.local_lid, queue_pairs };
    let about = About::read(&message.payload);
    Ok(PeerEnds { ends, acks: message.ready_ack.is_some(), about })
}

/// Reads the answer to a question. Where it says no GID, `published` is the one that the peer's
/// descriptor says.
pub(crate) fn read_answer(
    question: &EndpointMessage,
    mut answer: EndpointMessage,
    published: &str,
) -> Result<PeerEnds, HandshakeError> {
    let (ours, theirs) = (question.qp_num.len(), answer.qp_num.len());
    if answer.is_refusal() {
        if theirs > 0 && theirs != ours {
            return Err(HandshakeError::QueuePairCount { ours, theirs });
        }
        return Err(refusal(question, &answer));
    }
    let is_mirrored = answer.local_nic_path == question.peer_nic_path
        && answer.peer_nic_path == question.local_nic_path;
    if !is_mirrored && !sabotage::is_off("rdma-mirrored-paths") {
        let pair = |a: &str, b: &str| format!("{} and {}", shortened(a), shortened(b)).into();
        return Err(HandshakeError::NotMirrored {
            wanted: pair(&question.peer_nic_path, &question.local_nic_path),
            got: pair(&answer.local_nic_path, &answer.peer_nic_path),
        });
    }
    if theirs != ours {
        return Err(HandshakeError::QueuePairCount { ours, theirs });
    }
    if answer.local_gid.is_empty() {
        published.clone_into(&mut answer.local_gid);
    }
    read_peer(&answer)
}

/// What a refusal means; one that is filled says what the peer's end is.
fn refusal(question: &EndpointMessage, answer: &EndpointMessage) -> HandshakeError {
    let reason = shortened(&answer.reply_msg);
    let gids = Gid::parse_bytes(&question.local_gid).zip(Gid::parse_bytes(&answer.local_gid));
    match gids
        .filter(|(ours, theirs)| !theirs.is_null() && are_of_different_classes(*ours, *theirs))
    {
        Some((ours, theirs)) => HandshakeError::RefusedGidClass { ours, theirs, reason },
        None => HandshakeError::Refused { reason },
    }
}

/// As people write the address that a GID is.
fn short(gid: &Gid) -> Ipv6Addr {
    Ipv6Addr::from(gid.bytes())
}

/// Whether one of two GIDs cannot be reached from the other, whatever lies between.
pub(crate) fn are_of_different_classes(one: Gid, other: Gid) -> bool {
    one.mapped_v4().is_some() != other.mapped_v4().is_some()
        || one.is_link_local() != other.is_link_local()
}

/// A text of a peer, short enough for a message.
fn shortened(text: &str) -> Box<str> {
    text.chars().filter(|c| !c.is_control()).take(200).collect::<String>().into()
}

#[cfg(test)]
mod tests;
