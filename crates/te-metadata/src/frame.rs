//! Frames of the peer link.
//!
//! ```text
//!   0        8      9
//!   ┌────────┬──────┬──────────────┐
//!   │ length │ type │ JSON text    │   length: u64 little-endian, counts type and text
//!   └────────┴──────┴──────────────┘   type: 0 endpoint, 1 metadata, 2 notify, 3 probe
//! ```
//!
//! An older form has no type byte: it is recognised by a first byte of 4 to 127, which no type is
//! and which `{` is. It is an endpoint handshake and is answered in the same form.
//!
//! I1  Nothing is allocated for bytes that have not arrived.
//! I2  A length of 0 or above the limit ends the reading before a body byte is looked at; this is
//!     also what refuses HTTP and TLS clients.

use thiserror::Error;

use crate::sabotage;

/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 8;
/// Least limit for the length of a frame, and the default: 1 MiB.
pub const MIN_FRAME_LIMIT: usize = 1 << 20;
/// Greatest limit for the length of a frame: 128 MiB.
pub const MAX_FRAME_LIMIT: usize = 128 << 20;

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// Endpoint handshake.
    Endpoint = 0,
    /// Exchange of descriptors.
    Metadata = 1,
    /// A message for the other engine's user.
    Notify = 2,
    /// Is the peer alive?
    Probe = 3,
}

impl TryFrom<u8> for FrameType {
    type Error = FrameError;

    fn try_from(byte: u8) -> Result<Self, Self::Error> {
        match byte {
            0 => Ok(Self::Endpoint),
            1 => Ok(Self::Metadata),
            2 => Ok(Self::Notify),
            3 => Ok(Self::Probe),
            byte => Err(FrameError::UnknownType { byte }),
        }
    }
}

/// The form of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// With a type byte.
    Typed(FrameType),
    /// Without one: an endpoint handshake of an old engine.
    Legacy,
}

impl From<FrameType> for FrameKind {
    fn from(kind: FrameType) -> Self {
        Self::Typed(kind)
    }
}

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its form.
    pub kind: FrameKind,
    /// The text, as it came.
    pub body: Vec<u8>,
}

/// The bytes of a frame.
pub fn encode_frame(kind: impl Into<FrameKind>, body: &[u8]) -> Vec<u8> {
    let type_byte = match kind.into() {
        FrameKind::Typed(kind) => Some(kind as u8),
        FrameKind::Legacy => None,
    };
    let length = body.len() as u64 + u64::from(type_byte.is_some());
    let mut bytes = Vec::with_capacity(LENGTH_BYTES + 1 + body.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend(type_byte);
    bytes.extend_from_slice(body);
    bytes
}

/// Puts one frame together from the bytes of a connection.
///
/// A connection carries one frame in each direction; bytes behind it are ignored.
#[derive(Debug)]
pub struct FrameReader {
    limit: usize,
    state: Reading,
}

#[derive(Debug)]
enum Reading {
    Length { bytes: [u8; LENGTH_BYTES], n_bytes: usize },
    Rest { length: usize, bytes: Vec<u8> },
    Over,
}

impl FrameReader {
    /// A reader that refuses frames whose length field is above `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: Reading::Length { bytes: [0; LENGTH_BYTES], n_bytes: 0 } }
    }

    /// Takes the next bytes; gives the frame once it is whole.
    ///
    /// # Errors
    /// A length or a type that no frame has. The reader then takes no more bytes.
    pub fn push(&mut self, mut input: &[u8]) -> Result<Option<Frame>, FrameError> {
        if let Reading::Length { bytes, n_bytes } = &mut self.state {
            let taken = input.len().min(LENGTH_BYTES - *n_bytes);
            bytes[*n_bytes..*n_bytes + taken].copy_from_slice(&input[..taken]);
            *n_bytes += taken;
            input = &input[taken..];
            if *n_bytes < LENGTH_BYTES {
                return Ok(None);
            }
            let claimed = u64::from_le_bytes(*bytes);
            self.state = Reading::Over;
            let length = self.check_length(claimed)?;
            self.state = Reading::Rest { length, bytes: Vec::new() };
        }
        self.push_rest(input)
    }

    /// Bytes that are held for a frame that is not whole yet.
    pub fn buffered(&self) -> usize {
        match &self.state {
            Reading::Rest { bytes, .. } => bytes.capacity(),
            Reading::Length { .. } | Reading::Over => 0,
        }
    }

    /// Whether no byte has come yet.
    pub fn is_fresh(&self) -> bool {
        matches!(self.state, Reading::Length { n_bytes: 0, .. })
    }

    fn check_length(&self, claimed: u64) -> Result<usize, FrameError> {
        let unlimited = sabotage::is_off("frame-limit");
        match usize::try_from(claimed) {
            Ok(0) => Err(FrameError::EmptyFrame),
            Ok(length) if length <= self.limit || unlimited => Ok(length),
            _ => Err(FrameError::TooLong { length: claimed, limit: self.limit }),
        }
    }

    fn push_rest(&mut self, input: &[u8]) -> Result<Option<Frame>, FrameError> {
        let Reading::Rest { length, bytes } = &mut self.state else { return Ok(None) };
        let first = bytes.is_empty().then(|| input.first()).flatten();
        if let Some(byte @ 0x80..) = first {
            self.state = Reading::Over;
            return Err(FrameError::UnknownType { byte: *byte });
        }
        let taken = input.len().min(*length - bytes.len());
        bytes.extend_from_slice(&input[..taken]);
        if bytes.len() < *length {
            return Ok(None);
        }
        let mut body = std::mem::take(bytes);
        self.state = Reading::Over;
        let kind = match FrameType::try_from(body[0]) {
            Ok(kind) => {
                body.remove(0);
                FrameKind::Typed(kind)
            }
            Err(_) => FrameKind::Legacy,
        };
        Ok(Some(Frame { kind, body }))
    }
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is 0.
    #[error("the frame is empty")]
    EmptyFrame,
    /// The length is above the limit.
    #[error("the frame claims {length} bytes, at most {limit} are allowed")]
    TooLong {
        /// What the length field says.
        length: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The type byte is none and begins no text.
    #[error("frame type {byte:#04x} is unknown")]
    UnknownType {
        /// The byte.
        byte: u8,
    },
}

#[cfg(test)]
mod tests;
