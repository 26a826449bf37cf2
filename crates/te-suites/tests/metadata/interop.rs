//! The published peer and us, who find each other in a metadata service, both ways.
//!
//! Services are Mooncake's own two, ours, and etcd. The peer's package has no redis.

use std::time::Duration;

use te_suites::{Kind as Engine, Node, NodeSpec, need, say, wait_for, wait_until};

use crate::engines::on_each_at_once;
use crate::service::{Kind, Service};

const MIB: u64 = 1 << 20;

/// The services that the peer's package knows.
const SHARED: [Kind; 4] = [Kind::PeerHttp, Kind::PeerMaster, Kind::Ours, Kind::Etcd];

/// How long the peer may believe what it knew: it asks each second for what is new.
const SOON: Duration = Duration::from_secs(10);

fn spec(kind: Engine, service: &Service, name: &str) -> NodeSpec {
    NodeSpec::new(kind, MIB)
        .metadata(&service.uri())
        .host(name)
        .env("MC_TCP_BIND_ADDRESS", "127.0.0.1")
        .env("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", "1")
}

/// Does something on every service that both sides know, on all at the same time; one that is not
/// there is a skip.
fn on_each(test: &str, check: impl Fn(&Service) + Sync) {
    need!(test, Engine::Peer.available());
    on_each_at_once(test, &SHARED, |service| check(service));
}

/// Writes and reads, with every byte checked on the receiving side.
#[track_caller]
fn moves(from: &mut Node, to: &mut Node, dst: u64, seed: u64) {
    from.pattern(0, MIB, seed);
    let (src, name) = (from.addr(), to.name().to_owned());
    from.write(&name, src, dst, MIB).ok();
    to.verify(to.off(dst), MIB, seed);
    to.pattern(to.off(dst), MIB, seed + 1);
    from.read(&name, src, dst, MIB).ok();
    from.verify(0, MIB, seed + 1);
}

/// Writes until one write arrives: what is known of a process that has gone is found out.
#[track_caller]
fn finds_again(from: &mut Node, to: &mut Node, seed: u64) {
    from.pattern(0, MIB, seed);
    let (src, dst, name) = (from.addr(), to.addr(), to.name().to_owned());
    let mut n = 0;
    let writes = || {
        n += 1;
        from.write(&name, src, dst, MIB).is_ok().then_some(())
    };
    wait_until(SOON, "the successor is found", writes);
    to.verify(0, MIB, seed);
    say(&format!("{} found its peer's successor at write {n}", from.kind().word()));
}

#[test]
fn the_peer_and_we_find_each_other_in_each_service() {
    // B7, B11, B12, J118: bytes both ways, memory that is registered later, notifications and probes,
    // for which the peer reads our `rpc_meta` with its extra key and our descriptor with its `te`.
    on_each("the_peer_and_we_find_each_other_in_each_service", |service| {
        let mut ours = spec(Engine::Te, service, "node-te").start();
        let mut peer = spec(Engine::Peer, service, "node-peer").start();
        let there = (ours.addr(), peer.addr());
        moves(&mut ours, &mut peer, there.1, 1);
        moves(&mut peer, &mut ours, there.0, 3);
        let later = (ours.alloc(MIB), peer.alloc(MIB));
        ours.reg(later.0, MIB).ok();
        peer.reg(later.1, MIB).ok();
        moves(&mut ours, &mut peer, later.1, 5);
        moves(&mut peer, &mut ours, later.0, 7);
        ours.probe(peer.name()).ok();
        peer.probe(ours.name()).ok();
        ours.notify(peer.name(), (there.0, there.1, 64), ("a", "to the peer")).ok();
        peer.notify(ours.name(), (there.1, there.0, 64), ("b", "to us")).ok();
        let told = |node: &mut Node| wait_until(SOON, "a notification", || node.notifies().pop()).1;
        assert_eq!((told(&mut peer), told(&mut ours)), ("to the peer".into(), "to us".into()));
        let store = service.store(&te_metadata::StoreOptions::default());
        let ours_at = store.get("mooncake/rpc_meta/node-te").unwrap().unwrap().value;
        assert!(String::from_utf8(ours_at).unwrap().contains("te_incarnation"));
        ours.quit();
        assert_eq!(store.get("mooncake/rpc_meta/node-te").unwrap(), None, "we take ours back");
        assert_eq!(store.get("mooncake/ram/node-te").unwrap(), None, "both of them");
        assert!(store.get("mooncake/ram/node-peer").unwrap().is_some(), "and nothing else");
    });
}

#[test]
fn fault13_either_side_restarts_under_its_name() {
    // Peer faults 13, 14: killed and started again at once. The peer is told to look each second,
    // since otherwise it believes for ever what it knew; we look when a write fails.
    on_each("fault13_either_side_restarts_under_its_name", |service| {
        let ours_spec = spec(Engine::Te, service, "node-te");
        let peer_spec = spec(Engine::Peer, service, "node-peer");
        let (mut ours, mut peer) = (ours_spec.start(), peer_spec.start());
        let there = (ours.addr(), peer.addr());
        moves(&mut ours, &mut peer, there.1, 1);
        moves(&mut peer, &mut ours, there.0, 3);
        ours.child().kill();
        let mut ours = ours_spec.start();
        finds_again(&mut peer, &mut ours, 5);
        moves(&mut ours, &mut peer, there.1, 7);
        peer.child().kill();
        // Mooncake's servers refuse its first start, which takes the old record away when it ends.
        let mut refused = 0;
        let mut peer = wait_until(SOON, "the peer starts again", || {
            let outcome = peer_spec.launch().outcome();
            refused += u32::from(outcome.is_err());
            outcome.ok()
        });
        let by_us = matches!(service.kind, Kind::Ours | Kind::Etcd);
        assert!(refused <= u32::from(!by_us), "refused {refused} times");
        finds_again(&mut ours, &mut peer, 9);
        let there = ours.addr();
        moves(&mut peer, &mut ours, there, 11);
    });
}

#[test]
fn fault15_a_peer_that_wants_our_name_does_not_get_rid_of_us() {
    // Peer faults 15, 16: a peer starts under our name. Where it is refused, what it deletes on its
    // way out is put back; where it takes the name, that is told, and the name is ours again when
    // it has gone.
    on_each("fault15_a_peer_that_wants_our_name_does_not_get_rid_of_us", |service| {
        let mut ours = spec(Engine::Te, service, "node-a").start();
        let store = service.store(&te_metadata::StoreOptions::default());
        let our_records = || {
            let record = store.get("mooncake/rpc_meta/node-a").unwrap()?.value;
            let is_ours = String::from_utf8(record).unwrap().contains("te_incarnation");
            (is_ours && store.get("mooncake/ram/node-a").unwrap().is_some()).then_some(())
        };
        assert!(our_records().is_some());
        match spec(Engine::Peer, service, "node-a").launch().outcome() {
            Err((why, code)) => say(&format!("{}: refused: {why} ({code:?})", service.uri())),
            Ok(mut thief) => {
                let lost = || (ours.publication() == "Taken").then_some(());
                wait_until(SOON, "the loss is seen", lost);
                let told =
                    wait_for(SOON, || ours.child().errors().contains("lost to").then_some(()));
                assert!(told.is_some(), "and told:\n{}", ours.child().errors());
                thief.ask(&serde_json::json!({ "op": "leave" })).ok();
                say(&format!("{}: lost to the peer, which has left", service.uri()));
            }
        }
        wait_until(SOON, "the records are ours again", our_records);
        wait_until(SOON, "and it is known", || (ours.publication() == "Published").then_some(()));
        let mut peer = spec(Engine::Peer, service, "node-b").start();
        let there = ours.addr();
        moves(&mut peer, &mut ours, there, 1);
        ours.quit();
    });
}

/// A hundred thousand buffers of ours, opened by the peer.
fn opens_many(mut ours: Node, mut peer: Node) {
    const LEN: u64 = 4096;
    const N: u64 = 100_000;
    let first = ours.reg_many((N, LEN), false);
    assert!(ours.is_published(Duration::from_secs(60)), "{}", ours.publication());
    let (src, name) = (peer.addr(), ours.name().to_owned());
    // Where peers ask for it, it is put together when one asks.
    peer.write(&name, src, first, LEN).ok();
    let said = ours.child().errors();
    let line = said.lines().find(|line| line.contains("see only the first buffers"));
    let line = line.unwrap_or_else(|| panic!("what is left out is not told:\n{said}"));
    let seen = line.split("seen=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let seen: u64 = seen.unwrap().parse().unwrap();
    assert!((5000..N).contains(&seen), "{line}");
    // The first two, and the last of those that it is told of.
    for n in [0, 1, seen - 2] {
        let at = first + 2 * n * LEN;
        peer.pattern(0, LEN, n + 1);
        peer.write(&name, src, at, LEN).ok();
        ours.verify(ours.off(at), LEN, n + 1);
        peer.fill(0, LEN, 0);
        peer.read(&name, src, at, LEN).ok();
        peer.verify(0, LEN, n + 1);
    }
    say(&format!("{name}: the peer sees {seen} of {N} buffers"));
    ours.quit();
}

#[test]
fn a_peer_opens_a_segment_of_a_hundred_thousand_buffers() {
    // It gets the first that fit one value and one frame; what was left out is in our log.
    let test = "a_peer_opens_a_segment_of_a_hundred_thousand_buffers";
    on_each(test, |service| {
        let ours = spec(Engine::Te, service, "node-te").start();
        opens_many(ours, spec(Engine::Peer, service, "node-peer").start());
    });
    need!(test, Engine::Te.available());
    need!(test, Engine::Peer.available());
    let ours = NodeSpec::new(Engine::Te, MIB).start();
    opens_many(ours, NodeSpec::new(Engine::Peer, MIB).start());
}

#[test]
fn the_peer_knows_no_redis() {
    // What its package lacks ends it (te-classic B2, peer fault 18); of ours it is one of the stores.
    let test = "the_peer_knows_no_redis";
    need!(test, Engine::Peer.available());
    let lacking = NodeSpec::new(Engine::Peer, MIB).metadata("redis://127.0.0.1:1").host("node-a");
    let (_, code) = lacking.launch().outcome().unwrap_err();
    assert_eq!(code, None, "a signal ended it");
}
