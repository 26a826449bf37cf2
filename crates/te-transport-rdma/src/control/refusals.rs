//! Questions that were refused, told in one line for each peer: a Mooncake engine that is refused asks
//! about 17 times within a second, and then is asked for its next transfer.
//!
//! I1  A refusal is counted in one line.
//! I2  A line comes when its peer has been quiet for [`QUIET`], and [`LONGEST`] after its first refusal
//!     at the latest.
//! I3  Texts and peers that are kept are bounded, whatever peers call themselves.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A peer that did not ask for so long asks no more.
const QUIET: Duration = Duration::from_secs(1);
/// How long refusals are gathered at most.
const LONGEST: Duration = Duration::from_secs(10);
/// Peers that are counted apart; further ones share a line.
const PEERS: usize = 64;
/// Characters of a text.
const LENGTH: usize = 200;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    open: HashMap<Box<str>, Gathered>,
}

#[derive(Debug)]
struct Gathered {
    first: Instant,
    last: Instant,
    times: u64,
    reason: String,
}

impl Gathered {
    fn due(&self) -> Instant {
        (self.last + QUIET).min(self.first + LONGEST)
    }
}

/// What was refused to one peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// As it calls itself.
    peer: Box<str>,
    times: u64,
    /// Of the last refusal.
    reason: String,
}

impl Told {
    pub(crate) fn tell(&self) {
        let Self { peer, times, reason } = self;
        tracing::warn!(%peer, times, reason, "handshakes refused");
    }
}

impl Refusals {
    /// A peer was refused. Whether there is a new time to wait for.
    pub(crate) fn note(&mut self, now: Instant, server: &str, reason: &str) -> bool {
        let server = match short(server) {
            server if server.is_empty() => "a peer without a path".to_owned(),
            server if self.open.len() >= PEERS && !self.open.contains_key(server.as_str()) => {
                "other peers".to_owned()
            }
            server => server,
        };
        let mut is_new = false;
        let gathered = self.open.entry(server.into()).or_insert_with(|| {
            is_new = true;
            Gathered { first: now, last: now, times: 0, reason: String::new() }
        });
        (gathered.last, gathered.times) = (now, gathered.times + 1);
        gathered.reason = short(reason);
        is_new
    }

    /// When a line is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.open.values().map(Gathered::due).min()
    }

    /// Takes the lines that are due.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Told> {
        self.take(|gathered| gathered.due() <= now)
    }

    /// Takes all lines.
    pub(crate) fn take_all(&mut self) -> Vec<Told> {
        self.take(|_| true)
    }

    fn take(&mut self, wanted: impl Fn(&Gathered) -> bool) -> Vec<Told> {
        let taken = self.open.extract_if(|_, gathered| wanted(gathered));
        let told = |(peer, Gathered { times, reason, .. })| Told { peer, times, reason };
        taken.map(told).collect()
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "any instant will do")]

    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    /// Issue 7, refusal: one summarised line.
    #[test]
    fn many_refusals_of_one_peer_are_one_line() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        assert!(refusals.note(start, "a", "not today"));
        for i in 1..17 {
            assert!(!refusals.note(at(start, 40 * i), "a", "no"), "the time is known");
            assert_eq!(refusals.due(at(start, 40 * i)), []);
        }
        assert_eq!(refusals.deadline(), Some(at(start, 640 + 1000)));
        let told = refusals.due(at(start, 1640));
        assert_eq!(told, [Told { peer: "a".into(), times: 17, reason: "no".into() }]);
        assert_eq!((refusals.deadline(), refusals.take_all()), (None, Vec::new()));
    }

    #[test]
    fn a_peer_that_never_stops_is_told_of_every_ten_seconds() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let mut told = Vec::new();
        for i in 0..=200 {
            refusals.note(at(start, 100 * i), "a", "no");
            told.extend(refusals.due(at(start, 100 * i)));
        }
        told.extend(refusals.take_all());
        assert_eq!(told.iter().map(|line| line.times).collect::<Vec<_>>(), [101, 100]);
    }

    #[test]
    fn names_without_end_share_a_line_and_long_texts_are_cut() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        for i in 0..1000 {
            refusals.note(start, &format!("peer {i}"), &"x".repeat(5000));
        }
        refusals.note(start, "\n", "no");
        let told = refusals.take_all();
        assert!(told.len() <= PEERS + 2, "{} lines", told.len());
        assert_eq!(told.iter().map(|line| line.times).sum::<u64>(), 1001);
        assert!(told.iter().all(|line| line.reason.len() <= LENGTH && line.peer.len() <= LENGTH));
    }
}
