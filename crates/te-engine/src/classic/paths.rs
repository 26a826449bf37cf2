//! Which transports reach one peer, and which of them rest because they failed: pure.
//!
//! I1  Of those that reach the peer, the best that does not rest is taken.
//! I2  The last one that does not rest never does: there is always one to try.
//! I3  A rest lasts [`FIRST_REST`], doubled with each failure in a row, at most [`LONGEST_REST`].
//! I4  What reached the peer and does not any more, because a NIC of it went, is asked for again at
//!     each request, at most every [`ASK_AGAIN`]; what may reach it later, by what it says, at most
//!     every [`LOOK_AGAIN`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::RemoteSegment;
use te_transport::Transport;

use crate::retry::is_other_process;

/// Most transports of one engine.
pub(crate) const MAX_TRANSPORTS: usize = 8;
/// How long a transport that failed towards a peer is left alone, at first.
pub(crate) const FIRST_REST: Duration = Duration::from_secs(1);
/// The longest such time.
pub(crate) const LONGEST_REST: Duration = Duration::from_secs(30);
/// After this time it is asked again which transports reach a peer.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The least time between two questions whether a transport reaches a peer again.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// One transport of the engine: its place in the order of preference, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Via(u8);

impl Via {
    /// All that there can be.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0u8..).take(MAX_TRANSPORTS).map(Self)
    }

    /// Its place.
    pub(crate) fn place(self) -> usize {
        usize::from(self.0)
    }

    fn bit(self) -> u8 {
        1 << self.0
    }
}

/// A set of transports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Vias(u8);

impl Vias {
    /// Those of a list that reach a peer.
    pub(crate) fn reaching(transports: &[Arc<dyn Transport>], peer: &RemoteSegment) -> Self {
        let reaching = Via::all().zip(transports).filter(|(_, transport)| transport.reaches(peer));
        reaching.map(|(via, _)| via).collect()
    }

    /// Those of a list that may reach a peer later.
    pub(crate) fn awaiting(transports: &[Arc<dyn Transport>], peer: &RemoteSegment) -> Self {
        let awaiting = Via::all().zip(transports).filter(|(_, transport)| transport.awaits(peer));
        awaiting.map(|(via, _)| via).collect()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Via> {
        Via::all().filter(move |via| self.0 & via.bit() != 0)
    }

    pub(crate) fn first(self) -> Option<Via> {
        self.iter().next()
    }
}

impl FromIterator<Via> for Vias {
    fn from_iter<T: IntoIterator<Item = Via>>(vias: T) -> Self {
        Self(vias.into_iter().fold(0, |set, via| set | via.bit()))
    }
}

/// A transport that failed and has not served since.
#[derive(Debug)]
struct Rest {
    via: Via,
    until: Instant,
    failures: u32,
}

/// The transports towards one peer.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    /// The snapshot that `reach` was taken from.
    of: Option<Arc<RemoteSegment>>,
    /// When it was taken.
    at: Option<Instant>,
    /// What our own transports said of themselves then.
    version: u64,
    reach: Vias,
    /// All that ever reached this process.
    ever: Vias,
    /// Those that may reach it later, by what it says.
    awaited: Vias,
    asked: Option<Instant>,
    rests: Vec<Rest>,
}

impl Paths {
    /// Whether it is known which transports, of this version, reach this snapshot of the peer.
    pub(crate) fn knows(&self, peer: &Arc<RemoteSegment>, version: u64) -> bool {
        self.version == version && self.of.as_ref().is_some_and(|of| Arc::ptr_eq(of, peer))
    }

    /// Whether it was learnt lately which transports reach the peer.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| now.saturating_duration_since(at) < LOOK_AGAIN)
    }

    /// Which transports reach the peer now, and which may later. Another process gets a fresh start.
    /// Says whether the former is another set than before.
    pub(crate) fn learn(
        &mut self,
        (peer, version): (&Arc<RemoteSegment>, u64),
        (reach, awaited): (Vias, Vias),
        now: Instant,
    ) -> bool {
        if self.of.as_ref().is_some_and(|of| is_other_process(of, peer)) {
            self.rests.clear();
            self.ever = Vias::default();
        }
        self.of = Some(Arc::clone(peer));
        self.at = Some(now);
        self.version = version;
        self.awaited = awaited;
        self.ever = self.ever.iter().chain(reach.iter()).collect();
        std::mem::replace(&mut self.reach, reach) != reach
    }

    /// Whether any transport reaches the peer.
    pub(crate) fn reaches(&self) -> bool {
        self.reach.first().is_some()
    }

    /// Whether the peer is to be asked what it says now, because something that reached it does not,
    /// or may by now: its NICs come back without telling us.
    pub(crate) fn wants_news(&mut self, now: Instant) -> bool {
        let pause = match (self.ever == self.reach, self.awaited == Vias::default()) {
            (true, true) => return false,
            (true, false) => LOOK_AGAIN,
            (false, _) => ASK_AGAIN,
        };
        let is_soon = |asked: Instant| now.saturating_duration_since(asked) < pause;
        if self.asked.is_some_and(is_soon) {
            return false;
        }
        self.asked = Some(now);
        true
    }

    /// The one to take now. Where all rest it is the one whose rest ends first.
    pub(crate) fn choose(&self, now: Instant) -> Option<Via> {
        if self.rests.is_empty() {
            return self.reach.first();
        }
        let until =
            |via: Via| self.rests.iter().find(|rest| rest.via == via).map(|rest| rest.until);
        self.awake(now).next().or_else(|| self.reach.iter().min_by_key(|via| until(*via)))
    }

    /// One failed, now. Rests it where there is another to take, and says whether there is.
    pub(crate) fn fail(&mut self, via: Via, now: Instant) -> Failed {
        if !self.awake(now).any(|other| other != via) {
            return Failed::Alone;
        }
        let Some(rest) = self.rests.iter_mut().find(|rest| rest.via == via) else {
            self.rests.push(Rest { via, until: now + FIRST_REST, failures: 1 });
            return Failed::Rests(FIRST_REST);
        };
        if rest.until > now {
            return Failed::Rested;
        }
        let lasts = (FIRST_REST * (1 << rest.failures.min(10))).min(LONGEST_REST);
        rest.failures += 1;
        rest.until = now + lasts;
        Failed::Rests(lasts)
    }

    /// A slice that left at `since` ended well. Says whether all is well now.
    pub(crate) fn serve(&mut self, via: Via, since: Instant) -> bool {
        self.rests.retain(|rest| rest.via != via || rest.until > since);
        self.rests.is_empty()
    }

    fn awake(&self, now: Instant) -> impl Iterator<Item = Via> {
        let rests =
            move |via: Via| self.rests.iter().any(|rest| rest.via == via && rest.until > now);
        self.reach.iter().filter(move |via| !rests(*via))
    }
}

/// What a failure of one transport leaves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// No other can be taken.
    Alone,
    /// Another can be taken; this one rests already.
    Rested,
    /// Another can be taken; this one rests from now on, for so long.
    Rests(Duration),
}

#[cfg(test)]
mod tests {
    //! Preference, rests and their ends.

    use super::*;
    use crate::testing_support::{a_peer, a_restarted_peer};

    fn start() -> Instant {
        te_transport::Clock::now(&te_transport::SystemClock)
    }

    fn vias() -> [Via; 3] {
        [Via(0), Via(1), Via(2)]
    }

    /// These reach, and none is awaited.
    fn only(reach: &[Via]) -> (Vias, Vias) {
        (reach.iter().copied().collect(), Vias::default())
    }

    fn paths(reach: &[Via]) -> Paths {
        let mut paths = Paths::default();
        paths.learn((&a_peer(1), 0), only(reach), start());
        paths
    }

    #[test]
    fn fb57_the_best_that_does_not_rest_is_taken_and_the_last_never_rests() {
        let (now, [a, b, c]) = (start(), vias());
        let mut paths = paths(&[c, a, b]);
        assert_eq!(paths.choose(now), Some(a));
        assert_eq!(paths.fail(a, now), Failed::Rests(FIRST_REST));
        assert_eq!(paths.fail(a, now), Failed::Rested, "a burst of faults counts once");
        assert_eq!(paths.choose(now), Some(b));
        assert_eq!(paths.fail(b, now), Failed::Rests(FIRST_REST));
        assert_eq!(paths.choose(now), Some(c));
        assert_eq!(paths.fail(c, now), Failed::Alone);
        assert_eq!(paths.choose(now), Some(c));
    }

    #[test]
    fn a_rest_ends_and_is_doubled_until_the_transport_serves() {
        let (mut now, [a, b, _]) = (start(), vias());
        let mut paths = paths(&[a, b]);
        let mut lasted = Vec::new();
        for _ in 0..7 {
            let Failed::Rests(lasts) = paths.fail(a, now) else { panic!("b can be taken") };
            lasted.push(lasts.as_secs());
            assert_eq!(paths.choose(now + lasts - Duration::from_nanos(1)), Some(b));
            now += lasts;
            assert_eq!(paths.choose(now), Some(a), "it is tried again");
        }
        assert_eq!(lasted, [1, 2, 4, 8, 16, 30, 30]);
        assert!(!paths.serve(a, now - Duration::from_secs(1)), "that one left before the failure");
        assert!(paths.serve(a, now));
        assert_eq!(paths.fail(a, now), Failed::Rests(FIRST_REST));
    }

    #[test]
    fn where_what_is_awake_no_longer_reaches_the_shortest_rest_is_taken() {
        let (now, [a, b, c]) = (start(), vias());
        let mut paths = paths(&[a, b, c]);
        paths.fail(b, now);
        paths.fail(a, now + Duration::from_millis(1));
        assert!(paths.learn((&a_peer(2), 0), only(&[a, b]), now));
        assert!(!paths.learn((&a_peer(2), 0), only(&[a, b]), now));
        assert!(paths.is_fresh(now) && !paths.is_fresh(now + LOOK_AGAIN));
        assert_eq!(paths.choose(now + Duration::from_millis(2)), Some(b));
        paths.learn((&a_peer(3), 0), only(&[]), now);
        assert_eq!(paths.choose(now), None);
    }

    #[test]
    fn another_process_gets_a_fresh_start() {
        let (now, [a, b, _]) = (start(), vias());
        let mut paths = paths(&[a, b]);
        paths.fail(a, now);
        let reborn = a_restarted_peer(2);
        assert!(!paths.knows(&reborn, 0));
        paths.learn((&reborn, 0), only(&[a, b]), now);
        assert!(paths.knows(&reborn, 0) && !paths.knows(&reborn, 1), "a NIC of ours changed");
        assert_eq!(paths.choose(now), Some(a));
    }

    #[test]
    fn a_peer_that_a_transport_no_longer_reaches_is_asked_now_and_then() {
        let (now, [a, b, _]) = (start(), vias());
        let mut paths = paths(&[a, b]);
        assert!(!paths.wants_news(now));
        paths.learn((&a_peer(2), 0), only(&[b]), now);
        assert!(paths.wants_news(now));
        assert!(!paths.wants_news(now + ASK_AGAIN - Duration::from_nanos(1)));
        assert!(paths.wants_news(now + ASK_AGAIN));
        paths.learn((&a_peer(3), 0), only(&[a, b]), now);
        assert!(!paths.wants_news(now + 3 * ASK_AGAIN));
        paths.learn((&a_restarted_peer(4), 0), only(&[b]), now);
        assert!(!paths.wants_news(now + 6 * ASK_AGAIN), "this process never had it");
    }

    #[test]
    fn a_peer_that_says_that_a_transport_may_reach_it_is_asked_more_seldom() {
        let (now, [a, b, _]) = (start(), vias());
        let mut paths = Paths::default();
        let awaited = [a].into_iter().collect();
        paths.learn((&a_peer(1), 0), ([b].into_iter().collect(), awaited), now);
        assert!(paths.wants_news(now), "what was fetched may be old");
        assert!(!paths.wants_news(now + LOOK_AGAIN - Duration::from_nanos(1)));
        assert!(paths.wants_news(now + LOOK_AGAIN));
        paths.learn((&a_peer(2), 0), only(&[a, b]), now);
        assert!(!paths.wants_news(now + 3 * LOOK_AGAIN));
    }
}
