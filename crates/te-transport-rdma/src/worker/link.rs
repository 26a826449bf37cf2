//! A way to one NIC of a peer, and what is on it.
//!
//! ```text
//!   Connecting ── opened ──▶ Open ── broken, replaced, cancelled, too slow ──▶ Draining ──▶ gone
//!        └── failed ──▶ gone                       refused reset ◀─┘    (perhaps a fence first)
//!                                                  Stuck ── reset, or no device any more ──▶ gone
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use te_metadata::QpNumber;
use te_segment::{RemoteSegment, SegmentId, Slice};
use te_topology::Gid;
use te_transport::{Completion, SliceFault};
use te_verbs::QueuePair;

use super::inbox::EndpointId;
use super::whom::Whom;
use crate::endpoint::NicPath;
use crate::peer::{PeerNicIndex, PeerView};
use crate::store::Used;

/// Work requests that share one message at most.
pub(crate) const MAX_RANGES: usize = 8;

/// A slice on its way.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) slice: Slice,
    pub(crate) link: usize,
    pub(crate) view: Arc<PeerView>,
    pub(crate) peer_nic: PeerNicIndex,
    /// The keys, where one on each side is good for the whole slice.
    pub(crate) keys: Option<(u32, u32)>,
    /// Bytes that work requests were made of.
    pub(crate) planned: u64,
    /// Work requests that are not ended.
    pub(crate) out: u32,
    /// How it will end; well while there is none.
    pub(crate) fault: Option<SliceFault>,
    /// Whether bytes of it may be changed at the peer later than its end.
    pub(crate) in_doubt: bool,
    /// By when it must have ended because it was called back.
    pub(crate) called_back: Option<Instant>,
}

/// A work request that is posted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) number: u64,
    /// The jobs that it is a part of.
    pub(crate) jobs: [u32; MAX_RANGES],
    pub(crate) n_jobs: u8,
}

/// One queue pair.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) pair: Arc<dyn QueuePair>,
    /// Posted and not ended, in order.
    pub(crate) ring: VecDeque<Request>,
    /// When something ended last, or the ring was empty.
    pub(crate) progress: Instant,
    /// Whether the peer itself ended it, so that nothing behind that reached its memory.
    pub(crate) ended_by_peer: bool,
}

#[derive(Debug)]
pub(crate) enum State {
    /// Control makes it.
    Connecting { until: Instant },
    /// Usable.
    Open,
    /// What was posted comes back.
    Draining { until: Instant, why: SliceFault },
    /// All came back; the peer is asked whether more can come to its memory.
    Fencing { until: Instant },
    /// Its device gives back what was posted neither by itself nor by a reset, which is tried again.
    Stuck { since: Instant, why: SliceFault },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: Option<EndpointId>,
    pub(crate) peer: NicPath,
    pub(crate) state: State,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) next_lane: usize,
    /// Jobs with bytes that no work request was made of yet.
    pub(crate) queue: VecDeque<u32>,
    pub(crate) is_active: bool,
    pub(crate) used: Used,
    pub(crate) whom: Whom,
    pub(crate) gid: Option<Gid>,
    /// The newest snapshot of the peer that a slice was of.
    told: Option<(SegmentId, u64)>,
    /// Whether the peer knows fences.
    pub(crate) knows_fences: bool,
    /// Whether the peer has other NICs.
    pub(crate) has_others: bool,
    /// Ends that are in doubt until the peer has answered.
    pub(crate) doubtful: Vec<Completion>,
}

impl Link {
    pub(crate) fn new(peer: NicPath, state: State) -> Self {
        Self {
            id: None,
            peer,
            state,
            lanes: Vec::new(),
            next_lane: 0,
            queue: VecDeque::with_capacity(64),
            is_active: false,
            used: Used::default(),
            whom: Whom::default(),
            gid: None,
            told: None,
            knows_fences: false,
            has_others: false,
            doubtful: Vec::new(),
        }
    }

    /// A slice of a snapshot goes by this link, which is to that peer.
    pub(crate) fn learn(&mut self, peer: &RemoteSegment, gid: Option<Gid>) {
        if self.whom.learn(peer) || self.id.is_none() {
            self.gid = gid;
        }
        let epoch = self.told.filter(|(id, _)| *id == peer.id()).map_or(0, |(_, epoch)| epoch);
        self.told = Some((peer.id(), epoch.max(peer.epoch())));
    }

    /// Whether a snapshot is older than what this link is made of.
    pub(crate) fn is_newer_than(&self, peer: &RemoteSegment) -> bool {
        self.told.is_some_and(|(id, epoch)| id == peer.id() && epoch > peer.epoch())
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Why it ends, while something is posted on it.
    pub(crate) fn ending(&self) -> Option<&SliceFault> {
        match &self.state {
            State::Draining { why, .. } | State::Stuck { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Whether every work request has ended.
    pub(crate) fn is_quiet(&self) -> bool {
        self.lanes.iter().all(|lane| lane.ring.is_empty())
    }

    /// Whether it needs to be looked after.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.is_open() || !self.is_quiet() || !self.queue.is_empty()
    }

    pub(crate) fn numbers(&self) -> Vec<QpNumber> {
        let numbers = self.lanes.iter().map(|lane| QpNumber::new(lane.pair.number()));
        numbers.filter_map(Result::ok).collect()
    }
}
