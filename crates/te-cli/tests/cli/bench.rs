//! `te bench`: that it moves, checks and tells. How fast it was is nobody's business here.

use serde_json::Value;

use crate::program::{Scratch, Served, te};

/// So little that each row is over at once.
const SHORT: [&str; 6] = ["--duration", "0.05", "--warm-up", "0.01", "--batch", "3"];

fn bench(words: &[&str]) -> Vec<Value> {
    let words = [&["bench", "--json"], &SHORT[..], words].concat();
    let text = te(&words).with(0).text();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_block_and_operation_is_a_row() {
    let rows = bench(&["--block", "4K,64K", "--verify", "--footprint", "1M", "--threads", "2"]);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["operation"].as_str().unwrap(), row["block"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, [("write", 4096), ("read", 4096), ("write", 65536), ("read", 65536)]);
    for row in &rows {
        assert_eq!(
            (&row["verified"], &row["batch"], &row["threads"]),
            (&true.into(), &3.into(), &2.into())
        );
        assert_eq!(row["completion"], "bytes in place");
        let number = |key: &str| row[key].as_u64().unwrap();
        assert_eq!(number("requests"), number("batches") * 3);
        assert_eq!(number("bytes"), number("requests") * number("block"));
        assert!(number("batches") >= 2, "{row}");
        let seconds = row["seconds"].as_f64().unwrap();
        assert!(seconds >= 0.05, "{row}");
        let rate = row["gigabytes_per_second"].as_f64().unwrap();
        assert!(
            (rate * seconds * 1e9 / row["bytes"].as_f64().unwrap() - 1.0).abs() < 1e-6,
            "{row}"
        );
        let latency = |key: &str| row["latency_us"][key].as_f64().unwrap();
        assert!(latency("min") > 0.0 && latency("min") <= latency("p50"), "{row}");
        assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("p99_9"), "{row}");
        assert!(row["cpu_seconds_per_gigabyte"]["there"].is_number(), "{row}");
    }
    assert_eq!(
        (rows[0]["footprint"].as_u64(), rows[3]["footprint"].as_u64()),
        (Some(42 * 24576), Some(2 * 393_216))
    );
}

#[test]
fn a_segment_of_somebody_else_is_moved_to_and_from() {
    let served = Served::start(&["--size", "1M"]);
    let rows = bench(&[&served.segment, "--block", "4K", "--op", "write", "--verify"]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["target"], served.segment);
    // What it spent is not known: it may be on another machine.
    assert!(rows[0]["cpu_seconds_per_gigabyte"]["there"].is_null());
    assert!(rows[0]["cpu_seconds_per_gigabyte"]["here"].is_number());
    let bytes = te(&["read", &served.segment, "--length", "12K"]).with(0).out;
    assert!(bytes.iter().any(|byte| *byte != 0));
}

/// Where there is a device the rows are those of RDMA, else one line says why not; nothing goes by TCP.
#[test]
fn rdma_is_measured_or_refused_with_its_reason() {
    let here = te(&["topo", "--json"]).with(0).json()["rdma"].clone();
    let is_active = |device: &Value| device["ports"][0]["chosen"].is_object();
    if here["devices"].as_array().unwrap().iter().any(is_active) {
        let rows = bench(&["--transport", "rdma", "--block", "64K", "--verify"]);
        assert!(rows.iter().all(|row| row["transport"] == "rdma"), "{rows:?}");
    } else {
        te(&["bench", "--transport", "rdma"]).with(7).told("te: cannot start the engine: ");
    }
}

#[test]
fn a_segment_that_is_too_short_is_told() {
    let served = Served::start(&["--size", "8K"]);
    let begin = format!(
        "te: bench with {}: 24 KiB are needed, the longest of its buffers has 8 KiB",
        served.segment
    );
    te(&["bench", &served.segment, "--block", "8K", "--batch", "3"]).with(5).told(&begin);
}

#[test]
fn a_person_gets_a_table_and_a_picture() {
    let file = Scratch::new("bench.svg");
    let words = [&["bench", "--block", "4K,64K", "--plot", file.path()], &SHORT[..]].concat();
    let text = te(&words).with(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("te bench: 3 requests in a batch, 1 thread, "), "{text}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("  write ")).count(), 2, "{text}");
    assert!(text.contains("Complete means: the bytes are in place"), "{text}");
    let svg = String::from_utf8(file.bytes()).unwrap();
    for part in ["<svg ", "Throughput", "GB/s", "read p99 at 64 KiB: "] {
        assert!(svg.contains(part), "{part}");
    }
}

#[test]
fn settings_reach_both_sides_and_wrong_ones_are_told() {
    let rows =
        bench(&["--block", "4K", "--op", "read", "--checked", "--set", "tcp.protocol_version=3"]);
    assert_eq!(
        (&rows[0]["checked"], &rows[0]["settings"][0]),
        (&true.into(), &"tcp.protocol_version=3".into())
    );
    te(&["bench", "--set", "tcp.nothing=1"])
        .with(2)
        .told("te: bench: there is no setting tcp.nothing");
    te(&["bench", "--set", "tcp.protocol_version=9"]).with(2).told("te: bench: ");
    te(&["bench", "h:1", "--transport", "local"]).with(2).told("te: bench: --transport local");
}

#[test]
fn the_way_that_is_asked_for_is_the_one_that_is_used() {
    for way in ["tcp", "local"] {
        let rows = bench(&["--block", "64K", "--transport", way, "--verify", "--engine-memory"]);
        assert_eq!(rows.len(), 2);
        for row in &rows {
            assert_eq!((&row["transport"], &row["asked"]), (&way.into(), &way.into()), "{row}");
            assert_eq!((&row["verified"], &row["memory"]), (&true.into(), &"engine".into()));
        }
    }
}

#[test]
fn the_help_is_as_it_was_looked_at() {
    let help = te(&["bench", "-h"]).with(0).text();
    assert_eq!(help, include_str!("bench-help.txt"), "{help}");
}
