//! The life of our records in a store: claimed, renewed, looked after, given back.
//!
//! ```text
//!   touch ──▶ Compose ──▶ Claim, in order ──▶ held ──every few seconds──▶ Verify ──▶ held
//!                           ▲    │ another's stands                        │ gone or changed
//!                           │    ▼                                         ▼
//!                           └─ Probe: gone                               Claim
//!                                │ alive
//!                                ▼
//!                              lost, looked at again
//! ```
//!
//! A machine without clock and I/O: [`Tenancy::poll`] tells the next step, [`Tenancy::handle`] takes
//! what came of it. [`Caretaker`] is the thread that carries the steps out.
//!
//! I1  One step is under way at a time.
//! I2  Records are put in their order, each after all before it stand; what is not wanted any more
//!     is released after all that is wanted stands. So a reader who finds a record finds those
//!     that it refers to, when they come before it.
//! I3  A record of another is overwritten only after a probe of its owner has failed, and only if
//!     it is still the one that was looked at.
//! I4  Changes cost puts only as often as [`TenancyTimes::pause_max`] allows, however many there are.

mod caretaker;
mod carry;
mod composing;
mod event;
mod slot;
mod step;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::composing::Composing;
use self::slot::{Slot, Stand};
use self::step::{Answer, Failing, Step};

pub use caretaker::{Caretaker, CaretakerError};
pub use carry::{OwnerState, TenancyHost};
pub use event::{Standing, TenancyEvent};

use crate::{Claim, Record, Renewal, Revision, StoreError};

/// When things are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenancyTimes {
    /// How long records live without us. Default 30 s; they are renewed at a third of it.
    pub ttl: Duration,
    /// How often each record is looked at. Default 4 s, so that with the call it is less than 5 s.
    pub verify_every: Duration,
    /// How long after a failed call the next one is made. Default 1 s.
    pub retry_every: Duration,
    /// Least time between two rounds of puts. The first change after a quiet time is published
    /// at once; while changes go on, the pause doubles up to `pause_max`. Default 50 ms.
    pub pause_min: Duration,
    /// Greatest time between two rounds of puts while changes go on. Default 1 s.
    pub pause_max: Duration,
}

impl Default for TenancyTimes {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(30),
            verify_every: Duration::from_secs(4),
            retry_every: Duration::from_secs(1),
            pause_min: Duration::from_millis(50),
            pause_max: Duration::from_secs(1),
        }
    }
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Tenancy {
    times: TenancyTimes,
    /// Whether records end without us; `None` until the store has told.
    expires: Option<bool>,
    slots: Vec<Slot>,
    /// Keys to release.
    outdated: VecDeque<String>,
    composing: Composing,
    renew_at: Option<Instant>,
    /// The last time at which the lease was known to be alive.
    confirmed: Option<Instant>,
    /// Nothing is asked of the store before.
    rest_until: Option<Instant>,
    under_way: Option<Step>,
    is_leaving: bool,
    /// What failed last, if nothing has shown since that it works again.
    failing: Option<Failing>,
    was_published: bool,
    events: VecDeque<TenancyEvent>,
}

impl Tenancy {
    /// A machine with nothing to publish yet.
    pub(crate) fn new(times: TenancyTimes) -> Self {
        Self {
            times,
            expires: None,
            slots: Vec::new(),
            outdated: VecDeque::new(),
            composing: Composing::new(&times),
            renew_at: None,
            confirmed: None,
            rest_until: None,
            under_way: None,
            is_leaving: false,
            failing: None,
            was_published: false,
            events: VecDeque::new(),
        }
    }

    /// What is to be published has changed.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.composing.touch(now, &self.times);
    }

    /// Where what is to be published is composed at once: how often it was before.
    pub(crate) fn composes_now(&self, now: Instant) -> Option<u64> {
        (self.composing.is_due(now) && !self.is_leaving).then(|| self.composing.rounds())
    }

    /// Whether what was composed after `rounds` times stands.
    pub(crate) fn stands_since(&self, rounds: u64) -> bool {
        self.composing.rounds() > rounds && self.all_held()
    }

    /// Everything is to be given back; nothing is published any more.
    pub(crate) fn leave(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.rest_until = None;
            // In the order opposite to that of the puts.
            let ours = self.slots.drain(..).rev().filter(|slot| slot.may_be_ours);
            self.outdated.extend(ours.map(|slot| slot.key));
        }
    }

    /// Whether everything was given back.
    pub(crate) fn has_left(&self) -> bool {
        self.is_leaving && self.outdated.is_empty() && self.under_way.is_none()
    }

    /// What can be said of our records.
    pub(crate) fn standing(&self) -> Standing {
        let is = |wanted: fn(&Stand) -> bool| self.slots.iter().any(|slot| wanted(&slot.stand));
        if self.failing.is_some() {
            Standing::Failing
        } else if is(|stand| matches!(stand, Stand::Lost)) {
            Standing::Taken
        } else if self.slots.is_empty() || !self.all_held() {
            Standing::Pending
        } else if self.composing.is_wanted {
            Standing::Outdated
        } else {
            Standing::Published
        }
    }

    /// Whether our records may have ended without our knowing, as after a long pause.
    pub(crate) fn may_have_ended(&self, now: Instant) -> bool {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= self.times.ttl;
        self.expires == Some(true) && self.confirmed.is_some_and(is_old)
    }

    /// What happened since it was asked last.
    pub(crate) fn take_event(&mut self) -> Option<TenancyEvent> {
        self.events.pop_front()
    }

    /// The next step; its answer must be handled before there is another.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Step> {
        if self.under_way.is_some() || self.rest_until.is_some_and(|until| until > now) {
            return None;
        }
        let step = self.next_step(now)?;
        self.mark_before(&step);
        self.under_way = Some(step.clone());
        Some(step)
    }

    fn next_step(&self, now: Instant) -> Option<Step> {
        if self.is_leaving {
            return self.outdated.front().cloned().map(|key| Step::Release { key });
        }
        if self.expires.is_none() {
            return Some(Step::Survey);
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            return Some(Step::Renew);
        }
        // Before the claims, of which one may be refused again and again.
        let due = self.slots.iter().find(|slot| slot.next_look().is_some_and(|at| at <= now));
        if let Some(slot) = due {
            return Some(Step::Verify { key: slot.key.clone() });
        }
        if let Some(step) = self.contested_or_wanted() {
            return Some(step);
        }
        if self.composing.is_due(now) && !self.is_blocked() {
            return Some(Step::Compose);
        }
        if let (Some(key), true) = (self.outdated.front(), self.all_held()) {
            return Some(Step::Release { key: key.clone() });
        }
        None
    }

    /// The first record that does not stand, if something can be done about it now.
    fn contested_or_wanted(&self) -> Option<Step> {
        let first = self.slots.iter().find(|slot| !matches!(slot.stand, Stand::Held(_)))?;
        let key = first.key.clone();
        match &first.stand {
            Stand::Contested(record) => Some(Step::Probe { key, record: record.clone() }),
            Stand::Wanted { over } => {
                let (value, over) = (Arc::clone(&first.value), over.clone());
                Some(Step::Claim { key, value, over })
            }
            Stand::Held(_) | Stand::Lost => None,
        }
    }

    /// Whether a living other owner keeps us from publishing.
    fn is_blocked(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.stand, Stand::Lost))
    }

    fn all_held(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.stand, Stand::Held(_)))
    }

    /// A claim may have worked although its answer is lost.
    fn mark_before(&mut self, step: &Step) {
        if let Step::Claim { key, .. } = step
            && let Some(slot) = self.slots.iter_mut().find(|slot| slot.key == *key)
        {
            slot.may_be_ours = true;
        }
    }

    /// When [`Self::poll`] may have a step again without anything else happening.
    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        if self.has_left() {
            return None;
        }
        let looks = self.slots.iter().filter_map(Slot::next_look);
        let composing = self.composing.due.filter(|_| !self.is_blocked());
        let next = looks.chain(self.renew_at).chain(composing).min();
        let may_release = self.is_leaving || self.all_held();
        let has_work = self.expires.is_none()
            || self.contested_or_wanted().is_some()
            || (may_release && !self.outdated.is_empty());
        let next = if has_work { Some(now) } else { next };
        match (next, self.rest_until) {
            (Some(next), Some(until)) => Some(next.max(until)),
            (next, _) => next,
        }
    }

    /// Takes what came of the step that [`Self::poll`] told last.
    pub(crate) fn handle(&mut self, now: Instant, answer: Answer) {
        let Some(step) = self.under_way.take() else { return };
        if let Answer::Failed(error) = answer {
            self.handle_failure(now, &step, error);
            return;
        }
        if self.failing.as_ref().is_some_and(|failing| failing.is_over_with(&step)) {
            self.failing = None;
            self.events.push_back(TenancyEvent::Recovered);
        }
        self.rest_until = None;
        match (step, answer) {
            (Step::Survey, Answer::Surveyed(can)) => self.expires = Some(can.expiry),
            (Step::Compose, Answer::Composed(records)) => self.composed(now, records),
            (Step::Claim { key, .. }, Answer::Claimed(claim)) => self.claimed(now, &key, claim),
            (Step::Probe { key, record }, Answer::Probed(state)) => {
                self.probed(now, &key, record, state);
            }
            (Step::Verify { key }, Answer::Verified(stands)) => self.verified(now, &key, stands),
            (Step::Renew, Answer::Renewed(renewal)) => self.renewed(now, renewal),
            (Step::Release { key }, _) => self.outdated.retain(|other| *other != key),
            // An answer to another question; the step is taken again.
            _ => {}
        }
        self.note_publication();
    }

    fn handle_failure(&mut self, now: Instant, step: &Step, error: StoreError) {
        self.rest_until = Some(now + self.times.retry_every);
        if error.is_retryable() {
            // A service that restarts may have lost what stood: that comes before what is new.
            let held = self.slots.iter_mut().filter(|slot| matches!(slot.stand, Stand::Held(_)));
            held.for_each(|slot| slot.look_at = now);
        }
        if error.is_not_supported() {
            // Another service answers at the address now.
            (self.expires, self.renew_at) = (None, None);
        }
        if self.is_leaving {
            // Leaving is tried once; what stays ends by itself where the service can.
            self.outdated.pop_front();
            self.rest_until = None;
        }
        let failing = Failing::new(step, &error);
        if self.failing.replace(failing).is_none() || self.is_leaving {
            self.events.push_back(TenancyEvent::Failed { error });
        }
    }

    fn composed(&mut self, now: Instant, records: Vec<(String, Arc<[u8]>)>) {
        self.composing.composed(now, &self.times);
        let mut old = std::mem::take(&mut self.slots);
        for (key, value) in records {
            self.outdated.retain(|outdated| *outdated != key);
            let known = old.iter().position(|slot| slot.key == key).map(|idx| old.swap_remove(idx));
            let mut slot = known.unwrap_or_else(|| Slot::new(now, key));
            if slot.value != value {
                slot.value = value;
                if let Stand::Held(_) = slot.stand {
                    slot.stand = Stand::Wanted { over: None };
                }
            }
            self.slots.push(slot);
        }
        let unwanted = old.into_iter().filter(|slot| slot.may_be_ours).map(|slot| slot.key);
        self.outdated.extend(unwanted);
    }

    fn slot(&mut self, key: &str) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.key == key)
    }

    fn claimed(&mut self, now: Instant, key: &str, claim: Claim) {
        let look_at = now + self.times.verify_every;
        if let Claim::Held(_) = claim {
            self.confirmed = Some(now);
            if self.expires == Some(true) && self.renew_at.is_none() {
                self.renew_at = Some(now + self.times.ttl / 3);
            }
        }
        let Some(slot) = self.slot(key) else { return };
        slot.look_at = look_at;
        match claim {
            Claim::Held(revision) => {
                slot.stand = Stand::Held(revision);
                slot.is_told = false;
                slot.was_held = true;
            }
            Claim::Taken(record) => {
                slot.stand = Stand::Contested(record);
                slot.may_be_ours = false;
            }
        }
    }

    fn probed(&mut self, now: Instant, key: &str, record: Record, state: OwnerState) {
        let look_at = now + self.times.verify_every;
        let Some(slot) = self.slot(key) else { return };
        slot.look_at = look_at;
        if state == OwnerState::Gone {
            slot.stand = Stand::Wanted { over: Some(record.revision) };
            return;
        }
        slot.stand = Stand::Lost;
        if !std::mem::replace(&mut slot.is_told, true) {
            let (key, was_ours) = (key.to_owned(), slot.was_held);
            self.was_published = false;
            self.events.push_back(TenancyEvent::Taken { key, by: record, was_ours });
        }
    }

    fn verified(&mut self, now: Instant, key: &str, stands: Option<Revision>) {
        let look_at = now + self.times.verify_every;
        let Some(slot) = self.slot(key) else { return };
        slot.look_at = look_at;
        match &slot.stand {
            Stand::Held(held) if stands.as_ref() == Some(held) => {}
            Stand::Held(_) => {
                slot.stand = Stand::Wanted { over: None };
                let (key, is_gone) = (key.to_owned(), stands.is_none());
                self.was_published = false;
                self.events.push_back(TenancyEvent::Missed { key, is_gone });
            }
            // The other may be gone now: another claim, and a probe if it is not.
            Stand::Lost => slot.stand = Stand::Wanted { over: None },
            Stand::Wanted { .. } | Stand::Contested(_) => {}
        }
    }

    fn renewed(&mut self, now: Instant, renewal: Renewal) {
        self.renew_at = Some(now + self.times.ttl / 3);
        match renewal {
            Renewal::Kept => self.confirmed = Some(now),
            Renewal::Lost => {
                let held =
                    self.slots.iter_mut().filter(|slot| matches!(slot.stand, Stand::Held(_)));
                let n_lost = held.map(|slot| slot.stand = Stand::Wanted { over: None }).count();
                if n_lost > 0 {
                    self.was_published = false;
                    self.events.push_back(TenancyEvent::LeaseEnded);
                }
            }
        }
    }

    /// Tells when everything stands again.
    fn note_publication(&mut self) {
        let is_published = !self.slots.is_empty() && self.all_held();
        if is_published && !self.was_published {
            self.events.push_back(TenancyEvent::Published);
        }
        self.was_published |= is_published;
    }
}

#[cfg(test)]
mod tests;
