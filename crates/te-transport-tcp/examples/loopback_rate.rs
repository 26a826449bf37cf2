//! How fast two transports move bytes on this machine's loopback: GB/s and CPU seconds per GB of
//! both ends together, for the shapes that are compared everywhere. Arguments: seconds per row, bytes per
//! socket call, and the shapes, such as `4096x128,1048576x8`; and which rows, such as `read caller v3`.
#![allow(clippy::print_stdout, reason = "a program that prints a table")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a program that measures time")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Node, v3};
use te_segment::{LocalBuffer, Opcode, Slice};
use te_transport::{Driven, Transport};
use te_transport_tcp::TcpConfig;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1.0);
    let only: Option<usize> = std::env::args().nth(2).and_then(|s| s.parse().ok());
    let (shapes, wanted) = (std::env::args().nth(3), std::env::args().nth(4));
    let chunks: Vec<usize> = only.map_or_else(|| vec![64 << 10, 256 << 10, 1 << 20], |c| vec![c]);
    println!("chunk      shape            op     who     version   GB/s   CPU s/GB   us/batch");
    for chunk in chunks {
        // Both versions take turns, so that a change of the machine's mood hits both.
        let pairs = [2, 3].map(|max_version| {
            let config = TcpConfig { io_chunk: chunk, max_version, ..v3() };
            (max_version, Node::with(config.clone()), Node::with(config))
        });
        for (size, count) in
            [(64 << 20, 1), (1 << 20, 8), (64 << 10, 128), (4 << 10, 128), (4 << 10, 1)]
        {
            let named = format!("{size}x{count}");
            if shapes.as_ref().is_some_and(|wanted| wanted.split(',').all(|shape| shape != named)) {
                continue;
            }
            for (op, driving) in [
                (Opcode::Write, true),
                (Opcode::Write, false),
                (Opcode::Read, true),
                (Opcode::Read, false),
            ] {
                for (version, a, b) in &pairs {
                    let who = if driving { "caller" } else { "thread" };
                    let name = format!("{op:?} {who} v{version}").to_lowercase();
                    if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
                        continue;
                    }
                    let row = Row { size, count, op, driving };
                    let (rate, cpu, micros) = measure(a, b, &row, Duration::from_secs_f64(seconds));
                    let shape = format!("{size} x {count}");
                    println!(
                        "{chunk:<10} {shape:<16} {op:<6?} {who}  v{version}      {rate:6.2}     {cpu:6.2}   {micros:8.0}"
                    );
                }
            }
        }
    }
}

struct Row {
    size: usize,
    count: usize,
    op: Opcode,
    driving: bool,
}

fn measure(a: &Node, b: &Node, row: &Row, time: Duration) -> (f64, f64, f64) {
    let (source, target) = (a.register(64 << 20), b.register(64 << 20));
    source.region().write_from(0, &vec![1; 64 << 20]).unwrap();
    target.region().write_from(0, &vec![2; 64 << 20]).unwrap();
    let peer = b.as_peer();
    batch(a, row, &source, &target, &peer);
    let (begun, cpu, mut batches) = (Instant::now(), cpu_seconds(), 0u32);
    while begun.elapsed() < time {
        batch(a, row, &source, &target, &peer);
        batches += 1;
    }
    let took = begun.elapsed().as_secs_f64();
    let gb = (row.size * row.count) as f64 * f64::from(batches) / 1e9;
    a.segment.retire(source.region().address()).unwrap().unwrap().finish(time).unwrap();
    b.segment.retire(target.region().address()).unwrap().unwrap().finish(time).unwrap();
    (gb / took, (cpu_seconds() - cpu) / gb, took * 1e6 / f64::from(batches))
}

/// One batch, cut as the engine cuts it.
fn batch(
    a: &Node,
    row: &Row,
    source: &Arc<LocalBuffer>,
    target: &Arc<LocalBuffer>,
    peer: &Arc<te_segment::RemoteSegment>,
) {
    let policy = a.transport.slices_to(peer);
    let mut slices: Vec<Slice> = Vec::new();
    for request in 0..row.count {
        let base = (request * row.size) as u64;
        for (offset, len) in policy.pieces(row.size as u64) {
            let local = source.region().range(base + offset, len).unwrap();
            let at = target.region().address() + base + offset;
            slices.push(a.slice(row.op, local, at, peer));
        }
    }
    let n = slices.len();
    a.ends.look_mut(|state| state.ends.clear());
    if row.driving {
        let until = Instant::now() + common::PATIENCE;
        let mut queue = VecDeque::from(slices);
        while a.ends.look(|state| state.ends.len()) < n {
            if !queue.is_empty() {
                a.transport.submit(peer, &mut queue);
            }
            if a.transport.drive(until) == Driven::Busy {
                std::thread::yield_now();
            }
        }
    } else {
        a.submit(peer, slices);
        a.ends.wait_for(|state| state.ends.len() == n);
    }
    a.ends.look(|state| assert!(state.ends.values().all(|end| end.result.is_ok())));
}

/// User and system time of this process, from `/proc/self/stat` in ticks of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u32 = fields[11].parse::<u32>().unwrap() + fields[12].parse::<u32>().unwrap();
    f64::from(ticks) / 100.0
}
