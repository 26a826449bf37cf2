//! Which bytes of a peer: an offset that counts through its list of buffers, or an address.

use std::collections::VecDeque;

use te_metadata::BufferDescriptor;

use crate::args::Part;
use crate::error::{CliError, Failure};
use crate::session::Opened;
use crate::units;

/// A part of a peer's memory, taken from its front piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Address and length of what is left, in order.
    spans: VecDeque<(u64, u64)>,
    /// Whether the peer told the end; else a caller that names no length has no bound.
    bounded: bool,
}

impl Place {
    /// The part that a command names, to the end of the segment or, by address, of the buffer.
    pub(crate) fn find(action: &str, part: &Part, opened: &Opened) -> Result<Self, CliError> {
        let buffers = opened.known.descriptor().buffers();
        match part.address {
            Some(address) => Ok(Self::at(address, buffers)),
            None => {
                Self::behind(part.offset, buffers).map_err(|cause| outside(action, opened, cause))
            }
        }
    }

    /// Cuts to `length` bytes.
    pub(crate) fn first(
        mut self,
        length: u64,
        action: &str,
        opened: &Opened,
    ) -> Result<Self, CliError> {
        let there = self.length();
        if !self.bounded {
            // The peer may have registered the range since; it has the last word.
            self.spans = VecDeque::from([(self.address(), length)]);
            return Ok(self);
        }
        if there < length {
            let cause = format!(
                "{} asked for, {} from there to the end",
                units::length(length),
                units::length(there)
            );
            return Err(outside(action, opened, cause));
        }
        let spans = self.take(length).into();
        Ok(Self { spans, bounded: true })
    }

    /// Bytes left.
    pub(crate) fn length(&self) -> u64 {
        self.spans.iter().map(|(_, length)| length).fold(0, |sum, len| sum.saturating_add(*len))
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Where it begins; 0 for nothing.
    pub(crate) fn address(&self) -> u64 {
        self.spans.front().map_or(0, |(address, _)| *address)
    }

    /// Takes up to `length` bytes from the front, cut where buffers end.
    pub(crate) fn take(&mut self, length: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        let mut wanted = length;
        while wanted > 0
            && let Some((address, there)) = self.spans.front_mut()
        {
            let piece = wanted.min(*there);
            taken.push((*address, piece));
            wanted -= piece;
            *address = address.saturating_add(piece);
            *there -= piece;
            if *there == 0 {
                self.spans.pop_front();
            }
        }
        taken
    }

    fn at(address: u64, buffers: &[BufferDescriptor]) -> Self {
        let inside = |buffer: &&BufferDescriptor| {
            address.checked_sub(buffer.addr).is_some_and(|into| into < buffer.length)
        };
        match buffers.iter().find(inside) {
            Some(buffer) => {
                let left = buffer.length - (address - buffer.addr);
                Self { spans: VecDeque::from([(address, left)]), bounded: true }
            }
            None => Self { spans: VecDeque::from([(address, u64::MAX - address)]), bounded: false },
        }
    }

    fn behind(offset: u64, buffers: &[BufferDescriptor]) -> Result<Self, String> {
        let spans = buffers.iter().map(|buffer| (buffer.addr, buffer.length)).collect();
        let mut place = Self { spans, bounded: true };
        let total = place.length();
        if total == 0 {
            return Err("the segment exposes no memory".to_owned());
        }
        if offset >= total {
            let total = units::length(total);
            return Err(format!("offset {offset} is behind the end of its {total}"));
        }
        place.take(offset);
        Ok(place)
    }
}

fn outside(action: &str, opened: &Opened, cause: String) -> CliError {
    CliError::new(Failure::Refused, action, cause)
        .with_peer(&opened.name)
        .hint(format!("`te segment {}` shows what it exposes", opened.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(list: &[(u64, u64)]) -> Vec<BufferDescriptor> {
        list.iter()
            .map(|&(addr, length)| BufferDescriptor { addr, length, ..BufferDescriptor::default() })
            .collect()
    }

    #[test]
    fn an_offset_counts_through_the_list_in_its_order() {
        let list = buffers(&[(0x9000, 10), (0x1000, 20)]);
        let mut place = Place::behind(4, &list).unwrap();
        assert_eq!(place.length(), 26);
        assert_eq!(place.take(8), [(0x9004, 6), (0x1000, 2)]);
        assert_eq!(place.take(100), [(0x1002, 18)]);
        assert_eq!(place.take(1), []);
        assert_eq!(Place::behind(10, &list).unwrap().address(), 0x1000);
    }

    #[test]
    fn an_offset_behind_the_end_is_told() {
        let list = buffers(&[(0x9000, 10)]);
        assert_eq!(
            Place::behind(10, &list).unwrap_err(),
            "offset 10 is behind the end of its 10 bytes"
        );
        assert_eq!(Place::behind(0, &[]).unwrap_err(), "the segment exposes no memory");
    }

    #[test]
    fn an_address_reaches_to_the_end_of_its_buffer() {
        let list = buffers(&[(0x1000, 0x100), (0x1100, 0x100)]);
        let place = Place::at(0x10ff, &list);
        assert_eq!((place.length(), place.is_bounded()), (1, true));
        let place = Place::at(0x5000, &list);
        assert_eq!((place.address(), place.is_bounded()), (0x5000, false));
    }

    #[test]
    fn lengths_of_a_hostile_list_do_not_overflow() {
        let list = buffers(&[(1, u64::MAX), (1, u64::MAX)]);
        assert_eq!(Place::behind(0, &list).unwrap().length(), u64::MAX);
        assert_eq!(Place::behind(u64::MAX - 1, &list).unwrap().length(), u64::MAX);
    }
}
