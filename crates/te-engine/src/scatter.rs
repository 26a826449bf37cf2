//! Scatter: many fragments of many segments in one operation (te-classic A80–A88).
//!
//! I1  Each fragment has exactly one outcome, and its callback runs exactly once.
//! I2  A fragment that is not valid fails alone; a range that is not, with all its fragments.
//! I3  Dropping an operation calls back what is open and waits for it, within a bound: the local
//!     buffers are free afterwards, or in quarantine.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use te_segment::{LocalRange, Opcode, SegmentId};

use crate::engine::TransferEngine;
use crate::error::WaitError;
use crate::id::BatchId;
use crate::request::TransferRequest;
use crate::status::{TaskFault, TaskState};

/// Called once for each fragment of a range: its position, and how it ended.
pub type FragmentCallback = Box<dyn FnMut(usize, &Result<(), FragmentError>) + Send>;

/// Fragments between one local buffer and one remote range. Fragment `i` moves `lengths[i]` bytes
/// between `local_offsets[i]` and `remote_offsets[i]`.
pub struct ScatterRange {
    /// Direction.
    pub op: Opcode,
    /// Name of the remote segment.
    pub segment: String,
    /// Where the remote range begins, the peer's address.
    pub remote_base: u64,
    /// Its length, bytes.
    pub remote_len: u64,
    /// The local buffer.
    pub local: LocalRange,
    /// Offsets in the local buffer, bytes.
    pub local_offsets: Vec<u64>,
    /// Offsets in the remote range, bytes.
    pub remote_offsets: Vec<u64>,
    /// Lengths, bytes; 0 succeeds at once.
    pub lengths: Vec<u64>,
    /// Told of each fragment, on the thread that waits.
    pub on_fragment: Option<FragmentCallback>,
}

impl fmt::Debug for ScatterRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScatterRange({:?} {}, {} fragments)", self.op, self.segment, self.lengths.len())
    }
}

/// Why a fragment, or an operation, did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FragmentError {
    /// The range or the fragment is not valid.
    #[error("not valid: {reason}")]
    Invalid {
        /// Why.
        reason: &'static str,
    },
    /// Its segment could not be opened, or the operation not be submitted.
    #[error("not submitted: {reason}")]
    NotSubmitted {
        /// Why.
        reason: String,
    },
    /// The engine cannot tell any more, as in a forked child.
    #[error("the outcome is not known: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
    /// The transfer failed. Its local memory is free, or the fault says that it is in quarantine.
    #[error(transparent)]
    Failed(#[from] Box<TaskFault>),
    /// The operation is not complete; it goes on.
    #[error("not complete within {waited:?}")]
    TimedOut {
        /// How long the call waited.
        waited: Duration,
    },
    /// A callback panicked. The fragment itself may have succeeded.
    #[error("a fragment's callback panicked")]
    CallbackPanicked,
}

/// How one fragment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentStatus {
    /// Position of its range in the call.
    pub range: usize,
    /// Its position in the range.
    pub index: usize,
    /// `None` while it is open.
    pub outcome: Option<Result<(), FragmentError>>,
}

#[derive(Debug)]
struct Fragment {
    status: FragmentStatus,
    /// Position in the batch, where it was submitted.
    task: Option<usize>,
    reported: bool,
}

/// A scatter operation on its way.
pub struct ScatterOperation<'a> {
    engine: &'a TransferEngine,
    batch: Option<BatchId>,
    fragments: Vec<Fragment>,
    callbacks: Vec<Option<FragmentCallback>>,
    callback_panicked: bool,
}

impl TransferEngine {
    /// Begins to move the fragments of all ranges.
    pub fn submit_scatter(&self, ranges: Vec<ScatterRange>) -> ScatterOperation<'_> {
        let mut operation = ScatterOperation {
            engine: self,
            batch: None,
            fragments: Vec::new(),
            callbacks: Vec::new(),
            callback_panicked: false,
        };
        let mut requests = Vec::new();
        let mut opened = HashMap::new();
        for (number, range) in ranges.into_iter().enumerate() {
            operation.add(number, range, &mut opened, &mut requests);
        }
        operation.submit(&requests);
        operation
    }

    /// Moves the fragments of all ranges and waits for their end.
    ///
    /// # Errors
    /// The first fragment that did not succeed. After [`FragmentError::TimedOut`] what was open was
    /// called back, and local memory is free.
    pub fn transfer_scatter(
        &self,
        ranges: Vec<ScatterRange>,
        timeout: Duration,
    ) -> Result<(), FragmentError> {
        self.submit_scatter(ranges).wait_for(timeout)
    }
}

/// Segments of one operation; each name is opened once (A82).
type Opened = HashMap<String, Result<SegmentId, String>>;

impl ScatterOperation<'_> {
    fn add(
        &mut self,
        number: usize,
        range: ScatterRange,
        opened: &mut Opened,
        requests: &mut Vec<TransferRequest>,
    ) {
        let broken = check_range(&range);
        let n = range.lengths.len().max(range.local_offsets.len()).max(range.remote_offsets.len());
        for index in 0..n {
            let planned = match broken {
                Some(reason) => Planned::Ended(Err(FragmentError::Invalid { reason })),
                None => self.plan(&range, index, opened),
            };
            let (task, outcome) = match planned {
                Planned::Ended(outcome) => (None, Some(outcome)),
                Planned::Move(request) => {
                    requests.push(request);
                    (Some(requests.len() - 1), None)
                }
            };
            let status = FragmentStatus { range: number, index, outcome };
            self.fragments.push(Fragment { status, task, reported: false });
        }
        self.callbacks.push(range.on_fragment);
    }

    fn plan(&self, range: &ScatterRange, index: usize, opened: &mut Opened) -> Planned {
        let len = range.lengths[index];
        if len == 0 {
            return Planned::Ended(Ok(()));
        }
        let invalid = |reason| Planned::Ended(Err(FragmentError::Invalid { reason }));
        let Ok(local) = range.local.part(range.local_offsets[index], len) else {
            return invalid("outside the local buffer");
        };
        let at = range.remote_offsets[index];
        let inside = at.checked_add(len).is_some_and(|end| end <= range.remote_len);
        let Some(offset) = range.remote_base.checked_add(at).filter(|_| inside) else {
            return invalid("outside the remote range");
        };
        let open = || self.engine.open_segment(&range.segment).map_err(|e| crate::peers::chain(&e));
        match opened.entry(range.segment.clone()).or_insert_with(open) {
            Ok(target) => Planned::Move(TransferRequest {
                op: range.op,
                local,
                target: *target,
                offset,
                timeout: None,
                checked: false,
            }),
            Err(reason) => {
                Planned::Ended(Err(FragmentError::NotSubmitted { reason: reason.clone() }))
            }
        }
    }

    fn submit(&mut self, requests: &[TransferRequest]) {
        if requests.is_empty() {
            return;
        }
        let begun = self.engine.allocate_batch(requests.len()).map_err(|e| e.to_string());
        let submitted = begun.and_then(|batch| {
            self.batch = Some(batch);
            self.engine.submit(batch, requests).map_err(|error| crate::peers::chain(&error))
        });
        if let Err(reason) = submitted {
            // Nothing was queued: every pending fragment gets the error (A88).
            for fragment in &mut self.fragments {
                if fragment.task.take().is_none() {
                    continue;
                }
                let reason = reason.clone();
                fragment.status.outcome = Some(Err(FragmentError::NotSubmitted { reason }));
            }
        }
    }

    /// Waits until every fragment ended; the engine's own limits end each of them.
    ///
    /// # Errors
    /// The first fragment that did not succeed.
    pub fn wait(&mut self) -> Result<(), FragmentError> {
        loop {
            match self.wait_for(Duration::from_secs(3600)) {
                Err(FragmentError::TimedOut { .. }) => {}
                ended => return ended,
            }
        }
    }

    /// Waits at most `timeout`, and calls the callbacks of what has ended.
    ///
    /// # Errors
    /// [`FragmentError::TimedOut`]: the operation goes on, and its buffers stay in use. Otherwise
    /// the first fragment that did not succeed.
    pub fn wait_for(&mut self, timeout: Duration) -> Result<(), FragmentError> {
        let waited = self.batch.map(|batch| self.engine.wait(batch, timeout));
        self.collect();
        match waited {
            Some(Err(WaitError::TimedOut { waited, .. })) => {
                Err(FragmentError::TimedOut { waited })
            }
            Some(Err(error)) => Err(FragmentError::Lost { reason: error.to_string() }),
            _ => self.first_error(),
        }
    }

    /// How each fragment stands, in the order of the call.
    pub fn fragments(&mut self) -> Vec<FragmentStatus> {
        self.collect();
        self.fragments.iter().map(|fragment| fragment.status.clone()).collect()
    }

    /// Calls back what is open; does not wait.
    pub fn cancel(&self) {
        if let Some(batch) = self.batch {
            drop(self.engine.cancel(batch));
        }
    }

    fn first_error(&self) -> Result<(), FragmentError> {
        let mut outcomes = self.fragments.iter().filter_map(|f| f.status.outcome.as_ref());
        match outcomes.find_map(|outcome| outcome.as_ref().err()) {
            Some(error) => Err(error.clone()),
            None if self.callback_panicked => Err(FragmentError::CallbackPanicked),
            None => Ok(()),
        }
    }

    /// Takes over what has ended since, and reports it.
    fn collect(&mut self) {
        for fragment in &mut self.fragments {
            if fragment.status.outcome.is_none() {
                fragment.status.outcome = outcome(self.engine, self.batch, fragment.task);
            }
            let FragmentStatus { range, index, outcome: Some(outcome) } = &fragment.status else {
                continue;
            };
            if std::mem::replace(&mut fragment.reported, true) {
                continue;
            }
            if let Some(callback) = &mut self.callbacks[*range] {
                let told = catch_unwind(AssertUnwindSafe(|| callback(*index, outcome)));
                self.callback_panicked |= told.is_err();
            }
        }
    }
}

impl Drop for ScatterOperation<'_> {
    fn drop(&mut self) {
        let Some(batch) = self.batch else { return self.collect() };
        self.cancel();
        drop(self.engine.wait(batch, self.engine.call_back_limit()));
        self.collect();
        if self.engine.owner.is_here() {
            self.engine.shared.batches.orphan(batch);
        }
    }
}

impl fmt::Debug for ScatterOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScatterOperation({} fragments)", self.fragments.len())
    }
}

enum Planned {
    Ended(Result<(), FragmentError>),
    Move(TransferRequest),
}

fn check_range(range: &ScatterRange) -> Option<&'static str> {
    let n = range.lengths.len();
    if range.local_offsets.len() != n || range.remote_offsets.len() != n {
        return Some("the three lists differ in length");
    }
    range.segment.is_empty().then_some("the segment has no name")
}

fn outcome(
    engine: &TransferEngine,
    batch: Option<BatchId>,
    task: Option<usize>,
) -> Option<Result<(), FragmentError>> {
    let status = engine.status(batch?, task?).ok()?;
    match (status.state, status.fault) {
        (TaskState::Completed, _) => Some(Ok(())),
        (state, Some(fault)) if state.is_final() => Some(Err(Box::new(fault).into())),
        _ => None,
    }
}
