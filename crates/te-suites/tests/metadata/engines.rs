//! Whole engines, each a process of its own, that find each other through a real service.

use std::time::Duration;

use te_metadata::StoreOptions;
use te_suites::{Kind as Engine, Node, NodeSpec, need, now, say};

use crate::service::{Kind, Service};

/// Bytes of a node's buffer.
pub(crate) const SIZE: u64 = 1 << 20;

/// How long something that a machine with other work does soon may take.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A node with that name, whose records are in a service.
pub(crate) fn named(uri: &str, name: &str) -> NodeSpec {
    let spec = NodeSpec::new(Engine::Te, SIZE).host(name).metadata(uri);
    spec.env("MC_TCP_BIND_ADDRESS", "127.0.0.1")
}

/// Does something on every kind of service that is there; one that is not is a skip of its own.
pub(crate) fn on_each(test: &str, kinds: &[Kind], check: impl Fn(&mut Service)) {
    kinds.iter().for_each(|kind| on_one(test, *kind, &check));
}

/// The same on all of them at the same time: for what mostly waits.
pub(crate) fn on_each_at_once(test: &str, kinds: &[Kind], check: impl Fn(&mut Service) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        for kind in kinds {
            scope.spawn(move || on_one(test, *kind, check));
        }
    });
}

fn on_one(test: &str, kind: Kind, check: impl Fn(&mut Service)) {
    let test = format!("{test} ({kind:?})");
    need!(&test, kind.available());
    need!(&test, Engine::Te.available());
    let mut service = Service::start(kind);
    let begun = now();
    check(&mut service);
    say(&format!("{test}: {:?}", begun.elapsed()));
}

/// Moves the whole buffer of each into the other's, by a write and by a read, and looks at it.
#[track_caller]
pub(crate) fn exchange(a: &mut Node, b: &mut Node, seed: u64) {
    write(a, b, seed);
    write(b, a, seed + 1);
    b.pattern(0, SIZE, seed + 2);
    let (name, from, to) = (b.name().to_owned(), b.addr(), a.addr());
    a.read(&name, to, from, SIZE).ok();
    a.verify(0, SIZE, seed + 2);
}

/// Writes the whole buffer of `from` into that of `to`, and looks at it there.
#[track_caller]
pub(crate) fn write(from: &mut Node, to: &mut Node, seed: u64) {
    from.pattern(0, SIZE, seed);
    let (name, src, dst) = (to.name().to_owned(), from.addr(), to.addr());
    from.write(&name, src, dst, SIZE).ok();
    to.verify(0, SIZE, seed);
}

/// Registers another buffer of `to` and writes into it.
#[track_caller]
pub(crate) fn write_late(from: &mut Node, to: &mut Node, seed: u64) -> u64 {
    let late = to.alloc(SIZE);
    to.reg(late, SIZE).ok();
    from.pattern(0, SIZE, seed);
    let (name, src) = (to.name().to_owned(), from.addr());
    from.write(&name, src, late, SIZE).ok();
    let off = to.off(late);
    to.verify(off, SIZE, seed);
    late
}

/// Whether both records of a name stand.
pub(crate) fn stands(service: &Service, name: &str) -> bool {
    let store = service.store(&StoreOptions::default());
    let there = |kind: &str| store.get(&format!("mooncake/{kind}/{name}")).unwrap().is_some();
    let (rpc, ram) = (there("rpc_meta"), there("ram"));
    assert_eq!(rpc, ram, "one record of {name} stands without the other");
    rpc
}

#[test]
fn engines_find_each_other_through_every_service() {
    // FB24, FB26, B10, B20: both directions, a buffer that is registered later, a clean end.
    on_each("engines_find_each_other_through_every_service", &Kind::ALL, |service| {
        let uri = service.uri();
        let (a, b) = (named(&uri, "node-a").launch(), named(&uri, "rack/node-b").launch());
        let (mut a, mut b) = (a.ready(), b.ready());
        assert_eq!((a.publication().as_str(), b.name()), ("Published", "rack/node-b"));
        exchange(&mut a, &mut b, 1);
        write_late(&mut a, &mut b, 7);
        write_late(&mut b, &mut a, 8);
        let absent = a.open_at_once(&["nobody"]);
        let why = absent.value("error").as_str().unwrap_or_default().to_owned();
        assert!(absent.number("failed") == 1 && why.contains("nobody"), "{why}");
        a.quit();
        b.quit();
        let store = service.store(&StoreOptions::default());
        for key in ["ram/node-a", "rpc_meta/node-a", "rack/node-b", "rpc_meta/rack/node-b"] {
            assert_eq!(store.get(&format!("mooncake/{key}")).unwrap(), None, "{key} is left");
        }
        if store.capabilities().unwrap().list {
            assert_eq!(store.list("").unwrap(), [], "nothing is left");
        }
    });
}

#[test]
fn a_late_buffer_is_published_when_its_registration_returns() {
    // C20: the first change after a quiet time stands in the service, not only with its owner.
    let test = "a_late_buffer_is_published_when_its_registration_returns";
    on_each(test, &Kind::ALL, |service| {
        let mut node = named(&service.uri(), "node-a").start();
        let store = service.store(&StoreOptions::default());
        for _ in 0..3 {
            let late = node.alloc(SIZE);
            node.reg(late, SIZE).ok();
            let record = store.get("mooncake/ram/node-a").unwrap().unwrap().value;
            let text = String::from_utf8(record).unwrap();
            assert!(text.contains(&late.to_string()), "{late} is not in {text}");
            node.unreg(late).ok();
            let record = store.get("mooncake/ram/node-a").unwrap().unwrap().value;
            assert!(!String::from_utf8(record).unwrap().contains(&late.to_string()));
        }
        node.quit();
    });
}
