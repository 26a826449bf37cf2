//! One measurement and the state of the machine around it.

use serde_json::{Value, json};

use super::contender::Contender;
use super::groups::Group;

/// What a program told of itself. Where it does not tell a figure there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures {
    /// GB/s, 10^9 bytes.
    pub(crate) rate: Option<f64>,
    /// Requests a second.
    pub(crate) requests: Option<f64>,
    /// Microseconds of a batch.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    /// Seconds of processor time a GB, of the side that asks and of the other.
    pub(crate) cpu_here: Option<f64>,
    pub(crate) cpu_there: Option<f64>,
    /// A single figure of another kind.
    pub(crate) value: Option<f64>,
}

/// How far apart the two cores were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Near,
    Far,
    /// It changed, or nobody knows.
    Mixed,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) round: u32,
    pub(crate) group: String,
    pub(crate) contender: String,
    pub(crate) figures: Figures,
    /// Round trip of a cache line before and after, nanoseconds.
    pub(crate) line: (f64, f64),
    /// Cores that others used meanwhile.
    pub(crate) others: f64,
    pub(crate) tries: u32,
    /// Why there are no figures.
    pub(crate) absent: Option<String>,
}

/// A cache line takes less than this where the cores are near, nanoseconds.
pub(crate) const NEAR: f64 = 120.0;

/// Others that use more than so much of a core disturb.
pub(crate) const QUIET: f64 = 0.2;

impl Sample {
    pub(crate) fn absent(round: u32, group: &Group, contender: &Contender, why: String) -> Self {
        Self {
            round,
            group: group.name.to_owned(),
            contender: contender.label.clone(),
            figures: Figures::default(),
            line: (0.0, 0.0),
            others: 0.0,
            tries: 0,
            absent: Some(why),
        }
    }

    pub(crate) fn state(&self) -> State {
        match (self.line.0, self.line.1) {
            (before, after) if before <= 0.0 || after <= 0.0 => State::Mixed,
            (before, after) if before < NEAR && after < NEAR => State::Near,
            (before, after) if before >= NEAR && after >= NEAR => State::Far,
            _ => State::Mixed,
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.others <= QUIET
    }

    /// For a person who waits.
    pub(crate) fn line(&self) -> String {
        let figures = &self.figures;
        let shown = |value: Option<f64>, unit: &str| match value {
            Some(value) => format!("{} {unit}", digits(value)),
            None => String::new(),
        };
        let cpu = figures.cpu_here.map(|here| here + figures.cpu_there.unwrap_or(0.0));
        format!(
            "{:>11} {:>13} {:>12} {:>13}  line {:.0}/{:.0} ns, others {:.2}{}{}",
            shown(figures.rate.or(figures.value), if figures.rate.is_some() { "GB/s" } else { "" }),
            shown(figures.requests, "req/s"),
            shown(figures.p50, "µs"),
            shown(cpu, "s/GB"),
            self.line.0,
            self.line.1,
            self.others,
            if self.tries > 1 { format!(", try {}", self.tries) } else { String::new() },
            if self.is_quiet() { "" } else { ", DISTURBED" },
        )
    }

    pub(crate) fn json(&self) -> Value {
        let Figures { rate, requests, p50, p99, cpu_here, cpu_there, value } = &self.figures;
        json!({
            "round": self.round, "group": self.group, "contender": self.contender,
            "gigabytes_per_second": rate, "requests_per_second": requests,
            "p50_us": p50, "p99_us": p99, "cpu_here": cpu_here, "cpu_there": cpu_there,
            "value": value, "line_before_ns": self.line.0, "line_after_ns": self.line.1,
            "others": self.others, "tries": self.tries, "absent": self.absent,
        })
    }

    /// The opposite of [`Self::json`].
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let number = |key: &str| value[key].as_f64();
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let whole = |key: &str| value[key].as_u64().and_then(|n| u32::try_from(n).ok());
        Some(Self {
            round: whole("round")?,
            group: text("group")?,
            contender: text("contender")?,
            figures: Figures {
                rate: number("gigabytes_per_second"),
                requests: number("requests_per_second"),
                p50: number("p50_us"),
                p99: number("p99_us"),
                cpu_here: number("cpu_here"),
                cpu_there: number("cpu_there"),
                value: number("value"),
            },
            line: (number("line_before_ns")?, number("line_after_ns")?),
            others: number("others")?,
            tries: whole("tries")?,
            absent: text("absent"),
        })
    }
}

/// Three digits that mean something.
pub(crate) fn digits(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M", value / 1e6),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 || value == 0.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

/// The middle one; of an even number the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(round: u32, group: &str, contender: &str, rate: f64) -> Sample {
        Sample {
            round,
            group: group.to_owned(),
            contender: contender.to_owned(),
            figures: Figures { rate: Some(rate), ..Figures::default() },
            line: (80.0, 81.0),
            others: 0.05,
            tries: 1,
            absent: None,
        }
    }

    #[test]
    fn a_sample_is_read_as_it_was_written() {
        let mut one = sample(3, "tcp-1m", "te write", 4.25);
        one.figures.p99 = Some(12.5);
        assert_eq!(Sample::read(&one.json()), Some(one));
        assert_eq!(Sample::read(&json!({"round": 1})), None);
    }

    #[test]
    fn the_state_is_that_of_both_ends() {
        let with = |before, after| Sample { line: (before, after), ..sample(0, "a", "b", 1.0) };
        assert_eq!(with(80.0, 119.0).state(), State::Near);
        assert_eq!(with(310.0, 120.0).state(), State::Far);
        assert_eq!(with(80.0, 310.0).state(), State::Mixed);
        assert_eq!(with(0.0, 80.0).state(), State::Mixed);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
