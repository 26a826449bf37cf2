//! What an idle transport costs. Alone in its program, because it measures the whole process.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests are drivers")]

mod common;

use std::time::{Duration, Instant};

use common::{Node, config};
use te_segment::Opcode;

/// K15: idle transports with open connections use no processor time: less than 1 % of a second.
#[test]
fn k15_an_idle_pair_uses_no_processor_time() {
    let (a, b) = (Node::with(config()), Node::with(config()));
    let (source, target) = (a.register(4096), b.register(4096));
    let peer = b.as_peer();
    for run in [Node::run, Node::run_driving] {
        let at = target.region().address();
        assert_eq!(run(&a, Opcode::Write, source.region().whole(), at, &peer).result, Ok(()));
    }
    // The driver looks for callers for a moment after the last one drove.
    std::thread::sleep(Duration::from_millis(50));
    let (begun, before) = (Instant::now(), cpu_nanos());
    std::thread::sleep(Duration::from_secs(1));
    let used = Duration::from_nanos(cpu_nanos() - before);
    println!("{used:?} of processor time in {:?}", begun.elapsed());
    assert!(used < Duration::from_millis(10), "{used:?}");
}

/// Processor time of every thread of this process: the first number of `schedstat`.
fn cpu_nanos() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.map(|task| task.unwrap().path().join("schedstat"));
    let first = |text: String| text.split_whitespace().next().unwrap().parse::<u64>().unwrap();
    stats.map(|path| first(std::fs::read_to_string(path).unwrap())).sum()
}
