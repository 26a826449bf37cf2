//! From tasks that were just added to the queues of their peers.

use std::ops::Range;
use std::sync::Arc;

use te_segment::RemoteSegment;

use super::park::Parked;
use super::queue::PeerQueue;
use super::{Classic, run, unreached};
use crate::batch::Batch;
use crate::status::TaskState;

/// Tasks that follow one another and go the same way.
struct Run {
    tasks: Range<usize>,
    peer: Arc<RemoteSegment>,
    /// Whether the peer offers their ranges, by what is known.
    located: bool,
}

impl Classic {
    /// See [`crate::data_path::DataPath::dispatch`]. Requests to one peer, as is usual, are queued
    /// and handed over together.
    pub(super) fn dispatch_runs(&self, batch: &Arc<Batch>, tasks: Range<usize>) {
        let (mut left, mut has_open) = (tasks, false);
        let (mut first, mut further) = (None, Vec::new());
        while !left.is_empty()
            && let Some(Run { tasks, peer, located }) = next_run(batch, left.clone())
        {
            has_open = true;
            left.start = tasks.end;
            if !located || !self.shared.peers.is_cached() {
                let park = |task| self.park(Parked::unlocated(batch, task, peer.id()));
                tasks.for_each(park);
                continue;
            }
            let Some(queue) = self.queue(&peer) else {
                tasks.for_each(|task| self.end_one(batch, task, TaskState::Failed, unreached()));
                continue;
            };
            queue.push_back(batch, run(tasks));
            let is_known = |known: &Arc<PeerQueue>| Arc::ptr_eq(known, &queue);
            match &first {
                None => first = Some(queue),
                Some(known) if is_known(known) || further.iter().any(is_known) => {}
                Some(_) => further.push(queue),
            }
        }
        first.iter().chain(&further).for_each(|queue| self.pump(queue));
        if !has_open {
            self.settle_if_final(batch);
        }
    }

    /// What is due where nothing of a submission was open, such as a notification.
    fn settle_if_final(&self, batch: &Arc<Batch>) {
        let mut inner = batch.lock();
        let notifies = inner.take_due_notifies();
        let settled = inner.is_settled();
        drop(inner);
        if settled {
            self.conclude(batch, notifies);
        }
    }
}

/// The first open tasks that go the same way.
fn next_run(batch: &Batch, tasks: Range<usize>) -> Option<Run> {
    let inner = batch.lock();
    let work = |task: usize| inner.tasks[task].open_work();
    let start = tasks.clone().find(|task| work(*task).is_some())?;
    let first = work(start)?;
    let located = first.peer.covers(&first.remote);
    let is_same = |task: &usize| {
        work(*task).is_some_and(|work| {
            Arc::ptr_eq(&work.peer, &first.peer) && first.peer.covers(&work.remote) == located
        })
    };
    let end = (start + 1..tasks.end).take_while(is_same).last().map_or(start, |task| task) + 1;
    Some(Run { tasks: start..end, peer: Arc::clone(&first.peer), located })
}
