//! One connection between a NIC of ours and one of a peer: what is said, and what state it is in.
//!
//! Nothing here opens a socket or touches a queue pair; `control` does what is decided here.

mod about;
mod handshake;
mod path;
mod state;

pub(crate) use about::About;
pub(crate) use handshake::{
    Ends, HandshakeError, PeerEnds, answer, are_of_different_classes, filled_refusal, read_answer,
    read_peer, ready, request,
};
pub(crate) use path::NicPath;
pub(crate) use state::{AckRefused, Endpoint, OnAnswer, OnRequest};
