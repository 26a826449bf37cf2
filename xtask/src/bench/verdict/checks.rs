//! What must hold: one line for each part of each row.

use super::{Bar, Check, Measure, Metric, NOT_RUN, Verdict, Word};
use crate::bench::sample::{Sample, State, digits, median};

const MOONCAKES: &[&str] = &["mooncake write", "mooncake read"];

/// The work and its samples, the label of ours, that of others.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str]);

fn ratio((work, group, ours, theirs): Row, metric: Metric, bar: Bar) -> Check {
    let than = match theirs {
        [first] if first.starts_with("mooncake") => "× Mooncake",
        [first] if first.starts_with("iperf3") => "× iperf3",
        [first] if first.starts_with("nixl") => "× NIXL",
        [first] if first.starts_with("process_vm") => "× process_vm",
        [first] if first.starts_with("memcpy") => "× memcpy",
        [first] if first.starts_with("before") => "× before",
        _ => "× Mooncake's better",
    };
    let measure = Measure::Ratio { ours, theirs };
    Check { work, group, metric, measure, bar, than, aim: "", is_near: false }
}

impl Check {
    fn near(self) -> Self {
        Self { is_near: true, ..self }
    }

    fn aim(self, aim: &'static str) -> Self {
        Self { aim, ..self }
    }

    fn plain(self, than: &'static str) -> Self {
        let (Measure::Ratio { ours, .. }
        | Measure::Difference { ours, .. }
        | Measure::Plain { ours }) = self.measure;
        Self { measure: Measure::Plain { ours }, than, ..self }
    }
}

pub(super) fn all() -> Vec<Check> {
    let mut checks = tcp();
    checks.extend(latency());
    checks.extend(costs());
    checks.extend(same_host());
    checks.extend(against());
    // Directions of the same thing stand together.
    let kind = |check: &Check| (check.group, check.metric, check.bar.text(), check.than);
    let kinds: Vec<_> = checks.iter().map(kind).collect();
    checks.sort_by_key(|check| kinds.iter().position(|known| *known == kind(check)));
    checks
}

fn tcp() -> Vec<Check> {
    use Bar::AtLeast;
    use Metric::{Rate, Requests};
    const IPERF: &[&str] = &["iperf3 write"];
    let mut checks = Vec::new();
    for (work, ours) in [("TCP 1 MiB × 8, write", "te write"), ("TCP 1 MiB × 8, read", "te read")]
    {
        checks
            .push(ratio((work, "tcp-1m", ours, MOONCAKES), Rate, AtLeast(1.7)).near().aim("2.5 ×"));
        checks.push(ratio((work, "tcp-1m", ours, IPERF), Rate, AtLeast(1.3)).near());
    }
    for (work, ours) in [("TCP 64 MiB × 1, write", "te write"), ("TCP 64 MiB × 1, read", "te read")]
    {
        checks.push(
            ratio((work, "tcp-64m", ours, MOONCAKES), Rate, AtLeast(2.0)).near().aim("2.8 ×"),
        );
    }
    let pairs: [(_, _, &[&str]); 2] =
        [("write", "te write", &["mooncake write"]), ("read", "te read", &["mooncake read"])];
    for (op, ours, theirs) in pairs {
        let name = |write, read| if op == "write" { write } else { read };
        let work = name("TCP 64 KiB × 128, write", "TCP 64 KiB × 128, read");
        checks.push(ratio((work, "tcp-64k", ours, theirs), Rate, AtLeast(2.5)).near().aim("3.5 ×"));
        let work = name("TCP 4 KiB × 128, write", "TCP 4 KiB × 128, read");
        checks.push(ratio((work, "tcp-4k", ours, theirs), Requests, AtLeast(12.0)));
        checks.push(
            ratio((work, "tcp-4k", ours, theirs), Requests, AtLeast(25.0)).near().aim("40 ×"),
        );
        let work = name("one core, 1 MiB × 8, write", "one core, 1 MiB × 8, read");
        checks.push(ratio((work, "one-core", ours, theirs), Rate, AtLeast(3.0)).aim("4 ×"));
        let work =
            name("our initiator to Mooncake, v2, write", "our initiator to Mooncake, v2, read");
        let ours = name("te to mooncake write", "te to mooncake read");
        checks.push(ratio((work, "v2", ours, theirs), Rate, AtLeast(1.0)).aim("1.2 ×"));
        let work = name("Mooncake to our target, v2, write", "Mooncake to our target, v2, read");
        let ours = name("mooncake to te write", "mooncake to te read");
        checks.push(ratio((work, "v2", ours, theirs), Rate, AtLeast(1.0)).aim("1.2 ×"));
    }
    const FOUR: &[&str] = &["iperf3 four streams write"];
    let work = "TCP 64 MiB × 8, four connections, write";
    checks.push(ratio((work, "lanes", "te 4 lanes write", FOUR), Rate, AtLeast(0.7)));
    checks
}

fn latency() -> Vec<Check> {
    use Bar::AtMost;
    use Metric::{P50, P99OverP50};
    let pairs: [(_, _, &[&str]); 2] =
        [("write", "te write", &["mooncake write"]), ("read", "te read", &["mooncake read"])];
    let mut checks = Vec::new();
    for (op, ours, theirs) in pairs {
        let name = |write, read| if op == "write" { write } else { read };
        let work = name("TCP one 4 KiB, p50, write", "TCP one 4 KiB, p50, read");
        checks.push(ratio((work, "latency", ours, theirs), P50, AtMost(0.35)).aim("10 µs"));
        let work = name("TCP one 4 KiB parked, p50, write", "TCP one 4 KiB parked, p50, read");
        checks.push(ratio((work, "latency-parked", ours, theirs), P50, AtMost(1.2)));
        let work = name("TCP one 4 KiB, p99, write", "TCP one 4 KiB, p99, read");
        let own = ratio((work, "latency", ours, theirs), P99OverP50, AtMost(3.0));
        checks.push(own.plain("× p50"));
    }
    checks
}

fn costs() -> Vec<Check> {
    use Bar::AtMost;
    use Metric::Cpu;
    let pairs: [(_, _, &[&str]); 2] =
        [("write", "te write", &["mooncake write"]), ("read", "te read", &["mooncake read"])];
    let mut checks = Vec::new();
    for (op, ours, theirs) in pairs {
        let name = |write, read| if op == "write" { write } else { read };
        let work = name("CPU s/GB, 1 MiB × 8, write", "CPU s/GB, 1 MiB × 8, read");
        checks.push(ratio((work, "tcp-1m", ours, theirs), Cpu, AtMost(0.6)).near().aim("0.3 ×"));
        let work = name("CPU s/GB, low CPU, write", "CPU s/GB, low CPU, read");
        checks.push(ratio((work, "low-cpu", ours, theirs), Cpu, AtMost(0.5)).aim("0.3 ×"));
        let work = name("CRC on, CPU s/GB more, write", "CRC on, CPU s/GB more, read");
        let (checked, plain) =
            (name("checked write", "checked read"), name("plain write", "plain read"));
        let sums = ratio((work, "crc", checked, &[]), Cpu, AtMost(0.04));
        let measure = Measure::Difference { ours: checked, theirs: plain };
        checks.push(Check { measure, than: "s/GB", ..sums });
    }
    let idle = ratio(("idle, 100 open peers", "idle", "te write", &[]), Metric::Value, AtMost(0.5));
    checks.push(idle.plain("% of a core"));
    checks
}

fn same_host() -> Vec<Check> {
    use Bar::{AtLeast, AtMost};
    use Metric::{P50, Rate, Requests};
    let mut checks = Vec::new();
    for op in ["write", "read"] {
        let name = |write, read| if op == "write" { write } else { read };
        let ours = name("te write", "te read");
        let bare: &[&str] =
            if op == "write" { &["process_vm write"] } else { &["process_vm read"] };
        let nixl: &[&str] = if op == "write" { &["nixl write"] } else { &["nixl read"] };
        let sizes = [
            (name("one host, 64 KiB × 8, write", "one host, 64 KiB × 8, read"), "shm-64k"),
            (name("one host, 1 MiB × 8, write", "one host, 1 MiB × 8, read"), "shm-1m"),
        ];
        for (work, group) in sizes {
            checks.push(ratio((work, group, ours, bare), Rate, AtLeast(0.9)));
            checks.push(
                ratio((work, group, ours, nixl), Rate, AtLeast(1.0)).aim("2 × with huge pages"),
            );
        }
        let work = name("one host, 4 KiB × 128, write", "one host, 4 KiB × 128, read");
        checks.push(ratio((work, "shm-4k", ours, nixl), Requests, AtLeast(3.0)).aim("4.5 ×"));
        let work = name("one host, one 4 KiB, p50, write", "one host, one 4 KiB, p50, read");
        checks.push(
            ratio((work, "shm-latency", ours, nixl), P50, AtMost(3.0)).plain("µs").aim("2 µs"),
        );
    }
    let work = "one host, engine memory, 1 MiB × 8";
    let memcpy: &[&str] = &["memcpy write"];
    checks.push(
        ratio((work, "shm-engine", "te write", memcpy), Rate, AtLeast(0.9)).aim("1.5 × cold"),
    );
    checks
}

/// The steady measurement: a change must not cost more than a twentieth.
fn against() -> Vec<Check> {
    let rows: [Row; 4] = [
        (
            "one core, beside the revision, 1 MiB, write",
            "against",
            "now 1 MiB write",
            &["before 1 MiB write"],
        ),
        (
            "one core, beside the revision, 1 MiB, read",
            "against",
            "now 1 MiB read",
            &["before 1 MiB read"],
        ),
        (
            "one core, beside the revision, 4 KiB, write",
            "against",
            "now 4 KiB write",
            &["before 4 KiB write"],
        ),
        (
            "one core, beside the revision, 4 KiB, read",
            "against",
            "now 4 KiB read",
            &["before 4 KiB read"],
        ),
    ];
    rows.map(|row| ratio(row, Metric::Rate, Bar::AtLeast(0.95))).into()
}

/// Blocks of eight in both directions: at least as fast in six of eight cells, far behind in none.
pub(super) fn cells(samples: &[Sample], peer: &'static str) -> Verdict {
    let shown = if peer == "nixl" { "NIXL" } else { "libfabric, complete when delivered" };
    let mut cells = Vec::new();
    let mut reason = NOT_RUN.to_owned();
    for group in ["batch-4k", "batch-64k", "batch-1m", "batch-64m"] {
        for op in ["write", "read"] {
            match cell(samples, group, peer, op) {
                Ok(ratio) => cells.push((group, op, ratio)),
                Err(why) => reason = why,
            }
        }
    }
    let ahead = cells.iter().filter(|cell| cell.2 >= 1.0).count();
    let behind = cells.iter().filter(|cell| cell.2 < 0.8).count();
    let word = match (cells.len(), ahead, behind) {
        (8, 6.., 0) => Word::Met,
        (8, ..) => Word::Missed,
        _ => Word::Open,
    };
    let list = cells.iter().map(|(group, op, ratio)| {
        format!("{} {op} {}", group.trim_start_matches("batch-"), digits(*ratio))
    });
    let list = list.collect::<Vec<_>>().join(", ");
    let is_run = samples.iter().any(|one| one.group.starts_with("batch-"));
    let measured = if !is_run {
        NOT_RUN.to_owned()
    } else if word == Word::Open {
        format!("{} of 8 cells: {reason}", cells.len())
    } else {
        format!("{ahead} of 8: {list}")
    };
    Verdict {
        work: format!("TCP batch 8, 4 KiB to 64 MiB, against {shown}"),
        at_least: "≥ 1.0 × in 6 of 8, ≥ 0.8 × in all".to_owned(),
        aim: "all".to_owned(),
        measured,
        word,
    }
}

/// The median ratio of one cell.
fn cell(samples: &[Sample], group: &str, peer: &str, op: &str) -> Result<f64, String> {
    let of = |name: &str| -> Vec<&Sample> {
        let label = format!("{name} {op}");
        samples.iter().filter(|one| one.group == group && one.contender == label).collect()
    };
    let (ours, theirs) = (of("te"), of(peer));
    if let Some(why) = ours.iter().chain(&theirs).find_map(|one| one.absent.clone()) {
        return Err(why);
    }
    let ratios = ours.iter().filter_map(|one| {
        let other = theirs.iter().find(|other| {
            other.round == one.round && other.state() == one.state() && one.state() != State::Mixed
        })?;
        Some(one.figures.rate? / other.figures.rate?)
    });
    median(ratios.collect()).ok_or_else(|| "never in one state for both".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::groups;
    use crate::bench::sample::tests::sample;

    #[test]
    fn every_check_names_samples_that_are_taken() {
        let groups = groups::all();
        for check in all() {
            let group = groups.iter().find(|group| group.name == check.group);
            let labels: Vec<&str> =
                group.expect(check.group).contenders.iter().map(|one| one.label.as_str()).collect();
            let named = match check.measure {
                Measure::Ratio { ours, theirs } => [&[ours], theirs].concat(),
                Measure::Difference { ours, theirs } => vec![ours, theirs],
                Measure::Plain { ours } => vec![ours],
            };
            for label in named {
                assert!(
                    labels.contains(&label),
                    "{}: {label} is not among {labels:?}",
                    check.group
                );
            }
        }
    }

    #[test]
    fn cells_are_counted() {
        let mut samples = Vec::new();
        for group in ["batch-4k", "batch-64k", "batch-1m", "batch-64m"] {
            for op in ["write", "read"] {
                samples.push(sample(0, group, &format!("te {op}"), 2.0));
                samples.push(sample(0, group, &format!("nixl {op}"), 1.0));
            }
        }
        assert_eq!(cells(&samples, "nixl").word, Word::Met);
        samples[1].figures.rate = Some(3.0);
        let verdict = cells(&samples, "nixl");
        assert_eq!(verdict.word, Word::Missed);
        assert!(verdict.measured.starts_with("7 of 8: 4k write 0.67, 4k read 2.00"), "{verdict:?}");
        samples.pop();
        assert_eq!(cells(&samples, "nixl").word, Word::Open);
        assert_eq!(cells(&[], "libfabric").measured, NOT_RUN);
    }
}
