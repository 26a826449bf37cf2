//! One endpoint of the fabric and one slice on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use te_metadata::{SegmentDescriptor, SegmentName};
use te_segment::{BufferGuard, SegmentId, Slice};

use super::event::Ticket;
use crate::completion::RemoteSide;
use crate::fault::SliceFault;
use crate::transport::TransportContext;

/// The transport whose endpoints are found by the TCP data port.
pub(super) const PLAIN: &str = "sim";

/// Writes into a descriptor that the endpoint `number` of a transport is reached there.
pub(super) fn publish(transport: &str, number: u16, descriptor: &mut SegmentDescriptor) {
    if transport == PLAIN {
        descriptor.tcp.data_port = Some(number);
        descriptor.tcp.proto_version = 2;
    } else if let Some(te) = &mut descriptor.te {
        te.transports.insert(transport.to_owned(), number.into());
    }
}

/// The endpoint of a transport that a descriptor names.
pub(super) fn published(transport: &str, descriptor: &SegmentDescriptor) -> Option<u16> {
    if transport == PLAIN {
        return descriptor.tcp.data_port;
    }
    let number = descriptor.te.as_ref()?.transports.get(transport)?.as_u64()?;
    u16::try_from(number).ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    New,
    Running,
    Over,
}

/// The way from one endpoint to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) free_at: Instant,
    pub(super) last_landing: Instant,
    pub(super) last_settling: Instant,
}

pub(super) struct Endpoint {
    pub(super) transport: &'static str,
    pub(super) name: SegmentName,
    pub(super) life: Life,
    pub(super) context: Option<TransportContext>,
    /// Slices taken and not settled, by peer.
    pub(super) queued: BTreeMap<SegmentId, usize>,
    pub(super) wants_room: BTreeSet<SegmentId>,
    /// By the word of the token.
    pub(super) tickets: BTreeMap<u64, Ticket>,
    pub(super) links: BTreeMap<u16, Link>,
}

impl Endpoint {
    pub(super) fn new(transport: &'static str, name: SegmentName) -> Self {
        Self {
            transport,
            name,
            life: Life::New,
            context: None,
            queued: BTreeMap::new(),
            wants_room: BTreeSet::new(),
            tickets: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    /// The context, while the endpoint lives.
    pub(super) fn alive(&self) -> Option<&TransportContext> {
        self.context.as_ref().filter(|_| self.life == Life::Running)
    }

    /// One slice less for a peer. Whether the engine waits for that.
    pub(super) fn leave(&mut self, peer: SegmentId) -> bool {
        if let Some(count) = self.queued.get_mut(&peer) {
            *count = count.saturating_sub(1);
        }
        self.wants_room.remove(&peer)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Queued,
    Moving,
    Landed,
}

/// What chance has in store for a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Sound,
    /// Lost after so many bytes landed.
    LostAfter(u64),
    /// All bytes land, the answer is lost.
    AnswerLost,
}

pub(super) type Outcome = (Result<(), SliceFault>, RemoteSide);

pub(super) struct Running {
    pub(super) owner: u16,
    pub(super) target: u16,
    pub(super) slice: Slice,
    pub(super) progress: Progress,
    pub(super) fate: Fate,
    pub(super) guard: Option<BufferGuard>,
    /// How it ends; fixed once. Nothing moves after that.
    pub(super) outcome: Option<Outcome>,
}

impl Running {
    /// Fixes the end and lets go of the target's memory. A later word changes nothing.
    pub(super) fn end_with(&mut self, result: Result<(), SliceFault>, remote: RemoteSide) {
        self.guard = None;
        if self.outcome.is_none() {
            self.outcome = Some((result, remote));
        }
    }
}
