//! Slices are lost, peers die and come back: every task still ends once, and tells the truth.

use std::time::Duration;

use te_engine::{
    BatchError, FaultClass, Notify, NotifyOutcome, Opcode, RefusedRequest, RegisterOptions,
    RemoteSide, SegmentId, SubmitError, SubmitTerms, TaskState, TransferRequest, TransferStatus,
};
use te_transport::Clock as _;
use te_transport::testing::SimFabric;

use crate::harness::*;

#[test]
fn lost_slices_are_tried_again_until_the_bytes_are_there() {
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).loss(100_000));
        let (a, b) = (world.node("a"), world.node("b"));
        fill(&a.region, seed);
        let target = a.engine.open_segment("b").unwrap();
        let writes = disjoint_writes(&mut Rng::new(seed), &a, target, b.region.address());
        let requests: Vec<TransferRequest> = writes.iter().map(|(_, _, r)| r.clone()).collect();
        let batch = a.engine.allocate_batch(requests.len()).unwrap();
        a.engine.submit(batch, &requests).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(61)));
        let lens: Vec<u64> = writes.iter().map(|(_, len, _)| *len).collect();
        for (status, (at, len, _)) in check_final(&a, batch, &lens).iter().zip(&writes) {
            if status.state == TaskState::Completed {
                let landed = bytes_of(&b.region, *at, *len);
                assert!(
                    landed == pattern(seed, *at, *len),
                    "completed, but the bytes are not there"
                );
            }
        }
        let sum = a.engine.batch_status(batch).unwrap();
        assert_eq!(sum.failed, 0, "1 in 10 lost is healed within the attempts: {:?}", sum.fault);
    });
}

#[test]
fn a_peer_that_dies_fails_its_tasks_and_nobody_elses() {
    // Peer fault 9: failed soon, and the next batch is not slowed by the last.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed));
        let (a, b, c) = (world.node("a"), world.node("b"), world.node("c"));
        let mut rng = Rng::new(seed);
        let to_b = a.engine.open_segment("b").unwrap();
        let to_c = a.engine.open_segment("c").unwrap();
        let clock = world.fabric.clock();
        world
            .fabric
            .kill_at(b.transport.number(), clock.now() + Duration::from_micros(rng.below(2000)));
        let doomed = disjoint_writes(&mut rng, &a, to_b, b.region.address());
        let healthy = disjoint_writes(&mut rng, &a, to_c, c.region.address());
        let first = a.engine.allocate_batch(doomed.len()).unwrap();
        let second = a.engine.allocate_batch(healthy.len()).unwrap();
        a.engine.submit(first, &doomed.iter().map(|w| w.2.clone()).collect::<Vec<_>>()).unwrap();
        a.engine.submit(second, &healthy.iter().map(|w| w.2.clone()).collect::<Vec<_>>()).unwrap();
        assert!(
            world.run(&[&a, &c], &[(&a, first), (&a, second)], Duration::from_secs(2)),
            "a dead peer is noticed long before the tasks' deadline"
        );
        let lens: Vec<u64> = doomed.iter().map(|w| w.1).collect();
        for status in check_final(&a, first, &lens) {
            let fault = status.fault.map(|fault| fault.fault.class);
            assert!(
                status.state == TaskState::Completed
                    || fault == Some(FaultClass::Peer)
                    || fault == Some(FaultClass::Rail),
                "{fault:?}"
            );
        }
        assert_eq!(a.engine.batch_status(second).unwrap().failed, 0);
    });
}

#[test]
fn what_may_have_reached_a_dead_process_is_not_replayed_to_its_successor() {
    // Architecture 3.1, FB03: after a restart at most the requests in flight fail; new ones reach
    // the successor without the caller opening the segment again.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).bandwidth(12_000_000));
        let (a, b) = (world.node("a"), world.node("b"));
        fill(&a.region, seed);
        let target = a.engine.open_segment("b").unwrap();
        let whole = |at| TransferRequest::write(a.region.whole(), target, at);
        let batch = a.engine.allocate_batch(1).unwrap();
        a.engine.submit(batch, &[whole(b.region.address())]).unwrap();
        let clock = world.fabric.clock();
        world
            .fabric
            .run_until(clock.now() + Duration::from_micros(100 + Rng::new(seed).below(15_000)));
        world.fabric.kill(b.transport.number());
        world.fabric.run_until(clock.now() + Duration::from_micros(1));
        let reborn = world.node("b");
        assert!(world.run(&[&a, &reborn], &[(&a, batch)], Duration::from_secs(2)));
        let status = &check_final(&a, batch, &[BUFFER])[0];
        assert_eq!(status.state, TaskState::Failed);
        assert!(bytes_of(&reborn.region, 0, BUFFER).iter().all(|byte| *byte == 0));
        let again = a.engine.allocate_batch(1).unwrap();
        a.engine.submit(again, &[whole(reborn.region.address())]).unwrap();
        assert!(world.run(&[&a, &reborn], &[(&a, again)], Duration::from_secs(2)));
        assert_eq!(check_final(&a, again, &[BUFFER])[0].state, TaskState::Completed);
        assert!(bytes_of(&reborn.region, 0, BUFFER) == pattern(seed, 0, BUFFER));
    });
}

#[test]
fn what_waits_for_a_buffer_that_is_taken_back_does_not_go_to_its_successor() {
    // Architecture 3.4: the same addresses are registered again while requests wait in the engine. A
    // look at the newest descriptor, which somebody else's request caused, changes nothing.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).queue_limit(1));
        let (a, b) = (world.node("a"), world.node("b"));
        fill(&a.region, seed);
        let (target, base) = (a.engine.open_segment("b").unwrap(), b.region.address());
        let write = |i: u64| {
            let local = a.region.range(i * 100, 100).unwrap();
            TransferRequest::write(local, target, base + i * 100)
        };
        let waiting = a.engine.allocate_batch(50).unwrap();
        a.engine.submit(waiting, &(0..50).map(write).collect::<Vec<_>>()).unwrap();
        b.engine.unregister(base).unwrap();
        b.engine.register(&b.region, RegisterOptions::default()).unwrap();
        let outside = TransferRequest::write(a.region.range(0, 1).unwrap(), target, base - 1);
        let look = a.engine.allocate_batch(1).unwrap();
        a.engine.submit(look, &[outside]).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, waiting), (&a, look)], Duration::from_secs(1)));
        let statuses = check_final(&a, waiting, &[100; 50]);
        assert!(statuses.iter().skip(1).all(|status| status.state == TaskState::Failed));
        let class = |status: &TransferStatus| Some(status.fault.as_ref()?.fault.class);
        assert!(statuses.iter().skip(1).all(|s| class(s) == Some(FaultClass::Refused)));
        assert!(bytes_of(&b.region, 100, 4900).iter().all(|byte| *byte == 0));
        let again = a.engine.allocate_batch(1).unwrap();
        a.engine.submit(again, &[write(7)]).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, again)], Duration::from_secs(1)));
        assert_eq!(check_final(&a, again, &[100])[0].state, TaskState::Completed);
    });
}

#[test]
fn a_range_that_the_peer_does_not_offer_is_refused_without_a_byte_sent() {
    // Peer fault 23 and 32: looked up, looked up once more in a fresh descriptor, refused.
    let world = World::new(SimFabric::builder(1));
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let base = b.region.address();
    let bad = [(base + BUFFER - 1, 2), (base - 1, 1), (base + BUFFER, 1), (0x10, 8)];
    let requests: Vec<_> = bad
        .iter()
        .map(|(at, len)| TransferRequest::write(a.region.range(0, *len).unwrap(), target, *at))
        .collect();
    let batch = a.engine.allocate_batch(8).unwrap();
    a.engine.submit(batch, &requests).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
    for status in check_final(&a, batch, &[2, 1, 1, 8]) {
        assert_eq!(status.state, TaskState::Failed);
        assert_eq!(status.remote, RemoteSide::Untouched);
        assert_eq!(status.fault.unwrap().fault.class, FaultClass::Refused);
    }
    // A buffer that was registered after the opening costs one refresh and then works.
    let late = b.engine.allocate(4096).unwrap();
    b.engine.register(&late, RegisterOptions::default()).unwrap();
    let before = a.engine.stats().refreshes;
    let write = TransferRequest::write(a.region.range(0, 4096).unwrap(), target, late.address());
    let batch = a.engine.allocate_batch(3).unwrap();
    a.engine.submit(batch, &[write.clone(), write.clone(), write]).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
    assert_eq!(a.engine.batch_status(batch).unwrap().completed, 3);
    assert!(a.engine.stats().refreshes - before <= 3);
}

#[test]
fn fault28_what_was_refused_before_is_a_task_that_has_failed() {
    // Peer fault 28: in its place and from the start; the good ones arrive, and nobody is notified.
    let world = World::new(SimFabric::builder(1));
    let (a, b) = (world.node("a"), world.node("b"));
    fill(&a.region, 28);
    let target = a.engine.open_segment("b").unwrap();
    let local = a.region.range(0, 100).unwrap();
    let good = || Ok(TransferRequest::write(local.clone(), target, b.region.address()));
    let bad = || Err(RefusedRequest::local(Opcode::Read, target, "nothing is there"));
    let batch = a.engine.allocate_batch(4).unwrap();
    let notify = Some(Notify { name: "who".into(), msg: "all in place".into() });
    let terms = SubmitTerms { notify, ..SubmitTerms::default() };
    a.engine.submit_each(batch, &[good(), bad()], terms).unwrap();
    a.engine.submit_each(batch, &[bad(), good()], SubmitTerms::default()).unwrap();
    let status = a.engine.batch_status(batch).unwrap();
    assert_eq!((status.state, status.total, status.failed), (TaskState::Waiting, 4, 2));
    assert!(a.engine.moves_local(local.address() + 99, 1));
    assert!(!a.engine.moves_local(local.address() + 100, 1));
    for index in [1, 2] {
        let task = a.engine.status(batch, index).unwrap();
        let fault = task.fault.unwrap();
        assert_eq!((task.state, task.remote), (TaskState::Failed, RemoteSide::Untouched));
        assert_eq!((fault.index, fault.op, fault.attempts), (index, Opcode::Read, 0));
        assert_eq!((&*fault.peer, &*fault.fault.cause), ("b", "nothing is there"));
    }
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
    check_final(&a, batch, &[100; 4]);
    let status = a.engine.batch_status(batch).unwrap();
    assert_eq!((status.state, status.completed, status.bytes), (TaskState::Failed, 2, 200));
    assert_eq!((status.notify, status.fault.unwrap().index), (NotifyOutcome::None, 1));
    let stats = a.engine.stats();
    assert_eq!((stats.submitted, stats.completed, stats.failed), (4, 2, 2));
    assert!(bytes_of(&b.region, 0, 100) == pattern(28, 0, 100));
    assert!(b.engine.take_notifies().is_empty());
    assert!(!a.engine.moves_local(local.address(), 100));
}

#[test]
fn fault28_a_submission_of_refused_requests_alone_is_final_at_once_or_not_taken() {
    // Peer fault 28, A61: it needs no room; what is wrong with its target is an error of the call.
    let world = World::new(SimFabric::builder(1));
    let (a, _b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let bad = |target| [Err(RefusedRequest::local(Opcode::Write, target, "nothing is there"))];
    let batch = a.engine.allocate_batch(1).unwrap();
    let terms = SubmitTerms { patience: Some(Duration::ZERO), ..SubmitTerms::default() };
    let unknown = SegmentId::from_u64(99);
    let refused = a.engine.submit_each(batch, &bad(unknown), terms.clone());
    assert!(matches!(refused, Err(SubmitError::UnknownSegment { index: 0, .. })), "{refused:?}");
    let notify = Some(Notify { name: String::new(), msg: String::new() });
    let empty = SubmitTerms { notify, ..SubmitTerms::default() };
    let refused = a.engine.submit_each(batch, &[], empty);
    assert!(matches!(refused, Err(SubmitError::Empty)), "{refused:?}");
    a.engine.submit_each(batch, &bad(target), terms.clone()).unwrap();
    let status = a.engine.wait(batch, Duration::ZERO).unwrap();
    assert_eq!((status.state, status.failed), (TaskState::Failed, 1));
    let full = a.engine.submit_each(batch, &bad(target), terms);
    assert!(matches!(full, Err(SubmitError::Batch(BatchError::Full { .. }))), "{full:?}");
    a.engine.free_batch(batch).unwrap();
}
