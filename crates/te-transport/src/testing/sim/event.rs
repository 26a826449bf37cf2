//! What will happen when, and in which order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use te_segment::SegmentId;

/// A slice inside the fabric; never given twice.
pub(super) type Ticket = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Begin(Ticket),
    Land(Ticket),
    Settle(Ticket),
    Kill(u16),
    Room(u16, SegmentId),
}

/// Events by time; those of one moment in the order they were put in.
#[derive(Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<(Instant, u64, What)>>,
    put: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Instant, what: What) {
        self.put += 1;
        self.heap.push(Reverse((at, self.put, what)));
    }

    /// The next event, if it is due by `until`.
    pub(super) fn take(&mut self, until: Option<Instant>) -> Option<(Instant, What)> {
        let Reverse((at, _, _)) = self.heap.peek()?;
        if until.is_some_and(|until| *at > until) {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}
