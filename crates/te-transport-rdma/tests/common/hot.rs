//! Slices of 64 KiB between two hosts over a fabric that moves no bytes, so that what is left is the
//! cost of the transport and of the fake devices.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use te_segment::{LocalBuffer, Opcode, RemoteRange, RemoteSegment, SegmentId, Slice, SliceToken};
use te_transport::{Completion, CompletionSink, Transport};
use te_verbs::Fake;

use super::{Host, Hub, PATIENCE, add_nic, config};

/// Bytes of a slice.
pub(crate) const PIECE: usize = 64 << 10;
/// Slices that are handed over at once, for each NIC.
pub(crate) const BATCH: usize = 64;

/// NICs at most.
const MOST: usize = 8;

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

/// Two hosts with as many NICs each.
#[derive(Debug)]
pub(crate) struct Hot {
    a: Host,
    b: Host,
    count: Arc<Count>,
    remote: Arc<RemoteSegment>,
    slices: Vec<Slice>,
    queue: VecDeque<Slice>,
}

impl Hot {
    /// Connected, with every table at its size.
    pub(crate) fn new(nics: usize) -> Self {
        let (fake, hub) = (Fake::new(1), Arc::new(Hub::default()));
        for i in 0..nics {
            let last = u8::try_from(2 * i + 1).unwrap();
            add_nic(&fake, "a", &format!("rxe{i}"), last);
            add_nic(&fake, "b", &format!("rxe{i}"), last + 1);
        }
        let count = Arc::new(Count::default());
        // Twice as many as are under way with the most NICs, so that nobody has to wait. The queues of all workers go through the caches
        // of one core here; where they are used each worker has a core.
        let mut config = config();
        config.work.queue = 2 * BATCH * MOST;
        let a = Host::telling(&fake, &hub, "a", config.clone(), Arc::clone(&count) as _);
        let b = Host::new(&fake, &hub, "b", config);
        let len = PIECE * BATCH * nics;
        let (local, target) = (a.offer(len, 1), b.offer(len, 2));
        let remote = b.remote();
        fake.set_copies(false);
        let slices = slices(&local, &target, &remote, BATCH * nics);
        let queue = VecDeque::with_capacity(slices.len());
        let mut new = Self { a, b, count, remote, slices, queue };
        // Enough for every pair of NICs to connect, and for every table to grow.
        (0..400).for_each(|_| new.round());
        new
    }

    /// Slices of a round.
    pub(crate) fn len(&self) -> usize {
        self.slices.len()
    }

    /// Hands slices over, and works until all have ended.
    pub(crate) fn round(&mut self) {
        let wanted = self.count.0.load(Ordering::Relaxed) + self.slices.len() as u64;
        self.refill();
        assert_eq!(self.a.rdma.submit(&self.remote, &mut self.queue), self.slices.len());
        let begun = Instant::now();
        while self.count.0.load(Ordering::Relaxed) < wanted {
            let now = Instant::now();
            assert!(now.duration_since(begun) < PATIENCE, "slices do not end");
            self.a.rdma.drive_each(now);
        }
    }

    /// Only copies what a round hands over.
    pub(crate) fn refill(&mut self) {
        self.queue.clear();
        self.queue.extend(self.slices.iter().cloned());
    }

    pub(crate) fn close(self) {
        self.a.close();
        self.b.close();
    }
}

fn slices(
    local: &LocalBuffer,
    target: &LocalBuffer,
    peer: &Arc<RemoteSegment>,
    n: usize,
) -> Vec<Slice> {
    let slice = |i: usize| {
        let offset = (i * PIECE) as u64;
        let address = target.region().address() + offset;
        Slice {
            token: SliceToken::new(u32::try_from(i).unwrap(), 1),
            op: Opcode::Write,
            local: local.region().range(offset, PIECE as u64).unwrap(),
            remote: RemoteRange::new(address, PIECE as u64).unwrap(),
            peer: Arc::clone(peer),
            attempt: 0,
            checked: false,
        }
    };
    (0..n).map(slice).collect()
}
