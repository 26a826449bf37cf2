//! Engines with several transports: the best that both sides have, and the next one when it fails.

use std::sync::Arc;
use std::time::Duration;

use te_engine::{
    BatchId, BuildError, EngineConfig, FaultClass, Phase, RegisterOptions, RemoteSide, SegmentId,
    SliceFault, SubmitError, TaskState, TransferRequest,
};
use te_transport::Clock as _;
use te_transport::testing::{FaultyTransport, SimFabric, SimTransport, Twist};

use crate::harness::*;

type Faulty = Arc<FaultyTransport<Arc<SimTransport>>>;

/// An engine with some transports, the most preferred first, each of which can be spoiled.
fn many(world: &World, name: &str, transports: &[&'static str]) -> (Node, Vec<Faulty>) {
    let endpoint = |transport| world.fabric.endpoint_as(transport, name);
    let faulty: Vec<Faulty> =
        transports.iter().map(|t| Arc::new(FaultyTransport::new(endpoint(*t)))).collect();
    let builder = world.builder(name);
    let engine =
        faulty.iter().fold(builder, |b, t| b.transport(Arc::clone(t) as _)).build().unwrap();
    let region = engine.allocate(BUFFER).unwrap();
    engine.register(&region, RegisterOptions::default()).unwrap();
    let transport = Arc::clone(faulty[0].inner());
    (Node { engine, region, transport }, faulty)
}

/// The engines of FB57; only X has a local transport and RDMA.
fn x_y_z(world: &World) -> [(Node, Vec<Faulty>); 3] {
    [
        many(world, "x", &["local", "rdma", "shm", "tcp"]),
        many(world, "y", &["tcp"]),
        many(world, "z", &["shm", "tcp"]),
    ]
}

fn submit(from: &Node, requests: &[TransferRequest]) -> BatchId {
    let batch = from.engine.allocate_batch(requests.len()).unwrap();
    from.engine.submit(batch, requests).unwrap();
    batch
}

fn small_writes(from: &Node, target: SegmentId, base: u64) -> Vec<TransferRequest> {
    let write = |i: u64| {
        TransferRequest::write(from.region.range(i * 100, 100).unwrap(), target, base + i * 100)
    };
    (0..50).map(write).collect()
}

/// The transports that the tasks of a final batch went by.
fn used(node: &Node, batch: BatchId, n: usize) -> Vec<Option<&'static str>> {
    (0..n).map(|i| node.engine.status(batch, i).unwrap().transport).collect()
}

#[test]
fn fb57_each_peer_gets_the_best_transport_that_both_have() {
    // FB57: X to Y by tcp, X to Z by shm, X to X by its local transport; what was used can be asked.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).reorder(200_000));
        let [(x, _), (y, _), (z, _)] = x_y_z(&world);
        fill(&x.region, seed);
        for (peer, name, wanted) in [(&y, "y", "tcp"), (&z, "z", "shm")] {
            let target = x.engine.open_segment(name).unwrap();
            assert_eq!(x.engine.transport_to(target), Some(wanted), "before the first request");
            let writes = small_writes(&x, target, peer.region.address());
            let batch = submit(&x, &writes);
            assert!(world.run(&[&x, &y, &z], &[(&x, batch)], Duration::from_secs(5)));
            assert_eq!(x.engine.batch_status(batch).unwrap().failed, 0);
            assert_eq!(used(&x, batch, writes.len()), vec![Some(wanted); writes.len()]);
            assert_eq!(bytes_of(&peer.region, 0, 5000), pattern(seed, 0, 5000));
        }
        let own = x.engine.open_segment("x").unwrap();
        assert_eq!(x.engine.transport_to(own), Some("local"));
        let local = x.region.range(0, 100).unwrap();
        let write = TransferRequest::write(local, own, x.region.address() + BUFFER / 2);
        let batch = submit(&x, &[write]);
        assert!(world.run(&[&x, &y, &z], &[(&x, batch)], Duration::from_secs(5)));
        assert_eq!(used(&x, batch, 1), [Some("local")]);
        assert_eq!(bytes_of(&x.region, BUFFER / 2, 100), pattern(seed, 0, 100));
        assert_eq!(x.engine.stats().detours, 0);
    });
}

#[test]
fn fb57_when_shm_dies_in_mid_run_what_was_not_begun_goes_by_tcp() {
    // FB57: only what may have reached the peer fails, and says so; everything else arrives.
    for_each_seed(|seed| {
        let world = World::new(SimFabric::builder(seed).bandwidth(200_000_000));
        let [(x, _), (y, _), (z, at_z)] = x_y_z(&world);
        fill(&x.region, seed);
        let mut rng = Rng::new(seed);
        let target = x.engine.open_segment("z").unwrap();
        let writes = disjoint_writes(&mut rng, &x, target, z.region.address());
        let requests: Vec<_> = writes.iter().map(|w| w.2.clone()).collect();
        let death = world.fabric.clock().now() + Duration::from_micros(rng.below(1500));
        world.fabric.kill_at(at_z[0].inner().number(), death);
        let batch = submit(&x, &requests);
        assert!(world.run(&[&x, &y, &z], &[(&x, batch)], Duration::from_secs(5)));
        let lens: Vec<u64> = writes.iter().map(|w| w.1).collect();
        for (status, (at, len, _)) in check_final(&x, batch, &lens).iter().zip(&writes) {
            if status.state == TaskState::Completed {
                assert_eq!(bytes_of(&z.region, *at, *len), pattern(seed, *at, *len));
            } else {
                assert_eq!(status.remote, RemoteSide::InDoubt, "{status:?}");
                let fault = status.fault.as_ref().unwrap();
                assert_eq!(fault.fault.class, FaultClass::Peer, "{status:?}");
            }
        }
        world.fabric.run_until(death);
        let again = submit(&x, &small_writes(&x, target, z.region.address()));
        assert!(world.run(&[&x, &y, &z], &[(&x, again)], Duration::from_secs(5)));
        assert_eq!(x.engine.batch_status(again).unwrap().failed, 0);
        assert_eq!(used(&x, again, 50), vec![Some("tcp"); 50]);
        assert_eq!(x.engine.transport_to(target), Some("tcp"));
    });
}

#[test]
fn fb57_a_path_that_fails_before_a_byte_moved_is_left_for_a_while_and_taken_again() {
    let refusals = [
        SliceFault::new(FaultClass::Rail, Phase::Connect, "no way"),
        SliceFault::new(FaultClass::Peer, Phase::Handshake, "not with you"),
        SliceFault::new(FaultClass::Rail, Phase::Payload, "gone, and nothing had moved"),
    ];
    for refusal in refusals {
        let world = World::new(SimFabric::builder(3));
        let (x, at_x) = many(&world, "x", &["shm", "tcp"]);
        let (z, _) = many(&world, "z", &["shm", "tcp"]);
        let target = x.engine.open_segment("z").unwrap();
        at_x[0].twist_every_slice(Twist::Unsent(refusal));
        let run = |wanted| {
            let batch = submit(&x, &small_writes(&x, target, z.region.address()));
            assert!(world.run(&[&x, &z], &[(&x, batch)], Duration::from_millis(500)));
            assert_eq!(x.engine.batch_status(batch).unwrap().failed, 0);
            assert_eq!(used(&x, batch, 50), vec![Some(wanted); 50]);
        };
        run("tcp");
        let detours = x.engine.stats().detours;
        assert!(detours > 0);
        at_x[0].heal();
        run("tcp");
        assert_eq!(x.engine.stats().detours, detours, "it rests");
        world.fabric.run_until(world.fabric.clock().now() + Duration::from_secs(1));
        run("shm");
        assert_eq!(x.engine.transport_to(target), Some("shm"));
    }
}

#[test]
fn fb57_a_better_transport_that_reaches_the_peer_later_is_taken_then() {
    let world = World::new(SimFabric::builder(7));
    let (x, at_x) = many(&world, "x", &["shm", "tcp"]);
    let (z, _) = many(&world, "z", &["shm", "tcp"]);
    let target = x.engine.open_segment("z").unwrap();
    let run = |wanted| {
        let batch = submit(&x, &small_writes(&x, target, z.region.address()));
        assert!(world.run(&[&x, &z], &[(&x, batch)], Duration::from_millis(500)));
        assert_eq!(used(&x, batch, 50), vec![Some(wanted); 50]);
    };
    at_x[0].hide(true);
    run("tcp");
    at_x[0].hide(false);
    run("tcp");
    world.fabric.run_until(world.fabric.clock().now() + Duration::from_secs(10));
    run("shm");
    assert_eq!(x.engine.stats().detours, 0);
}

#[test]
fn fb57_what_one_transport_may_still_apply_is_given_to_no_other() {
    let lost = SliceFault::new(FaultClass::Rail, Phase::Status, "the answer was lost");
    for all in [false, true] {
        let world = World::new(SimFabric::builder(4));
        let (x, at_x) = many(&world, "x", &["shm", "tcp"]);
        let (z, _) = many(&world, "z", &["shm", "tcp"]);
        let target = x.engine.open_segment("z").unwrap();
        if all {
            at_x[0].twist_every_slice(Twist::Fault(lost.clone()));
        } else {
            (1..=20).for_each(|n| at_x[0].twist_slice(n, Twist::Fault(lost.clone())));
        }
        let batch = submit(&x, &small_writes(&x, target, z.region.address()));
        assert!(world.run(&[&x, &z], &[(&x, batch)], Duration::from_secs(5)));
        let failed = x.engine.batch_status(batch).unwrap().failed;
        assert_eq!(failed, if all { 50 } else { 0 });
        assert_eq!(at_x[1].taken(), 0, "tcp was given some of it");
        assert_eq!((x.engine.stats().detours, used(&x, batch, 1)), (0, vec![Some("shm")]));
    }
}

#[test]
fn fb57_what_one_transport_may_still_apply_waits_for_it_while_the_rest_goes_by_another() {
    // The first request's answer is lost; then the path is gone for a while, and comes back.
    let lost = SliceFault::new(FaultClass::Rail, Phase::Status, "the answer was lost");
    let gone = SliceFault::new(FaultClass::Rail, Phase::Connect, "no way");
    for returns in [false, true] {
        let world = World::new(SimFabric::builder(4));
        let (x, at_x) = many(&world, "x", &["shm", "tcp"]);
        let (z, _) = many(&world, "z", &["shm", "tcp"]);
        let target = x.engine.open_segment("z").unwrap();
        at_x[0].twist_slice(1, Twist::Fault(lost.clone()));
        at_x[0].twist_every_slice(Twist::Unsent(gone.clone()));
        let writes = small_writes(&x, target, z.region.address());
        let batch = submit(&x, &writes);
        world.fabric.run_until(world.fabric.clock().now() + Duration::from_millis(5));
        if returns {
            at_x[0].heal();
        }
        assert!(world.run(&[&x, &z], &[(&x, batch)], Duration::from_secs(5)));
        let first = x.engine.status(batch, 0).unwrap();
        let wanted = if returns { TaskState::Completed } else { TaskState::Failed };
        assert_eq!((first.state, first.transport), (wanted, Some("shm")), "{first:?}");
        assert_eq!(used(&x, batch, 50)[1..], vec![Some("tcp"); 49]);
        assert_eq!(x.engine.batch_status(batch).unwrap().completed, 49 + usize::from(returns));
        assert_eq!(at_x[1].taken(), 49);
    }
}

#[test]
fn fb57_where_every_path_fails_the_request_fails_soon_with_the_last_fault() {
    let world = World::new(SimFabric::builder(5));
    let (x, at_x) = many(&world, "x", &["shm", "tcp"]);
    let (z, _) = many(&world, "z", &["shm", "tcp"]);
    let target = x.engine.open_segment("z").unwrap();
    for (faulty, cause) in at_x.iter().zip(["no memory", "no socket"]) {
        let fault = SliceFault::new(FaultClass::Peer, Phase::Connect, cause);
        faulty.twist_every_slice(Twist::Unsent(fault));
    }
    let batch = submit(&x, &small_writes(&x, target, z.region.address()));
    assert!(world.run(&[&x, &z], &[(&x, batch)], Duration::from_millis(500)));
    assert_eq!(x.engine.batch_status(batch).unwrap().failed, 50);
    let fault = x.engine.status(batch, 0).unwrap().fault.unwrap();
    assert!(fault.to_string().contains("no socket"), "{fault}");
    assert!(fault.attempts >= 2, "{fault}");
}

#[test]
fn fb57_a_choice_wins_or_is_an_error_that_names_what_there_is() {
    let world = World::new(SimFabric::builder(6));
    let [(_x, _), (y, _), (z, _)] = x_y_z(&world);
    let builder = |name: &str| {
        let all = ["rdma", "shm", "tcp"].map(|t| world.fabric.endpoint_as(t, name));
        all.into_iter().fold(world.builder(name), |b, t| b.transport(t))
    };
    let forced = builder("forced").only(["rdma"]).build().unwrap();
    assert_eq!(forced.transports(), ["rdma"]);
    let region = forced.allocate(4096).unwrap();
    let target = forced.open_segment("y").unwrap();
    assert_eq!(forced.transport_to(target), None);
    let batch = forced.allocate_batch(1).unwrap();
    let write = TransferRequest::write(region.whole(), target, y.region.address());
    let refused = forced.submit(batch, &[write]).unwrap_err();
    assert!(matches!(refused, SubmitError::NoTransport { .. }));
    let text = refused.to_string();
    assert!(text.contains("segment y, which offers tcp") && text.contains("uses rdma"), "{text}");

    let settings = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        EngineConfig::default().adjust(|s| s.engine.transports = names.clone()).unwrap()
    };
    let ordered = builder("ordered").config(settings(&["tcp", "shm", "tcp"])).build().unwrap();
    assert_eq!(ordered.transports(), ["tcp", "shm"]);
    let target = ordered.open_segment("z").unwrap();
    assert_eq!(ordered.transport_to(target), Some("tcp"), "both reach {:?}", z.engine);

    let absent = builder("absent").config(settings(&["tcp", "ib"])).build().unwrap_err();
    assert!(matches!(absent, BuildError::NoSuchTransport { .. }));
    assert!(absent.to_string().contains("\"ib\"") && absent.to_string().contains("rdma, shm, tcp"));
    let program = builder("program").config(settings(&["ib"])).only(["shm"]).build().unwrap();
    assert_eq!(program.transports(), ["shm"], "the program counts more");
}
