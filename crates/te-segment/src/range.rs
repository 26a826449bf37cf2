//! Ranges with checked arithmetic: the only place where an offset and a length are added.

use std::fmt;

use crate::error::RangeError;
use crate::memory::{Region, Span};

/// `[offset, offset + len)` of something `within` bytes long, or the named error.
pub(crate) fn check(offset: u64, len: u64, within: u64) -> Result<(), RangeError> {
    match offset.checked_add(len) {
        Some(end) if end <= within => Ok(()),
        _ => Err(RangeError { offset, len, within }),
    }
}

/// A part of a local region. Holds the region alive.
#[derive(Clone)]
pub struct LocalRange {
    region: Region,
    offset: u64,
    len: u64,
}

impl LocalRange {
    pub(crate) fn new(region: &Region, offset: u64, len: u64) -> Result<Self, RangeError> {
        check(offset, len, region.len())?;
        Ok(Self { region: region.clone(), offset, len })
    }

    /// First address, in this process.
    pub fn address(&self) -> u64 {
        self.region.address() + self.offset
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it names no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The region it is a part of.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Offset in the region, bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// A part of this range; `offset` counts from the start of the range.
    ///
    /// # Errors
    /// [`RangeError`] where the part is not inside the range.
    pub fn part(&self, offset: u64, len: u64) -> Result<Self, RangeError> {
        check(offset, len, self.len)?;
        Ok(Self { region: self.region.clone(), offset: self.offset + offset, len })
    }

    /// Pointer and length for system calls.
    pub fn span(&self) -> Span {
        self.region.span(self.offset, self.len)
    }
}

impl fmt::Debug for LocalRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "local[{:#x}+{}]", self.address(), self.len)
    }
}

/// A range in a peer's address space. Never wraps.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteRange {
    address: u64,
    len: u64,
}

impl RemoteRange {
    /// Checks that the range does not wrap.
    ///
    /// # Errors
    /// [`RangeError`] where `address + len` exceeds 2^64 − 1.
    pub fn new(address: u64, len: u64) -> Result<Self, RangeError> {
        check(address, len, u64::MAX)?;
        Ok(Self { address, len })
    }

    /// First address, in the peer.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// First address behind it; a range never wraps.
    pub fn end(&self) -> u64 {
        self.address + self.len
    }

    /// Whether it names no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of this range; `offset` counts from its start.
    ///
    /// # Errors
    /// [`RangeError`] where the part is not inside the range.
    pub fn part(&self, offset: u64, len: u64) -> Result<Self, RangeError> {
        check(offset, len, self.len)?;
        Ok(Self { address: self.address + offset, len })
    }

    /// Whether this range lies inside `[address, address + len)`.
    pub fn is_inside(&self, address: u64, len: u64) -> bool {
        self.address >= address && check(self.address - address, self.len, len).is_ok()
    }
}

impl fmt::Debug for RemoteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remote[{:#x}+{}]", self.address, self.len)
    }
}

#[cfg(test)]
mod tests;
