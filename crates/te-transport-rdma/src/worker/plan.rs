//! Work requests in the making: cut at the keys of both sides, small neighbours together.

use te_segment::Opcode;
use te_verbs::{Payload, Sge, WorkRequest};

use super::link::MAX_RANGES;
use crate::config::ConnectionSettings;

/// Work requests of one chain at most.
pub(super) const CHAIN: usize = 16;
/// Bytes of one work request at most, which every device can carry.
pub(super) const MAX_MESSAGE: u64 = 1 << 30;
/// Pieces up to so many bytes are put into one work request with their neighbours; for larger ones a
/// request each costs nothing that could be measured.
const SMALL: u64 = 16 << 10;
/// Bytes that a request carries in itself at most, whatever is set.
const MAX_INLINE: usize = 256;

/// One piece of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) op: Opcode,
    pub(super) sge: Sge,
    pub(super) remote: u64,
    pub(super) rkey: u32,
    pub(super) job: u32,
}

/// One work request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    op: Opcode,
    remote: u64,
    rkey: u32,
    ranges: [Sge; MAX_RANGES],
    n: usize,
    bytes: u64,
    /// Whether the bytes are in `inline`.
    is_inline: bool,
    inline: [u8; MAX_INLINE],
    pub(super) jobs: [u32; MAX_RANGES],
}

/// A chain.
#[derive(Debug)]
pub(super) struct Plan {
    entries: [Planned; CHAIN],
    n: usize,
    max_ranges: usize,
    max_inline: usize,
}

impl Plan {
    pub(super) fn new(settings: &ConnectionSettings) -> Self {
        let empty = Planned {
            op: Opcode::Read,
            remote: 0,
            rkey: 0,
            ranges: [Sge::default(); MAX_RANGES],
            n: 0,
            bytes: 0,
            is_inline: false,
            inline: [0; MAX_INLINE],
            jobs: [0; MAX_RANGES],
        };
        Self {
            entries: [empty; CHAIN],
            n: 0,
            max_ranges: (settings.max_ranges as usize).clamp(1, MAX_RANGES),
            max_inline: (settings.inline_bytes as usize).min(MAX_INLINE),
        }
    }

    /// What the device gave is less than what is set.
    pub(super) fn limit_ranges(&mut self, ranges: u32) {
        self.max_ranges = self.max_ranges.min(ranges as usize).max(1);
    }

    /// The device takes no bytes in requests themselves.
    pub(super) fn stop_inline(&mut self) {
        self.max_inline = 0;
    }

    pub(super) fn clear(&mut self) {
        self.n = 0;
    }

    pub(super) fn entries(&self) -> &[Planned] {
        &self.entries[..self.n]
    }

    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// Adds a piece. `copy` gives its bytes where they go inline; it may fail, and the device reads
    /// them then.
    pub(super) fn add(&mut self, piece: &Piece, copy: impl FnOnce(&mut [u8]) -> bool) {
        let len = piece.sge.len as usize;
        let may_inline = piece.op == Opcode::Write && len <= self.max_inline;
        if let Some(last) = self.entries[..self.n].last_mut()
            && last.is_before(piece)
            && last.n < self.max_ranges
        {
            let end = last.inline_len() + len;
            let joins = match last.is_inline {
                true => {
                    may_inline && end <= self.max_inline && copy(&mut last.inline[end - len..end])
                }
                false => u64::from(piece.sge.len) <= SMALL && last.bytes <= SMALL * 4,
            };
            if joins {
                return last.push(piece);
            }
            return self.begin(piece, false);
        }
        let slot = &mut self.entries[self.n];
        let is_inline = may_inline && copy(&mut slot.inline[..len]);
        self.begin(piece, is_inline);
    }

    fn begin(&mut self, piece: &Piece, is_inline: bool) {
        let slot = &mut self.entries[self.n];
        (slot.op, slot.remote, slot.rkey) = (piece.op, piece.remote, piece.rkey);
        (slot.n, slot.bytes, slot.is_inline) = (0, 0, is_inline);
        slot.push(piece);
        self.n += 1;
    }

    /// The work request of an entry.
    pub(super) fn request(&self, entry: usize, id: u64, signaled: bool) -> WorkRequest<'_> {
        let planned = &self.entries[entry];
        let payload = match planned.is_inline {
            true => Payload::Inline(&planned.inline[..planned.inline_len()]),
            false => Payload::Ranges(&planned.ranges[..planned.n]),
        };
        let Planned { op, remote, rkey, .. } = *planned;
        WorkRequest { id, op, payload, remote_address: remote, rkey, signaled }
    }
}

impl Planned {
    /// The lengths of its pieces with their jobs.
    pub(super) fn pieces(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> + '_ {
        let ranges = &self.ranges[..self.n];
        self.jobs[..self.n].iter().zip(ranges).map(|(job, range)| (*job, u64::from(range.len)))
    }

    pub(super) fn n_jobs(&self) -> u8 {
        u8::try_from(self.n).unwrap_or(u8::MAX)
    }

    fn is_before(&self, piece: &Piece) -> bool {
        self.op == piece.op && self.rkey == piece.rkey && self.remote + self.bytes == piece.remote
    }

    fn inline_len(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(0)
    }

    fn push(&mut self, piece: &Piece) {
        self.ranges[self.n] = piece.sge;
        self.jobs[self.n] = piece.job;
        self.n += 1;
        self.bytes += u64::from(piece.sge.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(remote: u64, len: u32, job: u32) -> Piece {
        let sge = Sge { address: 1 << 20, len, lkey: 1 };
        Piece { op: Opcode::Write, sge, remote, rkey: 7, job }
    }

    fn plan() -> Plan {
        Plan::new(&ConnectionSettings::default())
    }

    #[test]
    fn neighbours_share_a_request_up_to_the_ranges_of_one() {
        let mut plan = plan();
        for i in 0..6 {
            plan.add(&piece(u64::from(i) * 4096, 4096, i), |_| panic!("too long to go inline"));
        }
        assert_eq!(plan.len(), 2);
        let first: Vec<_> = plan.entries()[0].pieces().collect();
        assert_eq!(first, [(0, 4096), (1, 4096), (2, 4096), (3, 4096)]);
        assert_eq!(plan.request(1, 9, true).remote_address, 4 * 4096);
        plan.clear();
        plan.add(&piece(0, 4096, 0), |_| false);
        plan.add(&piece(8192, 4096, 1), |_| false);
        plan.add(&piece(8192 + 4096, 1 << 20, 2), |_| false);
        assert_eq!(plan.len(), 3, "a gap, and a long piece, begin anew");
    }

    #[test]
    fn small_writes_go_inline_together_while_they_fit_and_can_be_read() {
        let mut plan = plan();
        let fill = |byte: u8| {
            move |bytes: &mut [u8]| {
                bytes.fill(byte);
                true
            }
        };
        plan.add(&piece(0, 40, 0), fill(1));
        plan.add(&piece(40, 24, 1), fill(2));
        plan.add(&piece(64, 1, 2), fill(3));
        assert_eq!(plan.len(), 2);
        let Payload::Inline(bytes) = plan.request(0, 0, false).payload else { panic!() };
        assert_eq!(bytes, [[1_u8; 40].as_slice(), &[2; 24]].concat());
        plan.clear();
        plan.add(&piece(0, 8, 0), |_| false);
        assert!(matches!(plan.request(0, 0, true).payload, Payload::Ranges(_)));
        let read = Piece { op: Opcode::Read, ..piece(0, 8, 1) };
        plan.add(&read, |_| panic!("a read is never inline"));
        assert_eq!(plan.len(), 2);
    }
}
