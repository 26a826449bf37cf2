//! Queue pairs of the fake: their states, and the ring of what was posted.
//!
//! ```text
//!   freed ≤ next ≤ posted ≤ freed + capacity
//!     │       │       └ where the next request goes
//!     │       └ the first that is not carried out
//!     └ the first whose completion, or a later one, was not taken
//! ```
//!
//! A request keeps its place until its completion, or a later one, is taken: drivers of hardware do
//! the same.

use te_segment::Opcode;

use crate::port::Mtu;
use crate::queue_pair::{QueuePairCapacity, QueuePairState, Ready, Route};
use crate::work::{Payload, Sge, WorkRequest};

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) number: u32,
    pub(super) serial: u64,
    pub(super) nic: usize,
    pub(super) context: usize,
    pub(super) queue: usize,
    pub(super) state: QueuePairState,
    pub(super) route: Option<Route>,
    pub(super) ready: Option<Ready>,
    /// The packet number of the next request that goes out.
    pub(super) next_sent: u32,
    /// The packet number that is expected next.
    pub(super) next_received: u32,
    /// Where requests go, and when that was found.
    pub(super) way: (u64, Way),
    pub(super) capacity: QueuePairCapacity,
    slots: usize,
    freed: u64,
    next: u64,
    posted: u64,
    requests: Box<[Request]>,
    ranges: Box<[Sge]>,
    inline: Box<[u8]>,
}

/// What becomes of a request that is sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It arrives at a queue pair.
    Open {
        /// Its slot.
        target: usize,
        /// Whether what it answers comes back.
        answers: bool,
    },
    /// Nothing arrives.
    Nowhere,
    /// It cannot leave.
    NoLink,
}

/// A request in the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) op: Opcode,
    pub(super) remote_address: u64,
    pub(super) rkey: u32,
    pub(super) signaled: bool,
    /// Bytes.
    pub(super) len: u64,
    /// Whether the bytes go with it.
    pub(super) is_inline: bool,
    /// How many ranges, where they do not.
    pub(super) ranges: usize,
    /// The peer carried it out, and its answer was lost.
    pub(super) arrived: bool,
}

impl Pair {
    pub(super) fn new(at: (usize, usize), queue: usize, capacity: QueuePairCapacity) -> Self {
        let size = |n: u32| usize::try_from(n).expect("a u32 fits");
        let slots = size(capacity.send_requests);
        let empty = Request {
            id: 0,
            op: Opcode::Write,
            remote_address: 0,
            rkey: 0,
            signaled: false,
            len: 0,
            is_inline: false,
            ranges: 0,
            arrived: false,
        };
        Self {
            number: 0,
            serial: 0,
            nic: at.0,
            context: at.1,
            queue,
            state: QueuePairState::Reset,
            route: None,
            ready: None,
            next_sent: 0,
            next_received: 0,
            way: (0, Way::Nowhere),
            capacity,
            slots,
            freed: 0,
            next: 0,
            posted: 0,
            requests: vec![empty; slots].into(),
            ranges: vec![Sge::default(); slots * size(capacity.ranges)].into(),
            inline: vec![0; slots * size(capacity.inline_bytes)].into(),
        }
    }

    fn slot(&self, position: u64) -> usize {
        usize::try_from(position % self.slots as u64).expect("below a usize")
    }

    /// Puts a request into the ring.
    ///
    /// # Errors
    /// The system's error number.
    pub(super) fn push(&mut self, request: &WorkRequest<'_>) -> Result<(), i32> {
        match self.state {
            QueuePairState::ReadyToSend | QueuePairState::Error => {}
            _ => return Err(libc::EINVAL),
        }
        if self.posted - self.freed == self.slots as u64 {
            return Err(libc::ENOMEM);
        }
        let slot = self.slot(self.posted);
        let (len, is_inline, ranges) = match request.payload {
            Payload::Ranges(ranges) => (self.push_ranges(slot, ranges)?, false, ranges.len()),
            Payload::Inline(bytes) => {
                self.push_inline(slot, request.op, bytes)?;
                (bytes.len() as u64, true, 0)
            }
        };
        self.requests[slot] = Request {
            id: request.id,
            op: request.op,
            remote_address: request.remote_address,
            rkey: request.rkey,
            signaled: request.signaled,
            len,
            is_inline,
            ranges,
            arrived: false,
        };
        self.posted += 1;
        Ok(())
    }

    fn push_ranges(&mut self, slot: usize, ranges: &[Sge]) -> Result<u64, i32> {
        let room = self.capacity.ranges as usize;
        if ranges.is_empty() || ranges.len() > room {
            return Err(libc::EINVAL);
        }
        self.ranges[slot * room..][..ranges.len()].copy_from_slice(ranges);
        Ok(ranges.iter().map(|range| u64::from(range.len)).sum())
    }

    fn push_inline(&mut self, slot: usize, op: Opcode, bytes: &[u8]) -> Result<(), i32> {
        let room = self.capacity.inline_bytes as usize;
        if op != Opcode::Write || bytes.len() > room {
            return Err(libc::EINVAL);
        }
        self.inline[slot * room..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// The first request that is not carried out, and its position.
    pub(super) fn front(&self) -> Option<(u64, Request)> {
        (self.next < self.posted).then(|| (self.next, self.requests[self.slot(self.next)]))
    }

    /// The ranges of the first request.
    pub(super) fn front_ranges(&self) -> &[Sge] {
        let slot = self.slot(self.next);
        let count = self.requests[slot].ranges;
        &self.ranges[slot * self.capacity.ranges as usize..][..count]
    }

    /// The bytes that go with the first request.
    pub(super) fn front_inline(&self) -> &[u8] {
        let slot = self.slot(self.next);
        let count = usize::try_from(self.requests[slot].len).expect("inline bytes are few");
        &self.inline[slot * self.capacity.inline_bytes as usize..][..count]
    }

    /// The peer carried out the first request, and its answer was lost.
    pub(super) fn front_arrived(&mut self) {
        let slot = self.slot(self.next);
        self.requests[slot].arrived = true;
    }

    /// The first request is done with.
    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// A completion was taken: requests before `position` give their places back.
    pub(super) fn free_to(&mut self, position: u64) {
        self.freed = self.freed.max(position);
    }

    /// Forgets everything that was posted.
    pub(super) fn forget(&mut self) {
        self.next = self.posted;
        self.freed = self.posted;
        self.route = None;
        self.ready = None;
    }

    /// Packets that a message of so many bytes takes.
    pub(super) fn packets(&self, len: u64) -> u32 {
        let mtu = u64::from(self.mtu().bytes());
        u32::try_from(len.div_ceil(mtu).max(1) & PACKETS_MASK).expect("24 bits")
    }

    pub(super) fn mtu(&self) -> Mtu {
        self.route.map_or(Mtu::B256, |route| route.mtu)
    }

    pub(super) fn may_receive(&self) -> bool {
        matches!(self.state, QueuePairState::ReadyToReceive | QueuePairState::ReadyToSend)
    }
}

/// Packet numbers have 24 bits.
const PACKETS_MASK: u64 = 0xff_ffff;

/// The packet number that is `packets` after `number`.
pub(super) fn after(number: u32, packets: u32) -> u32 {
    number.wrapping_add(packets) & 0xff_ffff
}
