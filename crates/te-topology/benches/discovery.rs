//! How long discovery takes on a large machine: 32 NICs, 16 GPUs, 8 NUMA nodes, on disk.
//!
//! It prints the times and fails above the limit of 20 ms, which the start of an engine may cost.
#![expect(clippy::print_stdout, reason = "a benchmark's output is what it prints")]

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use te_topology::{Affinity, NicSelector, Picker, Reach, read_sysfs};

#[path = "../tests/common/mod.rs"]
mod common;

use common::Scratch;
use common::fixture::Fixture;

const LIMIT: Duration = Duration::from_millis(20);
const ROUNDS: u32 = 50;

/// Two sockets of four nodes; on each node two switches with two NICs and a GPU, and other cards.
fn large() -> Fixture {
    let mut text = String::from("net lo\nnet docker0 bridge\n");
    for node in 0..8_usize {
        let row = (0..8).map(|to| match (node == to, node / 4 == to / 4) {
            (true, _) => "10",
            (_, true) => "12",
            _ => "32",
        });
        let row = row.collect::<Vec<_>>().join(",");
        let (first, last) = (node * 16, node * 16 + 15);
        let _ = writeln!(text, "node {node} cpus={first}-{last} memory=256 distances={row}");
        for switch in 0..2 {
            let (root, nic) = (node * 2 + switch, node * 4 + switch * 2);
            let bus = |below: usize| format!("0000:{:02x}", root * 16 + below);
            let _ = write!(
                text,
                "root pci{r} node={node}\n  {r}:01.0 bridge\n    {a}:00.0 bridge\n      \
                 {b}:00.0 bridge\n        {c}:00.0 nic mlx5_{nic} rate=400 net=eth{nic}\n      \
                 {b}:01.0 bridge\n        {d}:00.0 nic mlx5_{n2} rate=400 net=eth{n2}\n      \
                 {b}:02.0 bridge\n        {e}:00.0 gpu 10de:2330\n",
                r = bus(0),
                a = bus(1),
                b = bus(2),
                c = bus(3),
                d = bus(4),
                e = bus(5),
                n2 = nic + 1,
            );
            // What else such machines have: some hundred functions that are neither NIC nor GPU.
            for other in 0..24 {
                let _ = writeln!(text, "  {}:{other:02x}.1 other class=0x088000", bus(8));
            }
        }
    }
    Fixture::parse(&text)
}

/// What a round of some work takes.
struct Times {
    /// On a processor, on average. Other work of the machine does not count in it.
    busy: Duration,
    /// By the clock, at least.
    least: Duration,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn times(mut work: impl FnMut()) -> Times {
    let (start, busy_before) = (Instant::now(), busy());
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    let least = rounds.min().unwrap_or_default();
    // Where the kernel does not say what a thread was busy, the clock stands in.
    let busy = busy().zip(busy_before).map_or_else(|| start.elapsed(), |(now, then)| now - then);
    Times { busy: busy / ROUNDS, least }
}

fn busy() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn main() {
    let scratch = Scratch::new();
    large().write(&scratch.0);
    let machine = read_sysfs(&scratch.0);
    assert_eq!((machine.nics().len(), machine.gpus().len(), machine.nodes().len()), (32, 16, 8));
    let discovery = times(|| {
        black_box(read_sysfs(&scratch.0));
    });
    let Times { busy, least } = discovery;
    println!("discovery of 32 NICs, 16 GPUs, 8 nodes: {busy:?} busy, least {least:?} by the clock");
    let ranking = times(|| {
        black_box(Affinity::of(&machine).matrix(Reach::All)).ok();
    });
    println!("ranking them: least {:?}", ranking.least);
    let matrix = Affinity::of(&machine).matrix(Reach::All).unwrap_or_default();
    let selector = NicSelector::new(&matrix);
    let (mut picker, location) = (Picker::random(1), "cpu:3".into());
    let picks = times(|| {
        for _ in 0..1000 {
            black_box(selector.select(&location, 0, &mut picker)).ok();
        }
    });
    println!("1000 selections: least {:?}", picks.least);
    let whole = busy.min(least) + ranking.least;
    assert!(whole < LIMIT, "discovery and ranking take {whole:?}, at most {LIMIT:?} are allowed");
}
