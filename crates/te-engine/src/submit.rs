//! From a caller's requests to tasks: everything is checked before anything is queued (A61).

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::Notify;
use te_segment::{AccessError, BufferGuard, RemoteRange, RemoteSegment, SegmentId};

use crate::batch::Batch;
use crate::engine::TransferEngine;
use crate::error::{SubmitError, TransferError, WaitError};
use crate::id::BatchId;
use crate::request::TransferRequest;
use crate::status::{BatchStatus, TaskState};
use crate::task::{Task, Work};

impl TransferEngine {
    /// Adds requests to a batch and begins to move them. Waits for room when too much is
    /// outstanding, at most the configured transfer timeout. The slice is not kept.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing of the call was queued then.
    pub fn submit(&self, batch: BatchId, requests: &[TransferRequest]) -> Result<(), SubmitError> {
        self.submit_within(batch, requests, self.config.engine.transfer_timeout)
    }

    /// As [`TransferEngine::submit`], but waits for room at most `patience`; with zero it answers
    /// at once.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing of the call was queued then.
    pub fn submit_within(
        &self,
        batch: BatchId,
        requests: &[TransferRequest],
        patience: Duration,
    ) -> Result<(), SubmitError> {
        self.submit_all(batch, requests, None, patience)
    }

    /// As [`TransferEngine::submit`]; once every task of the batch completed, the first request's
    /// target gets `notify`. The batch is final when that has ended, well or badly.
    ///
    /// # Errors
    /// [`SubmitError`]; [`SubmitError::Empty`] without a request.
    pub fn submit_with_notify(
        &self,
        batch: BatchId,
        requests: &[TransferRequest],
        notify: Notify,
    ) -> Result<(), SubmitError> {
        let target = requests.first().ok_or(SubmitError::Empty)?.target;
        let plan = Some((target, notify));
        self.submit_all(batch, requests, plan, self.config.engine.transfer_timeout)
    }

    /// Moves requests and waits for their end. When the time is up, what is open is called back,
    /// and the call returns once the local memory is free, or the fault says that it is in
    /// quarantine.
    ///
    /// # Errors
    /// [`TransferError`] with the first fault.
    pub fn transfer(
        &self,
        requests: &[TransferRequest],
        timeout: Duration,
    ) -> Result<u64, TransferError> {
        let batch = self.allocate_batch(requests.len()).map_err(SubmitError::from)?;
        let result = self.transfer_in(batch, requests, timeout);
        self.shared.batches.orphan(batch);
        result
    }

    fn transfer_in(
        &self,
        batch: BatchId,
        requests: &[TransferRequest],
        timeout: Duration,
    ) -> Result<u64, TransferError> {
        let limited: Vec<TransferRequest>;
        let requests = if requests.iter().any(|request| request.timeout.is_none()) {
            limited = requests.iter().map(|r| limit(r, timeout)).collect();
            &limited
        } else {
            requests
        };
        let begun = self.now();
        self.submit_within(batch, requests, timeout)?;
        let left = timeout.saturating_sub(self.now().saturating_duration_since(begun));
        let status = match self.wait(batch, left) {
            Ok(status) => status,
            Err(WaitError::TimedOut { .. }) => {
                self.cancel(batch).map_err(WaitError::from)?;
                self.wait(batch, self.config.engine.shutdown_timeout)?
            }
            Err(error) => return Err(error.into()),
        };
        outcome(status)
    }

    fn submit_all(
        &self,
        id: BatchId,
        requests: &[TransferRequest],
        notify: Option<(SegmentId, Notify)>,
        patience: Duration,
    ) -> Result<(), SubmitError> {
        let batch = self.find(id)?;
        if self.is_closed() {
            return Err(SubmitError::Closed);
        }
        batch.check_room(&batch.lock(), requests.len())?;
        let works = self.check_all(requests)?;
        let open = works.iter().filter(|work| !work.local.is_empty());
        let (n, bytes) = open.fold((0, 0), |(n, sum), work| (n + 1, sum + work.local.len()));
        self.admit(n, bytes, patience)?;
        let first = {
            let mut inner = batch.lock();
            if let Err(error) = batch.check_room(&inner, works.len()) {
                drop(inner);
                self.shared.admission.leave(n, bytes);
                return Err(error.into());
            }
            let first = inner.tasks.len();
            works.into_iter().for_each(|work| inner.push(Task::new(work)));
            if let Some((target, notify)) = notify {
                inner.plan_notify(target, notify);
            }
            first
        };
        self.shared.counters.submitted.add(requests.len() as u64);
        self.begin(&batch, first..first + requests.len());
        Ok(())
    }

    fn begin(&self, batch: &Arc<Batch>, tasks: std::ops::Range<usize>) {
        if let Some(deadline) = batch.deadline() {
            self.shared.alarm.at(deadline);
        }
        self.path.dispatch(batch, tasks);
        if self.is_closed() {
            // Closing may have looked through the batches before these tasks were in one.
            let all: Vec<usize> = (0..batch.status().total).collect();
            self.path.end(batch, &all, TaskState::Canceled, "the engine is closing");
        }
    }

    fn admit(&self, n: u64, bytes: u64, patience: Duration) -> Result<(), SubmitError> {
        let refused =
            |outstanding| SubmitError::Overloaded { outstanding, asked: n, waited: patience };
        if n == 0 {
            return Ok(());
        }
        self.shared.admission.enter(n, bytes, patience).map_err(refused)
    }

    fn check_all(&self, requests: &[TransferRequest]) -> Result<Vec<Work>, SubmitError> {
        let mut last: Option<(SegmentId, Arc<RemoteSegment>)> = None;
        let now = self.now();
        let mut works = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            let peer = match &last {
                Some((id, peer)) if *id == request.target => Arc::clone(peer),
                _ => self.check_target(index, request.target)?,
            };
            works.push(self.check_one(index, request, &peer, now)?);
            last = Some((request.target, peer));
        }
        Ok(works)
    }

    fn check_target(
        &self,
        index: usize,
        target: SegmentId,
    ) -> Result<Arc<RemoteSegment>, SubmitError> {
        let unknown = SubmitError::UnknownSegment { index, target };
        let peer = self.shared.peers.current(target).ok_or(unknown)?;
        if !self.path.reaches(&peer) {
            let (offers, ours) = (offers(&peer), self.path.names().join(", "));
            let peer = peer.name().as_str().into();
            return Err(SubmitError::NoTransport { index, peer, offers, ours });
        }
        Ok(peer)
    }

    fn check_one(
        &self,
        index: usize,
        request: &TransferRequest,
        peer: &Arc<RemoteSegment>,
        now: Instant,
    ) -> Result<Work, SubmitError> {
        let remote = RemoteRange::new(request.offset, request.local.len())
            .map_err(|cause| SubmitError::Range { index, cause })?;
        let guard = self.guard(index, request)?;
        let timeout = request.timeout.or(self.config.engine.request_timeout);
        let deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        Ok(Work::new(request, peer, remote, guard, deadline))
    }

    /// Keeps the local buffer registered while the task is open. Memory that is not registered is
    /// used as it is (peer fault 28).
    fn guard(
        &self,
        index: usize,
        request: &TransferRequest,
    ) -> Result<Option<BufferGuard>, SubmitError> {
        let (local, address) = (&request.local, request.local.address());
        if local.is_empty() {
            return Ok(None);
        }
        let Some(buffer) = self.registry.segment().find(address, local.len()) else {
            return Ok(None);
        };
        match buffer.hold(local.clone()) {
            Ok(guard) => Ok(Some(guard)),
            Err(AccessError::Closed { .. }) => Err(SubmitError::LocalClosing { index, address }),
            Err(_) => Ok(None),
        }
    }
}

/// What a peer offers, for an error about it. The text is not longer than what names need.
fn offers(peer: &RemoteSegment) -> String {
    const MOST: usize = 16;
    let descriptor = peer.descriptor();
    let main = match descriptor.protocol_name() {
        "tcp" if descriptor.tcp.data_port.is_none() => "tcp without a data port",
        other => other,
    };
    let further = descriptor.te.iter().flat_map(|te| te.transports.keys());
    let names = further.map(String::as_str).filter(|name| *name != main && name.len() <= 32);
    let all: Vec<&str> = std::iter::once(main).chain(names.take(MOST)).collect();
    all.join(", ")
}

fn limit(request: &TransferRequest, timeout: Duration) -> TransferRequest {
    match request.timeout {
        Some(_) => request.clone(),
        None => request.clone().with_timeout(timeout),
    }
}

fn outcome(status: BatchStatus) -> Result<u64, TransferError> {
    match status.fault {
        Some(first) if status.failed > 0 => Err(TransferError::Failed {
            failed: status.failed,
            total: status.total,
            first: Box::new(first),
        }),
        _ => Ok(status.bytes),
    }
}
