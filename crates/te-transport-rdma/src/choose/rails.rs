//! Which ways to NICs of peers pause (E50, E51). One value for each NIC of ours; a way is named by the
//! path of the peer's NIC.
//!
//! I1  A rail that is not known is open.
//! I2  Rails do not touch each other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::FaultSettings;

/// Faulty rails that are remembered before those that recovered are forgotten.
const MANY: usize = 1024;

/// The rails of one NIC.
#[derive(Debug)]
pub(crate) struct Rails {
    errors: u32,
    window: Duration,
    pause: Duration,
    faulty: HashMap<Arc<str>, Rail>,
}

#[derive(Debug, Clone, Copy)]
struct Rail {
    errors: u32,
    /// When the last of them was.
    last: Instant,
    paused_until: Option<Instant>,
}

impl Rails {
    /// All rails open.
    pub(crate) fn new(settings: &FaultSettings) -> Self {
        let FaultSettings { rail_errors, rail_window, rail_pause, .. } = settings;
        let (errors, window) = ((*rail_errors).max(1), *rail_window);
        Self { errors, window, pause: *rail_pause, faulty: HashMap::new() }
    }

    /// When the pause of the rail ends, if it pauses. Costs nothing while there was no fault at all.
    pub(crate) fn paused_until(&self, now: Instant, path: &str) -> Option<Instant> {
        if self.faulty.is_empty() {
            return None;
        }
        self.faulty.get(path)?.paused_until.filter(|until| *until > now)
    }

    /// An error on the rail; whether it pauses because of it.
    pub(crate) fn on_error(&mut self, now: Instant, path: &Arc<str>) -> bool {
        let (limit, window, pause) = (self.errors, self.window, self.pause);
        let rail = self.rail(now, path);
        if rail.paused_until.is_some_and(|until| until > now) {
            return false;
        }
        let goes_on = rail.paused_until.is_none() && now.duration_since(rail.last) <= window;
        rail.errors = if goes_on { rail.errors.saturating_add(1) } else { 1 };
        rail.last = now;
        rail.paused_until = (rail.errors >= limit).then(|| now + pause);
        rail.paused_until.is_some()
    }

    /// Pauses the rail at once; one that pauses already is not paused for longer.
    pub(crate) fn pause(&mut self, now: Instant, path: &Arc<str>) {
        let (limit, pause) = (self.errors, self.pause);
        let rail = self.rail(now, path);
        if rail.paused_until.is_none_or(|until| until <= now) {
            *rail = Rail { errors: limit, last: now, paused_until: Some(now + pause) };
        }
    }

    /// Something went well on it: what was held against it is forgotten. Costs nothing while there
    /// was no fault at all.
    pub(crate) fn on_success(&mut self, path: &str) {
        if !self.faulty.is_empty() {
            self.faulty.remove(path);
        }
    }

    /// Forgets everything, as when our own NIC was the cause.
    pub(crate) fn clear(&mut self) {
        self.faulty.clear();
    }

    fn rail(&mut self, now: Instant, path: &Arc<str>) -> &mut Rail {
        if self.faulty.len() >= MANY {
            let window = self.window;
            self.faulty.retain(|_, rail| {
                rail.paused_until.is_some_and(|until| until > now)
                    || now.duration_since(rail.last) <= window
            });
        }
        let new = Rail { errors: 0, last: now, paused_until: None };
        self.faulty.entry(Arc::clone(path)).or_insert(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any instant will do as the first")]
    fn begin() -> Instant {
        Instant::now()
    }

    impl Rails {
        fn is_open(&self, now: Instant, path: &str) -> bool {
            self.paused_until(now, path).is_none()
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn rails() -> Rails {
        Rails::new(&FaultSettings::default())
    }

    fn path(text: &str) -> Arc<str> {
        text.into()
    }

    /// J88: a rail that is not known may be used; only the fifth error pauses it.
    #[test]
    fn j88_the_fifth_error_pauses() {
        let (mut rails, now, one) = (rails(), begin(), path("a@rxe0"));
        assert!(rails.is_open(now, &one));
        for _ in 0..4 {
            assert!(!rails.on_error(now, &one));
            assert!(rails.is_open(now, &one));
        }
        assert!(rails.on_error(now, &one));
        assert!(!rails.is_open(now, &one));
        assert_eq!(rails.paused_until(now, &one), Some(now + 30 * SECOND));
    }

    /// J88, E50: an immediate pause; its end forgets the errors.
    #[test]
    fn j88_a_pause_at_once_and_its_end() {
        let (mut rails, now, one) = (rails(), begin(), path("a@rxe0"));
        rails.pause(now, &one);
        rails.pause(now + SECOND, &one);
        assert!(!rails.on_error(now + SECOND, &one), "it pauses already");
        assert_eq!(rails.paused_until(now + SECOND, &one), Some(now + 30 * SECOND));
        let later = now + 30 * SECOND;
        assert!(rails.is_open(later, &one));
        assert!(!rails.on_error(later, &one), "the count begins again");
        assert!(rails.is_open(later, &one));
    }

    /// J88: errors that are far apart do not add up; rails do not touch each other.
    #[test]
    fn j88_errors_far_apart_do_not_add_up_and_rails_are_independent() {
        let (mut rails, now) = (rails(), begin());
        let (one, other) = (path("a@rxe0"), path("a@rxe1"));
        for n in 0..20 {
            assert!(!rails.on_error(now + 6 * n * SECOND, &one));
        }
        for n in 0..5 {
            assert_eq!(rails.on_error(now + 5 * n * SECOND, &other), n == 4, "within the window");
        }
        let end = now + 20 * SECOND;
        assert!(rails.is_open(end, &one));
        assert!(!rails.is_open(end, &other));
        rails.on_success(&other);
        assert!(rails.is_open(end, &other));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut rails, now) = (rails(), begin());
        for n in 0..3 * MANY {
            rails.on_error(now + 10 * SECOND * u32::try_from(n).unwrap(), &path(&format!("{n}@x")));
        }
        assert!(rails.faulty.len() <= MANY + 1);
        rails.clear();
        assert!(rails.faulty.is_empty());
    }
}
