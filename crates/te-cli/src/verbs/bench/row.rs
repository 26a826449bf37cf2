//! What is told of one row: a line of the table, or one JSON object.

use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::args::Bench;
use super::{Cell, Setup};
use crate::units;

/// One measured row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) cell: Cell,
    pub(super) batches: u64,
    pub(super) requests_per_batch: u64,
    pub(super) time: Duration,
    /// Of batches, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Processor time of this side and of the other.
    pub(super) spent: (Option<Duration>, Option<Duration>),
    /// Whether the bytes were checked in a pass of their own.
    pub(super) verified: Option<bool>,
}

impl Row {
    pub(super) fn requests(&self) -> u64 {
        self.batches * self.requests_per_batch
    }

    pub(super) fn bytes(&self) -> u64 {
        self.requests() * self.cell.block
    }

    /// GB/s.
    pub(super) fn rate(&self) -> f64 {
        units::rate(self.bytes(), self.time)
    }

    /// Microseconds below which this share of batches stayed.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        micros(self.latency.value_at_quantile(share))
    }

    fn requests_per_second(&self) -> f64 {
        float(self.requests()) / self.time.as_secs_f64().max(1e-9)
    }

    fn per_gigabyte(&self, spent: Option<Duration>) -> Option<f64> {
        spent.map(|time| time.as_secs_f64() / (float(self.bytes()) / 1e9))
    }

    pub(super) fn line(&self) -> String {
        let cpu = |spent| match self.per_gigabyte(spent) {
            Some(seconds) => format!("{seconds:.3}"),
            None => "–".to_owned(),
        };
        columns([
            self.cell.op.word(),
            &units::length(self.cell.block),
            &digits(self.rate()),
            &thousands(self.requests_per_second()),
            &digits(self.quantile(0.5)),
            &digits(self.quantile(0.99)),
            &digits(self.quantile(0.999)),
            &cpu(self.spent.0),
            &cpu(self.spent.1),
        ])
    }

    pub(super) fn json(&self, args: &Bench) -> Value {
        json!({
            "operation": self.cell.op.word(),
            "block": self.cell.block,
            "batch": args.batch,
            "threads": args.threads,
            "transport": args.transport.word(),
            "target": args.segment,
            "memory": args.memory().word(),
            "huge_pages": args.huge_pages,
            "footprint": args.needs(self.cell.block),
            "checked": args.checked,
            "low_cpu": args.low_cpu,
            "spin_us": args.spin,
            "settings": args.set.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>(),
            "pause_seconds": args.pause.map(|pause| pause.as_secs_f64()),
            "seed": args.seed,
            "verified": self.verified,
            "completion": "bytes in place",
            "seconds": self.time.as_secs_f64(),
            "batches": self.batches,
            "requests": self.requests(),
            "bytes": self.bytes(),
            "gigabytes_per_second": self.rate(),
            "requests_per_second": self.requests_per_second(),
            "latency_us": {
                "min": micros(self.latency.min()),
                "p50": self.quantile(0.5),
                "p99": self.quantile(0.99),
                "p99_9": self.quantile(0.999),
                "max": micros(self.latency.max()),
            },
            "cpu_seconds_per_gigabyte": {
                "here": self.per_gigabyte(self.spent.0),
                "there": self.per_gigabyte(self.spent.1),
            },
        })
    }
}

/// What is measured, and the head of the table.
pub(super) fn introduce(args: &Bench, setup: &Setup<'_>) -> String {
    let mut text = String::new();
    let whom = match (&args.segment, &setup.child) {
        (Some(segment), _) => format!("segment {}", units::printable(segment)),
        (None, Some(child)) => format!("process {} on this host", child.pid()),
        (None, None) => "this same process".to_owned(),
    };
    let _ = writeln!(
        text,
        "te bench: {} in a batch, {}, {} a row, with {whom}",
        counted(u64::from(args.batch), "request"),
        counted(u64::from(args.threads), "thread"),
        units::shown_time(args.duration),
    );
    let _ = writeln!(text, "{}\n", conditions(args));
    text.push_str(&head());
    text
}

fn conditions(args: &Bench) -> String {
    let mut parts = vec![
        format!("transport {}", args.transport.word()),
        format!("{} memory", args.memory().word()),
    ];
    if args.huge_pages {
        parts.push("huge pages".to_owned());
    }
    parts.push(match args.footprint {
        Some(length) => format!("turns over {} (cold)", units::length(length)),
        None => "the same place again and again (hot)".to_owned(),
    });
    parts.extend(args.pause.map(|pause| format!("{} of rest between", units::shown_time(pause))));
    if args.low_cpu {
        parts.push("low CPU".to_owned());
    }
    parts.extend(args.spin.map(|spin| format!("spinning {spin} µs")));
    if args.checked {
        parts.push("bytes summed up and compared".to_owned());
    }
    parts.extend(args.set.iter().map(|(name, value)| units::printable(&format!("{name}={value}"))));
    parts.join(", ")
}

/// What the figures mean.
pub(super) fn conclude(args: &Bench, setup: &Setup<'_>) -> String {
    let mut text =
        String::from("\nComplete means: the bytes are in place at the receiving side.\n");
    if args.verify {
        text.push_str("Bytes of both directions were compared before each block size.\n");
    }
    if setup.child.is_none() && args.segment.is_some() {
        text.push_str("What the target's processors did is not known here.\n");
    }
    text
}

fn head() -> String {
    let above = columns(["", "", "", "", "latency of a batch, µs", "", "", "CPU s/GB", ""]);
    let below =
        columns(["", "block", "GB/s", "requests/s", "p50", "p99", "p99.9", "here", "there"]);
    format!("{}\n{below}\n", above.trim_end())
}

fn columns(cells: [&str; 9]) -> String {
    let [word, block, rate, requests, p50, p99, p999, here, there] = cells;
    if p50.chars().count() > 10 {
        // A word over three columns.
        return format!("{:44}{p50:^32} {here:>13}", "");
    }
    format!(
        "  {word:<5} {block:>10} {rate:>10} {requests:>12}  {p50:>9} {p99:>10} {p999:>10}  \
         {here:>7} {there:>7}"
    )
}

/// Three digits that mean something.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn thousands(value: f64) -> String {
    if value >= 1e6 { format!("{:.2} M", value / 1e6) } else { format!("{value:.0}") }
}

pub(super) fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn micros(nanoseconds: u64) -> f64 {
    float(nanoseconds) / 1e3
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::bench::args::Operation;

    fn row() -> Row {
        let mut latency = Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        latency.record_n(1_500_000, 100).unwrap();
        Row {
            cell: Cell { op: Operation::Write, block: 1 << 20 },
            batches: 100,
            requests_per_batch: 8,
            time: Duration::from_millis(200),
            latency,
            spent: (Some(Duration::from_millis(84)), None),
            verified: None,
        }
    }

    #[test]
    fn a_row_lines_up_with_the_head() {
        let line = row().line();
        assert_eq!(
            line,
            "  write      1 MiB       4.19         4000       1500       1500       1500    0.100       –"
        );
        let head = head();
        let below = head.lines().last().unwrap();
        assert_eq!(below.chars().count(), line.chars().count());
        assert!(head.lines().all(|line| line.chars().count() <= 96), "{head}");
    }

    #[test]
    fn figures_follow_from_what_was_counted() {
        let row = row();
        assert_eq!((row.requests(), row.bytes()), (800, 800 << 20));
        assert!((row.rate() - 4.194_304).abs() < 1e-6);
        assert!((row.quantile(0.5) - 1500.0).abs() < 2.0);
    }
}
