//! Engines with many buffers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use te_metadata::{Incarnation, MetadataStore, StoreOptions};
use te_suites::{Kind as Engine, Node, NodeSpec, need, now, say};

use crate::engines::{SOON, named, on_each};
use crate::service::{Kind, Service};

/// Writes one buffer's worth into the last of `n` buffers, and looks at what is around it.
fn reach_last(from: &mut Node, to: &mut Node, (first, n, len): (u64, u64, u64)) {
    let last = first + 2 * (n - 1) * len;
    let name = to.name().to_owned();
    let begun = now();
    let known = from.known(&name, last).ok();
    let opened = begun.elapsed();
    assert!(known.value("has") == true && known.number("buffers") > n, "{known:?}");
    from.pattern(0, len, 3);
    let src = from.addr();
    from.write(&name, src, last, len).ok();
    let off = to.off(last);
    to.verify(off, len, 3);
    to.verify_filled(off - len, len, 0);
    from.write(&name, src, last + 1, len).refused();
    say(&format!("{name}: opened in {opened:?}"));
}

#[test]
fn a_hundred_thousand_buffers_of_an_engine_are_opened_through_every_service() {
    let test = "a_hundred_thousand_buffers_of_an_engine_are_opened_through_every_service";
    on_each(test, &Kind::ALL, |service| {
        let uri = service.uri();
        let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "node-b").start());
        let begun = now();
        let first = b.reg_many((100_000, 64), false);
        assert!(b.is_published(Duration::from_secs(60)), "{}", b.publication());
        say(&format!("{:?}: registered and published in {:?}", service.kind, begun.elapsed()));
        reach_last(&mut a, &mut b, (first, 100_000, 64));
        b.quit();
        a.quit();
        let store = service.store(&StoreOptions::default());
        if store.capabilities().unwrap().list {
            assert_eq!(store.list("").unwrap(), [], "every part is given back");
        }
    });
}

#[test]
fn a_hundred_thousand_buffers_of_an_engine_are_opened_by_asking_it() {
    // P2P: the answer comes in parts.
    let test = "a_hundred_thousand_buffers_of_an_engine_are_opened_by_asking_it";
    need!(test, Engine::Te.available());
    let spec = NodeSpec::new(Engine::Te, 1 << 20);
    let (mut a, mut b) = (spec.start(), spec.start());
    let first = b.reg_many((100_000, 64), false);
    reach_last(&mut a, &mut b, (first, 100_000, 64));
    a.quit();
    b.quit();
}

/// How many changes a service has had, its own count.
fn changes(service: &Service, store: &dyn MetadataStore) -> u64 {
    if service.kind == Kind::Ours {
        return metric(service, "te_metadata_revision");
    }
    // Each put of an etcd raises its revision, this one too.
    store.put("mark", Incarnation::random().to_string().as_bytes()).unwrap();
    store.revision("mark").unwrap().unwrap().as_str().parse().unwrap()
}

/// A number that our server tells about itself.
fn metric(service: &Service, name: &str) -> u64 {
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn ten_thousand_registrations_of_an_engine_cost_at_most_a_hundred_puts() {
    // Counted by the service.
    let test = "ten_thousand_registrations_of_an_engine_cost_at_most_a_hundred_puts";
    on_each(test, &[Kind::Etcd, Kind::Ours], |service| {
        let store = service.store(&StoreOptions::default());
        let mut node = named(&service.uri(), "node-a").start();
        let before = changes(service, &*store);
        let begun = now();
        let first = node.reg_many((10_000, 64), true);
        let registered = begun.elapsed();
        assert!(node.is_published(SOON), "{}", node.publication());
        let n = changes(service, &*store) - before - u64::from(service.kind == Kind::Etcd);
        say(&format!("{:?}: {n} puts and removals in {registered:?}", service.kind));
        assert!((2..=100).contains(&n), "{n}");
        let mut other = named(&service.uri(), "node-b").start();
        reach_last(&mut other, &mut node, (first, 10_000, 64));
        other.quit();
        node.quit();
    });
}
