//! What the server counts. The keeper and the connections write, `/metrics` and `/health` read.
//!
//! All of it is relaxed: each number is true by itself, and no two are compared.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;

use crate::catalog::Totals;

/// All numbers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    totals: Mutex<Totals>,
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pub(crate) n_watchers: AtomicUsize,
    pub(crate) n_connections: AtomicUsize,
    pub(crate) n_accepted: AtomicU64,
    /// Connections that were one too many.
    pub(crate) n_turned_away: AtomicU64,
    /// Connections that ended in a fault: silence, nonsense, a failed TLS handshake.
    pub(crate) n_broken_off: AtomicU64,
    pub(crate) n_commits: AtomicU64,
    pub(crate) n_failed_commits: AtomicU64,
    commit_micros: AtomicU64,
    /// The data file cannot be read.
    pub(crate) is_broken: AtomicBool,
}

impl Counters {
    /// One answer on a route.
    pub(crate) fn answered(&self, route: &'static str, status: u16) {
        let mut requests = self.requests.lock();
        *requests.entry((route, status)).or_default() += 1;
    }

    pub(crate) fn committed(&self, time: Duration) {
        self.n_commits.fetch_add(1, Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.commit_micros.fetch_add(micros, Relaxed);
    }

    pub(crate) fn set_totals(&self, totals: &Totals, n_watchers: usize) {
        *self.totals.lock() = *totals;
        self.n_watchers.store(n_watchers, Relaxed);
    }

    pub(crate) fn totals(&self) -> Totals {
        *self.totals.lock()
    }

    /// Answers by route and status.
    pub(crate) fn requests(&self) -> Vec<((&'static str, u16), u64)> {
        let requests = self.requests.lock();
        requests.iter().map(|(which, n)| (*which, *n)).collect()
    }

    /// Time spent in commits, in seconds.
    pub(crate) fn commit_seconds(&self) -> f64 {
        Duration::from_micros(self.commit_micros.load(Relaxed)).as_secs_f64()
    }
}
