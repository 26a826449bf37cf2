//! Transfers to a host by name that are asked for later, by number (A159–A161).
//!
//! The tasks have the deadline of the call: nobody has to ask for them to end.

use std::time::Duration;

use te_engine::{BatchId, Notify, Opcode};

use crate::engine::Engine;
use crate::failure::{Failure, LocalState};
use crate::request::Piece;
use crate::sync::sum;

/// What became of a transfer that was begun before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Check {
    /// It goes on.
    Running,
    /// It has completed; its number is freed.
    Done,
    /// It failed; its number is freed.
    Failed(Failure),
    /// Its time ran out; told once, after which it has failed.
    TimedOut(Failure),
}

impl Check {
    /// What Python's `transfer_check_status` gives: 1, 0, −1 or −2 (A161).
    pub fn as_i32(&self) -> i32 {
        match self {
            Self::Running => 0,
            Self::Done => 1,
            Self::Failed(_) => -1,
            Self::TimedOut(_) => -2,
        }
    }
}

/// How long one of several batches is waited for before the others are looked at.
const ROUND: Duration = Duration::from_millis(5);
/// The same for the last one.
const ALONE: Duration = Duration::from_secs(1);

impl Engine {
    /// Begins to move pieces to or from a host; gives the number of their batch, never 0.
    ///
    /// # Errors
    /// [`Failure`]; nothing was queued. For Mooncake's callers that is 0.
    pub fn transfer_async(
        &self,
        op: Opcode,
        host: &str,
        pieces: &[Piece],
        notify: Option<Notify>,
    ) -> Result<u64, Failure> {
        let begun = self.begin_later(op, host, pieces, notify);
        begun.map_err(|failure| {
            self.drop_host(host);
            let failure = failure.with_peer(host);
            self.core.complaints.tell(&failure);
            failure
        })
    }

    fn begin_later(
        &self,
        op: Opcode,
        host: &str,
        pieces: &[Piece],
        notify: Option<Notify>,
    ) -> Result<u64, Failure> {
        let engine = self.inner()?;
        let target = self.host(host)?;
        let requests = self.limited(op, target, pieces, self.transfer_limit(sum(pieces)))?;
        let id = engine.allocate_batch(requests.len())?;
        let begun = match notify {
            Some(notify) => engine.submit_with_notify(id, &requests, notify),
            None => engine.submit(id, &requests),
        };
        if let Err(error) = begun {
            engine.abandon_batch(id);
            return Err(error.into());
        }
        self.core.started.add(id, host);
        Ok(id.as_u64())
    }

    /// How a transfer stands. Its number is freed where it has ended, except the first time that its
    /// time is told to have run out.
    ///
    /// # Errors
    /// [`crate::Code::InvalidArgument`] for an unknown number; for Mooncake's callers that is −1.
    pub fn check_transfer(&self, number: u64) -> Result<Check, Failure> {
        let state = self.batch_state(number)?;
        if !state.state.is_final() {
            return Ok(Check::Running);
        }
        let id = BatchId::from_u64(number);
        let Err(failure) = state.outcome() else {
            self.free_batch(number)?;
            return Ok(Check::Done);
        };
        self.forget_host_of(id);
        if failure.facts().is_timeout && !self.core.started.tell(id) {
            return Ok(Check::TimedOut(failure));
        }
        self.free_batch(number)?;
        Ok(Check::Failed(failure))
    }

    /// Waits until all of these transfers have completed or one has failed, and frees their numbers
    /// (A160). After a failure the others are called back, and the call returns when their local
    /// memory is free as well, or in quarantine. Numbers that are named twice count once.
    ///
    /// # Errors
    /// The first failure that was met; an unknown number is one.
    pub fn await_transfers(&self, numbers: &[u64]) -> Result<(), Failure> {
        let mut open = numbers.to_vec();
        open.sort_unstable();
        open.dedup();
        self.await_all(&mut open).map_err(|failure| self.call_back(&open, failure))
    }

    /// Takes those that completed out of `open`.
    fn await_all(&self, open: &mut Vec<u64>) -> Result<(), Failure> {
        while let Some(last) = open.last().copied() {
            let mut failed = None;
            open.retain(|number| match self.check_waited(*number) {
                Ok(is_done) => !is_done,
                Err(failure) => {
                    failed.get_or_insert(failure);
                    true
                }
            });
            if let Some(failure) = failed {
                return Err(failure);
            }
            if open.contains(&last) {
                // Late is seen in the next round: the tasks have deadlines.
                drop(self.wait_batch(last, if open.len() == 1 { ALONE } else { ROUND }));
            }
        }
        Ok(())
    }

    fn check_waited(&self, number: u64) -> Result<bool, Failure> {
        match self.check_transfer(number)? {
            Check::Running => Ok(false),
            Check::Done => Ok(true),
            Check::Failed(failure) | Check::TimedOut(failure) => Err(failure),
        }
    }

    /// Calls batches back after a failure, waits until their local memory is free, or in quarantine,
    /// and frees their numbers. Gives the failure with what became of that memory: the worst of it.
    /// Numbers that are not known are passed over.
    pub fn call_back(&self, batches: &[u64], failure: Failure) -> Failure {
        let Ok(engine) = self.inner() else { return failure };
        let known = |batch: &&u64| self.cancel_batch(**batch).is_ok();
        let known: Vec<u64> = batches.iter().filter(known).copied().collect();
        let mut local = LocalState::Free;
        for batch in known {
            local = local.worse(match self.wait_batch(batch, engine.call_back_limit()) {
                Ok(state) if state.quarantined > 0 => LocalState::Quarantined,
                Ok(_) => LocalState::Free,
                Err(failure) => failure.facts().local,
            });
            self.release_batch(batch);
        }
        failure.edit(|facts| facts.local = local)
    }

    /// Frees a batch now, or when it is final.
    pub(crate) fn release(&self, id: BatchId) {
        if self.is_here() {
            self.core.engine.abandon_batch(id);
            self.core.started.remove(id);
        }
    }

    /// Frees a batch now, or when it is final; nothing is called back.
    pub fn release_batch(&self, batch: u64) {
        self.release(BatchId::from_u64(batch));
    }

    fn forget_host_of(&self, id: BatchId) {
        if let Some(host) = self.core.started.host(id) {
            self.drop_host(&host);
        }
    }
}
