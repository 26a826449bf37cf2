//! Transfers to a host by name that return when they have ended (A156–A158).
//!
//! I1  A failure is returned when the local memory is free, or it says that it is in quarantine;
//!     either comes within the time of the call and that of closing an engine.

use std::slice;
use std::time::Duration;

use te_engine::{
    BatchId, Notify, NotifyOutcome, Opcode, OpenError, SegmentId, TransferRequest, WaitError,
};

use crate::code::Code;
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
        self.attempt(host, |target| {
            let local = self.local(&mut self.core.regions.finder(), target, &piece)?;
            let request = TransferRequest::new(op, local, target, piece.remote);
            Ok(engine.transfer(slice::from_ref(&request), limit)?)
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
        self.attempt(host, |target| {
            let requests = self.prepare_pieces(op, target, pieces)?;
            Ok(engine.transfer(&requests, limit)?)
        })
    }

    /// As [`Engine::batch_transfer_sync`]; when all pieces are in place, the host gets `notify`.
    ///
    /// # Errors
    /// As [`Engine::batch_transfer_sync`]; without a piece [`Code::InvalidArgument`]. A
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
        self.attempt(host, |target| {
            let mut requests = self.prepare_pieces(op, target, pieces)?;
            requests.iter_mut().for_each(|request| request.timeout = Some(limit));
            let batch = engine.allocate_batch(requests.len())?;
            let begun = engine.submit_with_notify(batch, &requests, notify.clone());
            let ended = match begun {
                Ok(()) => self.end_of(batch, limit),
                Err(error) => Err(error.into()),
            };
            engine.abandon_batch(batch);
            ended
        })
    }

    /// Waits for the end of a batch whose tasks have deadlines, and calls back what is late.
    fn end_of(&self, batch: BatchId, limit: Duration) -> Result<Moved, Failure> {
        let engine = self.inner()?;
        let after = self.config().engine.shutdown_timeout;
        let status = match engine.wait(batch, limit) {
            Err(WaitError::TimedOut { .. }) => {
                engine.cancel(batch)?;
                engine.wait(batch, after)?
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
        host: &str,
        transfer: impl Fn(SegmentId) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut left = None;
        loop {
            let failure = match self.host(host).and_then(&transfer) {
                Ok(done) => return Ok(done),
                Err(failure) => self.unless_closed(failure.with_peer(host)),
            };
            self.drop_host(host);
            let left = left.get_or_insert_with(|| self.further_nics());
            if *left == 0 || !may_repeat(&failure) {
                self.core.complaints.tell(&failure);
                return Err(failure);
            }
            *left -= 1;
        }
    }

    /// Closing the engine calls transfers back as well.
    fn unless_closed(&self, failure: Failure) -> Failure {
        let is_closed =
            || matches!(self.core.engine.open_segment(self.local_name()), Err(OpenError::Closed));
        if !failure.facts().is_timeout || !is_closed() {
            return failure;
        }
        failure.edit(|facts| {
            (facts.code, facts.phase) = (Code::InvalidArgument, "closed");
            facts.is_timeout = false;
        })
    }

    fn further_nics(&self) -> usize {
        let has_rdma = self.core.engine.transports().contains(&"rdma");
        let count = || if has_rdma { self.core.engine.topology().nics().len() } else { 0 };
        *self.core.nics.get_or_init(count)
    }
}

/// Whether the same bytes may be sent again: nothing of the failed attempt is under way any more, and
/// its time did not run out.
fn may_repeat(failure: &Failure) -> bool {
    let facts = failure.facts();
    facts.is_retryable && !facts.is_timeout && facts.local == LocalState::Free
}

pub(crate) fn sum(pieces: &[Piece]) -> u64 {
    pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.len))
}
