//! Names of segments and addresses of peers.
//!
//! An address is a host without brackets and perhaps a port. Two readings exist: the strict one
//! refuses what it cannot take whole; the lenient one, which Mooncake uses for segment names,
//! keeps the host, takes a default for a bad port and hands the warning to the caller.

mod address;

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use address::{AddressFamily, HostPort, ParseAddressError};

/// The port of a peer whose name tells none.
pub const DEFAULT_PEER_PORT: u16 = 12001;

/// Longest segment name, in bytes.
pub const MAX_SEGMENT_NAME_BYTES: usize = 1024;

/// The name of a segment: 1 to 1024 bytes without control characters, no leading slash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentName(Box<str>);

impl SegmentName {
    /// Takes a name; slashes at its beginning are dropped.
    ///
    /// # Errors
    /// Nothing left after that, more than [`MAX_SEGMENT_NAME_BYTES`], or a control character.
    pub fn parse(text: &str) -> Result<Self, ParseNameError> {
        let name = text.trim_start_matches('/');
        if name.is_empty() {
            return Err(ParseNameError::Empty);
        }
        if name.len() > MAX_SEGMENT_NAME_BYTES {
            return Err(ParseNameError::TooLong { bytes: name.len() });
        }
        if let Some(position) = name.find(char::is_control) {
            return Err(ParseNameError::ControlCharacter { position });
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address that the name is, where peers are addressed by name.
    ///
    /// # Errors
    /// A name that is no address, by the strict rules of [`HostPort::parse`].
    pub fn host_port(&self) -> Result<HostPort, ParseAddressError> {
        HostPort::parse(&self.0)
    }
}

impl FromStr for SegmentName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for SegmentName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Why a text is no segment name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseNameError {
    /// The name is empty.
    #[error("the segment name is empty")]
    Empty,
    /// The name is too long.
    #[error("the segment name has {bytes} bytes, at most {MAX_SEGMENT_NAME_BYTES} are allowed")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The name holds a control character.
    #[error("the segment name has a control character at byte {position}")]
    ControlCharacter {
        /// Where, in bytes from 0.
        position: usize,
    },
}

/// A port with the number of an accelerator behind it, as in `9000:npu_2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePort {
    /// The port.
    pub port: u16,
    /// The accelerator; `None` when the text names none.
    pub device: Option<u32>,
}

/// Reads `PORT` or `PORT:npu_N`.
///
/// As Mooncake does, a suffix of another form names no device and a number that cannot be read is
/// device 0.
///
/// # Errors
/// A port that is not 1 to 65535 in plain digits.
pub fn parse_device_port(text: &str) -> Result<DevicePort, ParseAddressError> {
    let (port, suffix) = match text.split_once(':') {
        Some((port, suffix)) => (port, Some(suffix)),
        None => (text, None),
    };
    let number = suffix.and_then(|suffix| suffix.strip_prefix("npu_"));
    Ok(DevicePort {
        port: address::parse_port(port)?,
        device: number.map(|digits| digits.parse().unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests;
