//! Writes whose connection of version 3 was lost when bytes of them may have reached the peer.
//!
//! Their socket is closed, so local memory is free; what is open is what the peer may still do. The
//! next connection of the lane carries a fence: once it is answered, the peer is done with them.
//! Without an answer in time they end in doubt.
//!
//! I1  A doubt ends once: settled by a fence, or in doubt when its time is over.

use std::time::Instant;

use te_segment::SliceToken;
use te_transport::{RemoteSide, SliceFault};

use crate::client::Client;
use crate::inbox::Load;

/// One such write.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) token: SliceToken,
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
        peer.doubts.push(doubt);
        peer.pool.want_fence(true);
    }

    /// The peer says that connections of a lane below `fenced` have ended.
    pub(super) fn on_fenced(&mut self, index: usize, lane: usize, fenced: u32) {
        let peer = &mut self.peers[index];
        peer.pool.want_fence(false);
        let settled = |doubt: &Doubt| doubt.lane == lane && doubt.number < fenced;
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut peer.doubts).into_iter().partition(settled);
        peer.doubts = kept;
        if !gone.is_empty() {
            self.parts.counters.fences.one();
        }
        self.end(index, gone, RemoteSide::Settled);
    }

    /// Ends the doubts whose time is over.
    pub(super) fn end_doubts(&mut self, now: Instant, index: usize) {
        let peer = &mut self.peers[index];
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut peer.doubts).into_iter().partition(|doubt| doubt.until <= now);
        peer.doubts = kept;
        if peer.doubts.is_empty() {
            peer.pool.want_fence(false);
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
        peer.pool.want_fence(false);
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
