//! What waits in a pool and goes over a lane.

use te_metadata::BufferHandle;
use te_segment::{Opcode, Slice};
use te_transport::RemoteSide;

use crate::frame::Version;

/// Where a slice goes, as version 3 names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) buffer: BufferHandle,
    pub(crate) offset: u64,
}

impl Place {
    /// No buffer's place: a peer refuses it by name.
    pub(crate) const NOWHERE: Self =
        Self { buffer: BufferHandle { slot: u32::MAX, generation: 0 }, offset: 0 };
}

/// A slice on its way.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) slice: Slice,
    /// What it is spoken in, where that is not version 3.
    pub(crate) version: Version,
    /// Its place, where version 3 is spoken.
    pub(crate) place: Option<Place>,
    /// Whether it goes again, because the connection it was on went away.
    pub(crate) retried: bool,
    /// How often it went from one rail to another.
    pub(crate) moves: u8,
    /// What is known of the peer's memory from the time before.
    pub(crate) before: RemoteSide,
}

impl Job {
    /// A slice that comes in.
    pub(crate) fn new(slice: Slice, version: Version, place: Option<Place>) -> Self {
        let before = RemoteSide::Untouched;
        Self { slice, version, place, retried: false, moves: 0, before }
    }

    /// What is known of the peer's memory while nothing of the current try was sent.
    pub(crate) fn remote_so_far(&self) -> RemoteSide {
        self.before
    }

    /// The job for another try, after one of which bytes were sent.
    pub(crate) fn again(self) -> Self {
        let before = match self.slice.op {
            Opcode::Write => RemoteSide::InDoubt,
            Opcode::Read => RemoteSide::Settled,
        };
        Self { retried: true, before, ..self }
    }
}
