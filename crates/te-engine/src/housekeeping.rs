//! What happens at a period: descriptors are asked for again, counters are logged, what transports
//! say anew is published.
//!
//! I1  A period that was missed is not made up for.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::classic::Shared;
use crate::config::EngineConfig;
use crate::publish::Publisher;
use crate::registrar::Registrar;
use crate::stats::EngineStats;

/// The periodic duties of an engine.
#[derive(Debug, Default)]
pub(crate) struct Housekeeping {
    refresh: Option<Period>,
    report: Option<Period>,
    reported: EngineStats,
    news: Option<News>,
}

/// What transports say of our NICs, where it stands in a metadata service. Peers that ask us need
/// none of this.
#[derive(Debug)]
pub(crate) struct News {
    publisher: Arc<Publisher>,
    registrar: Weak<Registrar>,
    /// Of what was handed to the registrar last.
    version: u64,
    period: Period,
}

/// How often it is looked whether a NIC came or went.
const NEWS_EVERY: Duration = Duration::from_millis(250);

impl News {
    pub(crate) fn new(publisher: &Arc<Publisher>, registrar: &Arc<Registrar>) -> Self {
        Self {
            publisher: Arc::clone(publisher),
            registrar: Arc::downgrade(registrar),
            version: publisher.ways_version(),
            period: Period::new(NEWS_EVERY),
        }
    }

    fn look(&mut self, now: Instant, shared: &Shared) {
        let version = self.publisher.ways_version();
        if !self.period.is_due(now) || version == self.version {
            return;
        }
        let registrar = Weak::clone(&self.registrar);
        // It waits for the service, and this thread keeps deadlines.
        let publish = move || {
            if let Some(registrar) = registrar.upgrade() {
                registrar.publish();
            }
        };
        if shared.workers.run(Box::new(publish)).is_ok() {
            self.version = version;
        }
    }
}

#[derive(Debug)]
struct Period {
    every: Duration,
    next: Option<Instant>,
}

impl Period {
    fn new(every: Duration) -> Self {
        Self { every, next: None }
    }

    /// Whether it is time; the first look only sets the clock.
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_some_and(|next| next <= now);
        if due || self.next.is_none() {
            self.next = now.checked_add(self.every);
        }
        due
    }
}

impl Housekeeping {
    pub(crate) fn new(config: &EngineConfig, news: Option<News>) -> Self {
        let report = config.log.metrics.then(|| Period::new(config.log.metrics_interval));
        let refresh = config.metadata.refresh_interval.map(Period::new);
        Self { refresh, report, reported: EngineStats::default(), news }
    }

    /// Does what is due, and says when to call again.
    pub(crate) fn tick(&mut self, now: Instant, shared: &Shared) -> Option<Instant> {
        if self.refresh.as_mut().is_some_and(|period| period.is_due(now)) {
            refresh_all(shared);
        }
        if let Some(news) = &mut self.news {
            news.look(now, shared);
        }
        if let Some(period) = &mut self.report
            && period.is_due(now)
        {
            let stats = shared.counters.read();
            log(&stats, &self.reported, period.every);
            self.reported = stats;
        }
        if let Some(line) = shared.faults.due(now) {
            let (count, first) = (line.count, line.first);
            tracing::warn!(target: "te_engine::requests", count, first, "requests failed");
        }
        let news = self.news.as_ref().map(|news| &news.period);
        let nexts = [self.refresh.as_ref(), self.report.as_ref(), news];
        nexts.into_iter().flatten().filter_map(|period| period.next).min()
    }
}

/// Fetches every known descriptor anew, each on a control thread (te-classic B44).
fn refresh_all(shared: &Shared) {
    for (id, _) in shared.peers.known() {
        let peers = Arc::clone(&shared.peers);
        // Where too much waits already, this round leaves the peer out.
        drop(shared.workers.run(Box::new(move || drop(peers.fetch_now(id)))));
    }
}

/// One line for a period in which something happened (te-classic I50).
fn log(now: &EngineStats, before: &EngineStats, over: Duration) {
    let (completed, failed) = (now.completed - before.completed, now.failed - before.failed);
    if completed + failed == 0 {
        return;
    }
    let bytes = now.bytes - before.bytes;
    let seconds = over.as_secs();
    tracing::info!(completed, failed, bytes, seconds, "transfers of the last period");
}

#[cfg(test)]
mod tests {
    //! Periods.

    use super::*;

    #[test]
    fn a_period_is_due_once_each_time_and_not_at_the_first_look() {
        let start = te_transport::Clock::now(&te_transport::SystemClock);
        let after = |s| start + Duration::from_secs(s);
        let mut period = Period::new(Duration::from_secs(10));
        let looks = [0, 9, 10, 11, 45, 46, 55].map(|s| period.is_due(after(s)));
        assert_eq!(looks, [false, false, true, false, true, false, true]);
    }
}
