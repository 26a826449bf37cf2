//! Handles, counts and waiting.

mod model;

use super::*;
use crate::request::TransferRequest;
use crate::task::{Landing, Piece, Work};
use te_segment::{AlignedBuffer, Region, RemoteRange, SlicePolicy};
use te_transport::{Completion, FaultClass, Phase, RemoteSide, SliceFault};

const POLICY: SlicePolicy = SlicePolicy { min_piece: 4096, max_piece: 4096, ways: 1 };

/// Long after any test.
fn later() -> Instant {
    te_transport::Clock::now(&te_transport::SystemClock) + Duration::from_secs(3600)
}

fn task(len: u64, deadline: Option<Instant>) -> Task {
    let region = Region::from(AlignedBuffer::zeroed(1 << 16).unwrap());
    let request = TransferRequest::write(region.range(0, len).unwrap(), SegmentId::LOCAL, 0x1000);
    let remote = RemoteRange::new(0x1000, len).unwrap();
    Task::new(Work::new(&request, &crate::testing_support::a_peer(1), remote, None, deadline))
}

fn completion(result: Result<(), SliceFault>, remote: RemoteSide) -> Completion {
    Completion { token: te_segment::SliceToken::new(0, 1), result, remote }
}

fn fault() -> SliceFault {
    SliceFault::new(FaultClass::Local, Phase::Payload, "bad address")
}

fn launch_all(task: &mut Task) -> Vec<Piece> {
    let pieces: Vec<Piece> = std::iter::from_fn(|| task.cut(&POLICY)).collect();
    pieces
        .iter()
        .for_each(|piece| assert!(task.launch(*piece, crate::testing_support::a_via()).is_some()));
    pieces
}

#[test]
fn a_batch_is_final_when_every_task_is_and_can_be_freed_without_polling() {
    // A70, J116: freeing a fully terminal but never polled batch works.
    let table = BatchTable::default();
    let id = table.allocate(2).unwrap();
    let batch = table.find(id).unwrap();
    batch.lock().push(task(5000, None));
    batch.lock().push(task(0, None));
    assert_eq!(batch.status().completed, 1, "a request without bytes is complete at once");
    assert_eq!(table.free(id), Err(BatchError::Busy { batch: id, open: 1 }));
    let mut inner = batch.lock();
    for piece in launch_all(&mut inner.tasks[0]) {
        inner.tasks[0].land(piece, &completion(Ok(()), RemoteSide::Settled));
    }
    inner.note_final(0);
    drop(inner);
    assert_eq!(batch.status().state, TaskState::Completed);
    assert_eq!(batch.status().bytes, 5000);
    table.free(id).unwrap();
    assert_eq!(table.free(id), Err(BatchError::Unknown { batch: id }));
}

#[test]
fn k13_a_freed_slot_refuses_the_old_handle() {
    let table = BatchTable::default();
    let old = table.allocate(1).unwrap();
    table.free(old).unwrap();
    let new = table.allocate(1).unwrap();
    assert_eq!(old.slot(), new.slot());
    assert!(table.find(old).is_err());
    assert!(table.find(new).is_ok());
    assert!(table.find(BatchId::from_u64(u64::MAX)).is_err());
    assert_eq!(BatchId::from_u64(new.as_u64()), new);
}

#[test]
fn a60_more_requests_than_the_capacity_are_refused_whole() {
    let table = BatchTable::default();
    let id = table.allocate(3).unwrap();
    let batch = table.find(id).unwrap();
    batch.lock().push(task(1, None));
    assert!(batch.check_room(&batch.lock(), 2).is_ok());
    let full = BatchError::Full { batch: id, capacity: 3, used: 1, asked: 3 };
    assert_eq!(batch.check_room(&batch.lock(), 3), Err(full));
}

#[test]
fn a_cancelled_task_is_final_only_when_its_last_piece_is_back() {
    let mut task = task(3 * 4096, None);
    let pieces = launch_all(&mut task);
    assert_eq!(task.end(TaskState::Canceled, fault(), later()), Landing::Open);
    assert_eq!(task.state(), TaskState::Waiting);
    assert!(task.cut(&POLICY).is_none());
    task.land(pieces[0], &completion(Ok(()), RemoteSide::Settled));
    task.land(pieces[1], &completion(Err(fault()), RemoteSide::InDoubt));
    assert_eq!(task.state(), TaskState::Waiting);
    let last = task.land(pieces[2], &completion(Err(fault()), RemoteSide::Untouched));
    assert_eq!(last, Landing::Final);
    let status = task.status();
    assert_eq!((status.state, status.bytes), (TaskState::Canceled, 4096));
    assert_eq!(status.remote, RemoteSide::InDoubt, "the less certain piece counts");
}

#[test]
fn bytes_that_all_arrived_make_a_task_complete_even_while_it_is_called_back() {
    let mut task = task(4096, None);
    let pieces = launch_all(&mut task);
    task.end(TaskState::Timeout, fault(), later());
    let landing = task.land(pieces[0], &completion(Ok(()), RemoteSide::Settled));
    assert_eq!((landing, task.state()), (Landing::Final, TaskState::Completed));
}

#[test]
fn overdue_tasks_are_found_and_the_next_deadline_is_known() {
    let batch = crate::testing_support::a_batch();
    let start = te_transport::Clock::now(&te_transport::SystemClock);
    let after = |ms| Some(start + Duration::from_millis(ms));
    for ms in [30, 10, 20] {
        batch.lock().push(task(100, after(ms)));
    }
    assert_eq!(batch.deadline(), after(10));
    assert_eq!(batch.overdue(start), Overdue::default());
    assert_eq!(batch.overdue(after(20).unwrap()).late, vec![1, 2]);
    assert_eq!(batch.deadline(), after(30));
}

#[test]
fn waiting_ends_when_the_batch_does_and_when_patience_does() {
    let batch = crate::testing_support::a_batch();
    batch.lock().push(task(4096, None));
    assert_eq!(batch.wait(Duration::from_millis(1)).state, TaskState::Waiting);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| batch.wait(Duration::from_secs(20)));
        let mut inner = batch.lock();
        let piece = launch_all(&mut inner.tasks[0])[0];
        inner.tasks[0].land(piece, &completion(Ok(()), RemoteSide::Settled));
        inner.note_final(0);
        drop(inner);
        batch.announce();
        assert_eq!(waiter.join().unwrap().state, TaskState::Completed);
    });
}

#[test]
fn a_batch_waits_for_its_notification() {
    // A76: sent once all tasks completed; the batch is not final before.
    let batch = crate::testing_support::a_batch();
    let notify = Notify { name: "n".into(), msg: "m".into() };
    let mut inner = batch.lock();
    inner.push(task(0, None));
    inner.plan_notify(SegmentId::LOCAL, notify);
    inner.plan_notify(SegmentId::LOCAL, Notify { name: "n".into(), msg: "another".into() });
    assert_eq!(inner.take_due_notifies().len(), 2);
    assert!(inner.take_due_notifies().is_empty());
    drop(inner);
    assert_eq!(batch.status().state, TaskState::Waiting);
    batch.note_sent(NotifyOutcome::Delivered);
    assert_eq!(batch.status().state, TaskState::Waiting, "one of two is under way");
    batch.note_sent(NotifyOutcome::Delivered);
    assert_eq!(batch.status().notify, NotifyOutcome::Delivered);
    assert_eq!(batch.status().state, TaskState::Completed);
}

#[test]
fn a_full_receiver_is_told_among_notifications_that_arrived() {
    let full = NotifyOutcome::Full("no room".into());
    let lost = NotifyOutcome::Failed("connect failed".into());
    for (first, then, told) in [
        (full.clone(), NotifyOutcome::Delivered, &full),
        (NotifyOutcome::Delivered, full.clone(), &full),
        (full.clone(), lost.clone(), &full),
        (lost.clone(), full.clone(), &lost),
    ] {
        let batch = crate::testing_support::a_batch();
        let mut inner = batch.lock();
        inner.push(task(0, None));
        let notify = Notify { name: "n".into(), msg: "m".into() };
        inner.plan_notify(SegmentId::LOCAL, notify.clone());
        inner.plan_notify(SegmentId::LOCAL, notify);
        assert_eq!(inner.take_due_notifies().len(), 2);
        drop(inner);
        batch.note_sent(first);
        batch.note_sent(then);
        assert_eq!(&batch.status().notify, told, "the first failure");
    }
    assert!(full.is_full() && !lost.is_full() && !NotifyOutcome::Delivered.is_full());
    assert_eq!((full.cause(), NotifyOutcome::Sending.cause()), (Some("no room"), None));
}

#[test]
fn a_task_whose_slices_do_not_come_back_ends_in_quarantine() {
    // Architecture 3.1: final by its deadline all the same, the remote side in doubt.
    let mut task = task(4096, None);
    assert!(task.give_up_waiting().is_none(), "an open task is not given up");
    let pieces = launch_all(&mut task);
    let patience = later();
    assert_eq!(task.end(TaskState::Timeout, fault(), patience), Landing::Open);
    assert_eq!((task.is_ending(), task.due()), (true, Some(patience)));
    let work = task.give_up_waiting().unwrap();
    assert_eq!(work.local.len(), 4096);
    let status = task.status();
    assert_eq!((status.state, status.quarantined), (TaskState::Timeout, true));
    assert_eq!(status.remote, RemoteSide::InDoubt);
    let late = task.land(pieces[0], &completion(Ok(()), RemoteSide::Settled));
    assert_eq!((late, task.status()), (Landing::Stale, status), "a final state does not change");
}

#[test]
fn a_waker_that_panics_keeps_the_news_from_nobody() {
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Bad;
    impl std::task::Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the test");
        }
    }
    #[derive(Default)]
    struct Good(AtomicBool);
    impl std::task::Wake for Good {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let batch = crate::testing_support::a_batch();
    let good = Arc::new(Good::default());
    let wakers = [Arc::new(Bad).into(), Arc::clone(&good).into()];
    batch.lock().wakers.extend(wakers);
    batch.announce();
    assert!(good.0.load(Ordering::Relaxed));
}

#[test]
fn a_batch_that_nobody_can_ask_for_is_freed_when_it_is_final() {
    let table = BatchTable::default();
    let done = table.allocate(1).unwrap();
    table.orphan(done);
    assert!(table.find(done).is_err());
    let open = table.allocate(1).unwrap();
    let batch = table.find(open).unwrap();
    batch.lock().push(task(4096, None));
    table.orphan(open);
    assert!(table.find(open).is_ok() && !batch.is_abandoned());
    let mut inner = batch.lock();
    let piece = launch_all(&mut inner.tasks[0])[0];
    inner.tasks[0].land(piece, &completion(Ok(()), RemoteSide::Settled));
    inner.note_final(0);
    drop(inner);
    assert!(batch.is_abandoned());
}
