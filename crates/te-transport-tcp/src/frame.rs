//! The two frames of the data protocol: a request header of 24 bytes and a status of 8.
//!
//! ```text
//!   header   size u64 LE | address u64 LE | opcode u8 | padding 7     opcode: bit 0 write, bit 7 v2
//!   status   code u32 LE | magic u32 LE 0x4D435456 "MCTV"           v2 only; code 0 ok, 1 refused
//! ```
//!
//! I1  Padding is sent as zeros and not looked at when received: a peer sends whatever was there.
//! I2  Only the opcodes 0, 1, 0x80 and 0x81 are known (peer fault 33).

use te_segment::Opcode;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a request header.
pub(crate) const HEADER_BYTES: usize = 24;
/// Bytes of a status frame.
pub(crate) const STATUS_BYTES: usize = 8;

const WRITE: u8 = 1;
const V2: u8 = 0x80;
/// "MCTV" as a big-endian number.
const MAGIC: u32 = 0x4D43_5456;
const OK: u32 = 0;
const REFUSED: u32 = 1;

/// Which of the peer's two protocols a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// Nothing is confirmed.
    V1,
    /// Each request is answered with a status.
    V2,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) op: Opcode,
    /// First address, in the target.
    pub(crate) address: u64,
    /// Bytes; whatever the peer wrote.
    pub(crate) size: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    size: U64,
    address: U64,
    opcode: u8,
    padding: [u8; 7],
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let op = if self.op == Opcode::Write { WRITE } else { 0 };
        let version = if self.version == Version::V2 { V2 } else { 0 };
        let raw = RawHeader {
            size: self.size.into(),
            address: self.address.into(),
            opcode: op | version,
            padding: [0; 7],
        };
        zerocopy::transmute!(raw)
    }

    pub(crate) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, UnknownOpcode> {
        let raw: RawHeader = zerocopy::transmute!(bytes);
        if raw.opcode & !(V2 | WRITE) != 0 && !te_metadata::sabotage::is_off("opcode-check") {
            return Err(UnknownOpcode(raw.opcode));
        }
        let version = if raw.opcode & V2 != 0 { Version::V2 } else { Version::V1 };
        let op = if raw.opcode & !V2 == WRITE { Opcode::Write } else { Opcode::Read };
        Ok(Self { version, op, address: raw.address.get(), size: raw.size.get() })
    }
}

/// An opcode that this side does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownOpcode(pub(crate) u8);

/// The target's answer to a v2 request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    /// The code the peer gave, never 0.
    Refused(u32),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawStatus {
    code: U32,
    magic: U32,
}

impl Status {
    /// The one refusal that this side sends.
    pub(crate) const REFUSED: Self = Self::Refused(REFUSED);

    pub(crate) fn encode(self) -> [u8; STATUS_BYTES] {
        let code = match self {
            Self::Ok => OK,
            Self::Refused(code) => code,
        };
        zerocopy::transmute!(RawStatus { code: code.into(), magic: MAGIC.into() })
    }

    pub(crate) fn decode(bytes: [u8; STATUS_BYTES]) -> Result<Self, NoStatus> {
        let raw: RawStatus = zerocopy::transmute!(bytes);
        match (raw.magic.get(), raw.code.get()) {
            (MAGIC, OK) => Ok(Self::Ok),
            (MAGIC, code) => Ok(Self::Refused(code)),
            _ => Err(NoStatus),
        }
    }
}

/// Eight bytes that are no status frame: the peer speaks v1, whatever its descriptor says (F13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoStatus;

#[cfg(test)]
mod tests;
