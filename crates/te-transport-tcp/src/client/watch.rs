//! Whether the way to a peer still carries anything, while a connection stands still.
//!
//! A peer may be slow for as long as it likes: its kernel answers. A NIC or a line that is gone
//! answers nothing. Where requests stand still the peer's kernel is asked, and a connection whose
//! questions stay without an answer is given up, so that its requests go over another rail.
//!
//! ```text
//!   requests stand still ── ⅓ patience ──▶ asked ── ⅔ patience ──▶ unanswered: the way is dead
//!                                            ▲                  └─▶ answered ─┐
//!                                            └────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

use crate::io::Unanswered;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathWatch {
    patience: Duration,
    asked: Option<Instant>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing.
    Wait,
    /// Ask the peer's kernel.
    Ask,
    /// Judge by what is unanswered, with [`PathWatch::is_dead`].
    Judge,
}

impl PathWatch {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, asked: None }
    }

    /// Whether something was asked and is of no interest any more, because something has moved since
    /// or nothing has to.
    pub(super) fn takes_back(&mut self, since: Option<Instant>) -> bool {
        let moved = |asked: Instant| since.is_none_or(|since| since > asked);
        self.asked.take_if(|asked| moved(*asked)).is_some()
    }

    /// When to look again, where nothing has moved since then.
    pub(super) fn deadline(&self, since: Instant) -> Instant {
        match self.asked.filter(|asked| *asked >= since) {
            None => since + self.patience / 3,
            Some(asked) => asked + self.patience * 2 / 3,
        }
    }

    /// What to do now, where nothing has moved since then.
    pub(super) fn look(&mut self, now: Instant, since: Instant) -> Look {
        if now < self.deadline(since) {
            return Look::Wait;
        }
        match self.asked.replace(now).filter(|asked| *asked >= since) {
            None => Look::Ask,
            Some(_) => Look::Judge,
        }
    }

    /// Whether the way is dead.
    pub(super) fn is_dead(&self, unanswered: Unanswered) -> bool {
        unanswered.questions > 0 && unanswered.silent_for >= self.patience / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(1500);

    #[test]
    fn what_stands_still_is_asked_and_judged() {
        let start = te_transport::Clock::now(&te_transport::SystemClock);
        let at = |ms| start + Duration::from_millis(ms);
        let mut watch = PathWatch::new(PATIENCE);
        assert_eq!(watch.look(at(499), start), Look::Wait);
        assert_eq!(watch.look(at(500), start), Look::Ask);
        assert_eq!(watch.deadline(start), at(1500));
        assert_eq!(watch.look(at(1499), start), Look::Wait);
        assert_eq!(watch.look(at(1500), start), Look::Judge);
        assert_eq!(watch.look(at(2500), start), Look::Judge, "for as long as it stands still");
        assert!(!watch.takes_back(Some(start)));
        assert!(watch.takes_back(Some(at(2501))), "something moved");
        assert_eq!(watch.look(at(2999), at(2501)), Look::Wait);
        assert_eq!(watch.look(at(3001), at(2501)), Look::Ask);
        assert!(watch.takes_back(None), "nothing is in flight");
        assert!(!watch.takes_back(None));
    }

    #[test]
    fn only_a_silent_way_is_dead() {
        let watch = PathWatch::new(PATIENCE);
        let check = |questions, ms| {
            let silent_for = Duration::from_millis(ms);
            watch.is_dead(Unanswered { questions, silent_for })
        };
        assert!(check(1, 900));
        assert!(!check(0, 60_000), "a peer that has nothing to say");
        assert!(!check(1, 20), "the answer is on its way");
    }
}
