//! The frames of version 3: 16 bytes of head, then a body.
//!
//! ```text
//!   head   type u8 | flags u8 | 0 u16 | body length u32 | id u64
//! ```
//!
//! I1  A body length that does not fit the type is a violation: nothing is allocated for it.
//! I2  Unknown flags and reserved fields are not looked at.

use te_metadata::BufferHandle;
use te_segment::Opcode;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 16;
/// The longest body that is not payload.
pub(crate) const MAX_BODY: usize = REQUEST_BYTES;
/// Most payload bytes of one data frame.
pub(crate) const MAX_DATA: u32 = 1 << 20;

/// Bytes of a whole frame [`Frame::Done`].
pub(crate) const DONE_BYTES: usize = HEAD_BYTES + PAIR_BYTES;

const REQUEST_BYTES: usize = 40;
const STATUS_BYTES: usize = 24;
const PAIR_BYTES: usize = 8;

const REQUEST: u8 = 1;
const DATA: u8 = 2;
const SUM: u8 = 3;
const CANCEL: u8 = 4;
const GOODBYE: u8 = 5;
const STATUS: u8 = 16;
const DONE: u8 = 17;
const CREDIT: u8 = 18;

const LAST: u8 = 1;
const CHECKED: u8 = 1;
const SUM_GIVEN: u16 = 1;

/// A request to move bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) op: Opcode,
    pub(crate) checked: bool,
    pub(crate) attempt: u16,
    /// Until the initiator gives up, ms; 0 for never.
    pub(crate) patience: u32,
    pub(crate) buffer: BufferHandle,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: Code,
    /// The sum of the bytes of a checked read.
    pub(crate) sum: Option<u32>,
    /// Bytes that were moved.
    pub(crate) moved: u64,
    /// Of a memory fault, else 0.
    pub(crate) errno: u32,
}

/// What a status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Done,
    OutOfRange,
    Forbidden,
    NoSuchBuffer,
    TakenBack,
    Cancelled,
    Corrupt,
    MemoryFault,
    TimeIsUp,
}

/// A frame; of data only its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Request(u64, Request),
    Data {
        id: u64,
        len: u32,
        last: bool,
    },
    Sum {
        id: u64,
        crc: u32,
    },
    Cancel(u64),
    Goodbye,
    Status(u64, Status),
    /// So many requests, up to this one, ended well.
    Done {
        last: u64,
        count: u32,
    },
    Credit(u32),
}

/// What a peer did against the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// A head that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    kind: u8,
    flags: u8,
    len: u32,
    id: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHead {
    kind: u8,
    flags: u8,
    zero: U16,
    len: U32,
    id: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    op: u8,
    flags: u8,
    attempt: U16,
    patience: U32,
    slot: U32,
    generation: U32,
    offset: U64,
    length: U64,
    zero: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStatus {
    code: U16,
    flags: U16,
    sum: U32,
    moved: U64,
    errno: U32,
    zero: U32,
}

impl Head {
    pub(crate) fn decode(bytes: [u8; HEAD_BYTES]) -> Result<Self, Violation> {
        let raw: RawHead = zerocopy::transmute!(bytes);
        let head = Self { kind: raw.kind, flags: raw.flags, len: raw.len.get(), id: raw.id.get() };
        let fits = match head.kind {
            REQUEST => head.len as usize == REQUEST_BYTES,
            DATA => (1..=MAX_DATA).contains(&head.len),
            SUM | GOODBYE | DONE | CREDIT => head.len as usize == PAIR_BYTES,
            CANCEL => head.len == 0,
            STATUS => head.len as usize == STATUS_BYTES,
            _ => return Err(Violation("a frame of an unknown type")),
        };
        fits.then_some(head).ok_or(Violation("a frame of a wrong length"))
    }

    /// Bytes of the body that come with the head; none for data.
    pub(crate) fn body_bytes(&self) -> usize {
        if self.kind == DATA { 0 } else { self.len as usize }
    }

    /// The frame, of which `body` came.
    pub(crate) fn with_body(self, body: &[u8; MAX_BODY]) -> Result<Frame, Violation> {
        let id = self.id;
        let pair = u32::from_le_bytes([body[0], body[1], body[2], body[3]]);
        Ok(match self.kind {
            REQUEST => Frame::Request(id, Request::decode(*body)?),
            DATA => Frame::Data { id, len: self.len, last: self.flags & LAST != 0 },
            SUM => Frame::Sum { id, crc: pair },
            CANCEL => Frame::Cancel(id),
            GOODBYE => Frame::Goodbye,
            STATUS => {
                let mut bytes = [0; STATUS_BYTES];
                bytes.copy_from_slice(&body[..STATUS_BYTES]);
                Frame::Status(id, Status::decode(bytes)?)
            }
            DONE => Frame::Done { last: id, count: pair },
            _ => Frame::Credit(pair),
        })
    }
}

impl Request {
    fn decode(bytes: [u8; REQUEST_BYTES]) -> Result<Self, Violation> {
        let raw: RawRequest = zerocopy::transmute!(bytes);
        let op = match raw.op {
            0 => Opcode::Read,
            1 => Opcode::Write,
            _ => return Err(Violation("a request of an unknown operation")),
        };
        Ok(Self {
            op,
            checked: raw.flags & CHECKED != 0,
            attempt: raw.attempt.get(),
            patience: raw.patience.get(),
            buffer: BufferHandle { slot: raw.slot.get(), generation: raw.generation.get() },
            offset: raw.offset.get(),
            length: raw.length.get(),
        })
    }
}

impl Status {
    /// One that says no more than its code.
    pub(crate) fn plain(code: Code, moved: u64) -> Self {
        Self { code, sum: None, moved, errno: 0 }
    }

    fn decode(bytes: [u8; STATUS_BYTES]) -> Result<Self, Violation> {
        let raw: RawStatus = zerocopy::transmute!(bytes);
        let code = Code::from_number(raw.code.get()).ok_or(Violation("an unknown status"))?;
        let sum = (raw.flags.get() & SUM_GIVEN != 0).then_some(raw.sum.get());
        Ok(Self { code, sum, moved: raw.moved.get(), errno: raw.errno.get() })
    }
}

const CODES: [Code; 9] = [
    Code::Done,
    Code::OutOfRange,
    Code::Forbidden,
    Code::NoSuchBuffer,
    Code::TakenBack,
    Code::Cancelled,
    Code::Corrupt,
    Code::MemoryFault,
    Code::TimeIsUp,
];

impl Code {
    fn number(self) -> u16 {
        self as u16
    }

    fn from_number(number: u16) -> Option<Self> {
        CODES.get(usize::from(number)).copied()
    }
}

/// Appends a frame; of data only its head.
pub(crate) fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Request(id, request) => {
            put_head(out, REQUEST, 0, (REQUEST_BYTES, *id));
            out.extend_from_slice(&request_bytes(request));
        }
        Frame::Data { id, len, last } => put_head(out, DATA, u8::from(*last), (*len as usize, *id)),
        Frame::Sum { id, crc } => put_pair(out, SUM, *id, *crc),
        Frame::Cancel(id) => put_head(out, CANCEL, 0, (0, *id)),
        Frame::Goodbye => put_pair(out, GOODBYE, 0, 0),
        Frame::Status(id, status) => {
            put_head(out, STATUS, 0, (STATUS_BYTES, *id));
            out.extend_from_slice(&status_bytes(status));
        }
        Frame::Done { last, count } => put_pair(out, DONE, *last, *count),
        Frame::Credit(requests) => put_pair(out, CREDIT, 0, *requests),
    }
}

fn put_pair(out: &mut Vec<u8>, kind: u8, id: u64, number: u32) {
    put_head(out, kind, 0, (PAIR_BYTES, id));
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
}

fn put_head(out: &mut Vec<u8>, kind: u8, flags: u8, (len, id): (usize, u64)) {
    let len = u32::try_from(len).expect("frames are at most 1 MiB");
    let head = RawHead { kind, flags, zero: U16::ZERO, len: len.into(), id: id.into() };
    out.extend_from_slice(head.as_bytes());
}

fn request_bytes(request: &Request) -> [u8; REQUEST_BYTES] {
    let raw = RawRequest {
        op: u8::from(request.op == Opcode::Write),
        flags: u8::from(request.checked),
        attempt: request.attempt.into(),
        patience: request.patience.into(),
        slot: request.buffer.slot.into(),
        generation: request.buffer.generation.into(),
        offset: request.offset.into(),
        length: request.length.into(),
        zero: U64::ZERO,
    };
    zerocopy::transmute!(raw)
}

fn status_bytes(status: &Status) -> [u8; STATUS_BYTES] {
    let raw = RawStatus {
        code: status.code.number().into(),
        flags: u16::from(status.sum.is_some()).into(),
        sum: status.sum.unwrap_or(0).into(),
        moved: status.moved.into(),
        errno: status.errno.into(),
        zero: U32::ZERO,
    };
    zerocopy::transmute!(raw)
}

#[cfg(test)]
mod tests;
