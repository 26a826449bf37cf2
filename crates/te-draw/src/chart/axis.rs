//! From figures to pixels: logarithmic scales, where their ticks are, and what these say.

/// One direction of a panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    pub(crate) label: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Powers of two of a byte.
    Bytes,
    /// 1, 2 and 5 times powers of ten.
    Log,
    /// Whole numbers, on a scale with equal steps.
    Count,
}

impl Axis {
    /// Lengths in bytes, on a logarithmic scale of powers of two.
    pub fn bytes(label: impl Into<String>) -> Self {
        Self { label: label.into(), kind: Kind::Bytes }
    }

    /// Numbers on a logarithmic scale; the label names their unit.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), kind: Kind::Log }
    }

    /// Whole numbers with equal steps between them, like rounds.
    pub fn count(label: impl Into<String>) -> Self {
        Self { label: label.into(), kind: Kind::Count }
    }

    /// A figure as a person reads it.
    pub(crate) fn shown(&self, value: f64) -> String {
        match self.kind {
            Kind::Bytes => bytes(value),
            Kind::Count => number(value),
            Kind::Log => format!("{} {}", number(value), self.label),
        }
    }

    /// The scale that holds all values, with ticks at least `apart` of the whole from each other.
    pub(crate) fn scale(&self, values: impl Iterator<Item = f64>, apart: f64) -> Scale {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0);
        let ends = usable.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let (least, most) = if ends.1 > 0.0 { ends } else { (1.0, 10.0) };
        match self.kind {
            Kind::Bytes => of_powers(least, most, apart),
            Kind::Log => of_steps(least, most, apart),
            Kind::Count => of_numbers(least, most, apart),
        }
    }
}

/// Where values are between 0 and 1, and the ticks: values and their texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// None where a value has no place.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let value_at = if self.is_log { value.ln() } else { value };
        let at = (value_at - self.from) / (self.to - self.from);
        (value > 0.0 && at.is_finite()).then(|| at.clamp(0.0, 1.0))
    }
}

fn of_powers(least: f64, most: f64, apart: f64) -> Scale {
    let (mut first, mut last) = (least.log2().floor(), most.log2().ceil());
    if last <= first {
        (first, last) = (first - 1.0, first + 1.0);
    }
    let mut step = 1.0;
    while step / (last - first) < apart {
        step *= 2.0;
    }
    let mut ticks = Vec::new();
    let mut at = first;
    while at <= last {
        ticks.push((at.exp2(), bytes(at.exp2())));
        at += step;
    }
    // Room beside the outermost marks.
    let gap = (last - first) * 0.04;
    let (from, to) = ((first - gap).exp2().ln(), (last + gap).exp2().ln());
    Scale { from, to, is_log: true, ticks }
}

fn of_numbers(least: f64, most: f64, apart: f64) -> Scale {
    let (first, last) = (least.floor(), most.ceil());
    if last <= first {
        let ticks = vec![(first, number(first))];
        return Scale { from: first - 1.0, to: first + 1.0, is_log: false, ticks };
    }
    let mut step = 1.0;
    while step / (last - first) < apart {
        step *= 2.0;
    }
    let mut ticks = Vec::new();
    let mut at = first;
    while at <= last {
        ticks.push((at, number(at)));
        at += step;
    }
    let gap = (last - first) * 0.04;
    Scale { from: first - gap, to: last + gap, is_log: false, ticks }
}

fn of_steps(least: f64, most: f64, apart: f64) -> Scale {
    let mut steps = steps_around(least, most);
    if steps.len() < 2 {
        steps = steps_around(least / 2.0, most * 2.0);
    }
    let (from, to) = match (steps.first(), steps.last()) {
        (Some(first), Some(last)) => (first.ln(), last.ln()),
        _ => (0.0, 1.0),
    };
    let wide = |kept: &[f64]| {
        kept.windows(2).all(|pair| (pair[1].ln() - pair[0].ln()) / (to - from) >= apart)
    };
    // First 1, 2, 5; then 1 only; then every other power, and so on.
    let mut kept = steps.clone();
    let mut power = 1.0;
    while !wide(&kept) && kept.len() > 2 {
        kept = steps.iter().copied().filter(|step| is_power_of(*step, power)).collect();
        power += 1.0;
    }
    let ticks = kept.into_iter().map(|step| (step, number(step))).collect();
    Scale { from, to, is_log: true, ticks }
}

/// Whether a step is 10 to a multiple of `power`.
fn is_power_of(step: f64, power: f64) -> bool {
    let exponent = step.log10().round();
    (step.log10() - exponent).abs() < 1e-9 && (exponent / power).fract().abs() < 1e-9
}

/// 1, 2 and 5 times powers of ten, from the last one below to the first one above.
fn steps_around(least: f64, most: f64) -> Vec<f64> {
    let mut steps = Vec::new();
    let mut power = least.log10().floor();
    while power <= most.log10().ceil() {
        steps.extend([1.0, 2.0, 5.0].map(|step| step * 10.0_f64.powf(power)));
        power += 1.0;
    }
    let near = 1.0 + 1e-9;
    let first = steps.iter().rposition(|step| *step <= least * near).unwrap_or(0);
    let last = steps.iter().position(|step| *step * near >= most).unwrap_or(steps.len() - 1);
    steps[first..=last.max(first)].to_vec()
}

/// Three digits, and thousands as such.
fn number(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 999_500.0 => (value / 1e6, " M"),
        value if value >= 9_995.0 => (value / 1e3, " k"),
        value => (value, ""),
    };
    let digits = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.0995 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

fn bytes(value: f64) -> String {
    let units = [("GiB", 30.0), ("MiB", 20.0), ("KiB", 10.0)];
    match units.iter().find(|(_, bits)| value.log2() >= *bits) {
        Some((unit, bits)) => format!("{} {unit}", number(value / bits.exp2())),
        None => format!("{} B", number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, values: &[f64], apart: f64) -> Vec<String> {
        let scale = axis.scale(values.iter().copied(), apart);
        scale.ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn bytes_have_powers_of_two_for_ticks() {
        let axis = Axis::bytes("block");
        assert_eq!(
            texts(&axis, &[4096.0, 65536.0], 0.1),
            ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]
        );
        assert_eq!(texts(&axis, &[4096.0, 65536.0], 0.5), ["4 KiB", "16 KiB", "64 KiB"]);
        assert_eq!(texts(&axis, &[1024.0], 0.1), ["512 B", "1 KiB", "2 KiB"]);
    }

    #[test]
    fn numbers_have_one_two_and_five_while_there_is_room() {
        let axis = Axis::log("GB/s");
        assert_eq!(texts(&axis, &[0.6, 4.1], 0.1), ["0.5", "1", "2", "5"]);
        assert_eq!(texts(&axis, &[0.6, 4100.0], 0.1), ["1", "10", "100", "1000"]);
        assert_eq!(texts(&axis, &[3.0], 0.1), ["2", "5"]);
        assert_eq!(texts(&axis, &[5.0], 0.1), ["2", "5", "10"]);
        assert_eq!(texts(&axis, &[], 0.1), ["1", "2", "5", "10"]);
    }

    #[test]
    fn counts_have_equal_steps() {
        let axis = Axis::count("round");
        assert_eq!(texts(&axis, &[1.0, 4.0], 0.1), ["1", "2", "3", "4"]);
        assert_eq!(texts(&axis, &[1.0, 9.0], 0.2), ["1", "3", "5", "7", "9"]);
        assert_eq!(texts(&axis, &[1.0], 0.1), ["1"]);
        let scale = axis.scale([1.0, 3.0].into_iter(), 0.1);
        assert!((scale.place(2.0).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn values_lie_between_the_ends() {
        let scale = Axis::log("µs").scale([1.0, 100.0].into_iter(), 0.1);
        assert!((scale.place(10.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(
            (scale.place(0.0), scale.place(-1.0), scale.place(f64::NAN)),
            (None, None, None)
        );
        assert_eq!(scale.place(1e9), Some(1.0));
    }

    #[test]
    fn figures_are_shown_with_what_they_are() {
        assert_eq!(Axis::log("GB/s").shown(4.194_304), "4.19 GB/s");
        assert_eq!(Axis::log("requests/s").shown(1_234_567.0), "1.23 M requests/s");
        assert_eq!(Axis::bytes("block").shown(1_048_576.0), "1 MiB");
        assert_eq!((number(0.0123), number(35_000.0)), ("0.0123".to_owned(), "35 k".to_owned()));
    }
}
