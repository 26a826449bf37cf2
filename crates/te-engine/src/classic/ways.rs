//! The ways to one peer: which transport is taken now, and what is known of how it serves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use te_segment::{RemoteSegment, SegmentId};
use te_sync::Mutex;
use te_transport::Transport;

use super::paths::{Failed, Paths, Via, Vias};

/// See the module. What is in flight holds it, so that its end needs no look-up.
pub(crate) struct Ways {
    pub(crate) id: SegmentId,
    pub(super) transports: Arc<[Arc<dyn Transport>]>,
    paths: Mutex<Paths>,
    /// Whether some transport rests, or has not served since.
    troubled: AtomicBool,
    /// How often the set of transports that reach the peer changed.
    looks: AtomicU32,
    /// The place of the slice that left last, counted from 1. Places wrap.
    left: AtomicU32,
    /// The furthest place of a slice that ended well.
    served: AtomicU32,
}

/// A snapshot of a peer and the transport that goes there.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) ways: Arc<Ways>,
    pub(crate) peer: Arc<RemoteSegment>,
    pub(crate) via: Via,
}

impl Ways {
    pub(crate) fn new(id: SegmentId, transports: Arc<[Arc<dyn Transport>]>) -> Self {
        Self {
            id,
            transports,
            paths: Mutex::default(),
            troubled: AtomicBool::new(false),
            looks: AtomicU32::new(0),
            left: AtomicU32::new(0),
            served: AtomicU32::new(0),
        }
    }

    /// The transport to take now, by what the peer publishes and how the last tries went.
    pub(crate) fn choose(&self, peer: &Arc<RemoteSegment>, now: Instant) -> Option<Via> {
        let version = self.version();
        let mut paths = self.paths.lock();
        if !paths.knows(peer, version) {
            drop(paths);
            self.look((peer, version), now);
            paths = self.paths.lock();
        }
        paths.choose(now)
    }

    /// Changes when a NIC of ours comes or goes.
    fn version(&self) -> u64 {
        self.transports.iter().map(|transport| transport.description_version()).sum()
    }

    /// Whether a transport reaches the peer, and whether the peer is to be asked what it says now; see
    /// [`Paths::wants_news`]. Asks the transports where that was not done lately, so it is for threads
    /// that may wait.
    pub(crate) fn reaches(&self, peer: &Arc<RemoteSegment>, now: Instant) -> (bool, bool) {
        let version = self.version();
        let mut paths = self.paths.lock();
        if !(paths.knows(peer, version) && paths.is_fresh(now)) {
            drop(paths);
            self.look((peer, version), now);
            paths = self.paths.lock();
        }
        (paths.reaches(), paths.wants_news(now))
    }

    fn look(&self, (peer, version): (&Arc<RemoteSegment>, u64), now: Instant) {
        let vias = (Vias::reaching(&self.transports, peer), Vias::awaiting(&self.transports, peer));
        let has_changed = self.paths.lock().learn((peer, version), vias, now);
        self.looks.fetch_add(u32::from(has_changed), Ordering::AcqRel);
    }

    /// Changes when another transport may have to be taken than before, but not with a mere rest; see
    /// [`Ways::is_well`].
    pub(crate) fn looks(&self) -> u32 {
        self.looks.load(Ordering::Acquire)
    }

    /// Whether no transport rests: the first that reaches is taken then.
    pub(crate) fn is_well(&self) -> bool {
        !self.troubled.load(Ordering::Acquire)
    }

    /// A transport failed; see [`Paths::fail`].
    pub(crate) fn on_failed(&self, via: Via, now: Instant) -> Failed {
        let failed = self.paths.lock().fail(via, now);
        if matches!(failed, Failed::Rests(_)) {
            self.troubled.store(true, Ordering::Release);
        }
        failed
    }

    /// The place of a slice that leaves now.
    pub(crate) fn next_order(&self) -> u32 {
        self.left.fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// A slice that left at `since`, at this place, ended well.
    pub(crate) fn on_served(&self, via: Via, since: Instant, order: u32) {
        let further = |served| is_after(order, served).then_some(order);
        // Where a later one was noted meanwhile, that one counts.
        let _ = self.served.fetch_update(Ordering::AcqRel, Ordering::Acquire, further);
        if self.troubled.load(Ordering::Acquire) {
            let mut paths = self.paths.lock();
            let is_well = paths.serve(via, since);
            self.troubled.store(!is_well, Ordering::Release);
        }
    }

    /// Whether a slice ended well that left after the one at this place.
    pub(crate) fn has_served_after(&self, order: u32) -> bool {
        is_after(self.served.load(Ordering::Acquire), order)
    }
}

/// Whether one place is after another, less than half the way round.
fn is_after(place: u32, other: u32) -> bool {
    place.wrapping_sub(other).cast_signed() > 0
}

impl fmt::Debug for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ways({:?}, {:?})", self.id, self.paths.lock())
    }
}

#[cfg(test)]
mod tests {
    //! The order in which slices leave and are served.

    use super::*;
    use crate::testing_support::a_via;

    #[test]
    fn fb04_only_a_slice_that_left_later_is_a_sign_of_life() {
        let now = te_transport::Clock::now(&te_transport::SystemClock);
        let ways = Ways::new(SegmentId::from_u64(1), Arc::new([]));
        ways.left.store(u32::MAX - 2, Ordering::Release);
        ways.served.store(u32::MAX - 2, Ordering::Release);
        let orders: Vec<u32> = (0..4).map(|_| ways.next_order()).collect();
        assert_eq!(orders, [u32::MAX - 1, u32::MAX, 0, 1]);
        let serve = |order| ways.on_served(a_via(), now, order);
        assert!(!ways.has_served_after(orders[0]));
        serve(orders[2]);
        serve(orders[1]);
        assert!(ways.has_served_after(orders[0]) && ways.has_served_after(orders[1]));
        assert!(!ways.has_served_after(orders[2]) && !ways.has_served_after(orders[3]));
    }
}
