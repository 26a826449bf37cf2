//! Batches: tasks in order of submission, and counts that make every poll O(1).
//!
//! I1  A batch is final when all its tasks are final and its notification has ended.
//! I2  A freed slot is never reached by an old handle: the generation differs.
//! I3  A batch with an open task cannot be freed.
//!
//! One lock per batch; the table's lock only finds batches. No lock is held while a transport, a
//! waker or a peer is called.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use te_metadata::Notify;
use te_segment::SegmentId;
use te_sync::{Condvar, Mutex, MutexGuard, RwLock};

use crate::classic::{MAX_TRANSPORTS, Via, Vias};
use crate::error::BatchError;
use crate::id::BatchId;
use crate::status::{BatchStatus, NotifyOutcome, TaskFault, TaskState, TransferStatus};
use crate::task::Task;

/// The tasks of a batch and their sums.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) tasks: Vec<Task>,
    open: usize,
    ended: Ended,
    notify: NotifyOutcome,
    /// To be sent once every task completed.
    planned: Vec<(SegmentId, Notify)>,
    /// Notifications under way.
    sending: usize,
    freed: bool,
    /// Nobody has its handle any more: it is freed when it is final.
    orphaned: bool,
    wakers: Vec<Waker>,
    /// Slices with each transport.
    on_way: [u32; MAX_TRANSPORTS],
    /// When somebody last asked how an open batch is.
    asked: Option<Instant>,
    /// The earliest deadline of an open task, or one that has passed since.
    deadline: Option<Instant>,
}

/// Sums of the tasks that are final.
#[derive(Debug, Default)]
struct Ended {
    completed: usize,
    failed: usize,
    bytes: u64,
    first_fault: Option<Box<TaskFault>>,
    quarantined: usize,
}

impl Ended {
    fn count(&mut self, task: &Task) {
        self.bytes += task.bytes();
        if task.state() == TaskState::Completed {
            self.completed += 1;
            return;
        }
        self.failed += 1;
        self.quarantined += usize::from(task.is_quarantined());
        if self.first_fault.is_none() {
            self.first_fault = task.fault().cloned().map(Box::new);
        }
    }
}

impl Inner {
    /// Appends a task, open or final from the start.
    pub(crate) fn push(&mut self, mut task: Task) {
        task.number_fault(self.tasks.len());
        self.count(&task);
        self.tasks.push(task);
    }

    /// Appends tasks; the list of a first submission is taken as it is.
    pub(crate) fn append(&mut self, mut tasks: Vec<Task>) {
        if !self.tasks.is_empty() {
            return tasks.into_iter().for_each(|task| self.push(task));
        }
        for (index, task) in tasks.iter_mut().enumerate() {
            task.number_fault(index);
            self.count(task);
        }
        self.tasks = tasks;
    }

    fn count(&mut self, task: &Task) {
        self.look_again(task.due());
        if task.state().is_final() {
            self.ended.count(task);
        } else {
            self.open += 1;
        }
    }

    /// When to look for overdue tasks.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The batch is to be looked at by then.
    pub(crate) fn look_again(&mut self, due: Option<Instant>) {
        self.deadline = self.deadline.into_iter().chain(due).min();
    }

    /// The batch is to be looked at when a task of it is due.
    pub(crate) fn look_at(&mut self, task: usize) {
        self.look_again(self.tasks[task].due());
    }

    /// A slice went to a transport.
    pub(crate) fn leave(&mut self, via: Via) {
        self.on_way[via.place()] += 1;
    }

    /// A slice came back from a transport.
    pub(crate) fn arrive(&mut self, via: Via) {
        self.on_way[via.place()] -= 1;
    }

    /// Counts a task that has just become final.
    pub(crate) fn note_final(&mut self, index: usize) {
        self.open -= 1;
        self.ended.count(&self.tasks[index]);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.open == 0
    }

    fn is_final(&self) -> bool {
        self.open == 0 && self.sending == 0
    }

    /// Plans what is to be sent once every task completed.
    pub(crate) fn plan_notify(&mut self, target: SegmentId, notify: Notify) {
        self.planned.push((target, notify));
    }

    /// What is to be sent now; the batch is not final before that has ended. Dropped where a task
    /// did not complete (te-classic A76).
    pub(crate) fn take_due_notifies(&mut self) -> Vec<(SegmentId, Notify)> {
        if self.open > 0 {
            return Vec::new();
        }
        let mut due = std::mem::take(&mut self.planned);
        if self.ended.failed > 0 {
            due.clear();
        }
        if !due.is_empty() {
            self.sending += due.len();
            self.notify = NotifyOutcome::Sending;
        }
        due
    }

    /// One notification has ended; a failure is what is told of several.
    fn note_sent(&mut self, outcome: NotifyOutcome) {
        self.sending -= 1;
        let failed_before = self.notify.cause().is_some();
        let told = !failed_before && (self.sending == 0 || outcome != NotifyOutcome::Delivered);
        if told {
            self.notify = outcome;
        }
    }

    fn status(&self) -> BatchStatus {
        let state = match (self.is_final(), self.ended.failed) {
            (false, _) => TaskState::Waiting,
            (true, 0) => TaskState::Completed,
            (true, _) => TaskState::Failed,
        };
        BatchStatus {
            state,
            total: self.tasks.len(),
            completed: self.ended.completed,
            failed: self.ended.failed,
            quarantined: self.ended.quarantined,
            bytes: self.ended.bytes,
            notify: self.notify.clone(),
            fault: self.ended.first_fault.as_deref().cloned(),
        }
    }
}

/// What [`Batch::overdue`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// Their time is up: end them.
    pub(crate) late: Vec<usize>,
    /// They were told to end, and a transport has not given their slices back.
    pub(crate) stuck: Vec<usize>,
}

/// A batch.
pub(crate) struct Batch {
    id: BatchId,
    capacity: usize,
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Batch {
    fn new(id: BatchId, capacity: usize) -> Self {
        let inner = Inner {
            tasks: Vec::new(),
            open: 0,
            ended: Ended::default(),
            notify: NotifyOutcome::None,
            planned: Vec::new(),
            sending: 0,
            freed: false,
            orphaned: false,
            wakers: Vec::new(),
            on_way: [0; MAX_TRANSPORTS],
            asked: None,
            deadline: None,
        };
        Self { id, capacity, inner: Mutex::new(inner), changed: Condvar::new() }
    }

    pub(crate) fn id(&self) -> BatchId {
        self.id
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Room for `n` more tasks.
    pub(crate) fn check_room(&self, inner: &Inner, n: usize) -> Result<(), BatchError> {
        if inner.freed {
            return Err(BatchError::Unknown { batch: self.id });
        }
        if inner.tasks.len() + n > self.capacity {
            return Err(BatchError::Full {
                batch: self.id,
                capacity: self.capacity,
                used: inner.tasks.len(),
                asked: n,
            });
        }
        Ok(())
    }

    pub(crate) fn status(&self) -> BatchStatus {
        self.lock().status()
    }

    pub(crate) fn open_tasks(&self) -> usize {
        self.lock().open
    }

    /// State of a task, and the transport that it went to.
    pub(crate) fn task_status(
        &self,
        index: usize,
    ) -> Result<(TransferStatus, Option<Via>), BatchError> {
        let inner = self.lock();
        let unknown = BatchError::NoTask { batch: self.id, index, total: inner.tasks.len() };
        inner.tasks.get(index).map(|task| (task.status(), task.via())).ok_or(unknown)
    }

    /// Whether an open task of it has some of these bytes as its local memory.
    pub(crate) fn uses(&self, bytes: &Range<u64>) -> bool {
        let inner = self.lock();
        inner.open > 0 && inner.tasks.iter().any(|task| task.uses(bytes))
    }

    /// The transports that have slices of it, and how many slices that are.
    pub(crate) fn on_way(&self) -> (Vias, u32) {
        let inner = self.lock();
        let busy = Via::all().filter(|via| inner.on_way[via.place()] > 0);
        (busy.collect(), inner.on_way.iter().sum())
    }

    /// Somebody asks how it is, now. Says whether that was so a moment ago as well, and it is open:
    /// whoever asks in a loop lets it make progress, and who asks now and then disturbs nothing.
    pub(crate) fn is_polled(&self, now: Instant) -> bool {
        const MOMENT: Duration = Duration::from_micros(100);
        let mut inner = self.lock();
        if inner.open == 0 {
            return false;
        }
        let before = inner.asked.replace(now);
        before.is_some_and(|at| now.saturating_duration_since(at) < MOMENT)
    }

    /// A notification has ended.
    pub(crate) fn note_sent(&self, outcome: NotifyOutcome) {
        self.lock().note_sent(outcome);
    }

    /// Whether it is final and nobody can ask for it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        let inner = self.lock();
        inner.orphaned && inner.is_final()
    }

    /// Tells waiters and wakers if the batch is final.
    pub(crate) fn announce(&self) {
        let wakers = {
            let mut inner = self.lock();
            if !inner.is_final() {
                return;
            }
            self.changed.notify_all();
            std::mem::take(&mut inner.wakers)
        };
        for waker in wakers {
            // A waker is foreign code: its panic must not reach the thread that brought the news,
            // nor keep the news from the others.
            drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
        }
    }

    /// Waits until the batch is final, at most `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> BatchStatus {
        let mut inner = self.lock();
        self.changed.wait_while_for(&mut inner, |inner| !inner.is_final(), patience);
        inner.status()
    }

    /// The status if final, else the waker is kept.
    #[cfg(feature = "async")]
    pub(crate) fn poll(&self, waker: &Waker) -> Option<BatchStatus> {
        let mut inner = self.lock();
        if inner.is_final() {
            return Some(inner.status());
        }
        if !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        None
    }

    /// Tasks that something is to be done about; looks through the tasks only when that may be.
    pub(crate) fn overdue(&self, now: Instant) -> Overdue {
        let mut inner = self.lock();
        let mut overdue = Overdue::default();
        if inner.deadline.is_none_or(|at| at > now) || te_metadata::sabotage::is_off("deadline") {
            return overdue;
        }
        inner.deadline = None;
        let Inner { tasks, deadline, .. } = &mut *inner;
        for (index, task) in tasks.iter().enumerate() {
            match task.due() {
                Some(due) if due > now => *deadline = deadline.iter().copied().chain([due]).min(),
                Some(_) if task.is_ending() => overdue.stuck.push(index),
                Some(_) => overdue.late.push(index),
                None => {}
            }
        }
        overdue
    }

    /// Brings the deadline of every open task forward to `deadline`.
    pub(crate) fn limit(&self, deadline: Instant) {
        let mut inner = self.lock();
        inner.tasks.iter_mut().for_each(|task| task.limit(deadline));
        inner.look_again(Some(deadline));
    }

    /// When to look for overdue tasks again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.lock().deadline
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.id)
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    batch: Option<Arc<Batch>>,
}

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// All batches of an engine.
#[derive(Debug, Default)]
pub(crate) struct BatchTable {
    slots: RwLock<Slots>,
}

impl BatchTable {
    /// The largest capacity of one batch, in tasks.
    pub(crate) const MAX_CAPACITY: usize = 1 << 24;

    pub(crate) fn allocate(&self, capacity: usize) -> Result<BatchId, BatchError> {
        Ok(self.make(capacity)?.id())
    }

    pub(crate) fn make(&self, capacity: usize) -> Result<Arc<Batch>, BatchError> {
        if capacity > Self::MAX_CAPACITY {
            return Err(BatchError::TooLarge { capacity, max: Self::MAX_CAPACITY });
        }
        let mut table = self.slots.write();
        let slot = match table.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(table.slots.len());
                table.slots.push(Slot { generation: 0, batch: None });
                slot.map_err(|_| BatchError::TooMany)?
            }
        };
        let place = &mut table.slots[slot as usize];
        // Generation 0 is never given, and neither is the one that would make the handle u64::MAX.
        place.generation = if place.generation >= u32::MAX - 1 { 1 } else { place.generation + 1 };
        let id = BatchId::new(slot, place.generation);
        let batch = Arc::new(Batch::new(id, capacity));
        place.batch = Some(Arc::clone(&batch));
        Ok(batch)
    }

    pub(crate) fn find(&self, id: BatchId) -> Result<Arc<Batch>, BatchError> {
        let table = self.slots.read();
        let slot = table.slots.get(id.slot() as usize);
        let matching = slot.filter(|slot| {
            slot.generation == id.generation() || te_metadata::sabotage::is_off("batch-generation")
        });
        matching.and_then(|slot| slot.batch.clone()).ok_or(BatchError::Unknown { batch: id })
    }

    pub(crate) fn free(&self, id: BatchId) -> Result<(), BatchError> {
        let batch = self.find(id)?;
        let mut inner = batch.lock();
        if !inner.is_final() {
            return Err(BatchError::Busy { batch: id, open: inner.open });
        }
        if std::mem::replace(&mut inner.freed, true) {
            return Err(BatchError::Unknown { batch: id });
        }
        drop(inner);
        let mut table = self.slots.write();
        table.slots[batch.id().slot() as usize].batch = None;
        table.free.push(batch.id().slot());
        Ok(())
    }

    /// Nobody will ask for the batch again: it is freed now, or when it is final.
    pub(crate) fn orphan(&self, id: BatchId) {
        if self.free(id).is_err()
            && let Ok(batch) = self.find(id)
        {
            batch.lock().orphaned = true;
            // It may have become final between the two.
            if batch.is_abandoned() {
                drop(self.free(id));
            }
        }
    }

    /// Every batch that is not freed.
    pub(crate) fn all(&self) -> Vec<Arc<Batch>> {
        self.slots.read().slots.iter().filter_map(|slot| slot.batch.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
