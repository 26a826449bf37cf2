//! Rails against a naive model, and the properties of their shares.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const PAUSES: RailPauses =
    RailPauses { first: Duration::from_millis(10), longest: Duration::from_millis(80) };

fn at(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

#[expect(clippy::disallowed_methods, reason = "an instant to count from; it does not matter which")]
fn start() -> Instant {
    Instant::now()
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Wait(u64),
    /// Among the rails of this mask, so many bytes.
    Choose(u8, u64),
    /// On this rail, of something that began so many milliseconds ago.
    Fault(usize, u64),
    Success(usize, u64),
    TryOpen(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..60).prop_map(Step::Wait),
        (0u8..16, 1u64..(1 << 22)).prop_map(|(mask, bytes)| Step::Choose(mask, bytes)),
        (0usize..5, 0u64..40).prop_map(|(rail, ago)| Step::Fault(rail, ago)),
        (0usize..5, 0u64..40).prop_map(|(rail, ago)| Step::Success(rail, ago)),
        (0usize..5).prop_map(Step::TryOpen),
    ]
}

/// A rail as the picture of the module has it, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Naive {
    Open,
    Paused { until: u64 },
    Probing { until: u64, given: bool },
}

#[derive(Debug, Clone, Copy)]
struct Model {
    state: Naive,
    since: Option<u64>,
    pause: u64,
}

impl Model {
    fn enter(&mut self, now: u64, state: Naive) {
        (self.state, self.since) = (state, Some(now));
    }

    fn fault(&mut self, now: u64, began: u64) {
        let old = self.since.is_some_and(|since| began < since);
        let good =
            self.state == Naive::Open && self.since.is_none_or(|since| now - since >= self.pause);
        match self.state {
            Naive::Paused { .. } => return,
            _ if old => return,
            _ if good || self.pause == 0 => self.pause = 10,
            _ => self.pause = (self.pause * 2).min(80),
        }
        self.enter(now, Naive::Paused { until: now + self.pause });
    }

    fn success(&mut self, now: u64, began: u64) {
        let old = self.since.is_some_and(|since| began < since);
        if self.state != Naive::Open && !old {
            self.enter(now, Naive::Open);
        }
    }

    fn until(&self) -> Option<u64> {
        match self.state {
            Naive::Open => None,
            Naive::Paused { until } | Naive::Probing { until, .. } => Some(until),
        }
    }

    fn begin_probe(&mut self, now: u64, given: bool) -> bool {
        let due = self.until().is_some_and(|until| until <= now);
        if due {
            self.enter(now, Naive::Probing { until: now + self.pause, given });
        }
        due
    }

    fn wants_probe(&self, now: u64) -> bool {
        matches!(self.state, Naive::Probing { given: false, .. })
            || self.until().is_some_and(|until| until <= now)
    }
}

/// What may be chosen, and what a choice does to the model.
fn choose(model: &mut [Model], weights: &[u32], now: u64, mask: u8) -> Vec<usize> {
    let fit: Vec<usize> = (0..model.len()).filter(|i| mask & (1 << i) != 0).collect();
    if let Some(index) = fit.iter().copied().find(|i| model[*i].wants_probe(now)) {
        if !model[index].begin_probe(now, true)
            && let Naive::Probing { given, .. } = &mut model[index].state
        {
            *given = true;
        }
        return vec![index];
    }
    let open = |reserve: bool| -> Vec<usize> {
        let is = |i: &&usize| model[**i].state == Naive::Open && (weights[**i] == 0) == reserve;
        fit.iter().filter(is).copied().collect()
    };
    let first = fit.iter().copied().min_by_key(|i| model[*i].until());
    [open(false), open(true), first.into_iter().collect()]
        .into_iter()
        .find(|some| !some.is_empty())
        .unwrap_or_default()
}

proptest! {
    #![proptest_config(config())]

    /// I1, I2, I4: the set does what the picture says, whatever happens in whatever order.
    #[test]
    fn rails_agree_with_a_naive_model(
        weights in proptest::collection::vec(0u32..4, 1..5),
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let start = start();
        let mut set = RailSet::new(weights.iter().copied(), PAUSES);
        let mut twin = set.clone();
        let mut model = vec![Model { state: Naive::Open, since: None, pause: 0 }; weights.len()];
        let mut now = 100;
        for step in steps {
            let time = at(start, now);
            match step {
                Step::Wait(ms) => now += ms,
                Step::Choose(mask, bytes) => {
                    let allowed = |rail: RailIndex| mask & (1 << rail.as_usize()) != 0;
                    let chosen = set.choose(time, bytes, allowed);
                    prop_assert_eq!(chosen, twin.choose(time, bytes, allowed));
                    let may = choose(&mut model, &weights, now, mask);
                    prop_assert_eq!(chosen.is_some(), !may.is_empty());
                    prop_assert!(chosen.is_none_or(|rail| may.contains(&rail.as_usize())));
                }
                Step::Fault(rail, ago) => {
                    let paused = set.on_fault(time, RailIndex(rail), at(start, now - ago));
                    twin.on_fault(time, RailIndex(rail), at(start, now - ago));
                    let before = model.get(rail).map(|model| model.state);
                    model.get_mut(rail).into_iter().for_each(|rail| rail.fault(now, now - ago));
                    prop_assert_eq!(paused, model.get(rail).map(|model| model.state) != before);
                }
                Step::Success(rail, ago) => {
                    set.on_success(time, RailIndex(rail), at(start, now - ago));
                    twin.on_success(time, RailIndex(rail), at(start, now - ago));
                    model.get_mut(rail).into_iter().for_each(|rail| rail.success(now, now - ago));
                }
                Step::TryOpen(rail) => {
                    let may = set.try_open(time, RailIndex(rail));
                    twin.try_open(time, RailIndex(rail));
                    let model = model.get_mut(rail);
                    let expected = model.is_some_and(|rail| {
                        rail.state == Naive::Open || rail.begin_probe(now, false)
                    });
                    prop_assert_eq!(may, expected);
                }
            }
            for (index, model) in model.iter().enumerate() {
                let state = match model.state {
                    Naive::Open => RailState::Open,
                    Naive::Paused { until } => RailState::Paused { until: at(start, until) },
                    Naive::Probing { until, .. } => RailState::Probing { until: at(start, until) },
                };
                prop_assert_eq!(set.state(RailIndex(index)), Some(state));
                prop_assert!(model.until().is_none_or(|until| until <= now + 80), "I2");
            }
        }
    }

    /// Bytes follow the weights within 5 %, whatever the sizes.
    #[test]
    fn shares_follow_the_weights(
        weights in proptest::collection::vec(1u32..10, 1..5),
        sizes in proptest::collection::vec(prop_oneof![1u64..8192, Just(1u64 << 20)], 1..50),
    ) {
        let mut set = RailSet::new(weights.iter().copied(), PAUSES);
        check_shares(&mut set, &weights, &sizes)?;
    }

    /// The loss of one rail: the others carry its bytes by their weights, and when it is back it
    /// gets its share again, not all that it missed.
    #[test]
    fn a_lost_rail_gets_nothing_and_then_its_share(
        weights in proptest::collection::vec(1u32..10, 2..5),
        lost in any::<proptest::sample::Index>(),
    ) {
        let start = start();
        let lost = RailIndex(lost.index(weights.len()));
        let mut set = RailSet::new(weights.iter().copied(), PAUSES);
        prop_assert!(set.on_fault(start, lost, start));
        for _ in 0..2000 {
            prop_assert_ne!(set.choose(at(start, 9), 1 << 20, |_| true), Some(lost), "I1");
        }
        prop_assert_eq!(set.choose(at(start, 10), 1, |_| true), Some(lost), "one slice probes");
        prop_assert_ne!(set.choose(at(start, 11), 1, |_| true), Some(lost));
        prop_assert!(set.on_success(at(start, 12), lost, at(start, 10)));
        let alone = (0..2000).take_while(|_| {
            set.choose(at(start, 13), 1 << 16, |_| true) == Some(lost)
        });
        // What the others are ahead of its start is at most one piece, on a rail of weight 1.
        let bound = CATCH_UP + (9 << 20) + RUN;
        prop_assert!(alone.count() <= 1 + (bound >> 16) as usize, "I3");
        check_shares(&mut set, &weights, &[1 << 20])?;
    }
}

fn check_shares(set: &mut RailSet, weights: &[u32], sizes: &[u64]) -> Result<(), TestCaseError> {
    let start = start();
    let (mut carried, mut all) = (vec![0u64; weights.len()], 0);
    for size in sizes.iter().cycle() {
        let rail = set.choose(start, *size, |_| true).unwrap();
        carried[rail.as_usize()] += size;
        all += size;
        if all > 1 << 30 || (all > 1 << 26 && sizes.iter().max() < Some(&(1 << 20))) {
            break;
        }
    }
    let weight: u32 = weights.iter().sum();
    for (bytes, own) in carried.iter().zip(weights) {
        let wanted = all as f64 * f64::from(*own) / f64::from(weight);
        let off = (*bytes as f64 - wanted).abs() / wanted;
        prop_assert!(off < 0.05, "{carried:?} for {weights:?}");
    }
    Ok(())
}

/// Small slices travel together; large ones take turns.
#[test]
fn small_slices_follow_each_other_on_one_rail() {
    let now = start();
    let mut set = RailSet::new([1, 1], PAUSES);
    let mut turns = |bytes: u64, n: usize| {
        let rails: Vec<_> = (0..n).map(|_| set.choose(now, bytes, |_| true).unwrap()).collect();
        rails.windows(2).filter(|pair| pair[0] != pair[1]).count()
    };
    assert!(turns(4096, 160) <= 10);
    assert!(turns(1 << 20, 100) >= 98);
}

/// A reserve carries bytes only while no other rail is open, whatever it reaches.
#[test]
fn a_reserve_waits_until_it_is_needed() {
    let now = start();
    let mut set = RailSet::new([1, 0, 0], PAUSES);
    let [first, second, third] = [0, 1, 2].map(RailIndex);
    assert!(set.is_reserve(second) && !set.is_reserve(first));
    assert_eq!(set.choose(now, 1 << 30, |_| true), Some(first));
    assert_eq!(set.choose(now, 1 << 30, |rail| rail != first), Some(second));
    set.on_fault(now, first, now);
    assert_eq!(set.likeliest(), Some(second));
    set.on_fault(now, second, now);
    assert_eq!(set.choose(now, 1, |_| true), Some(third));
    set.on_fault(at(now, 1), third, at(now, 1));
    assert_eq!(set.choose(at(now, 2), 1, |_| true), Some(first), "none is open");
    assert_eq!(set.choose(now, 1, |_| false), None);
}

/// A flapping rail pauses longer each time, up to the longest pause; one that was good for as long
/// as it paused begins anew.
#[test]
fn pauses_double_up_to_a_bound_and_are_forgotten() {
    let start = start();
    let mut set = RailSet::new([1, 1], PAUSES);
    let rail = RailIndex(0);
    let mut now = start;
    for ms in [10, 20, 40, 80, 80] {
        assert!(set.on_fault(now, rail, now));
        assert!(!set.on_fault(at(now, 1), rail, at(now, 1)), "a pause is not prolonged");
        let until = at(now, ms);
        assert_eq!(set.state(rail), Some(RailState::Paused { until }));
        assert_eq!(set.deadline(), Some(until));
        now = until;
        assert!(set.try_open(now, rail));
        assert!(!set.try_open(now, rail), "one probe at a time");
        assert!(!set.on_success(now, rail, start), "it began before the pause");
        assert!(set.on_success(now, rail, now));
        assert!(!set.on_fault(now, rail, start), "as did this");
    }
    now = at(now, 80);
    assert!(set.on_fault(now, rail, now));
    assert_eq!(set.state(rail), Some(RailState::Paused { until: at(now, 10) }));
}
