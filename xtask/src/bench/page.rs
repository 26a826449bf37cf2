//! The report: what `te bench-page` draws of it.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::groups;
use super::sample::{Sample, State, digits, median};
use super::tools::Tools;
use super::verdict::{Verdict, Word};
use crate::workspace::Workspace;

/// Writes `target/bench/report.html`; returns where.
pub(crate) fn write(
    workspace: &Workspace,
    tools: &Tools,
    samples: &[Sample],
    verdicts: &[Verdict],
    conditions: &[String],
) -> anyhow::Result<String> {
    let document = document(samples, verdicts, conditions);
    let (data, page) = (tools.folder.join("report.json"), tools.folder.join("report.html"));
    std::fs::write(&data, document.to_string()).context("cannot write report.json")?;
    draw(&tools.te, &data, &page)?;
    Ok(page.strip_prefix(workspace.root()).unwrap_or(&page).display().to_string())
}

/// Has `te` draw a document.
pub(crate) fn draw(
    te: &std::path::Path,
    data: &std::path::Path,
    page: &std::path::Path,
) -> anyhow::Result<()> {
    let output = Command::new(te).arg("bench-page").arg(data).arg(page).output();
    let output = output.context("cannot start te")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "te cannot draw the report: {}", errors.trim());
    Ok(())
}

/// The report as data.
pub(crate) fn document(samples: &[Sample], verdicts: &[Verdict], conditions: &[String]) -> Value {
    let count = |word: &Word| verdicts.iter().filter(|one| one.word == *word).count();
    let summary = format!(
        "{} met, {} missed, {} not measured",
        count(&Word::Met),
        count(&Word::Missed),
        count(&Word::Open)
    );
    let judged = json!({
        "title": "What must be reached",
        "notes": ["Ratios are medians of ratios within one round, between samples of one state. In \
                   parentheses: the least, the most, and how many rounds could be compared."],
        "table": {
            "columns": ["work", "at least", "measured", "verdict", "aim"],
            "rows": verdicts.iter().map(|one| json!([
                one.work, one.at_least, one.measured, {"word": one.word.text()}, one.aim
            ])).collect::<Vec<_>>(),
        },
    });
    let mut sections = vec![judged];
    sections.extend(by_block(samples));
    sections.extend(by_round(samples));
    sections.push(medians(samples));
    json!({
        "title": "te and others, measured in turns",
        "summary": summary,
        "notes": conditions,
        "sections": sections,
    })
}

/// Throughput by block size, eight requests at a time.
fn by_block(samples: &[Sample]) -> Option<Value> {
    let sizes = [
        ("batch-4k", 4096.0),
        ("batch-64k", 65_536.0),
        ("batch-1m", 1_048_576.0),
        ("batch-64m", 67_108_864.0),
    ];
    let panel = |op: &str| {
        let series = |name: &str| {
            let label = format!("{name} {op}");
            let points: Vec<[f64; 2]> = sizes
                .iter()
                .filter_map(|(group, size)| Some([*size, rate(samples, group, &label)?]))
                .collect();
            json!({"name": name, "points": points})
        };
        let all = ["te", "nixl", "libfabric"].map(series);
        json!({
            "title": format!("TCP, 8 requests at a time, {op}"),
            "across": {"label": "block", "kind": "bytes"},
            "up": {"label": "GB/s", "kind": "log"},
            "series": all,
        })
    };
    let is_there = samples.iter().any(|one| one.group.starts_with("batch-"));
    let panels = ["write", "read"].map(panel);
    is_there.then(|| {
        json!({
            "title": "Throughput by block size",
            "notes": ["Medians of all rounds, whatever the state of the machine."],
            "panels": panels,
        })
    })
}

/// Every sample of the groups that jump with the state of the machine.
fn by_round(samples: &[Sample]) -> Option<Value> {
    let panel = |group: &groups::Group| {
        let series = |label: &String| {
            let own =
                samples.iter().filter(|one| one.group == group.name && one.contender == *label);
            let points: Vec<[f64; 2]> =
                own.filter_map(|one| Some([f64::from(one.round + 1), one.figures.rate?])).collect();
            (!points.is_empty()).then(|| json!({"name": label, "points": points}))
        };
        let all: Vec<Value> =
            group.contenders.iter().filter_map(|one| series(&one.label)).collect();
        (!all.is_empty()).then(|| {
            json!({
                "title": group.about,
                "across": {"label": "round", "kind": "count"},
                "up": {"label": "GB/s", "kind": "log"},
                "series": all,
            })
        })
    };
    let shown =
        ["tcp-1m", "tcp-64m", "tcp-64k", "tcp-4k", "one-core", "v2", "shm-1m", "shm-engine"];
    let groups = groups::all();
    let panels: Vec<Value> =
        groups.iter().filter(|group| shown.contains(&group.name)).filter_map(panel).collect();
    (!panels.is_empty()).then(|| json!({"title": "Every round", "notes": [], "panels": panels}))
}

/// All contenders with their medians.
fn medians(samples: &[Sample]) -> Value {
    let mut rows = Vec::new();
    for group in groups::all() {
        for contender in &group.contenders {
            let own: Vec<&Sample> = samples
                .iter()
                .filter(|one| one.group == group.name && one.contender == contender.label)
                .collect();
            if !own.is_empty() {
                rows.push(row(group.about, &contender.label, &own));
            }
        }
    }
    json!({
        "title": "Medians of all samples",
        "notes": ["Whatever the state of the machine: compare within a row of the first table only."],
        "table": {
            "columns": ["work", "who", "GB/s", "requests/s", "p50 µs", "p99 µs", "CPU s/GB here",
                        "there", "near", "disturbed", "note"],
            "rows": rows,
        },
    })
}

fn row(work: &str, who: &str, own: &[&Sample]) -> Value {
    let middle = |get: fn(&Sample) -> Option<f64>| {
        let values = own.iter().filter_map(|one| get(one)).collect();
        median(values).map(digits).unwrap_or_default()
    };
    let near = own.iter().filter(|one| one.state() == State::Near).count();
    let disturbed = own.iter().filter(|one| !one.is_quiet()).count();
    let absent = own.iter().find_map(|one| one.absent.clone()).unwrap_or_default();
    let note = if absent.is_empty() {
        own.iter().find_map(|one| one.figures.value).map(digits).unwrap_or_default()
    } else {
        format!("absent: {absent}")
    };
    json!([
        work,
        who,
        middle(|one| one.figures.rate),
        middle(|one| one.figures.requests),
        middle(|one| one.figures.p50),
        middle(|one| one.figures.p99),
        middle(|one| one.figures.cpu_here),
        middle(|one| one.figures.cpu_there),
        format!("{near} of {}", own.len()),
        disturbed.to_string(),
        note,
    ])
}

fn rate(samples: &[Sample], group: &str, label: &str) -> Option<f64> {
    let own = samples.iter().filter(|one| one.group == group && one.contender == label);
    median(own.filter_map(|one| one.figures.rate).collect())
}
