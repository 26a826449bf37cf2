//! The hello that opens a connection, and its answer.
//!
//! ```text
//!   hello   128 | TE3 0xFE | 2^64−1 | 0x80 | version | offered | required | wanted
//!           | from 16 | to 16 | session | connection | fence | 44 zeros | CRC32C      128 bytes
//!   answer  TE3A | version | code | features | credit | target 16 | fenced | 24 zeros | CRC32C  64
//! ```
//!
//! I1  The first 24 bytes of a hello are no request of version 1 or 2 that any server would serve.
//! I2  Bytes whose sum is wrong are not looked at.

use te_metadata::Incarnation;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::frame::HEADER_BYTES;
use crate::v3::sum::crc32c;

/// Bytes of a hello.
pub(crate) const HELLO_BYTES: usize = 128;
/// Bytes of an answer.
pub(crate) const ANSWER_BYTES: usize = 64;
/// The version that is spoken here.
pub(crate) const VERSION: u8 = 3;
/// Feature bit: requests may be checked.
pub(crate) const FEATURE_CHECKSUM: u32 = 1;
/// Feature bit: the end of several requests may be told in one frame.
pub(crate) const FEATURE_DONE: u32 = 2;
/// All feature bits that are known here.
pub(crate) const FEATURES: u32 = FEATURE_CHECKSUM | FEATURE_DONE;

const HELLO_MAGIC: [u8; 4] = *b"TE3\xfe";
const ANSWER_MAGIC: [u8; 4] = *b"TE3A";
/// As opcode of version 2 it is a read: answered at once, and without a body.
const READ_V2: u8 = 0x80;

/// What an initiator says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u8,
    pub(crate) offered: u32,
    pub(crate) required: u32,
    /// Requests it wants to have in flight.
    pub(crate) wanted: u32,
    /// Who asks.
    pub(crate) from: Incarnation,
    /// Who should be there.
    pub(crate) to: Incarnation,
    pub(crate) session: u64,
    pub(crate) connection: u32,
    /// Connections of the session below this number shall end first; 0 for none.
    pub(crate) fence: u32,
}

/// What a target answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: AnswerCode,
    /// Features in force.
    pub(crate) features: u32,
    /// Requests that may be in flight.
    pub(crate) credit: u32,
    /// Who is there.
    pub(crate) target: Incarnation,
    /// Connections of the session below this number have ended.
    pub(crate) fenced: u32,
}

/// Whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerCode {
    Ok,
    OtherIncarnation,
    Version,
    RequiredFeature,
    Busy,
    Closing,
    /// One that this side does not know; not one of the above.
    Unknown(u16),
}

/// Bytes that are no hello or answer of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHello {
    length: U32,
    magic: [u8; 4],
    ones: U64,
    op: u8,
    version: u8,
    zero: U16,
    offered: U32,
    required: U32,
    wanted: U32,
    from: U128,
    to: U128,
    session: U64,
    connection: U32,
    fence: U32,
    reserved: [u8; 44],
    crc: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawAnswer {
    magic: [u8; 4],
    version: U16,
    code: U16,
    features: U32,
    credit: U32,
    target: U128,
    fenced: U32,
    reserved: [u8; 24],
    crc: U32,
}

/// Whether the first bytes of a connection begin a hello.
pub(crate) fn is_hello(first: &[u8; HEADER_BYTES]) -> bool {
    first[4..8] == HELLO_MAGIC && first[8..16] == [0xff; 8] && first[16] == READ_V2
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; HELLO_BYTES] {
        let raw = RawHello {
            length: U32::new(128),
            magic: HELLO_MAGIC,
            ones: U64::MAX_VALUE,
            op: READ_V2,
            version: self.version,
            zero: U16::ZERO,
            offered: self.offered.into(),
            required: self.required.into(),
            wanted: self.wanted.into(),
            from: self.from.as_u128().into(),
            to: self.to.as_u128().into(),
            session: self.session.into(),
            connection: self.connection.into(),
            fence: self.fence.into(),
            reserved: [0; 44],
            crc: U32::ZERO,
        };
        sealed(zerocopy::transmute!(raw))
    }

    pub(crate) fn decode(bytes: [u8; HELLO_BYTES]) -> Result<Self, Malformed> {
        check_seal(&bytes)?;
        let raw: RawHello = zerocopy::transmute!(bytes);
        if raw.length.get() != 128 {
            return Err(Malformed("a hello of another length"));
        }
        Ok(Self {
            version: raw.version,
            offered: raw.offered.get(),
            required: raw.required.get(),
            wanted: raw.wanted.get(),
            from: Incarnation::from_u128(raw.from.get()),
            to: Incarnation::from_u128(raw.to.get()),
            session: raw.session.get(),
            connection: raw.connection.get(),
            fence: raw.fence.get(),
        })
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> [u8; ANSWER_BYTES] {
        let raw = RawAnswer {
            magic: ANSWER_MAGIC,
            version: u16::from(VERSION).into(),
            code: self.code.number().into(),
            features: self.features.into(),
            credit: self.credit.into(),
            target: self.target.as_u128().into(),
            fenced: self.fenced.into(),
            reserved: [0; 24],
            crc: U32::ZERO,
        };
        sealed(zerocopy::transmute!(raw))
    }

    /// Whether bytes, as far as they came, can be the start of an answer.
    pub(crate) fn may_begin(bytes: &[u8]) -> bool {
        let n = bytes.len().min(ANSWER_MAGIC.len());
        bytes[..n] == ANSWER_MAGIC[..n]
    }

    pub(crate) fn decode(bytes: [u8; ANSWER_BYTES]) -> Result<Self, Malformed> {
        check_seal(&bytes)?;
        let raw: RawAnswer = zerocopy::transmute!(bytes);
        if raw.magic != ANSWER_MAGIC {
            return Err(Malformed("no answer"));
        }
        Ok(Self {
            code: AnswerCode::from_number(raw.code.get()),
            features: raw.features.get(),
            credit: raw.credit.get(),
            target: Incarnation::from_u128(raw.target.get()),
            fenced: raw.fenced.get(),
        })
    }
}

impl AnswerCode {
    fn number(self) -> u16 {
        match self {
            Self::Ok => 0,
            Self::OtherIncarnation => 1,
            Self::Version => 2,
            Self::RequiredFeature => 3,
            Self::Busy => 4,
            Self::Closing => 5,
            Self::Unknown(number) => number,
        }
    }

    fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Ok,
            1 => Self::OtherIncarnation,
            2 => Self::Version,
            3 => Self::RequiredFeature,
            4 => Self::Busy,
            5 => Self::Closing,
            other => Self::Unknown(other),
        }
    }
}

/// Puts the sum of all but the last four bytes into those.
fn sealed<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let crc = crc32c(&bytes[..N - 4]);
    bytes[N - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn check_seal<const N: usize>(bytes: &[u8; N]) -> Result<(), Malformed> {
    let crc = crc32c(&bytes[..N - 4]);
    (bytes[N - 4..] == crc.to_le_bytes()).then_some(()).ok_or(Malformed("the sum does not match"))
}

#[cfg(test)]
mod tests;
