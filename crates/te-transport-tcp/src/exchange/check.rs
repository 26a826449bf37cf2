//! The end-to-end check of a request to a peer that knows no checksums: once the request is done, the
//! range is read again, and what comes is summed and compared with local memory, not stored.

use std::time::Instant;

use te_metadata::sabotage;
use te_segment::Opcode;
use te_transport::{FaultClass, RemoteSide, SliceFault};

use super::{Ending, Exchange, Fate};
use crate::frame::{HEADER_BYTES, Header};
use crate::v3::Sum;

/// How far the check is.
#[derive(Debug)]
pub(super) enum Check {
    None,
    /// It begins when the request is done.
    Wanted,
    Running {
        sum: Box<Sum>,
        /// Payload bytes that the request itself read and wrote.
        moved: (u64, u64),
        /// Bytes that it sent.
        sent: u64,
    },
}

impl Exchange {
    pub(super) fn is_checking(&self) -> bool {
        matches!(self.check, Check::Running { .. })
    }

    pub(super) fn sent_before_check(&self) -> u64 {
        match &self.check {
            Check::Running { sent, .. } => *sent,
            _ => 0,
        }
    }

    /// Bytes that are still to come; more than one receive can take may be asked for.
    pub(super) fn left_to_check(&self) -> usize {
        usize::try_from(self.job.slice.len() - self.received).unwrap_or(usize::MAX)
    }

    /// Reads the range once more.
    pub(super) fn begin_check(&mut self) {
        let (moved, sent) = (self.payload_moved(), self.sent);
        self.check = Check::Running { sum: Box::new(Sum::new()), moved, sent };
        let (version, remote) = (self.job.version, self.job.slice.remote);
        let (address, size) = (remote.address(), remote.len());
        self.header = Header { version, op: Opcode::Read, address, size }.encode();
        self.sent = 0;
        self.total = HEADER_BYTES as u64;
        self.status_filled = 0;
        self.confirmed = false;
        self.received = 0;
    }

    pub(super) fn on_check_bytes(&mut self, now: Instant, bytes: &[u8]) {
        self.progress.moved(now);
        self.received += bytes.len() as u64;
        if let Check::Running { sum, .. } = &mut self.check {
            sum.add(bytes);
        }
        if self.received == self.job.slice.len() {
            let result = self.compare();
            self.end(Ending { result, remote: RemoteSide::Settled, lost: None }, Fate::Keep);
        }
    }

    fn compare(&self) -> Result<(), SliceFault> {
        let Check::Running { sum: theirs, .. } = &self.check else { return Ok(()) };
        let (local, mut mine) = (&self.job.slice.local, Sum::new());
        if let Err(error) = mine.add_range(local, 0, local.len()) {
            let cause = format!("local memory cannot be read for the check: {error}");
            return Err(self.fault(FaultClass::Local, cause));
        }
        if mine.value() == theirs.value() || sabotage::is_off("checksum") {
            return Ok(());
        }
        Err(self.fault(FaultClass::Corrupt, "the bytes that were read back are others"))
    }
}
