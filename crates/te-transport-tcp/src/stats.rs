//! Counters of one transport: written by its drivers, read by anybody.
//!
//! Each counter stands alone; relaxed ordering is enough because nothing is concluded from two of
//! them together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use te_sync::Mutex;

use crate::paths::Path;

/// The most rails that are counted.
const MOST_RAILS: usize = 4096;

/// What the transport did since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpStats {
    /// Connections that this side opened.
    pub connects: u64,
    /// Attempts to open one that failed.
    pub connect_failures: u64,
    /// Requests that went to a fresh connection because the kept one had died.
    pub stale_retries: u64,
    /// Requests of ours that the peer refused.
    pub refused: u64,
    /// Requests of ours that ended because nothing moved in time.
    pub timeouts: u64,
    /// Payload bytes that this side read from peers.
    pub bytes_read: u64,
    /// Payload bytes that this side wrote to peers.
    pub bytes_written: u64,
    /// Requests of peers that were served whole.
    pub served: u64,
    /// Requests of peers that were refused: not registered here, or not with this right.
    pub refusals: u64,
    /// Connections closed because of an unknown opcode.
    pub bad_opcodes: u64,
    /// Connections of peers closed because nothing moved in time.
    pub inbound_timeouts: u64,
    /// Connections of peers closed because their buffer was unregistered.
    pub revoked: u64,
    /// Connections of peers turned away, or closed while idle or of no use, because there were too many.
    pub inbound_shed: u64,
    /// Requests of peers that were served whole over version 3; counted in `served` as well.
    pub served_v3: u64,
    /// Connections of peers closed because the peer broke version 3.
    pub violations: u64,
    /// Connections of peers ended by a fence.
    pub fenced: u64,
    /// Lost connections of ours whose requests a fence settled.
    pub fences: u64,
    /// Requests of ours that were called back, and whose end the peer confirmed.
    pub cancels_confirmed: u64,
    /// Rails that paused.
    pub rail_pauses: u64,
    /// Requests of ours that went from one rail to another.
    pub rail_moves: u64,
    /// Checked requests of ours whose bytes were others at the destination.
    pub corrupt: u64,
    /// Connections of peers that are open now.
    pub inbound_open: u64,
    /// Payload bytes that peers wrote here.
    pub bytes_in: u64,
    /// Payload bytes that peers read here.
    pub bytes_out: u64,
}

/// What went over one rail since the transport started, to all peers at its far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RailStats {
    /// The address of this host that connections are bound to; `None` leaves it to the kernel.
    pub local: Option<IpAddr>,
    /// The peer's address; `None` is where its data port is said to be.
    pub peer: Option<IpAddr>,
    /// Connections that this side opened.
    pub connects: u64,
    /// Payload bytes that were written to peers.
    pub bytes_written: u64,
    /// Payload bytes that were read from peers.
    pub bytes_read: u64,
    /// How often it paused.
    pub pauses: u64,
}

/// The live side of [`RailStats`].
#[derive(Debug, Default)]
pub(crate) struct RailCounters {
    pub(crate) connects: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) pauses: Counter,
}

/// The counters of all rails, by their ends.
#[derive(Debug, Default)]
pub(crate) struct RailTable(Mutex<BTreeMap<Ends, Arc<RailCounters>>>);

/// The address of this host and that of the peer.
type Ends = (Option<IpAddr>, Option<IpAddr>);

impl RailTable {
    /// The counters of a rail. Of more rails than a host can have only the first are shown.
    pub(crate) fn of(&self, path: &Path) -> Arc<RailCounters> {
        let mut rails = self.0.lock();
        let key = (path.local, path.peer);
        match rails.get(&key) {
            Some(known) => Arc::clone(known),
            None if rails.len() >= MOST_RAILS => Arc::default(),
            None => Arc::clone(rails.entry(key).or_default()),
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<RailStats> {
        let rails = self.0.lock();
        let stats = |(&(local, peer), rail): (&(_, _), &Arc<RailCounters>)| RailStats {
            local,
            peer,
            connects: rail.connects.value(),
            bytes_written: rail.bytes_written.value(),
            bytes_read: rail.bytes_read.value(),
            pauses: rail.pauses.value(),
        };
        rails.iter().map(stats).collect()
    }
}

macro_rules! counters {
    ($($name:ident),* $(,)?) => {
        /// The live side of [`TcpStats`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            /// By rail.
            pub(crate) rails: RailTable,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> TcpStats {
                TcpStats { $($name: self.$name.value(),)* }
            }
        }
    };
}

counters!(
    connects,
    connect_failures,
    stale_retries,
    refused,
    timeouts,
    bytes_read,
    bytes_written,
    served,
    refusals,
    bad_opcodes,
    inbound_timeouts,
    revoked,
    inbound_shed,
    served_v3,
    violations,
    fenced,
    fences,
    cancels_confirmed,
    rail_pauses,
    rail_moves,
    corrupt,
    inbound_open,
    bytes_in,
    bytes_out,
);

/// A number that counts.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
