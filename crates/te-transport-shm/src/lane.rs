//! What callers hand to the driver, by peer, and how much of it one peer may have waiting.
//!
//! I1  Of the slices of one peer that were taken and have not ended there are never more than the
//!     bound, and all but the last of them have fewer bytes than it.
//! I2  Whoever left slices behind is told once when there is room again.
//! I3  A lane with slices is on the driver's list, or about to be put there by whoever pushed.
//! I4  After [`Inbox::close`] nothing gets in.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use te_segment::{SegmentId, SliceToken};
use te_sync::Mutex;
use te_transport::SliceFault;

use crate::job::Job;

/// A number of slices, and the bytes that they have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) slices: usize,
    pub(crate) bytes: u64,
}

impl Load {
    /// One more slice.
    pub(crate) fn add(&mut self, job: &Job) {
        self.slices += 1;
        self.bytes = self.bytes.saturating_add(job.slice().len());
    }

    /// Whether it is below another in both.
    pub(crate) fn is_below(self, other: Self) -> bool {
        self.slices < other.slices && self.bytes < other.bytes
    }

    fn plus(self, other: Self) -> Self {
        Self { slices: self.slices + other.slices, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            slices: self.slices.saturating_sub(other.slices),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn half(self) -> Self {
        Self { slices: self.slices / 2, bytes: self.bytes / 2 }
    }
}

impl<'a> FromIterator<&'a Job> for Load {
    fn from_iter<I: IntoIterator<Item = &'a Job>>(jobs: I) -> Self {
        let mut load = Self::default();
        jobs.into_iter().for_each(|job| load.add(job));
        load
    }
}

/// The slices for one peer.
pub(crate) struct Lane<T> {
    /// Whom they are for.
    pub(crate) target: T,
    bound: Load,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    /// An empty queue whose room is kept, for whoever hands slices over next.
    spare: VecDeque<Job>,
    /// What was taken and has not ended.
    open: Load,
    /// Somebody hands slices over just now, and has all the room.
    reserved: bool,
    /// Whether the driver has the lane, or will.
    listed: bool,
    left_behind: Vec<SegmentId>,
}

impl<T> Lane<T> {
    /// A lane that takes slices while there are fewer, and fewer bytes, than this.
    pub(crate) fn new(target: T, bound: Load) -> Self {
        let bound = Load { slices: bound.slices.max(1), bytes: bound.bytes.max(1) };
        Self { target, bound, state: Mutex::default() }
    }

    /// Takes all the room there is, and an empty queue to fill; [`Lane::push`] must follow. `None`
    /// where there is no room.
    pub(crate) fn reserve(&self, segment: SegmentId) -> Option<(Load, VecDeque<Job>)> {
        let mut state = self.state.lock();
        if state.reserved || !state.open.is_below(self.bound) {
            state.leave_behind(segment);
            return None;
        }
        state.reserved = true;
        Some((self.bound.minus(state.open), std::mem::take(&mut state.spare)))
    }

    /// Ends a reservation with what was taken, which is so much. Where `more` is set the caller may
    /// have more. Says whether the lane must be put on the driver's list.
    pub(crate) fn push(
        &self,
        (mut jobs, taken): (VecDeque<Job>, Load),
        more: Option<SegmentId>,
    ) -> bool {
        let mut state = self.state.lock();
        state.reserved = false;
        state.open = state.open.plus(taken);
        if state.queue.is_empty() {
            std::mem::swap(&mut state.queue, &mut jobs);
        } else {
            state.queue.append(&mut jobs);
        }
        state.spare = jobs;
        more.into_iter().for_each(|segment| state.leave_behind(segment));
        // Others may have been turned away while the driver ended so much that it tells of nothing
        // any more: it then looks at the lane for their sake.
        let is_owed = state.open.is_below(self.bound) && !state.left_behind.is_empty();
        let wants = !state.queue.is_empty() || is_owed;
        wants && !std::mem::replace(&mut state.listed, true)
    }

    /// Moves what waits behind the jobs that the driver has.
    pub(crate) fn refill(&self, jobs: &mut VecDeque<Job>) {
        let mut state = self.state.lock();
        if jobs.is_empty() {
            std::mem::swap(&mut state.queue, jobs);
        } else {
            jobs.append(&mut state.queue);
        }
    }

    /// The driver has no job of the lane, and gives the room of its queue back. Whether it may
    /// forget the lane: nothing waits either.
    pub(crate) fn unlist(&self, jobs: &mut VecDeque<Job>) -> bool {
        let mut state = self.state.lock();
        state.listed = !state.queue.is_empty();
        if !state.listed {
            std::mem::swap(&mut state.queue, jobs);
        }
        !state.listed
    }

    /// So much has ended. Gives those to be told of room.
    pub(crate) fn on_ended(&self, ended: Load) -> Vec<SegmentId> {
        let mut state = self.state.lock();
        state.open = state.open.minus(ended);
        // Half empty, so that a busy caller is not woken for every single slice.
        let half = self.bound.half();
        let is_full = state.open.slices > half.slices || state.open.bytes > half.bytes;
        if state.left_behind.is_empty() || is_full {
            return Vec::new();
        }
        std::mem::take(&mut state.left_behind)
    }
}

impl State {
    fn leave_behind(&mut self, segment: SegmentId) {
        if !self.left_behind.contains(&segment) {
            self.left_behind.push(segment);
        }
    }
}

impl<T> fmt::Debug for Lane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane({:?} open)", self.state.lock().open)
    }
}

/// What reached the driver since it looked last.
pub(crate) struct News<T> {
    /// Lanes that have something.
    pub(crate) lanes: Vec<Arc<Lane<T>>>,
    /// Slices to be called back.
    pub(crate) cancelled: Vec<SliceToken>,
    /// Slices that no lane could take, each with the reason.
    pub(crate) strays: Vec<(Job, SliceFault)>,
}

impl<T> Default for News<T> {
    fn default() -> Self {
        Self { lanes: Vec::new(), cancelled: Vec::new(), strays: Vec::new() }
    }
}

struct Inner<T> {
    news: News<T>,
    closed: bool,
}

/// The driver's list.
pub(crate) struct Inbox<T> {
    inner: Mutex<Inner<T>>,
    /// Set under the lock whenever there is news, so that the driver can look without it.
    filled: AtomicBool,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        let inner = Mutex::new(Inner { news: News::default(), closed: false });
        Self { inner, filled: AtomicBool::new(false) }
    }

    /// Adds to the news. Whether that got in: nothing does after closing.
    pub(crate) fn add(&self, add: impl FnOnce(&mut News<T>)) -> bool {
        let mut inner = self.inner.lock();
        if inner.closed {
            return false;
        }
        add(&mut inner.news);
        // Pairs with the load in `is_filled`; the driver looks after it said that it sleeps.
        self.filled.store(true, Ordering::SeqCst);
        true
    }

    /// Whether there is news.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::SeqCst)
    }

    /// Takes the news, and gives back the room of the last ones.
    pub(crate) fn take(&self, news: &mut News<T>) {
        if self.is_filled() {
            let mut inner = self.inner.lock();
            self.filled.store(false, Ordering::SeqCst);
            std::mem::swap(&mut inner.news, news);
        }
    }

    /// Lets nothing in any more.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbox(filled: {})", self.is_filled())
    }
}

#[cfg(test)]
mod tests;
