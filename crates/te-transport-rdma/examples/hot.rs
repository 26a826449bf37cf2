//! What planning, posting and completing a slice costs, over a fake fabric that moves no bytes.
//!
//! `cargo run --release -p te-transport-rdma --features testing --example hot -- [slices]`
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures and tells")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use common::{Host, Hub, add_nic, config};
use te_segment::{Opcode, RemoteRange, SegmentId, Slice, SliceToken};
use te_transport::{Completion, CompletionSink, Driven, Transport};
use te_transport_rdma::Rdma;
use te_verbs::Fake;

const PIECE: usize = 64 << 10;
/// Slices of one hand-over.
const BATCH: usize = 64;

/// Counts ends.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl CompletionSink for Count {
    fn complete(&self, completion: Completion) {
        assert!(completion.result.is_ok(), "{completion:?}");
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn complete_all(&self, completions: &mut VecDeque<Completion>) {
        let n = completions.len() as u64;
        assert!(completions.drain(..).all(|completion| completion.result.is_ok()));
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn room(&self, _peer: SegmentId) {}
}

fn main() {
    let slices = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000_000_u64);
    let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
    add_nic(&fake, "a", "rxe0", 1);
    add_nic(&fake, "b", "rxe1", 2);
    let count = Arc::new(Count::default());
    let a = Host::telling(&fake, &hub, "a", config(), Arc::clone(&count) as _);
    let b = Host::new(&fake, &hub, "b", config());
    let (local, target) = (a.offer(PIECE * BATCH, 1), b.offer(PIECE * BATCH, 2));
    let remote = b.remote();
    fake.set_copies(false);
    let batch: Vec<Slice> = (0..BATCH)
        .map(|i| {
            let offset = (i * PIECE) as u64;
            let address = target.region().address() + offset;
            Slice {
                token: SliceToken::new(u32::try_from(i).unwrap_or(0), 1),
                op: Opcode::Write,
                local: local.region().range(offset, PIECE as u64).expect("inside"),
                remote: RemoteRange::new(address, PIECE as u64).expect("inside"),
                peer: Arc::clone(&remote),
                attempt: 0,
                checked: false,
            }
        })
        .collect();
    let mut queue = VecDeque::with_capacity(BATCH);
    let mut round = || {
        queue.extend(batch.iter().cloned());
        let wanted = count.0.load(Ordering::Relaxed) + BATCH as u64;
        assert_eq!(a.rdma.submit(&remote, &mut queue), BATCH);
        while count.0.load(Ordering::Relaxed) < wanted {
            if a.rdma.drive(Instant::now()) == Driven::Busy {
                std::thread::yield_now();
            }
        }
    };
    (0..100).for_each(|_| round());
    let (begun, locks) = (Instant::now(), Rdma::locks_taken());
    let rounds = slices / BATCH as u64;
    (0..rounds).for_each(|_| round());
    let each = begun.elapsed().as_nanos() as f64 / (rounds * BATCH as u64) as f64;
    assert_eq!(Rdma::locks_taken(), locks, "moving bytes takes no lock");
    println!("{each:.0} ns a slice of 64 KiB ({:.0} GB/s)", PIECE as f64 / each);
    let each = floor(&fake, &batch, slices);
    println!("{each:.0} ns of these are handing over, cloning and counting");
    a.close();
}

/// What the loop costs without the transport.
fn floor(_fake: &Fake, batch: &[Slice], slices: u64) -> f64 {
    let mut queue: VecDeque<Slice> = VecDeque::with_capacity(BATCH);
    let begun = Instant::now();
    let rounds = slices / BATCH as u64;
    for _ in 0..rounds {
        queue.extend(batch.iter().cloned());
        std::hint::black_box(&mut queue).clear();
    }
    begun.elapsed().as_nanos() as f64 / (rounds * BATCH as u64) as f64
}
