//! Cancelling, running out of time and closing, at any moment.

use std::time::Duration;

use te_engine::{SubmitError, TaskState, TransferRequest};
use te_transport::Clock as _;
use te_transport::testing::{SimFabric, Twist};

use crate::harness::*;

#[test]
fn closing_ends_every_task_once_whatever_is_under_way() {
    // J62, trap 12 of the style notes.
    for_each_seed(|seed| {
        let mut rng = Rng::new(seed);
        let world = World::new(SimFabric::builder(seed).queue_limit(8).loss(50_000));
        let (a, b) = (world.node("a"), world.node("b"));
        let target = a.engine.open_segment("b").unwrap();
        let writes = disjoint_writes(&mut rng, &a, target, b.region.address());
        let batch = a.engine.allocate_batch(writes.len()).unwrap();
        a.engine.submit(batch, &writes.iter().map(|w| w.2.clone()).collect::<Vec<_>>()).unwrap();
        let now = world.fabric.clock().now();
        world.fabric.run_until(now + Duration::from_micros(rng.below(1500)));
        let report = a.engine.close(Duration::from_secs(1));
        assert_eq!((report.open_tasks, report.joined, report.kept_bytes), (0, true, 0));
        let lens: Vec<u64> = writes.iter().map(|w| w.1).collect();
        let before = check_final(&a, batch, &lens);
        assert!(before.iter().all(|status| {
            matches!(status.state, TaskState::Completed | TaskState::Canceled | TaskState::Failed)
        }));
        world.fabric.run_until(now + Duration::from_secs(1));
        assert_eq!(before, check_final(&a, batch, &lens), "a final state changed");
        let late = a.engine.submit(batch, &[]);
        assert!(matches!(late, Err(SubmitError::Closed)));
        a.engine.free_batch(batch).unwrap();
    });
}

#[test]
fn cancelling_ends_what_is_open_and_leaves_what_is_done() {
    for_each_seed(|seed| {
        let mut rng = Rng::new(seed);
        let world = World::new(SimFabric::builder(seed).queue_limit(4));
        let (a, b) = (world.node("a"), world.node("b"));
        fill(&a.region, seed);
        let target = a.engine.open_segment("b").unwrap();
        let writes = disjoint_writes(&mut rng, &a, target, b.region.address());
        let batch = a.engine.allocate_batch(writes.len()).unwrap();
        a.engine.submit(batch, &writes.iter().map(|w| w.2.clone()).collect::<Vec<_>>()).unwrap();
        let now = world.fabric.clock().now();
        world.fabric.run_until(now + Duration::from_micros(rng.below(1500)));
        a.engine.cancel(batch).unwrap();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
        let lens: Vec<u64> = writes.iter().map(|w| w.1).collect();
        for (status, (at, len, _)) in check_final(&a, batch, &lens).iter().zip(&writes) {
            match status.state {
                TaskState::Completed => {
                    assert!(bytes_of(&b.region, *at, *len) == pattern(seed, *at, *len));
                }
                TaskState::Canceled => {}
                other => panic!("{other:?} after a cancel"),
            }
        }
        // The local buffer is free: nothing holds it.
        a.engine.unregister(a.region.address()).unwrap();
    });
}

#[test]
fn a_task_whose_time_is_up_is_final_with_its_buffer_free() {
    // Peer fault 3: a reported end is one.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).bandwidth(250_000));
        let (a, b) = (world.node("a"), world.node("b"));
        let target = a.engine.open_segment("b").unwrap();
        let limit = Duration::from_millis(5 + Rng::new(seed).below(20));
        let write = TransferRequest::write(a.region.whole(), target, b.region.address());
        let batch = a.engine.allocate_batch(1).unwrap();
        a.engine.submit(batch, &[write.with_timeout(limit)]).unwrap();
        let begun = world.fabric.clock().now();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
        let took = world.fabric.clock().now() - begun;
        assert!(
            took >= limit && took < limit + Duration::from_millis(50),
            "{took:?} for {limit:?}"
        );
        assert_eq!(check_final(&a, batch, &[BUFFER])[0].state, TaskState::Timeout);
        a.engine.unregister(a.region.address()).unwrap();
    });
}

#[test]
fn a_buffer_in_use_is_not_given_back_before_its_slice_is() {
    // Trap 8 of the style notes: Busy while in flight, and the region outlives the slice.
    let config = te_engine::EngineConfig::default()
        .adjust(|s| s.engine.unregister_timeout = Duration::from_millis(1))
        .unwrap();
    let world = World::with_config(SimFabric::builder(1), config);
    let (a, faulty) = world.faulty_node("a");
    faulty.twist_every_slice(Twist::Hold);
    let b = world.node("b");
    let target = a.engine.open_segment("b").unwrap();
    let write = TransferRequest::write(a.region.whole(), target, b.region.address());
    let batch = a.engine.allocate_batch(1).unwrap();
    a.engine.submit(batch, std::slice::from_ref(&write)).unwrap();
    assert!(!world.run(&[&a, &b], &[(&a, batch)], Duration::from_millis(100)));
    let busy = a.engine.unregister(a.region.address());
    assert!(matches!(busy, Err(te_engine::UnregisterError::Busy { in_flight: 1, .. })));
    let refused = a.engine.submit_within(batch, &[], Duration::ZERO);
    assert!(refused.is_ok(), "an empty call changes nothing");
    faulty.release();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
    a.engine.unregister(a.region.address()).unwrap();
}

#[test]
fn a69_a_slice_that_takes_too_long_ends_its_task_for_good() {
    // MC_SLICE_TIMEOUT: unlike the peer's advisory TIMEOUT this one is final, and the buffer free.
    let config = te_engine::EngineConfig::default()
        .adjust(|s| s.engine.slice_timeout = Some(Duration::from_secs(1)))
        .unwrap();
    let world = World::with_config(SimFabric::builder(1).bandwidth(50_000), config);
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let write = |len| {
        let local = a.region.range(0, len).unwrap();
        TransferRequest::write(local, target, b.region.address())
    };
    let batch = a.engine.allocate_batch(2).unwrap();
    a.engine.submit(batch, &[write(1000), write(200_000)]).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(3)));
    let states: Vec<_> = check_final(&a, batch, &[1000, 200_000]).iter().map(|s| s.state).collect();
    assert_eq!(states, [TaskState::Completed, TaskState::Timeout]);
    a.engine.unregister(a.region.address()).unwrap();
}

#[test]
fn memory_that_a_transport_does_not_give_back_is_quarantined_and_released_later() {
    // The truth issue, item 1: the task ends by its deadline, unregister answers Busy, a counter
    // shows the bytes, and all of that ends when the slice comes back.
    for_each_seed(|seed| {
        let config = te_engine::EngineConfig::default()
            .adjust(|s| {
                s.engine.unregister_timeout = Duration::from_millis(1);
                s.engine.quarantine_after = Duration::from_millis(100);
            })
            .unwrap();
        let world = World::with_config(SimFabric::builder(seed), config);
        let (a, faulty) = world.faulty_node("a");
        faulty.twist_slice(1 + seed % 2, Twist::Hold);
        let b = world.node("b");
        let target = a.engine.open_segment("b").unwrap();
        let write = TransferRequest::write(a.region.whole(), target, b.region.address());
        let batch = a.engine.allocate_batch(1).unwrap();
        let limit = Duration::from_millis(50);
        a.engine.submit(batch, &[write.with_timeout(limit)]).unwrap();
        let begun = world.fabric.clock().now();
        assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_secs(1)));
        assert!(world.fabric.clock().now() - begun < Duration::from_millis(200));
        let status = check_final(&a, batch, &[BUFFER])[0].clone();
        assert_eq!((status.state, status.quarantined), (TaskState::Timeout, true));
        assert_eq!(a.engine.quarantined_bytes(), BUFFER);
        assert!(!a.engine.wait_quiescent(Duration::ZERO));
        let busy = a.engine.unregister(a.region.address());
        assert!(matches!(busy, Err(te_engine::UnregisterError::Busy { .. })), "{busy:?}");
        a.engine.free_batch(batch).unwrap();
        faulty.release();
        assert_eq!(a.engine.quarantined_bytes(), 0);
        assert!(a.engine.wait_quiescent(Duration::ZERO));
        a.engine.unregister(a.region.address()).unwrap();
    });
}

#[test]
fn what_is_still_held_when_the_engine_ends_is_kept_and_counted() {
    let world = World::new(SimFabric::builder(1));
    let (a, faulty) = world.faulty_node("a");
    faulty.twist_every_slice(Twist::Lose);
    let b = world.node("b");
    let target = a.engine.open_segment("b").unwrap();
    let write = TransferRequest::write(a.region.whole(), target, b.region.address());
    let batch = a.engine.allocate_batch(1).unwrap();
    a.engine.submit(batch, &[write]).unwrap();
    let report = a.engine.close(Duration::from_secs(1));
    assert_eq!((report.open_tasks, report.kept_bytes), (0, BUFFER));
    let status = &check_final(&a, batch, &[BUFFER])[0];
    assert_eq!((status.state, status.quarantined), (TaskState::Canceled, true));
}

#[test]
fn what_is_still_held_stays_mapped_when_everybody_has_gone() {
    // The truth issue, item 7: nobody knows any more when the transport lets go, so never.
    let mapped = |address: u64| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (from, rest) = line.split_once('-').unwrap();
            let to = rest.split_once(' ').unwrap().0;
            let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
            from <= address && address + BUFFER <= to
        })
    };
    let address = {
        let world = World::new(SimFabric::builder(1));
        let (a, faulty) = world.faulty_node("a");
        faulty.twist_every_slice(Twist::Lose);
        let b = world.node("b");
        let target = a.engine.open_segment("b").unwrap();
        let write = TransferRequest::write(a.region.whole(), target, b.region.address());
        let batch = a.engine.allocate_batch(1).unwrap();
        a.engine.submit(batch, &[write]).unwrap();
        assert_eq!(a.engine.close(Duration::from_secs(1)).kept_bytes, BUFFER);
        a.region.address()
    };
    assert!(mapped(address));
}

#[test]
fn a_batch_can_be_limited_as_a_whole() {
    let world = World::new(SimFabric::builder(1).bandwidth(100_000));
    let (a, b) = (world.node("a"), world.node("b"));
    let target = a.engine.open_segment("b").unwrap();
    let write = TransferRequest::write(a.region.whole(), target, b.region.address());
    let batch = a.engine.allocate_batch(2).unwrap();
    a.engine.submit(batch, &[write.clone(), write]).unwrap();
    a.engine.limit_batch(batch, Duration::from_millis(30)).unwrap();
    assert!(world.run(&[&a, &b], &[(&a, batch)], Duration::from_millis(100)));
    assert!(check_final(&a, batch, &[BUFFER; 2]).iter().all(|s| s.state == TaskState::Timeout));
}

#[test]
fn a_close_without_end_and_one_without_time_are_both_fine() {
    let world = World::new(SimFabric::builder(9));
    let (a, b) = (world.node("a"), world.node("b"));
    assert!(a.engine.close(Duration::MAX).joined);
    assert!(b.engine.close(Duration::ZERO).joined);
}

#[test]
fn what_comes_back_after_a_close_leaves_quarantine_all_the_same() {
    let world = World::new(SimFabric::builder(1));
    let (a, faulty) = world.faulty_node("a");
    faulty.twist_every_slice(Twist::Lose);
    let b = world.node("b");
    let target = a.engine.open_segment("b").unwrap();
    let write = TransferRequest::write(a.region.whole(), target, b.region.address());
    let batch = a.engine.allocate_batch(1).unwrap();
    a.engine.submit(batch, &[write]).unwrap();
    let (first, second) = (a.engine.close(Duration::ZERO), a.engine.close(Duration::from_secs(1)));
    assert_eq!((first.kept_bytes, second.kept_bytes), (BUFFER, BUFFER), "it is counted each time");
    assert_eq!(a.engine.quarantined_bytes(), BUFFER);
}

#[test]
fn a_notification_is_sent_although_nothing_had_to_be_moved() {
    let world = World::new(SimFabric::builder(1));
    let (a, b) = (world.node("a"), world.node("b"));
    let own = a.engine.open_segment("a").unwrap();
    let empty = TransferRequest::write(a.region.range(0, 0).unwrap(), own, b.region.address());
    let batch = a.engine.allocate_batch(2).unwrap();
    let notify = |msg: &str| te_engine::Notify { name: "a".into(), msg: msg.into() };
    a.engine.submit_with_notify(batch, std::slice::from_ref(&empty), notify("1")).unwrap();
    a.engine.submit_with_notify(batch, &[empty], notify("2")).unwrap();
    assert_eq!(a.engine.batch_status(batch).unwrap().notify, te_engine::NotifyOutcome::Delivered);
    assert_eq!(a.engine.take_notifies(), [notify("1"), notify("2")]);
}
