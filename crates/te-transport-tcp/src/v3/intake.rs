//! Puts incoming frames together, however their bytes are cut.

use crate::v3::frame::{Frame, HEAD_BYTES, Head, MAX_BODY, Violation};

/// Bytes of the frames between the payload of two writes: a request, and the head of its data. As
/// much is received together with the end of large payload, so that the next goes straight into
/// memory.
pub(crate) const HEADS: usize = 2 * HEAD_BYTES + MAX_BODY;

/// The frame that is coming in.
#[derive(Debug)]
pub(crate) struct Intake {
    head: [u8; HEAD_BYTES],
    body: [u8; MAX_BODY],
    filled: usize,
    /// The head, once it is there and has a body to wait for.
    decoded: Option<Head>,
}

impl Intake {
    pub(crate) fn new() -> Self {
        Self { head: [0; HEAD_BYTES], body: [0; MAX_BODY], filled: 0, decoded: None }
    }

    /// Whether a frame has begun and is not whole.
    pub(crate) fn is_within(&self) -> bool {
        self.filled > 0
    }

    /// Bytes that surely belong to the frame that is coming in.
    pub(crate) fn missing(&self) -> usize {
        match &self.decoded {
            None => HEAD_BYTES - self.filled,
            Some(head) => HEAD_BYTES + head.body_bytes() - self.filled,
        }
    }

    /// Takes bytes from the front, at most to the end of one frame; gives the frame once it is
    /// whole. Behind a data frame comes its payload, which is not taken.
    pub(crate) fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, Violation> {
        if self.decoded.is_none() {
            let filled = self.filled;
            self.filled += fill(&mut self.head[filled..], bytes);
            if self.filled < HEAD_BYTES {
                return Ok(None);
            }
            self.decoded = Some(Head::decode(self.head)?);
        }
        let Some(head) = self.decoded else { return Ok(None) };
        let whole = head.body_bytes();
        let have = self.filled - HEAD_BYTES;
        self.filled += fill(&mut self.body[have..whole], bytes);
        if self.filled < HEAD_BYTES + whole {
            return Ok(None);
        }
        self.filled = 0;
        self.decoded = None;
        head.with_body(&self.body).map(Some)
    }
}

/// Fills `room` from the front of `bytes`; gives how much.
fn fill(room: &mut [u8], bytes: &mut &[u8]) -> usize {
    let n = room.len().min(bytes.len());
    let (now, later) = bytes.split_at(n);
    room[..n].copy_from_slice(now);
    *bytes = later;
    n
}
