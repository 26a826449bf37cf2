//! Writes whose connection of version 3 was lost when bytes of them may have reached the peer.
//!
//! Their socket is closed, so local memory is free; what is open is what the peer may still do. The
//! next connection of the lane carries a fence: once it is answered, the peer is done with them.
//! Without an answer in time they end in doubt. Where the peer has several rails a settled one goes
//! again.
//!
//! I1  A doubt ends once: settled by a fence, or in doubt when its time is over.

use std::collections::HashSet;
use std::time::Instant;

use te_segment::SliceToken;
use te_transport::{FaultClass, Phase, RemoteSide, SliceFault};

use crate::client::Client;
use crate::inbox::Load;
use crate::pool::Job;

/// One such write.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) token: SliceToken,
    /// Goes again, over another rail, once a fence has settled it.
    pub(super) job: Option<Job>,
    /// What it counts for until it has ended.
    pub(super) load: Load,
    pub(super) fault: SliceFault,
    pub(super) lane: usize,
    /// The connection that was lost.
    pub(super) number: u32,
    /// When it ends in doubt.
    pub(super) until: Instant,
}

impl Client {
    /// Keeps a write until a fence settles it, for which a connection is opened.
    pub(super) fn keep_doubt(&mut self, peer: usize, doubt: Doubt) {
        let peer = &mut self.peers[peer];
        peer.pool.want_fence(doubt.lane, true);
        peer.doubts.push(doubt);
    }

    /// Calls doubts back: they end as before, and do not go again.
    pub(super) fn cancel_doubts(&mut self, tokens: &HashSet<SliceToken>) {
        let doubts = self.peers.iter_mut().flat_map(|(_, peer)| &mut peer.doubts);
        for doubt in doubts.filter(|doubt| tokens.contains(&doubt.token)) {
            doubt.job = None;
            doubt.fault = SliceFault::new(FaultClass::Cancelled, Phase::Status, "called back");
        }
    }

    /// The peer says that connections of a lane below `fenced` have ended.
    pub(super) fn on_fenced(&mut self, index: usize, lane: usize, fenced: u32) {
        let peer = &mut self.peers[index];
        peer.pool.want_fence(lane, false);
        let settled = |doubt: &Doubt| doubt.lane == lane && doubt.number < fenced;
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut peer.doubts).into_iter().partition(settled);
        peer.doubts = kept;
        if !gone.is_empty() {
            self.parts.counters.fences.one();
        }
        let (again, gone): (Vec<_>, Vec<_>) =
            gone.into_iter().partition(|doubt| doubt.job.is_some());
        self.end(index, gone, RemoteSide::Settled);
        // In the order in which they came.
        for job in again.into_iter().rev().filter_map(|doubt| doubt.job) {
            self.parts.counters.rail_moves.one();
            self.peers[index].pool.push_front(job);
        }
    }

    /// Ends the doubts whose time is over.
    pub(super) fn end_doubts(&mut self, now: Instant, index: usize) {
        let peer = &mut self.peers[index];
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut peer.doubts).into_iter().partition(|doubt| doubt.until <= now);
        peer.doubts = kept;
        if peer.doubts.is_empty() {
            peer.pool.forget_fences();
        }
        self.end(index, gone, RemoteSide::InDoubt);
    }

    fn end(&mut self, index: usize, doubts: Vec<Doubt>, remote: RemoteSide) {
        for doubt in doubts {
            self.peers[index].left.merge(doubt.load);
            self.complete(doubt.token, Err(doubt.fault), remote);
        }
    }

    /// Ends the doubts of a peer as they are.
    pub(super) fn end_doubts_of(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        peer.pool.forget_fences();
        let doubts = std::mem::take(&mut peer.doubts);
        self.end(index, doubts, RemoteSide::InDoubt);
    }

    /// Ends every doubt as it is.
    pub(super) fn end_all_doubts(&mut self) {
        let doubts: Vec<_> =
            self.peers.iter_mut().flat_map(|(_, peer)| std::mem::take(&mut peer.doubts)).collect();
        for doubt in doubts {
            self.complete(doubt.token, Err(doubt.fault), RemoteSide::InDoubt);
        }
    }
}
