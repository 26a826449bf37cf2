//! NICs that come and go, peers that start again, and TCP while RDMA cannot connect.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use te_engine::{EngineConfig, SegmentId};
use te_verbs::VerbsCall;

use crate::harness::*;

/// A link that is back is used again this soon.
const BACK: Duration = Duration::from_secs(2);

/// Writes from a thread of its own as long as `work` lasts; gives how many writes went well. None
/// may fail.
fn while_writing(from: &Node, to: &Node, target: SegmentId, work: impl FnOnce(&AtomicU64)) -> u64 {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let moved = from.write(target, to.region.address(), SIZE);
                assert_eq!(moved.map_err(|error| told(&error)), Ok(SIZE));
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        work(&done);
        stop.store(true, Ordering::Relaxed);
    });
    done.load(Ordering::Relaxed)
}

/// J96: with a second NIC alive no request fails, whichever end loses one.
#[test]
fn j96_a_nic_that_goes_in_mid_transfer_fails_no_request() {
    let world = World::new();
    let (a, b) = (world.node("a", 2, &["rdma"]), world.node("b", 2, &["rdma"]));
    let target = a.open(&b);
    a.check_write(&b, target, 1);
    let further = |done: &AtomicU64| {
        let goal = done.load(Ordering::Relaxed) + 5;
        until("more writes", || done.load(Ordering::Relaxed) >= goal)
    };
    while_writing(&a, &b, target, |done| {
        for nic in a.nics.iter().chain(&b.nics) {
            further(done);
            nic.port_down(1);
            assert!(further(done) < Duration::from_secs(5), "it stalls");
            nic.port_up(1);
            // The other one may only go when this one is back.
            std::thread::sleep(Duration::from_millis(700));
            assert!(further(done) < Duration::from_secs(5), "it stalls");
        }
    });
    a.check_write(&b, target, 2);
}

/// rdma fault 6: the only NIC of either side goes: an error in bounded time, and within two seconds of
/// "port active" everything works.
#[test]
fn rdma_fault06_an_only_nic_is_back_soon_after_its_port() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
    let target = a.open(&b);
    a.check_write(&b, target, 1);
    for (side, nic) in [("ours", &a.nics[0]), ("theirs", &b.nics[0])] {
        nic.port_down(1);
        let begun = Instant::now();
        let failed = a.write(target, b.region.address(), SIZE);
        assert!(failed.is_err(), "{side}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{side}: {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(300));
        nic.port_up(1);
        let took = until("a write", || a.write(target, b.region.address(), SIZE).is_ok());
        assert!(took < BACK, "{side}: {took:?}");
        a.check_write(&b, target, 2);
    }
}

/// FB57: what RDMA cannot connect goes by TCP, nothing fails, and RDMA is used again.
#[test]
fn fb57_tcp_carries_what_rdma_cannot_connect_and_gives_way_again() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma", "tcp"]), world.node("b", 1, &["rdma", "tcp"]));
    let target = a.open(&b);
    for _ in 0..8 {
        a.nics[0].fail_call(VerbsCall::ToRtr, 0, 110);
    }
    a.check_write(&b, target, 1);
    assert!(a.engine.stats().detours > 0, "RDMA was tried");
    let back = || {
        a.check_write(&b, target, 2);
        a.engine.transport_to(target) == Some("rdma") && a.nics[0].queue_pairs() > 0
    };
    until("RDMA", back);
    a.check_write(&b, target, 3);
}

#[test]
fn tcp_serves_while_a_nic_is_away_at_either_end() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma", "tcp"]), world.node("b", 1, &["rdma", "tcp"]));
    let target = a.open(&b);
    a.check_write(&b, target, 1);
    for nic in [&a.nics[0], &b.nics[0]] {
        nic.port_down(1);
        until("TCP", || {
            drop(a.write(target, b.region.address(), SIZE));
            a.engine.transport_to(target) == Some("tcp")
        });
        a.check_write(&b, target, 2);
        nic.port_up(1);
        let took = until("RDMA", || {
            a.check_write(&b, target, 3);
            a.engine.transport_to(target) == Some("rdma")
        });
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}

/// An engine that starts while its port is down uses TCP until the port comes, and then RDMA; so do
/// those that met it before.
#[test]
fn a_port_that_comes_after_the_start_is_used_at_both_ends() {
    let world = World::new();
    let start = |host: &str| {
        let nics = world.devices(host, 1);
        nics[0].port_down(1);
        let config = EngineConfig::default().adjust(quick).unwrap();
        Node::of(world.builder(host, config).build().unwrap(), nics)
    };
    let (a, b) = (start("a"), start("b"));
    assert!(a.engine.rdma_absence().is_none() && a.engine.transports().contains(&"rdma"));
    let target = a.open(&b);
    a.check_write(&b, target, 1);
    assert_ne!(a.engine.transport_to(target), Some("rdma"));
    a.nics.iter().chain(&b.nics).for_each(|nic| nic.port_up(1));
    let took = until("RDMA", || {
        a.check_write(&b, target, 2);
        let name = b.engine.local_name().as_str();
        a.engine.sync_cache(Some(name));
        b.engine.descriptor().protocol_name() == "rdma" && reads_rdma(&a, target)
    });
    assert!(took < Duration::from_secs(3), "{took:?}");
    a.check_write(&b, target, 3);
}

/// Whether what a node knows of a peer has NICs.
fn reads_rdma(node: &Node, target: SegmentId) -> bool {
    node.engine.segment(target).is_some_and(|peer| peer.descriptor().protocol_name() == "rdma")
}

/// J95: a peer that was started again under its name and port serves at once.
#[test]
fn j95_a_peer_that_was_started_again_is_used_without_restart() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
    let target = a.open(&b);
    a.check_write(&b, target, 1);
    let (port, nics) = (b.engine.rpc_port(), b.nics.clone());
    drop(b);
    let config = EngineConfig::default().adjust(quick).unwrap();
    let engine = world.builder("b", config).only(["rdma"]).port(port).build().unwrap();
    let b = Node::of(engine, nics);
    let works = || a.write(target, b.region.address(), SIZE).is_ok();
    assert!(until("the new process", works) < Duration::from_secs(5));
    a.check_write(&b, target, 2);
    let back = b.open(&a);
    b.check_write(&a, back, 3);
}

/// J95: our own end starts again under its name, and the peer's old connection gives way.
#[test]
fn j95_an_initiator_that_was_started_again_writes_at_once() {
    let world = World::new();
    let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
    a.check_write(&b, a.open(&b), 1);
    let (port, nics) = (a.engine.rpc_port(), a.nics.clone());
    drop(a);
    let config = EngineConfig::default().adjust(quick).unwrap();
    let engine = world.builder("a", config).only(["rdma"]).port(port).build().unwrap();
    let a = Node::of(engine, nics);
    a.check_write(&b, a.open(&b), 2);
    until("the old connection to go", || b.nics[0].queue_pairs() == 2);
}

/// J95: both ends begin at once, many times.
#[test]
fn j95_both_ends_that_connect_at_once_converge() {
    for round in 0..20 {
        let world = World::new();
        let (a, b) = (world.node("a", 1, &["rdma"]), world.node("b", 1, &["rdma"]));
        let (to_b, to_a) = (a.open(&b), b.open(&a));
        let half = SIZE / 2;
        std::thread::scope(|scope| {
            let ours = scope.spawn(|| a.write(to_b, b.region.address() + half, half));
            let theirs = scope.spawn(|| b.write(to_a, a.region.address() + half, half));
            let moved = [ours, theirs].map(|side| side.join().unwrap().map_err(|e| told(&e)));
            assert_eq!(moved, [Ok(half), Ok(half)], "round {round}");
        });
    }
}
