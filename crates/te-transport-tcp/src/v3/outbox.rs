//! What goes out next: frames that are written out, and between them payload that goes straight from
//! registered memory.
//!
//! ```text
//!   bytes   [frames .............][frames and small payload ......][frames]
//!   runs    Bytes(n)  Memory(id)   Bytes(n)          Memory(id)     Bytes(n)
//! ```
//!
//! Small payload is copied in between the frames: a part of its own for each costs more. One call
//! sends many requests. Larger payload that is summed is summed when it is put in: where it changes
//! before it is out, which nobody may do, the other end finds the sum wrong.
//!
//! I1  A frame that was announced goes out whole: where its bytes must not be touched any more,
//!     zeros take their place; where it was said already that they are good, a copy does.
//! I2  It holds at most 64 KiB of frames and small payload and one frame more, and of what is out at most
//!     64 KiB more, also where the other end takes little at a time and it never runs empty; and names
//!     at most 1 MiB of memory and one frame's.

use std::collections::VecDeque;
use std::time::Duration;

use te_segment::{BufferGuard, BufferId, CopyError, LocalRange};

use crate::io::{Outgoing, Part};
use crate::v3::frame::{self, Frame, MAX_DATA};
use crate::v3::staging::Staging;
use crate::v3::sum::Sum;

/// As much is written out before it is sent.
const ENOUGH: usize = 64 << 10;
/// As many bytes of memory are named before they are sent.
const MUCH: u64 = 1 << 20;
/// Payload up to this many bytes is received together with frames.
pub(crate) const SMALL: u64 = 16 << 10;
/// Room that is kept while nothing waits: [`ENOUGH`], the largest payload that is copied and the
/// frames around it.
const KEPT: usize = 84 << 10;
/// Room that a connection without work may hold.
const FEW: usize = 4 << 10;
/// How long a connection without work holds more.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(1);
/// What goes out in place of bytes that must not be touched any more.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Staging,
    /// Where a frame is written out before it joins the others.
    frame: Vec<u8>,
    runs: VecDeque<Run>,
    /// Bytes of memory that the runs name.
    named: u64,
    /// Payload up to this many bytes is copied.
    copied: u64,
    /// Some memory is gone: one run goes out at a time, so that it is known whose.
    careful: bool,
    staged: u64,
    sent: u64,
    /// Where the last frame of [`Outbox::put_done`] ends, and what it says.
    done: Option<(u64, u64, u32)>,
}

#[derive(Debug)]
enum Run {
    /// So many of `bytes`.
    Bytes(usize),
    Memory(Direct),
    /// So many, in place of memory.
    Zeros(usize),
    /// The rest of what memory held, from the given place on.
    Copy(Vec<u8>, usize),
}

#[derive(Debug)]
struct Direct {
    id: u64,
    range: LocalRange,
    offset: u64,
    left: usize,
    /// Held until its bytes are out, where it was said already that they are good.
    guard: Option<BufferGuard>,
}

impl Direct {
    /// Its bytes as they are now. Only memory that cannot vanish has a guard here.
    fn copy(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.left];
        let at = self.range.offset() + self.offset;
        let copied = self.range.region().read_into(at, &mut bytes);
        debug_assert!(copied.is_ok(), "memory of the engine is there as long as its range");
        bytes
    }
}

/// A piece of a request's payload.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) id: u64,
    pub(crate) range: &'a LocalRange,
    pub(crate) offset: u64,
}

impl Outbox {
    /// An empty one. Payload up to `copied` bytes is copied.
    pub(crate) fn new(copied: u64) -> Self {
        Self { copied, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether more may be put in.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.len() < ENOUGH && self.named < MUCH
    }

    /// Whether it holds room for more than a few frames.
    pub(crate) fn is_roomy(&self) -> bool {
        self.bytes.held() > FEW
    }

    /// Gives room back that was of use before.
    pub(crate) fn give_room_back(&mut self) {
        self.bytes.release();
    }

    /// Bytes put in since the connection began.
    pub(crate) fn staged(&self) -> u64 {
        self.staged
    }

    /// Bytes given to the kernel since the connection began.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether payload of this request is on its way straight from memory.
    pub(crate) fn is_direct(&self, id: u64) -> bool {
        self.direct_ids().any(|direct| direct == id)
    }

    /// The requests whose payload is on its way straight from memory.
    pub(crate) fn direct_ids(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().filter_map(|run| match run {
            Run::Memory(direct) => Some(direct.id),
            _ => None,
        })
    }

    /// A call found memory gone: gives the request whose it is. `None` where the call named more
    /// than that; the next ones name one thing at a time.
    pub(crate) fn find_fault(&mut self) -> Option<u64> {
        match self.runs.front() {
            Some(Run::Memory(direct)) if std::mem::replace(&mut self.careful, true) => {
                Some(direct.id)
            }
            _ => {
                self.careful = true;
                None
            }
        }
    }

    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes.append(bytes);
        self.count(bytes.len());
    }

    pub(crate) fn put(&mut self, frame: &Frame) {
        self.frame.clear();
        frame::encode(frame, &mut self.frame);
        self.bytes.append(&self.frame);
        self.count(self.frame.len());
    }

    /// So many bytes were appended.
    fn count(&mut self, n: usize) {
        self.staged += n as u64;
        match self.runs.back_mut() {
            Some(Run::Bytes(run)) => *run += n,
            _ if n > 0 => self.runs.push_back(Run::Bytes(n)),
            _ => {}
        }
    }

    /// Says that a request ended well: in the frame that says so of the one before, where that is
    /// the last one and none of it is out.
    pub(crate) fn put_done(&mut self, id: u64) {
        let mut count = 1;
        if let Some((end, last, before)) = self.done
            && (end, last + 1) == (self.staged, id)
            && self.bytes.len() >= frame::DONE_BYTES
        {
            self.rewind(end - frame::DONE_BYTES as u64);
            count += before;
        }
        self.put(&Frame::Done { last: id, count });
        self.done = Some((self.staged, id, count));
    }

    /// Takes back the bytes that were put in behind `staged`, all of them since the last memory.
    pub(crate) fn rewind(&mut self, staged: u64) {
        let back = usize::try_from(self.staged - staged).unwrap_or(0);
        self.bytes.take_back(back);
        self.staged = staged;
        if let Some(Run::Bytes(run)) = self.runs.back_mut() {
            *run -= back;
            if *run == 0 {
                self.runs.pop_back();
            }
        }
    }

    /// Puts in the next data frame of a request, and gives how many payload bytes it has. On an
    /// error nothing was put in.
    pub(crate) fn put_data(
        &mut self,
        piece: &Piece<'_>,
        sum: Option<&mut Sum>,
    ) -> Result<u64, CopyError> {
        let left = piece.range.len() - piece.offset;
        if left > self.copied {
            let n = left.min(u64::from(MAX_DATA));
            sum.map_or(Ok(()), |sum| sum.add_range(piece.range, piece.offset, n))?;
            self.put_direct(piece, n);
            return Ok(n);
        }
        let len = usize::try_from(left).unwrap_or(0);
        let before = self.staged;
        self.put(&data(piece, left, left));
        let at = piece.range.offset() + piece.offset;
        let copied = piece.range.region().read_into(at, self.bytes.extend(len));
        self.count(len);
        if let Err(error) = copied {
            self.rewind(before);
            return Err(error);
        }
        if let Some(sum) = sum {
            sum.add(self.bytes.last(len));
        }
        Ok(left)
    }

    fn put_direct(&mut self, piece: &Piece<'_>, n: u64) {
        self.put(&data(piece, n, piece.range.len() - piece.offset));
        self.staged += n;
        self.named += n;
        self.runs.push_back(Run::Memory(Direct {
            id: piece.id,
            range: piece.range.clone(),
            offset: piece.offset,
            left: usize::try_from(n).unwrap_or(0),
            guard: None,
        }));
    }

    /// Holds a guard until the payload of a request, of which the last was just put in, is out.
    pub(crate) fn hold(&mut self, id: u64, guard: BufferGuard) {
        if let Some(Run::Memory(direct)) = self.runs.back_mut()
            && direct.id == id
        {
            direct.guard = Some(guard);
        }
    }

    /// The guards that it holds.
    pub(crate) fn guards(&self) -> impl Iterator<Item = (u64, &BufferGuard)> {
        self.runs.iter().filter_map(|run| match run {
            Run::Memory(direct) => Some((direct.id, direct.guard.as_ref()?)),
            _ => None,
        })
    }

    /// Lets go of guards on a buffer: what it said to be good goes out as it is now.
    pub(crate) fn release(&mut self, buffer: BufferId) {
        let of_it = self.guards().filter(|(_, guard)| guard.buffer().id() == buffer);
        let ids: Vec<u64> = of_it.map(|(id, _)| id).collect();
        self.let_go_where(|id| ids.contains(&id));
    }

    /// Lets go of a request's memory: zeros go out for the rest of what was announced of it.
    pub(crate) fn let_go(&mut self, id: u64) {
        self.let_go_where(|direct| direct == id);
    }

    /// Lets go of all memory.
    pub(crate) fn let_go_of_all(&mut self) {
        self.let_go_where(|_| true);
    }

    fn let_go_where(&mut self, wanted: impl Fn(u64) -> bool) {
        let good: Vec<u64> = self.guards().map(|(id, _)| id).collect();
        for run in &mut self.runs {
            if let Run::Memory(direct) = run
                && wanted(direct.id)
            {
                self.named -= direct.left as u64;
                *run = match good.contains(&direct.id) {
                    true => Run::Copy(direct.copy(), 0),
                    false => Run::Zeros(direct.left),
                };
            }
        }
    }

    /// What to send, of one run of memory at most `chunk` bytes.
    pub(crate) fn outgoing(&self, chunk: usize) -> Option<Outgoing<'_>> {
        if self.is_empty() {
            return None;
        }
        let (mut out, mut at) = (Outgoing::new(), 0);
        for run in &self.runs {
            match run {
                Run::Bytes(n) => {
                    out.bytes(self.bytes.part(at, *n));
                    at += n;
                }
                Run::Memory(direct) => {
                    let Direct { range, offset, left, .. } = direct;
                    out.memory(Part::new(range, *offset, (*left).min(chunk)));
                    if *left > chunk {
                        break;
                    }
                }
                Run::Copy(bytes, gone) => out.bytes(&bytes[*gone..]),
                Run::Zeros(n) => {
                    out.bytes(&ZEROS[..(*n).min(ZEROS.len())]);
                    if *n > ZEROS.len() {
                        break;
                    }
                }
            }
            if out.is_full() || self.careful {
                break;
            }
        }
        Some(out)
    }

    /// `n` bytes of the last [`Outbox::outgoing`] are out.
    pub(crate) fn on_sent(&mut self, n: usize) {
        self.sent += n as u64;
        let mut left = n;
        while left > 0
            && let Some(run) = self.runs.front_mut()
        {
            let rest = match run {
                Run::Bytes(run) => {
                    let moved = left.min(*run);
                    self.bytes.on_gone(moved, KEPT);
                    (left, *run) = (left - moved, *run - moved);
                    *run
                }
                Run::Memory(direct) => {
                    let moved = left.min(direct.left);
                    direct.offset += moved as u64;
                    self.named -= moved as u64;
                    (left, direct.left) = (left - moved, direct.left - moved);
                    direct.left
                }
                Run::Zeros(run) => {
                    let moved = left.min(*run);
                    (left, *run) = (left - moved, *run - moved);
                    *run
                }
                Run::Copy(bytes, gone) => {
                    let moved = left.min(bytes.len() - *gone);
                    (left, *gone) = (left - moved, *gone + moved);
                    bytes.len() - *gone
                }
            };
            if rest == 0 {
                self.runs.pop_front();
            }
        }
        self.careful &= !self.runs.is_empty();
    }
}

fn data(piece: &Piece<'_>, n: u64, left: u64) -> Frame {
    let len = u32::try_from(n).expect("a data frame has at most 1 MiB");
    Frame::Data { id: piece.id, len, last: n == left }
}

#[cfg(test)]
mod tests;
