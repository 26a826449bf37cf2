//! The table of what must be reached, and what was.
//!
//! I1  A ratio is made of samples of one round and one state; the verdict is on their median.
//! I2  What was not measured is told with the reason, and is never taken for good.

mod checks;

use super::micro::Micro;
use super::sample::{Figures, Sample, State, digits, median};
use crate::ui;

/// What is looked at in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    Rate,
    Requests,
    P50,
    /// Of both sides together.
    Cpu,
    /// How far the slowest of a hundred is from the middle one.
    P99OverP50,
    Value,
}

/// How a figure comes about.
#[derive(Debug, Clone, Copy)]
enum Measure {
    /// Ours to the best of theirs in the same round.
    Ratio { ours: &'static str, theirs: &'static [&'static str] },
    /// Ours less theirs in the same round.
    Difference { ours: &'static str, theirs: &'static str },
    /// Ours alone.
    Plain { ours: &'static str },
}

#[derive(Debug, Clone, Copy)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

/// One thing that must hold.
#[derive(Debug, Clone)]
struct Check {
    work: &'static str,
    group: &'static str,
    metric: Metric,
    measure: Measure,
    bar: Bar,
    /// In words.
    than: &'static str,
    aim: &'static str,
    /// Whether only samples count in which the cores were near.
    is_near: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) work: String,
    pub(crate) at_least: String,
    pub(crate) aim: String,
    pub(crate) measured: String,
    pub(crate) word: Word,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    Met,
    Missed,
    Open,
}

impl Word {
    pub(crate) fn text(&self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "MISSED",
            Self::Open => "not measured",
        }
    }
}

/// Told of a row whose group was left out.
const NOT_RUN: &str = "was not run";

impl Verdict {
    /// Whether its group was measured, or was tried to be.
    pub(crate) fn is_run(&self) -> bool {
        self.measured != NOT_RUN
    }
}

/// Everything that can be judged.
pub(crate) fn all(samples: &[Sample], micro: &[Micro]) -> Vec<Verdict> {
    let all = checks::all();
    // Another revision is compared with on demand only.
    let wanted = |check: &&Check| {
        check.group != "against" || samples.iter().any(|one| one.group == check.group)
    };
    let mut verdicts: Vec<Verdict> =
        all.iter().filter(wanted).map(|check| check.judge(samples)).collect();
    verdicts.extend(["nixl", "libfabric"].map(|peer| checks::cells(samples, peer)));
    verdicts.extend(micro.iter().filter_map(Micro::judge));
    verdicts
}

/// For a terminal.
pub(crate) fn table(verdicts: &[Verdict]) -> String {
    let head = ["work", "at least", "measured", "verdict"].map(str::to_owned).to_vec();
    let row = |verdict: &Verdict| {
        vec![
            verdict.work.clone(),
            verdict.at_least.clone(),
            verdict.measured.clone(),
            verdict.word.text().to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(verdicts.iter().map(row)).collect();
    format!("\n{}", ui::table(&rows, &[]))
}

impl Check {
    fn judge(&self, samples: &[Sample]) -> Verdict {
        let (word, measured) = match self.values(samples) {
            Ok(values) => self.judged(&values),
            Err(reason) => (Word::Open, reason),
        };
        let near = if self.is_near { ", near" } else { "" };
        Verdict {
            work: format!("{}{near}", self.work),
            at_least: format!("{} {}", self.bar.text(), self.than),
            aim: self.aim.to_owned(),
            measured,
            word,
        }
    }

    fn judged(&self, values: &[f64]) -> (Word, String) {
        let Some(middle) = median(values.to_vec()) else {
            return (Word::Open, "nothing".to_owned());
        };
        let (least, most) = values
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
        let text = format!(
            "{} ({} to {}, {})",
            digits(middle),
            digits(least),
            digits(most),
            ui::count(values.len(), "round")
        );
        (if self.bar.holds(middle) { Word::Met } else { Word::Missed }, text)
    }

    /// One figure for each round that can be compared.
    fn values(&self, samples: &[Sample]) -> Result<Vec<f64>, String> {
        let own: Vec<&Sample> = samples.iter().filter(|one| one.group == self.group).collect();
        if own.is_empty() {
            return Err(NOT_RUN.to_owned());
        }
        let of = |label: &str| -> Result<Vec<&Sample>, String> {
            let found: Vec<&Sample> =
                own.iter().copied().filter(|one| one.contender == label).collect();
            match found.iter().all(|one| one.absent.is_some()) {
                true => Err(match found.first().and_then(|one| one.absent.as_ref()) {
                    Some(why) => format!("{label} is absent: {why}"),
                    None => format!("{label} was not run"),
                }),
                false => Ok(found),
            }
        };
        let (ours, theirs) = match self.measure {
            Measure::Ratio { ours, theirs } => (ours, theirs.to_vec()),
            Measure::Difference { ours, theirs } => (ours, vec![theirs]),
            Measure::Plain { ours } => (ours, Vec::new()),
        };
        let ours = of(ours)?;
        let theirs = theirs.into_iter().map(of).collect::<Result<Vec<_>, String>>()?;
        let values: Vec<f64> = ours.iter().filter_map(|one| self.value(one, &theirs)).collect();
        match values.is_empty() {
            true if self.is_near => Err("the cores were never near for both".to_owned()),
            true => Err("never in one state for both".to_owned()),
            false => Ok(values),
        }
    }

    fn value(&self, ours: &Sample, theirs: &[Vec<&Sample>]) -> Option<f64> {
        let fits = |one: &&Sample| one.state() == ours.state() && one.round == ours.round;
        let counts = !self.is_near || ours.state() == State::Near;
        let own = counts.then(|| self.metric.of(&ours.figures))??;
        let others = theirs
            .iter()
            .map(|all| self.metric.of(&all.iter().copied().find(fits)?.figures))
            .collect::<Option<Vec<f64>>>()?;
        let best = others
            .into_iter()
            .reduce(|a, b| if self.metric.is_more() { a.max(b) } else { a.min(b) });
        match (self.measure, best) {
            (Measure::Plain { .. }, _) => Some(own),
            (Measure::Ratio { .. }, Some(best)) if best > 0.0 => Some(own / best),
            (Measure::Difference { .. }, Some(other)) => Some(own - other),
            _ => None,
        }
    }
}

impl Metric {
    fn of(self, figures: &Figures) -> Option<f64> {
        match self {
            Self::Rate => figures.rate,
            Self::Requests => figures.requests,
            Self::P50 => figures.p50,
            Self::Cpu => Some(figures.cpu_here? + figures.cpu_there?),
            Self::P99OverP50 => Some(figures.p99? / figures.p50?),
            Self::Value => figures.value,
        }
    }

    /// Whether more is better.
    fn is_more(self) -> bool {
        matches!(self, Self::Rate | Self::Requests)
    }
}

impl Bar {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bar) => value >= bar,
            Self::AtMost(bar) => value <= bar,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bar) => format!("≥ {bar}"),
            Self::AtMost(bar) => format!("≤ {bar}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample::tests::sample;

    const CHECK: Check = Check {
        work: "work",
        group: "g",
        metric: Metric::Rate,
        measure: Measure::Ratio { ours: "te", theirs: &["a", "b"] },
        bar: Bar::AtLeast(1.5),
        than: "× theirs",
        aim: "2",
        is_near: true,
    };

    fn round(n: u32, ours: f64, a: f64, b: f64) -> Vec<Sample> {
        vec![sample(n, "g", "te", ours), sample(n, "g", "a", a), sample(n, "g", "b", b)]
    }

    #[test]
    fn the_median_of_ratios_to_the_better_one_is_judged() {
        let samples = [round(0, 4.0, 2.0, 1.0), round(1, 3.0, 1.0, 2.0), round(2, 9.0, 3.0, 1.0)];
        let verdict = CHECK.judge(&samples.concat());
        assert_eq!(verdict.word, Word::Met);
        assert_eq!(verdict.measured, "2.00 (1.50 to 3.00, 3 rounds)");
        let strict = Check { bar: Bar::AtLeast(2.1), ..CHECK };
        assert_eq!(strict.judge(&samples.concat()).word, Word::Missed);
    }

    #[test]
    fn samples_of_two_states_are_not_compared() {
        let mut samples = round(0, 4.0, 2.0, 2.0);
        samples[1].line = (300.0, 310.0);
        assert_eq!(CHECK.judge(&samples).measured, "the cores were never near for both");
        for one in &mut samples {
            one.line = (300.0, 310.0);
        }
        assert_eq!(CHECK.judge(&samples).word, Word::Open);
        let any = Check { is_near: false, ..CHECK };
        assert_eq!(any.judge(&samples).word, Word::Met);
    }

    #[test]
    fn what_is_absent_is_told_with_its_reason() {
        let mut samples = round(0, 4.0, 2.0, 2.0);
        samples[2].absent = Some("not installed".to_owned());
        let verdict = CHECK.judge(&samples);
        assert_eq!(
            (verdict.word, verdict.measured.as_str()),
            (Word::Open, "b is absent: not installed")
        );
        assert_eq!(CHECK.judge(&[]).measured, "was not run");
    }

    #[test]
    fn differences_and_single_figures_are_judged_too() {
        let samples = round(0, 4.0, 2.5, 2.0);
        let measure = Measure::Difference { ours: "te", theirs: "a" };
        let check = Check { measure, bar: Bar::AtMost(1.5), ..CHECK };
        assert_eq!(check.judge(&samples).word, Word::Met);
        let measure = Measure::Plain { ours: "te" };
        let check = Check { measure, bar: Bar::AtMost(3.9), ..CHECK };
        assert_eq!(check.judge(&samples).word, Word::Missed);
    }
}
