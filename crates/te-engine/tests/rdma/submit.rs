//! Batches of which a part fails.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use te_engine::{SegmentId, TaskState, TransferRequest};

use crate::harness::*;

const EACH: u64 = 4096;

/// One write of a node to a peer for each place in its memory.
fn writes(a: &Node, target: SegmentId, to: &[u64]) -> Vec<TransferRequest> {
    let write = |(i, to): (u64, &u64)| {
        TransferRequest::write(a.region.range(i * EACH, EACH).unwrap(), target, *to)
    };
    (0..).zip(to).map(write).collect()
}

/// J91: a submission of which a request cannot be taken queues nothing, and the batch is as before.
#[test]
fn j91_a_submission_that_is_refused_leaves_no_task_and_a_batch_that_can_be_used() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
    let (target, to) = (a.open(&b), b.region.address());
    let batch = a.engine.allocate_batch(3).unwrap();
    let mut mixed = writes(&a, target, &[to, to + EACH, to + 2 * EACH]);
    mixed[1].target = SegmentId::from_u64(77);
    assert!(told(&a.engine.submit(batch, &mixed).unwrap_err()).starts_with("request 1: "));
    assert_eq!(a.engine.batch_status(batch).unwrap().total, 0, "nothing was queued");
    a.engine.submit(batch, &writes(&a, target, &[to; 3])).unwrap();
    assert_eq!(a.engine.wait(batch, LIMIT).unwrap().bytes, 3 * EACH);
    a.engine.free_batch(batch).unwrap();
}

/// J91: of requests that go together each ends for itself: those to memory that is not offered fail,
/// the others are done, and the batch can be freed.
#[test]
fn j91_a_failure_is_told_per_request_and_the_batch_can_be_freed() {
    let world = World::new();
    let (a, b) = (world.node("a", 2, &["rdma"]), world.node("b", 2, &["rdma"]));
    let (target, to) = (a.open(&b), b.region.address());
    a.region.write_from(0, &pattern(1)).unwrap();
    let far = to + (1 << 40);
    let places = [to, far, to + EACH, far + EACH, to + 2 * EACH];
    let batch = a.engine.allocate_batch(places.len()).unwrap();
    a.engine.submit(batch, &writes(&a, target, &places)).unwrap();
    a.engine.wait(batch, LIMIT).unwrap();
    let states: Vec<TaskState> =
        (0..places.len()).map(|index| a.engine.status(batch, index).unwrap().state).collect();
    let (done, failed) = (TaskState::Completed, TaskState::Failed);
    assert_eq!(states, [done, failed, done, failed, done]);
    let told = bytes(&b.region);
    for (i, at) in [(0, 0), (2, 1), (4, 2)] {
        let part = |from: usize| from * 4096..(from + 1) * 4096;
        assert!(told[part(at)] == pattern(1)[part(i)], "request {i}");
    }
    a.engine.free_batch(batch).unwrap();
}

/// J91: where every post is refused each task fails, with its memory free, and the batch can be freed.
#[test]
fn j91_where_nothing_can_be_posted_every_task_fails_and_the_batch_can_be_freed() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
    let (target, to) = (a.open(&b), b.region.address());
    a.check_write(&b, target, 1);
    for _ in 0..1000 {
        a.nics[0].fail_post(0, 12);
    }
    let batch = a.engine.allocate_batch(8).unwrap();
    a.engine.submit(batch, &writes(&a, target, &[to; 8])).unwrap();
    a.engine.wait(batch, LIMIT).unwrap();
    for index in 0..8 {
        let status = a.engine.status(batch, index).unwrap();
        assert_eq!(status.state, TaskState::Failed, "{index}");
        assert!(status.fault.is_some());
    }
    assert_eq!(a.engine.quarantined_bytes(), 0);
    a.engine.free_batch(batch).unwrap();
}
