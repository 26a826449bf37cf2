//! From a caller's requests to tasks: everything is checked before anything is queued (A61).

use std::sync::Arc;
use std::time::{Duration, Instant};

use te_metadata::{Notify, ProtocolPart, SegmentDescriptor};
use te_segment::{BufferHold, LocalBuffer, RemoteRange, RemoteSegment, SegmentId};

use crate::batch::Batch;
use crate::engine::TransferEngine;
use crate::error::{BatchError, SubmitError, TransferError, WaitError};
use crate::id::BatchId;
use crate::request::{RefusedRequest, Submission, SubmitTerms, TransferRequest};
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
        let terms = Terms { timeout: None, patience, notify: None };
        self.submit_all(&self.find(batch)?, requests, terms)
    }

    /// As [`TransferEngine::submit`], of requests of which some were refused before: each of these
    /// becomes a task that has failed from the start, in its place. The batch then fails, and no
    /// notification follows it.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing of the call was queued then. [`SubmitError::Empty`] for a
    /// notification without a request.
    pub fn submit_each(
        &self,
        batch: BatchId,
        requests: &[Result<TransferRequest, RefusedRequest>],
        terms: SubmitTerms,
    ) -> Result<(), SubmitError> {
        let patience = terms.patience.unwrap_or(self.config.engine.transfer_timeout);
        let notify = match terms.notify {
            Some(notify) => Some((requests.first().ok_or(SubmitError::Empty)?.target(), notify)),
            None => None,
        };
        self.submit_all(&self.find(batch)?, requests, Terms { timeout: None, patience, notify })
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
        let patience = self.config.engine.transfer_timeout;
        let terms = Terms { timeout: None, patience, notify: Some((target, notify)) };
        self.submit_all(&self.find(batch)?, requests, terms)
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
        if !self.owner.is_here() {
            return Err(SubmitError::from(BatchError::Forked).into());
        }
        let made = self.shared.batches.make(requests.len()).map_err(SubmitError::from)?;
        let result = self.transfer_in(&made, requests, timeout);
        self.shared.batches.orphan(made.id());
        result
    }

    /// How long a batch that was called back takes at most until its tasks are final: what their
    /// transports have not given back by then is in quarantine.
    pub fn call_back_limit(&self) -> Duration {
        /// For threads that come late.
        const MARGIN: Duration = Duration::from_secs(1);
        let engine = &self.config.engine;
        engine.shutdown_timeout.max(engine.quarantine_after.saturating_add(MARGIN))
    }

    /// Whether a task of this engine moves some of these local bytes, or has ended while a transport
    /// still holds some. Looks through all open tasks. What peers read and write is not asked for.
    pub fn moves_local(&self, address: u64, len: u64) -> bool {
        let bytes = address..address.saturating_add(len);
        let batches = self.shared.batches.all();
        // An open task goes to quarantine, and never the other way: so it is not missed.
        batches.iter().any(|batch| batch.uses(&bytes)) || self.shared.quarantine.uses(&bytes)
    }

    fn transfer_in(
        &self,
        batch: &Arc<Batch>,
        requests: &[TransferRequest],
        timeout: Duration,
    ) -> Result<u64, TransferError> {
        let begun = self.now();
        let given = Terms { timeout: Some(timeout), patience: timeout, notify: None };
        self.submit_all(batch, requests, given)?;
        let status = match self.wait_for(batch, Some(begun), timeout) {
            Ok(status) => status,
            Err(WaitError::TimedOut { .. }) => {
                self.call_back(batch);
                self.wait_for(batch, None, self.call_back_limit())?
            }
            Err(error) => return Err(error.into()),
        };
        outcome(status)
    }

    fn submit_all(
        &self,
        batch: &Arc<Batch>,
        requests: &[impl Submission],
        terms: Terms,
    ) -> Result<(), SubmitError> {
        if self.is_closed() {
            return Err(SubmitError::Closed);
        }
        batch.check_room(&batch.lock(), requests.len())?;
        let Checked { tasks, open, bytes, refused } = self.check_all(requests, terms.timeout)?;
        self.admit(open, bytes, terms.patience)?;
        let mut inner = batch.lock();
        if let Err(error) = batch.check_room(&inner, tasks.len()) {
            drop(inner);
            self.shared.admission.leave(open, bytes);
            return Err(error.into());
        }
        let first = inner.tasks.len();
        inner.append(tasks);
        if let Some((target, notify)) = terms.notify {
            inner.plan_notify(target, notify);
        }
        let deadline = inner.deadline();
        drop(inner);
        self.shared.counters.submitted.add(requests.len() as u64);
        self.shared.counters.failed.add(refused);
        if let Some(deadline) = deadline {
            self.shared.alarm.at(deadline);
        }
        self.begin(batch, first..first + requests.len());
        Ok(())
    }

    fn begin(&self, batch: &Arc<Batch>, tasks: std::ops::Range<usize>) {
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

    /// Checks every request; `timeout` is for those that name none, else the engine's.
    fn check_all(
        &self,
        requests: &[impl Submission],
        timeout: Option<Duration>,
    ) -> Result<Checked, SubmitError> {
        let mut last: Option<(SegmentId, Arc<RemoteSegment>)> = None;
        let mut buffer = None;
        let terms = (self.now(), timeout.or(self.config.engine.request_timeout));
        let tasks = Vec::with_capacity(requests.len());
        let mut checked = Checked { tasks, open: 0, bytes: 0, refused: 0 };
        for (index, submission) in requests.iter().enumerate() {
            let target = submission.target();
            let peer = match last {
                Some((id, ref peer)) if id == target => peer,
                _ => {
                    let peer = self.check_target((index, target), terms.0)?;
                    &last.insert((target, peer)).1
                }
            };
            match submission.request() {
                Ok(request) => {
                    let work = self.check_one((index, request), peer, &mut buffer, terms)?;
                    checked.open += u64::from(!request.local.is_empty());
                    checked.bytes += request.local.len();
                    checked.tasks.push(Task::new(work));
                }
                Err(refused) => {
                    checked.refused += 1;
                    checked.tasks.push(Task::refused(refused, peer));
                }
            }
        }
        Ok(checked)
    }

    fn check_target(
        &self,
        (index, target): (usize, SegmentId),
        now: Instant,
    ) -> Result<Arc<RemoteSegment>, SubmitError> {
        let unknown = SubmitError::UnknownSegment { index, target };
        let peer = self.shared.peers.current(target).ok_or(unknown)?;
        if !self.path.reaches(&peer, now) {
            let (offers, ours) = (offers(&peer), self.ours(&peer));
            let peer = peer.name().as_str().into();
            return Err(SubmitError::NoTransport { index, peer, offers, ours });
        }
        Ok(peer)
    }

    /// Our transports; and why RDMA is not among them, where the peer offers that.
    fn ours(&self, peer: &RemoteSegment) -> String {
        let names = self.path.names().join(", ");
        let is_wanted = peer.descriptor().protocol_name() == "rdma";
        match self.rdma_absence().filter(|_| is_wanted) {
            Some(absence) => format!("{names} ({})", crate::peers::chain(absence)),
            None => names,
        }
    }

    fn check_one(
        &self,
        (index, request): (usize, &TransferRequest),
        peer: &Arc<RemoteSegment>,
        buffer: &mut Option<Arc<LocalBuffer>>,
        (now, timeout): (Instant, Option<Duration>),
    ) -> Result<Work, SubmitError> {
        let remote = RemoteRange::new(request.offset, request.local.len())
            .map_err(|cause| SubmitError::Range { index, cause })?;
        let hold = self.hold(index, request, buffer)?;
        let timeout = request.timeout.or(timeout);
        let deadline = timeout.and_then(|timeout| now.checked_add(timeout));
        Ok(Work::new(request, peer, remote, hold, deadline))
    }

    /// Keeps the local buffer registered while the task is open; looks first at the one of the request
    /// before. Memory that is not registered is used as it is (peer fault 28).
    fn hold(
        &self,
        index: usize,
        request: &TransferRequest,
        last: &mut Option<Arc<LocalBuffer>>,
    ) -> Result<Option<BufferHold>, SubmitError> {
        let (address, len) = (request.local.address(), request.local.len());
        if len == 0 {
            return Ok(None);
        }
        if !last.as_ref().is_some_and(|buffer| buffer.contains(address, len)) {
            *last = self.registry.segment().find(address, len);
        }
        let Some(buffer) = last.as_ref() else { return Ok(None) };
        match Arc::clone(buffer).keep(address, len) {
            Ok(hold) => Ok(Some(hold)),
            Err(_) => Err(SubmitError::LocalClosing { index, address }),
        }
    }
}

/// How requests are to be taken.
struct Terms {
    /// The time of requests that name none; `None` for the engine's default.
    timeout: Option<Duration>,
    /// How long to wait for room.
    patience: Duration,
    /// What to send once every task completed, and to whom.
    notify: Option<(SegmentId, Notify)>,
}

/// Requests that may be taken.
struct Checked {
    tasks: Vec<Task>,
    /// How many have bytes to move.
    open: u64,
    /// How many bytes.
    bytes: u64,
    /// How many have failed already.
    refused: u64,
}

/// What a peer offers, for an error about it. The text is not longer than what names need.
fn offers(peer: &RemoteSegment) -> String {
    const MOST: usize = 16;
    let descriptor = peer.descriptor();
    let protocol = descriptor.protocol_name();
    let main = match protocol {
        "tcp" if descriptor.tcp.data_port.is_none() => "tcp without a data port",
        "rdma" if has_no_device(descriptor) => "rdma without an active NIC",
        other => other,
    };
    let further = descriptor.te.iter().flat_map(|te| te.transports.keys());
    let names = further.map(String::as_str).filter(|name| *name != protocol && name.len() <= 32);
    let all: Vec<&str> = std::iter::once(main).chain(names.take(MOST)).collect();
    all.join(", ")
}

fn has_no_device(descriptor: &SegmentDescriptor) -> bool {
    matches!(&descriptor.part, ProtocolPart::Rdma { devices, .. } if devices.is_empty())
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
