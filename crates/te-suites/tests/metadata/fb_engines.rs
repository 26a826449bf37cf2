//! What users reported of engines that share a metadata service.

use std::sync::Arc;
use std::time::Duration;

use te_metadata::{Claim, Incarnation, Lease, MetadataStore, StoreOptions};
use te_suites::{
    Kind as Engine, Launched, Node, NodeSpec, full, need, now, say, wait_for, wait_until,
};

use crate::owner::{directory, name};
use crate::service::{Kind, Service};

const SIZE: u64 = 4096;
const SOON: Duration = Duration::from_secs(10);

fn spec(service: &Service, name: &str) -> NodeSpec {
    NodeSpec::new(Engine::Te, SIZE)
        .metadata(&service.uri())
        .host(name)
        .env("MC_TCP_BIND_ADDRESS", "127.0.0.1")
}

/// Does something on every service; one that is not there is a skip of its own.
fn on_each(test: &str, check: impl Fn(&Service, &Arc<dyn MetadataStore>)) {
    for kind in Kind::ALL {
        let run = || {
            let test = &format!("{test} ({kind:?})");
            need!(test, Engine::Te.available());
            need!(test, kind.available());
            let service = Service::start(kind);
            let begun = now();
            check(&service, &service.store(&StoreOptions::default()));
            say(&format!("{test}: {:?}", begun.elapsed()));
        };
        run();
    }
}

#[test]
fn fb10_engines_with_names_of_their_own_reach_whom_they_mean() {
    // FB10: started at once, a ring of stamped writes; 64 of them with TE_FULL=1.
    let n: u64 = if full() { 64 } else { 6 };
    on_each("fb10_engines_with_names_of_their_own_reach_whom_they_mean", |service, store| {
        let started: Vec<Launched> =
            (0..n).map(|i| spec(service, &format!("node-{i}")).launch()).collect();
        let mut nodes: Vec<Node> = started.into_iter().map(Launched::ready).collect();
        for i in 0..nodes.len() {
            let to = &nodes[(i + 1) % nodes.len()];
            let (name, dst) = (to.name().to_owned(), to.addr() + SIZE / 2);
            let from = &mut nodes[i];
            from.pattern(0, SIZE / 2, i as u64 + 1);
            from.write(&name, from.addr(), dst, SIZE / 2).ok();
        }
        for i in 0..nodes.len() {
            let before = (i + nodes.len() - 1) % nodes.len();
            nodes[i].verify(SIZE / 2, SIZE / 2, before as u64 + 1);
        }
        if store.capabilities().unwrap().list {
            let keys = store.list("mooncake/").unwrap().len() as u64;
            assert_eq!(keys, 2 * n, "two records each");
        }
        nodes.into_iter().for_each(Node::quit);
    });
}

#[test]
fn fb19_publishing_again_and_starting_again_is_no_error() {
    // FB19: the same value again, another owner's value, and an engine that starts again at once,
    // left and killed.
    on_each("fb19_publishing_again_and_starting_again_is_no_error", |service, store| {
        let key = "mooncake/rpc_meta/again";
        let claim = |text: &str| {
            let owner = Incarnation::random();
            let value = format!("{{\"te_incarnation\":\"{owner}\",\"x\":\"{text}\"}}");
            let lease = Lease { owner, ttl: Duration::from_secs(30) };
            let put = || store.claim(key, value.as_bytes(), &lease, None).unwrap();
            (put(), put())
        };
        assert!(matches!(claim("v"), (Claim::Held(_), Claim::Held(_))), "the same again");
        assert!(matches!(claim("w"), (Claim::Taken(_), Claim::Taken(_))), "another's");
        store.remove(key).unwrap();
        assert!(matches!(claim("w"), (Claim::Held(_), Claim::Held(_))));
        let start = || {
            let begun = now();
            let node = spec(service, "again-node").start();
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            node
        };
        start().quit();
        start().child().kill();
        start().quit();
    });
}

/// Whether a write of the whole buffer arrives.
fn writes(from: &mut Node, to: &mut Node, dst: u64, seed: u64) -> bool {
    from.pattern(0, SIZE, seed);
    let (src, name) = (from.addr(), to.name().to_owned());
    from.write(&name, src, dst, SIZE).is_ok() && to.matches(to.off(dst), SIZE, seed)
}

#[test]
fn fb26_what_was_kept_of_a_peer_is_dropped_when_it_is_wrong_and_only_then() {
    // FB26: other buffers are found with one refresh; a service that is silent for a moment evicts
    // nobody; a peer that is dead and whose records are gone is not found any more.
    let test = "fb26_what_was_kept_of_a_peer_is_dropped_when_it_is_wrong_and_only_then";
    on_each(test, |service, store| {
        let mut from = spec(service, "node-a").env("TE_METADATA_CALL_TIMEOUT_MS", "500").start();
        let mut to = spec(service, "node-b").start();
        let old = to.addr();
        assert!(writes(&mut from, &mut to, old, 1));
        to.unreg(old).ok();
        let new = to.alloc(SIZE);
        to.reg(new, SIZE).ok();
        assert!(writes(&mut from, &mut to, new, 2), "found without opening again");
        from.write(to.name(), from.addr(), old, SIZE).refused();
        assert!(to.is_published(SOON));
        from.sync();
        service.signal("STOP");
        assert_eq!(from.sync().number("failed"), 0, "its owner is asked in its stead");
        assert!(writes(&mut from, &mut to, new, 3), "and nobody is evicted");
        service.signal("CONT");
        wait_until(SOON, "it answers again", || (from.sync().number("failed") == 0).then_some(()));
        let name = to.name().to_owned();
        to.child().kill();
        store.remove("mooncake/rpc_meta/node-b").unwrap();
        store.remove("mooncake/ram/node-b").unwrap();
        from.write(&name, from.addr(), new, SIZE).refused();
        // A look that comes soon after one that failed is none; three that are find it out.
        let opened = wait_until(SOON, "it is not found any more", || {
            from.sync();
            let opened = from.open_at_once(&[&name]);
            (opened.number("failed") == 1).then_some(opened)
        });
        let error = opened.value("error").as_str().unwrap();
        assert!(error.contains(&name) && error.contains("is not known"), "{error}");
        say(&format!("{}: {error}", service.uri()));
    });
}

#[test]
fn fb28_what_is_published_is_whole_at_every_moment() {
    // FB28, store half: four threads register and unregister, eight readers look in the service.
    on_each("fb28_what_is_published_is_whole_at_every_moment", |service, _| {
        let mut node = spec(service, "node-a").start();
        let fixed = node.addr();
        let command = serde_json::json!({ "op": "churn", "threads": 4, "buffers": 50, "len": 96 });
        let arena = node.ask(&command).ok().number("addr");
        let until = now() + Duration::from_secs(1);
        let look = || {
            let (store, mut n) = (directory(&service.store(&StoreOptions::default())), 0);
            while now() < until {
                let found = store.fetch(&name("node-a"), b"{}").unwrap().descriptor;
                let mut addresses: Vec<u64> = found.buffers().iter().map(|b| b.addr).collect();
                let all = addresses.len();
                addresses.sort_unstable();
                addresses.dedup();
                assert_eq!(addresses.len(), all, "one is listed twice");
                assert!(addresses.contains(&fixed), "the fixed one is missing");
                let known = |b: &te_metadata::BufferDescriptor| {
                    let of_the_arena =
                        b.addr.wrapping_sub(arena).is_multiple_of(96) && b.length == 96;
                    (b.addr == fixed && b.length == SIZE) || of_the_arena
                };
                assert!(found.buffers().iter().all(known), "nobody registered that");
                n += 1;
            }
            n
        };
        let n: u64 = std::thread::scope(|scope| {
            let look = &look;
            let readers: Vec<_> = (0..8).map(|_| scope.spawn(look)).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).sum()
        });
        let registered = node.ask(&serde_json::json!({ "op": "churn_stop" })).ok();
        let registered = registered.number("registered");
        assert!(n > 50 && registered > 100, "{n} looks, {registered} registrations");
        node.quit();
    });
}

/// What a peer registers is known elsewhere within three seconds, without any call there.
fn is_polled(mut from: Node, mut to: Node) {
    let name = to.name().to_owned();
    from.known(&name, 0).ok();
    let later = to.alloc(SIZE);
    to.reg(later, SIZE).ok();
    let begun = now();
    let known = || (from.known(&name, later).ok().value("has") == true).then_some(());
    assert!(wait_for(Duration::from_secs(3), known).is_some(), "not within three seconds");
    say(&format!("{name}: known after {:?}", begun.elapsed()));
    from.quit();
    to.quit();
}

#[test]
fn j35_polling_sees_what_a_peer_registers() {
    // J35, B44: once a second; in each service, and where peers are asked.
    let every_second = |spec: NodeSpec| spec.env("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", "1");
    on_each("j35_polling_sees_what_a_peer_registers", |service, _| {
        let from = every_second(spec(service, "node-a")).start();
        is_polled(from, spec(service, "node-b").start());
    });
    need!("j35_polling_sees_what_a_peer_registers", Engine::Te.available());
    let from = every_second(NodeSpec::new(Engine::Te, SIZE)).start();
    is_polled(from, NodeSpec::new(Engine::Te, SIZE).start());
}
