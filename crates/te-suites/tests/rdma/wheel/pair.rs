//! Our host and a process of the peer, each with a buffer.

use std::sync::Arc;

use te_segment::{LocalBuffer, Opcode};
use te_suites::{Direction, pattern};

use super::node::{Wheel, WheelSpec};
use crate::carry::{Piece, TRIES, carry};
use crate::host::{Host, PATIENCE, ask_for, config};
use crate::links::nics;
use crate::watched::Watched;

/// An odd length, so that no two places of a long range have the same bytes beside one another.
const BLOCK: usize = 1_000_003;
/// What lies around the bytes of a transfer.
const GUARD: u8 = 0xee;
const GUARD_LEN: u64 = 64;
/// What an engine hands to a transport at once.
const PIECE: u64 = 1 << 20;

/// See the module.
pub(crate) struct Pair {
    pub(crate) host: Host,
    pub(crate) wheel: Wheel,
    pub(crate) buffer: Arc<LocalBuffer>,
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    We,
    TheWheel,
}

impl Pair {
    /// With so many NICs each.
    pub(crate) fn new(verbs: &Watched, n_nics: usize, size: u64) -> Self {
        let devices: Vec<String> = nics(2..2 + n_nics).iter().map(ToString::to_string).collect();
        Self::with(verbs, n_nics, &WheelSpec::new(&devices.join(","), size))
    }

    /// With a peer that is started so.
    pub(crate) fn with(verbs: &Watched, n_nics: usize, spec: &WheelSpec) -> Self {
        let host = Host::new(verbs, config(nics(0..n_nics)));
        let buffer = host.offer(usize::try_from(spec.size).unwrap());
        Self { host, wheel: spec.start(), buffer }
    }

    /// Moves `len` bytes between `here` of our buffer and `there` of the peer's, and checks every byte on
    /// the receiving side, and those around it.
    #[track_caller]
    pub(crate) fn moves(&mut self, caller: Caller, direction: Direction, ends: Ends, seed: u64) {
        let comes = Self::comes(caller, direction);
        self.prepare(comes, ends, seed);
        match caller {
            Caller::We => self.we_move(direction, ends),
            Caller::TheWheel => {
                let to = self.buffer.region().address() + ends.here;
                let name = self.host.name().to_owned();
                let rc = self.wheel.transfer(direction, &name, (ends.there, to), ends.len);
                assert_eq!(rc, 0, "{direction:?} {ends:?} by the peer");
            }
        }
        self.has_arrived(comes, ends, seed);
    }

    /// Whether the bytes come to us.
    pub(crate) fn comes(caller: Caller, direction: Direction) -> bool {
        (caller == Caller::We) == (direction == Direction::Read)
    }

    /// Our transport moves a range in pieces, as an engine does.
    #[track_caller]
    pub(crate) fn we_move(&self, direction: Direction, ends: Ends) {
        self.carry(&self.pieces(direction, ends));
    }

    /// Our transport moves these.
    #[track_caller]
    pub(crate) fn carry(&self, pieces: &[Piece]) {
        let carried = carry(
            &self.host,
            &|| ask_for(self.wheel.name()).unwrap_or_else(|why| panic!("no descriptor: {why}")),
            pieces,
            (TRIES, PATIENCE),
            &mut |_| (),
        );
        assert!(carried.failed.is_empty(), "{:?}", carried.failed);
    }

    /// One piece, by the offsets in our buffer and in the peer's.
    pub(crate) fn piece(&self, direction: Direction, at: (u64, u64), len: u64) -> Piece {
        let op = if direction == Direction::Write { Opcode::Write } else { Opcode::Read };
        let local = self.buffer.region().range(at.0, len).unwrap();
        Piece { op, local, remote: self.wheel.address() + at.1 }
    }

    /// A range as an engine cuts it.
    pub(crate) fn pieces(&self, direction: Direction, ends: Ends) -> Vec<Piece> {
        let piece = |at: u64| {
            let both = (ends.here + at, ends.there + at);
            self.piece(direction, both, PIECE.min(ends.len - at))
        };
        (0..ends.len.div_ceil(PIECE)).map(|i| piece(i * PIECE)).collect()
    }

    /// The pattern on one side, guard bytes on the other.
    pub(crate) fn prepare(&self, comes: bool, ends: Ends, seed: u64) {
        let block = pattern::bytes(seed, BLOCK.min(usize::try_from(ends.len).unwrap()));
        let guard = vec![GUARD; BLOCK];
        let (from, to) = if comes { (ends.there, ends.here) } else { (ends.here, ends.there) };
        self.each(ends.len, |at, n| self.put(!comes, from + at, &block[..n]));
        let (to, len) = (to - GUARD_LEN, ends.len + 2 * GUARD_LEN);
        self.each(len, |at, n| self.put(comes, to + at, &guard[..n]));
    }

    /// Compares what [`Pair::prepare`] prepared.
    #[track_caller]
    pub(crate) fn has_arrived(&self, comes: bool, ends: Ends, seed: u64) {
        let block = pattern::bytes(seed, BLOCK.min(usize::try_from(ends.len).unwrap()));
        let to = if comes { ends.here } else { ends.there };
        self.each(ends.len, |at, n| {
            let bytes = self.get(comes, to + at, n);
            assert!(bytes == block[..n], "{ends:?}: the {n} bytes from {at} are others");
        });
        for at in [to - GUARD_LEN, to + ends.len] {
            let bytes = self.get(comes, at, usize::try_from(GUARD_LEN).unwrap());
            assert!(bytes.iter().all(|byte| *byte == GUARD), "a byte beside {ends:?} was written");
        }
    }

    fn each(&self, len: u64, mut then: impl FnMut(u64, usize)) {
        let mut at = 0;
        while at < len {
            let n = usize::try_from(len - at).map_or(BLOCK, |left| left.min(BLOCK));
            then(at, n);
            at += n as u64;
        }
    }

    fn put(&self, ours: bool, at: u64, bytes: &[u8]) {
        if ours {
            self.buffer.region().write_from(at, bytes).unwrap();
        } else {
            self.wheel.put(at, bytes);
        }
    }

    fn get(&self, ours: bool, at: u64, len: usize) -> Vec<u8> {
        if !ours {
            return self.wheel.bytes(at, len);
        }
        let mut bytes = vec![0; len];
        self.buffer.region().read_into(at, &mut bytes).unwrap();
        bytes
    }

    /// Ends both in an orderly way.
    #[track_caller]
    pub(crate) fn quit(self) {
        self.host.close();
        self.wheel.quit();
    }
}

/// A range on both sides, as offsets into the buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) here: u64,
    pub(crate) there: u64,
    pub(crate) len: u64,
}
