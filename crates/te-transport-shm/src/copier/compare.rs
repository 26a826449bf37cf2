//! Comparing what was copied with what it was copied from, in bounded pieces.

use std::io;

use rustix::process::Pid;
use te_segment::{CopyError, LocalRange};

use crate::job::Job;
use crate::vm;

/// Bytes that are compared at once.
const PIECE: usize = 64 << 10;

/// Room for a piece of either side; none before it is used first.
#[derive(Debug, Default)]
pub(crate) struct Compare {
    here: Vec<u8>,
    there: Vec<u8>,
}

impl Compare {
    /// Whether two ranges of this process, of one length, have the same bytes.
    pub(crate) fn within(&mut self, a: &LocalRange, b: &LocalRange) -> Result<bool, CopyError> {
        self.each(a.len(), |at, here, there| {
            a.region().read_into(a.offset() + at, here)?;
            b.region().read_into(b.offset() + at, there)
        })
    }

    /// Whether the piece in hand has the same bytes on both sides.
    pub(crate) fn across(&mut self, pid: Pid, job: &Job) -> io::Result<bool> {
        let (_, remote) = job.piece();
        let Some(local) = job.piece_range() else { return Ok(false) };
        self.each(local.len(), |at, here, there| {
            let read = local.region().read_into(local.offset() + at, here);
            read.map_err(|error| match error {
                CopyError::Fault { cause, .. } => cause,
                other => io::Error::other(other),
            })?;
            vm::read(pid, remote + at, there)
        })
    }

    fn each<E>(
        &mut self,
        len: u64,
        mut read: impl FnMut(u64, &mut [u8], &mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.here.resize(PIECE, 0);
        self.there.resize(PIECE, 0);
        let mut at = 0;
        while at < len {
            let n = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
            let (here, there) = (&mut self.here[..n], &mut self.there[..n]);
            read(at, here, there)?;
            if here != there {
                return Ok(false);
            }
            at += n as u64;
        }
        Ok(true)
    }
}
