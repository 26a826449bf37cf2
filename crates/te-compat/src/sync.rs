//! Transfers to a host by name that return when they have ended (A156–A158).
//!
//! I1  A failure is returned when the local memory is free, or it says that it is in quarantine;
//!     either comes within the limit of the call, the time of closing an engine, and what it takes to
//!     call a batch back. Where it is neither, which only a stuck engine can cause, it says so too.

use std::slice;
use std::time::Duration;

use te_engine::{
    BatchId, Notify, NotifyOutcome, Opcode, RemoteSide, SegmentId, SubmitError, TransferRequest,
    WaitError,
};

use crate::engine::Engine;
use crate::failure::{Failure, LocalState};
use crate::request::Piece;

/// What a synchronous transfer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Bytes in place: all of them.
    pub bytes: u64,
    /// What became of the notification; the transfer itself has completed.
    pub notify: NotifyOutcome,
}

impl Engine {
    /// The limit of a call that moves this many bytes: that of the configuration
    /// (`MC_TRANSFER_TIMEOUT`), and a nanosecond for each byte.
    pub fn transfer_limit(&self, bytes: u64) -> Duration {
        self.config().engine.transfer_timeout.saturating_add(Duration::from_nanos(bytes))
    }

    /// Moves one piece to or from a host and waits for the end.
    ///
    /// # Errors
    /// [`Failure`]; for Mooncake's callers that is −1, whatever the code.
    pub fn transfer_sync(&self, op: Opcode, host: &str, piece: Piece) -> Result<u64, Failure> {
        let engine = self.inner()?;
        let limit = self.transfer_limit(piece.len);
        self.attempt(op, host, |target| {
            let local = self.local(&mut self.core.regions.finder(), target, &piece)?;
            let request = TransferRequest::new(op, local, target, piece.remote);
            let request = request.with_timeout(limit);
            let begin = |id| engine.submit_within(id, slice::from_ref(&request), limit);
            Ok(self.run(1, limit, begin)?.bytes)
        })
    }

    /// Moves several pieces to or from a host and waits for the end of all. None is a success.
    ///
    /// # Errors
    /// As [`Engine::transfer_sync`], with the first piece that failed.
    pub fn batch_transfer_sync(
        &self,
        op: Opcode,
        host: &str,
        pieces: &[Piece],
    ) -> Result<u64, Failure> {
        let engine = self.inner()?;
        let limit = self.transfer_limit(sum(pieces));
        self.attempt(op, host, |target| {
            let requests = self.limited(op, target, pieces, limit)?;
            let begin = |id| engine.submit_within(id, &requests, limit);
            Ok(self.run(requests.len(), limit, begin)?.bytes)
        })
    }

    /// As [`Engine::batch_transfer_sync`]; when all pieces are in place, the host gets `notify`.
    ///
    /// # Errors
    /// As [`Engine::batch_transfer_sync`]; without a piece [`crate::Code::InvalidArgument`]. A
    /// notification that was not taken is no error: see [`Moved::notify`].
    pub fn transfer_sync_notify(
        &self,
        op: Opcode,
        host: &str,
        pieces: &[Piece],
        notify: &Notify,
    ) -> Result<Moved, Failure> {
        let engine = self.inner()?;
        let limit = self.transfer_limit(sum(pieces));
        self.attempt(op, host, |target| {
            let requests = self.limited(op, target, pieces, limit)?;
            let begin = |id| engine.submit_with_notify(id, &requests, notify.clone());
            self.run(requests.len(), limit, begin)
        })
    }

    /// The pieces as requests that end when the time is over.
    pub(crate) fn limited(
        &self,
        op: Opcode,
        target: SegmentId,
        pieces: &[Piece],
        limit: Duration,
    ) -> Result<Vec<TransferRequest>, Failure> {
        let mut requests = self.prepare_pieces(op, target, pieces)?;
        requests.iter_mut().for_each(|request| request.timeout = Some(limit));
        Ok(requests)
    }

    /// Submits requests in a batch of their own and waits for its end.
    fn run(
        &self,
        count: usize,
        limit: Duration,
        begin: impl FnOnce(BatchId) -> Result<(), SubmitError>,
    ) -> Result<Moved, Failure> {
        let engine = self.inner()?;
        let batch = engine.allocate_batch(count)?;
        let ended = match begin(batch) {
            Ok(()) => self.end_of(batch, limit),
            Err(error) => Err(error.into()),
        };
        engine.abandon_batch(batch);
        ended
    }

    /// Waits for the end of a batch whose tasks have deadlines. What is late all the same, such as
    /// the answer to a notification, is called back.
    fn end_of(&self, batch: BatchId, limit: Duration) -> Result<Moved, Failure> {
        let engine = self.inner()?;
        let after = self.config().engine.shutdown_timeout;
        let status = match engine.wait(batch, limit.saturating_add(after)) {
            Err(WaitError::TimedOut { .. }) => {
                engine.cancel(batch)?;
                engine.wait(batch, engine.call_back_limit())?
            }
            other => other?,
        };
        let state = self.state_of(batch, status);
        let notify = state.notify.clone();
        Ok(Moved { bytes: state.outcome()?, notify })
    }

    /// Runs a transfer to a host, again where a path or the peer failed and there are further NICs to
    /// try, as often as the peer's binding does (A156). A host that failed is opened anew.
    fn attempt<T>(
        &self,
        op: Opcode,
        host: &str,
        transfer: impl Fn(SegmentId) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut left = None;
        loop {
            let failure = match self.host(host).and_then(&transfer) {
                Ok(done) => return Ok(done),
                Err(failure) => failure.with_peer(host),
            };
            self.drop_host(host);
            let left = left.get_or_insert_with(|| self.further_nics());
            if *left == 0 || !may_repeat(op, &failure) {
                self.core.complaints.tell(&failure);
                return Err(failure);
            }
            *left -= 1;
        }
    }

    fn further_nics(&self) -> usize {
        let has_rdma = self.core.engine.transports().contains(&"rdma");
        let count = || if has_rdma { self.core.engine.topology().nics().len() } else { 0 };
        *self.core.nics.get_or_init(count)
    }
}

/// Whether the same bytes may be sent again: nothing of the failed attempt is under way any more, on
/// neither side, and its time did not run out. A write of which something may still land must not be
/// repeated: it could come on top of what the peer did with its memory after the repetition completed.
fn may_repeat(op: Opcode, failure: &Failure) -> bool {
    let facts = failure.facts();
    let may_land = op == Opcode::Write && facts.remote == Some(RemoteSide::InDoubt);
    facts.is_retryable && !facts.is_timeout && facts.local == LocalState::Free && !may_land
}

pub(crate) fn sum(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[test]
    fn a156_what_may_still_land_is_not_written_again() {
        // A156, K16: a late write must not come on top of what the peer did since.
        let failed = |remote| {
            Failure::new(Code::Socket, "payload", "lost").edit(|facts| {
                (facts.remote, facts.is_retryable) = (Some(remote), true);
            })
        };
        assert!(!may_repeat(Opcode::Write, &failed(RemoteSide::InDoubt)));
        assert!(may_repeat(Opcode::Read, &failed(RemoteSide::InDoubt)));
        for remote in [RemoteSide::Untouched, RemoteSide::Settled] {
            assert!(may_repeat(Opcode::Write, &failed(remote)));
        }
        let with = |change: fn(&mut crate::Facts)| failed(RemoteSide::Untouched).edit(change);
        let held = with(|facts| facts.local = LocalState::Quarantined);
        let late = with(|facts| facts.is_timeout = true);
        let refused = with(|facts| facts.is_retryable = false);
        for failure in [held, late, refused] {
            assert!(!may_repeat(Opcode::Read, &failure), "{failure}");
        }
    }
}
