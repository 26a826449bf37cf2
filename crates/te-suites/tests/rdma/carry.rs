//! Many slices, as an engine moves them: what fails goes again, with what the peer says then.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use te_segment::{LocalRange, Opcode, RemoteSegment, Slice, SliceToken};
use te_suites::now;
use te_transport::{Completion, Transport};

use crate::host::Host;

/// One piece of work.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) op: Opcode,
    pub(crate) local: LocalRange,
    pub(crate) remote: u64,
}

/// Where a peer is found, asked before each round.
pub(crate) type Find<'a> = &'a dyn Fn() -> Arc<RemoteSegment>;

/// What became of all pieces.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// The pieces that failed, each with its last end.
    pub(crate) failed: Vec<(Piece, Completion)>,
    /// How many slices were handed over, tries included.
    pub(crate) slices: usize,
    /// The longest time without any success.
    pub(crate) stall: Duration,
    /// How long all took.
    pub(crate) took: Duration,
}

/// How often an engine tries a slice.
pub(crate) const TRIES: u16 = 8;

/// Moves all pieces, each with up to `tries` tries. `watch` is told how many have ended well.
#[track_caller]
pub(crate) fn carry(
    host: &Host,
    find: Find<'_>,
    pieces: &[Piece],
    (tries, within): (u16, Duration),
    watch: &mut dyn FnMut(usize),
) -> Carried {
    let begun = now();
    let mut flight = Flight { host, open: HashMap::new(), queue: VecDeque::new() };
    let mut carried = Carried::default();
    let peer = find();
    for piece in pieces {
        flight.offer(piece.clone(), &peer, 0);
    }
    let (mut done, mut read, mut last) = (0, host.ends.count(), begun);
    while done + carried.failed.len() < pieces.len() {
        assert!(begun.elapsed() < within, "{done} of {} after {within:?}", pieces.len());
        flight.submit(&mut carried);
        host.pump();
        let ends = host.ends.completions();
        for end in &ends[read..] {
            let Some((piece, attempt)) = flight.open.remove(&end.token) else { continue };
            match &end.result {
                Ok(()) => {
                    done += 1;
                    carried.stall = carried.stall.max(since(last));
                    last = now();
                }
                Err(fault) if fault.class.is_retryable() && attempt + 1 < tries => {
                    flight.offer(piece, &find(), attempt + 1);
                }
                Err(_) => carried.failed.push((piece, end.clone())),
            }
        }
        read = ends.len();
        watch(done);
    }
    carried.took = begun.elapsed();
    carried
}

fn since(last: Instant) -> Duration {
    now().saturating_duration_since(last)
}

struct Flight<'a> {
    host: &'a Host,
    open: HashMap<SliceToken, (Piece, u16)>,
    queue: VecDeque<Slice>,
}

impl Flight<'_> {
    fn offer(&mut self, piece: Piece, peer: &Arc<RemoteSegment>, attempt: u16) {
        let mut slice = self.host.slice(piece.op, piece.local.clone(), peer, piece.remote);
        slice.attempt = attempt;
        self.open.insert(slice.token, (piece, attempt));
        self.queue.push_back(slice);
    }

    fn submit(&mut self, carried: &mut Carried) {
        while let Some(slice) = self.queue.front() {
            let peer = Arc::clone(&slice.peer);
            let taken = self.host.rdma().submit(&peer, &mut self.queue);
            carried.slices += taken;
            if taken == 0 {
                return;
            }
        }
    }
}
