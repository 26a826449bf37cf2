//! What goes out next: frames that are written out, and behind them payload that goes straight
//! from registered memory.
//!
//! Small payload and payload that is summed are copied in between the frames, so that one call
//! sends many requests, and so that the bytes that were summed are the bytes that go out.
//!
//! I1  A frame that was announced goes out whole: where its bytes must not be touched any more,
//!     zeros take their place.
//! I2  It holds at most 64 KiB of frames and one block of payload, and of what is out at most
//!     64 KiB more, also where the other end takes little at a time and it never runs empty.

use te_segment::{CopyError, LocalRange};

use crate::io::{Outgoing, Part};
use crate::v3::frame::{self, Frame, MAX_DATA};
use crate::v3::sum::Sum;

/// As much is written out before it is sent.
const ENOUGH: usize = 64 << 10;
/// Payload up to this many bytes is copied: cheaper than a call of its own.
pub(crate) const SMALL: u64 = 16 << 10;
/// The most that is copied and summed at a time.
const BLOCK: u64 = 128 << 10;
/// Room that is kept while nothing waits: [`ENOUGH`], a [`BLOCK`] and the frames around it.
const KEPT: usize = 200 << 10;
/// What goes out in place of bytes that must not be touched any more.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that are out.
    gone: usize,
    direct: Option<Direct>,
    /// Zeros that follow `bytes`.
    zeros: usize,
    staged: u64,
    sent: u64,
    /// Where the last frame of [`Outbox::put_done`] ends, and what it says.
    done: Option<(u64, u64, u32)>,
}

#[derive(Debug)]
struct Direct {
    id: u64,
    range: LocalRange,
    offset: u64,
    left: usize,
}

/// A piece of a request's payload.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) id: u64,
    pub(crate) range: &'a LocalRange,
    pub(crate) offset: u64,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.direct.is_none() && self.zeros == 0
    }

    /// Whether more may be put in.
    pub(crate) fn has_room(&self) -> bool {
        self.direct.is_none() && self.zeros == 0 && self.bytes.len() - self.gone < ENOUGH
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
        self.direct.as_ref().is_some_and(|direct| direct.id == id)
    }

    /// The request whose payload goes straight from memory.
    pub(crate) fn direct_id(&self) -> Option<u64> {
        self.direct.as_ref().map(|direct| direct.id)
    }

    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.staged += bytes.len() as u64;
    }

    pub(crate) fn put(&mut self, frame: &Frame) {
        let before = self.bytes.len();
        frame::encode(frame, &mut self.bytes);
        self.staged += (self.bytes.len() - before) as u64;
    }

    /// Says that a request ended well: in the frame that says so of the one before, where that is
    /// the last one and none of it is out.
    pub(crate) fn put_done(&mut self, id: u64) {
        let mut count = 1;
        if let Some((end, last, before)) = self.done
            && (end, last + 1) == (self.staged, id)
            && self.bytes.len() - self.gone >= frame::DONE_BYTES
        {
            self.rewind(end - frame::DONE_BYTES as u64);
            count += before;
        }
        self.put(&Frame::Done { last: id, count });
        self.done = Some((self.staged, id, count));
    }

    /// Takes back what was put in behind `staged`, all of it in the present turn.
    pub(crate) fn rewind(&mut self, staged: u64) {
        let back = usize::try_from(self.staged - staged).unwrap_or(0);
        self.bytes.truncate(self.bytes.len() - back);
        self.staged = staged;
    }

    /// Puts in the next data frame of a request, and gives how many payload bytes it has. On an
    /// error nothing was put in.
    pub(crate) fn put_data(
        &mut self,
        piece: &Piece<'_>,
        sum: Option<&mut Sum>,
    ) -> Result<u64, CopyError> {
        let left = piece.range.len() - piece.offset;
        if sum.is_none() && left > SMALL {
            return Ok(self.put_direct(piece, left.min(u64::from(MAX_DATA))));
        }
        let n = left.min(BLOCK);
        let len = usize::try_from(n).unwrap_or(0);
        let before = self.staged;
        self.put(&data(piece, n, left));
        let from = self.bytes.len();
        self.bytes.resize(from + len, 0);
        self.staged += n;
        let at = piece.range.offset() + piece.offset;
        if let Err(error) = piece.range.region().read_into(at, &mut self.bytes[from..]) {
            self.rewind(before);
            return Err(error);
        }
        if let Some(sum) = sum {
            sum.add(&self.bytes[from..]);
        }
        Ok(n)
    }

    fn put_direct(&mut self, piece: &Piece<'_>, n: u64) -> u64 {
        self.put(&data(piece, n, piece.range.len() - piece.offset));
        self.staged += n;
        self.direct = Some(Direct {
            id: piece.id,
            range: piece.range.clone(),
            offset: piece.offset,
            left: usize::try_from(n).unwrap_or(0),
        });
        n
    }

    /// Lets go of memory: zeros go out for the rest of the data frame that is on its way.
    pub(crate) fn let_go(&mut self) {
        if let Some(direct) = self.direct.take() {
            self.zeros = direct.left;
        }
    }

    /// What to send, of memory at most `chunk` bytes.
    pub(crate) fn outgoing(&self, chunk: usize) -> Option<Outgoing<'_>> {
        if self.is_empty() {
            return None;
        }
        let direct = self.direct.as_ref();
        let payload = direct.map(|d| Part::new(&d.range, d.offset, d.left.min(chunk)));
        let tail = &ZEROS[..self.zeros.min(ZEROS.len())];
        Some(Outgoing { head: &self.bytes[self.gone..], payload, tail })
    }

    /// `n` bytes of the last [`Outbox::outgoing`] are out.
    pub(crate) fn on_sent(&mut self, n: usize) {
        self.sent += n as u64;
        let written = n.min(self.bytes.len() - self.gone);
        self.gone += written;
        if self.gone == self.bytes.len() {
            self.bytes.clear();
            self.gone = 0;
            self.bytes.shrink_to(KEPT);
        } else if self.gone >= ENOUGH {
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
        self.zeros -= self.zeros.min(n - written);
        if let Some(direct) = &mut self.direct {
            let moved = (n - written).min(direct.left);
            direct.left -= moved;
            direct.offset += moved as u64;
            if direct.left == 0 {
                self.direct = None;
            }
        }
    }
}

fn data(piece: &Piece<'_>, n: u64, left: u64) -> Frame {
    let len = u32::try_from(n).expect("a data frame has at most 1 MiB");
    Frame::Data { id: piece.id, len, last: n == left }
}

#[cfg(test)]
mod tests;
