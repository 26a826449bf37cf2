//! Figures: measuring, and the two forms in which they are printed.

use std::hint::black_box;
use std::time::Instant;

use stats_alloc::{Region, Stats};

use crate::COUNTED;

/// Prints figures as they come.
pub(crate) struct Figures {
    json: bool,
    wanted: Vec<String>,
}

impl Figures {
    pub(crate) fn new(json: bool, wanted: Vec<String>) -> Self {
        Self { json, wanted }
    }

    /// Whether some figure whose name begins so is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// Prints one figure; `limit` is the most that it should be.
    pub(crate) fn print(&self, name: &str, value: f64, unit: &str, limit: Option<f64>) {
        if !self.wants(name) {
            return;
        }
        let kept = limit.map(|limit| value <= limit);
        if self.json {
            let limit = limit.map_or_else(|| "null".to_owned(), |limit| limit.to_string());
            let kept = kept.map_or_else(|| "null".to_owned(), |kept| kept.to_string());
            println!(
                "{{\"figure\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\",\"limit\":{limit},\"kept\":{kept}}}"
            );
            return;
        }
        let verdict = match (limit, kept) {
            (Some(limit), Some(true)) => format!("  ok, at most {limit}"),
            (Some(limit), _) => format!("  MISSED, at most {limit}"),
            _ => String::new(),
        };
        println!("{name:<52} {value:>12.2} {unit:<8}{verdict}");
    }
}

/// Nanoseconds of `work`, which does `n` things, for each of them: the least of several rounds.
pub(crate) fn nanos<T>(rounds: u32, n: u64, mut work: impl FnMut() -> T) -> f64 {
    let round = |_| {
        let begun = Instant::now();
        black_box(work());
        begun.elapsed().as_nanos() as f64 / n as f64
    };
    (0..rounds).map(round).fold(f64::INFINITY, f64::min)
}

/// What `work` allocated, and its result.
pub(crate) fn allocated<T>(work: impl FnOnce() -> T) -> (Stats, T) {
    let region = Region::new(COUNTED);
    let result = work();
    (region.change(), result)
}

/// Bytes that are taken and were not given back; what a block grew by is among them.
pub(crate) fn kept(stats: &Stats) -> f64 {
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}
