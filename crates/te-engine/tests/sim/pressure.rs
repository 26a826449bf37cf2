//! More than fits: nothing is lost, nobody waits without bound.

use std::time::Duration;

use te_engine::{EngineConfig, SubmitError, TaskState, TransferRequest};
use te_transport::testing::{SimFabric, Twist};

use crate::harness::*;

#[test]
fn a_full_transport_queue_is_waited_for() {
    // J58, J64: more slices than the queue holds; all of them arrive.
    for_each_seed(|seed| {
        let limit = 1 + usize::try_from(Rng::new(seed).below(8)).unwrap();
        let world = World::new(SimFabric::builder(seed).queue_limit(limit).reorder(200_000));
        let (a, b) = (world.node("a"), world.node("b"));
        fill(&a.region, seed);
        let target = a.engine.open_segment("b").unwrap();
        let n = 200;
        let requests: Vec<_> = (0..n)
            .map(|i| {
                let local = a.region.range(i * 1000, 999).unwrap();
                TransferRequest::write(local, target, b.region.address() + i * 1000)
            })
            .collect();
        let batch = a.engine.allocate_batch(requests.len()).unwrap();
        a.engine.submit(batch, &requests).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(10)));
        assert_eq!(a.engine.batch_status(batch).unwrap().failed, 0);
        for i in 0..n {
            assert!(bytes_of(&b.region, i * 1000, 999) == pattern(seed, i * 1000, 999));
        }
    });
}

#[test]
fn a_transport_that_takes_nothing_for_a_while_is_asked_again() {
    // Trap 2 of the style notes: a failure at every n-th call leaves no count behind.
    for n in 1..40 {
        let world = World::new(SimFabric::builder(n).queue_limit(4));
        let (a, faulty) = world.faulty_node("a");
        faulty.take_nothing(n);
        let b = world.node("b");
        let target = a.engine.open_segment("b").unwrap();
        let write = |i: u64| {
            let local = a.region.range(i * 100, 100).unwrap();
            TransferRequest::write(local, target, b.region.address() + i * 100)
        };
        let batch = a.engine.allocate_batch(50).unwrap();
        a.engine.submit(batch, &(0..50).map(write).collect::<Vec<_>>()).unwrap();
        let done = (0..2000).any(|_| {
            a.engine.wait(batch, Duration::from_millis(1)).is_ok()
                || world.run(&[&a, &b], &[(&a, batch)], Duration::from_millis(1))
        });
        assert!(done, "stuck after call {n} took nothing");
        assert_eq!(a.engine.batch_status(batch).unwrap().completed, 50);
        a.engine.free_batch(batch).unwrap();
    }
}

#[test]
fn only_a_caller_that_does_not_wait_is_told_that_there_is_no_room() {
    // J65, J66 as changed: nothing of a refused call is queued.
    let config = EngineConfig::default().adjust(|s| s.engine.max_requests = 10).unwrap();
    let world = World::with_config(SimFabric::builder(3).queue_limit(1), config);
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let write = TransferRequest::write(a.region.range(0, 10).unwrap(), target, b.region.address());
    let batch = a.engine.allocate_batch(100).unwrap();
    a.engine.submit(batch, &vec![write.clone(); 10]).unwrap();
    let refused = a.engine.submit_within(batch, std::slice::from_ref(&write), Duration::ZERO);
    assert!(matches!(refused, Err(SubmitError::Overloaded { outstanding: 10, asked: 1, .. })));
    assert_eq!(a.engine.batch_status(batch).unwrap().total, 10);
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
    a.engine.submit_within(batch, &[write], Duration::ZERO).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
    assert_eq!(a.engine.batch_status(batch).unwrap().completed, 11);
}

#[test]
fn a_completion_that_comes_twice_is_counted_and_not_believed() {
    // Trap 3 of the style notes.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed));
        let (a, faulty) = world.faulty_node("a");
        faulty.twist_every_slice(Twist::Duplicate);
        let b = world.node("b");
        let target = a.engine.open_segment("b").unwrap();
        let write = |i: u64| {
            let local = a.region.range(i * 300, 300).unwrap();
            TransferRequest::write(local, target, b.region.address() + i * 300)
        };
        let batch = a.engine.allocate_batch(30).unwrap();
        a.engine.submit(batch, &(0..30).map(write).collect::<Vec<_>>()).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
        let statuses = check_final(&a, batch, &[300; 30]);
        assert!(statuses.iter().all(|status| status.state == TaskState::Completed));
        assert_eq!(a.engine.stats().stale_completions, 30);
    });
}

#[test]
fn a_small_batch_is_not_held_up_by_a_large_one() {
    // The truth issue, item 5: batches take turns.
    let world = World::new(SimFabric::builder(4).queue_limit(2).bandwidth(10_000_000));
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let write = |i: u64| {
        let local = a.region.range(i * 1000, 1000).unwrap();
        TransferRequest::write(local, target, b.region.address() + i * 1000)
    };
    let large = a.engine.allocate_batch(5000).unwrap();
    a.engine.submit(large, &(0..5000).map(|i| write(i % 200)).collect::<Vec<_>>()).unwrap();
    let small = a.engine.allocate_batch(10).unwrap();
    a.engine.submit(small, &(0..10).map(write).collect::<Vec<_>>()).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, small)], Duration::from_secs(1)));
    let done = a.engine.batch_status(large).unwrap().completed;
    assert!(done < 100, "{done} of the large batch were served before 10 of the small one");
    assert!(world.run(&[&a, &b], &[(&a, large)], Duration::from_secs(10)));
    assert_eq!(a.engine.batch_status(large).unwrap().failed, 0);
}

#[test]
fn ending_many_batches_takes_time_in_proportion() {
    // Each batch of one request, all to a peer without room: closing looks at each of them once.
    let world = World::new(SimFabric::builder(5).queue_limit(4));
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let write = TransferRequest::write(a.region.range(0, 64).unwrap(), target, b.region.address());
    let many = |n: usize| {
        let begun = std::time::Instant::now();
        let batches: Vec<_> = (0..n).map(|_| a.engine.allocate_batch(1).unwrap()).collect();
        for batch in &batches {
            a.engine.submit(*batch, std::slice::from_ref(&write)).unwrap();
        }
        for batch in &batches {
            a.engine.cancel(*batch).unwrap();
        }
        begun.elapsed()
    };
    many(500);
    let (few, lots) = (many(2000), many(20_000));
    assert!(lots < few * 60 + Duration::from_secs(1), "{few:?} for 2000, {lots:?} for 20000");
    let begun = std::time::Instant::now();
    many(20_000);
    a.engine.close(Duration::from_secs(5));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_burst_of_faults_costs_few_refreshes() {
    // FB26, I3 of the classic engine: what failed was begun before the descriptor was fetched.
    let world = World::new(SimFabric::builder(6).queue_limit(256).detect(Duration::from_millis(1)));
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let write = |i: u64| {
        let local = a.region.range(i * 100, 100).unwrap();
        TransferRequest::write(local, target, b.region.address() + i * 100)
    };
    let batch = a.engine.allocate_batch(200).unwrap();
    a.engine.submit(batch, &(0..200).map(write).collect::<Vec<_>>()).unwrap();
    b.engine.unregister(b.region.address()).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(2)));
    let refreshes = a.engine.stats().refreshes;
    assert!(refreshes <= 5, "{refreshes} refreshes for 200 refusals of one burst");
}

#[test]
fn a_peer_that_was_forgotten_still_gets_what_was_meant_for_it() {
    let world = World::new(SimFabric::builder(7).queue_limit(2));
    let (a, b) = (world.node("a"), world.node("b"));
    fill(&a.region, 7);
    let target = a.engine.open_segment("b").unwrap();
    let write = |i: u64| {
        let local = a.region.range(i * 100, 100).unwrap();
        TransferRequest::write(local, target, b.region.address() + i * 100)
    };
    let batch = a.engine.allocate_batch(50).unwrap();
    a.engine.submit(batch, &(0..50).map(write).collect::<Vec<_>>()).unwrap();
    a.engine.forget_segment("b").unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(2)));
    assert_eq!(a.engine.batch_status(batch).unwrap().completed, 50);
    assert!(bytes_of(&b.region, 0, 5000) == pattern(7, 0, 5000));
}
