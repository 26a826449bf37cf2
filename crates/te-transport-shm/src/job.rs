//! A slice on its way, and the piece of it that is in hand.

use te_segment::{Access, BufferGuard, LocalRange, Opcode, Slice, SliceToken, Span};
use te_transport::{Completion, FaultClass, Phase, RemoteSide, SliceFault};

/// A slice that this transport took.
#[derive(Debug)]
pub(crate) struct Job {
    slice: Slice,
    /// Bytes that are where they should be.
    done: u64,
    /// Bytes of the piece in hand; they follow those that are done.
    part: u64,
    /// Whether bytes beyond those may have arrived.
    touched: bool,
    way: Way,
}

/// How the piece in hand is moved. It is chosen anew for each piece.
#[derive(Debug, Default)]
pub(crate) enum Way {
    /// Not in this round.
    #[default]
    Waits,
    /// By the kernel, from or to the memory of the peer's process.
    Kernel,
    /// Within this process. The guard is on the other side's bytes.
    Within(BufferGuard),
    /// Within this process, to or from what is mapped of the peer's memory.
    Mapped(LocalRange),
    /// Not at all.
    Failed(Box<SliceFault>),
}

impl Job {
    pub(crate) fn new(slice: Slice) -> Self {
        Self { slice, done: 0, part: 0, touched: false, way: Way::Waits }
    }

    /// The same piece for another thread, which only copies it.
    pub(crate) fn twin(&self) -> Self {
        let Self { slice, done, part, touched, .. } = self;
        let (slice, way) = (slice.clone(), Way::Kernel);
        Self { slice, done: *done, part: *part, touched: *touched, way }
    }

    pub(crate) fn slice(&self) -> &Slice {
        &self.slice
    }

    pub(crate) fn token(&self) -> SliceToken {
        self.slice.token
    }

    pub(crate) fn op(&self) -> Opcode {
        self.slice.op
    }

    /// What the other side must allow.
    pub(crate) fn access(&self) -> Access {
        match self.slice.op {
            Opcode::Read => Access::Read,
            Opcode::Write => Access::Write,
        }
    }

    /// Takes the next piece in hand, at most `room` bytes. Gives its length.
    pub(crate) fn take_piece(&mut self, room: u64) -> u64 {
        self.part = room.min(self.slice.len() - self.done);
        self.way = Way::Waits;
        self.part
    }

    /// Where the piece in hand is: our bytes, and the first address at the other side.
    pub(crate) fn piece(&self) -> (Span, u64) {
        let skip = usize::try_from(self.done).unwrap_or(usize::MAX);
        let len = usize::try_from(self.part).unwrap_or(usize::MAX);
        (self.slice.local.span().after(skip).first(len), self.slice.remote.address() + self.done)
    }

    /// The same as ranges that may be kept: ours, and the address and length at the other side.
    pub(crate) fn piece_range(&self) -> Option<LocalRange> {
        self.slice.local.part(self.done, self.part).ok()
    }

    /// Bytes of the slice before the piece in hand.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Bytes of the piece in hand.
    pub(crate) fn part(&self) -> u64 {
        self.part
    }

    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    /// Takes the way out; the piece stays in hand until the next way is set.
    pub(crate) fn take_way(&mut self) -> Way {
        std::mem::take(&mut self.way)
    }

    pub(crate) fn set_way(&mut self, way: Way) {
        if !matches!(way, Way::Kernel | Way::Within(_) | Way::Mapped(_)) {
            self.part = 0;
        }
        self.way = way;
    }

    /// The slice ends with this fault.
    pub(crate) fn fail(&mut self, fault: SliceFault) {
        self.set_way(Way::Failed(Box::new(fault)));
    }

    /// The same where a part of the piece in hand may have arrived.
    pub(crate) fn fail_touched(&mut self, fault: SliceFault) {
        self.touched = true;
        self.fail(fault);
    }

    /// The first `n` bytes of the piece in hand are where they should be. The rest waits.
    pub(crate) fn advance(&mut self, n: u64) {
        self.done += n;
        self.set_way(Way::Waits);
    }

    /// Whether the slice has ended, well or badly.
    pub(crate) fn is_over(&self) -> bool {
        self.done == self.slice.len() || matches!(self.way, Way::Failed(_))
    }

    /// How it ended. Nobody but us moves these bytes, so the other side is known, unless `doubt`
    /// says that it is not.
    pub(crate) fn into_end(self, doubt: bool) -> Completion {
        let Self { slice, done, touched, way, .. } = self;
        let result = match way {
            Way::Failed(fault) => Err(*fault),
            _ => Ok(()),
        };
        let remote = match slice.op {
            Opcode::Write if doubt => RemoteSide::InDoubt,
            Opcode::Write if touched || done > 0 => RemoteSide::Settled,
            Opcode::Read if result.is_ok() => RemoteSide::Settled,
            _ => RemoteSide::Untouched,
        };
        Completion { token: slice.token, result, remote }
    }
}

/// A fault without address.
pub(crate) fn fault(class: FaultClass, phase: Phase, cause: impl Into<Box<str>>) -> SliceFault {
    SliceFault::new(class, phase, cause)
}
