//! What a queue pair is made of, and what its way to a peer is.

use te_topology::Gid;

use crate::port::Mtu;

/// What a queue pair has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairCapacity {
    /// Work requests that are posted and not completed.
    pub send_requests: u32,
    /// Requests of the receive queue; one-sided transfers use none.
    pub receive_requests: u32,
    /// Ranges of one work request.
    pub ranges: u32,
    /// Bytes that a work request may carry in itself.
    pub inline_bytes: u32,
}

/// States of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QueuePairState {
    /// Made, or taken back.
    Reset,
    /// It has a port.
    Init,
    /// It may be written to and read from.
    ReadyToReceive,
    /// It may also send.
    ReadyToSend,
    /// It ends what was posted as flushed.
    Error,
    /// Another, by the library's number.
    Other(u32),
}

/// The way to the peer's queue pair: what [`crate::QueuePair::to_ready_to_receive`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Port of this device, from 1.
    pub port: u8,
    /// Which row of its GID table is the source.
    pub gid_index: u32,
    /// The peer's GID.
    pub gid: Gid,
    /// The peer's LID; 0 on Ethernet.
    pub lid: u16,
    /// The peer's queue pair.
    pub queue_pair: u32,
    /// The peer's first packet number.
    pub first_packet: u32,
    /// MTU of the way.
    pub mtu: Mtu,
    /// READs that the peer may have outstanding here.
    pub reads: u8,
    /// Code of the least wait after "receiver not ready", 0 to 31.
    pub min_rnr_timer: u8,
    /// Hops.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level, 0 to 15.
    pub service_level: u8,
}

/// What [`crate::QueuePair::to_ready_to_send`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Our first packet number.
    pub first_packet: u32,
    /// READs that may be outstanding there.
    pub reads: u8,
    /// An acknowledgement is waited for 4.096 µs × 2 to this power; 0 for ever.
    pub timeout: u8,
    /// Tries after the first, 0 to 7. Some providers take 7 as endless.
    pub retries: u8,
    /// Tries after "receiver not ready", 0 to 6; 7 for ever.
    pub rnr_retries: u8,
}
