//! Many buffers: registered one by one, and published at all.

use std::time::Duration;

use te_metadata::{Incarnation, PAGE_BYTES, SegmentDescriptor, Standing, StoreOptions};
use te_suites::{need, now, pace, say};

use crate::owner::{Owner, descriptor, directory, name};
use crate::service::{Kind, Service};

/// A value for etcd, redis and HTTP servers, the smallest limit of which is 1 MiB.
#[test]
fn a_hundred_thousand_buffers_are_published_and_opened() {
    let test = "a_hundred_thousand_buffers_are_published_and_opened";
    for kind in Kind::ALL {
        let run = || {
            need!(&format!("{test} ({kind:?})"), kind.available());
            let service = Service::start(kind);
            let store = service.store(&StoreOptions::default());
            let owner = Owner::start(&store, "node-a", Duration::from_secs(30));
            owner.until(Duration::from_secs(10), Standing::Published);
            let begun = now();
            owner.register(100_000);
            owner.until(Duration::from_secs(60), Standing::Published);
            let published = begun.elapsed();
            let begun = now();
            let found = directory(&store).fetch(&name("node-a"), b"{}").unwrap().descriptor;
            let opened = begun.elapsed();
            let incarnation = found.te.as_ref().unwrap().incarnation;
            assert_eq!(found, descriptor("node-a", incarnation, 100_000));
            // What a Mooncake engine sees: a descriptor of the first ones, in one value.
            let main = store.get("mooncake/ram/node-a").unwrap().unwrap().value;
            let seen = SegmentDescriptor::decode(&main).unwrap().buffers().len();
            assert!(main.len() <= PAGE_BYTES && seen > 5000, "{seen} in {} bytes", main.len());
            say(&format!(
                "{}: published in {published:?}, opened in {opened:?}, a peer sees {seen}",
                store.uri()
            ));
            owner.leave();
            if store.capabilities().unwrap().list {
                assert_eq!(store.list("mooncake/").unwrap(), [], "the parts are given back too");
            }
        };
        run();
    }
}

#[test]
fn ten_thousand_registrations_cost_tens_of_puts() {
    // Counted by etcd, whose revision rises with each.
    let test = "ten_thousand_registrations_cost_tens_of_puts";
    need!(test, Kind::Etcd.available());
    let service = Service::start(Kind::Etcd);
    let store = service.store(&StoreOptions::default());
    let owner = Owner::start(&store, "node-a", Duration::from_secs(30));
    owner.until(Duration::from_secs(10), Standing::Published);
    let revision = || {
        store.put("mark", Incarnation::random().to_string().as_bytes()).unwrap();
        let revision = store.revision("mark").unwrap().unwrap();
        revision.as_str().parse::<u64>().unwrap()
    };
    let before = revision();
    let begun = now();
    for n in 1..=10_000 {
        owner.register(n);
        if n % 10 == 0 {
            pace(Duration::from_millis(5));
        }
    }
    let took = begun.elapsed();
    owner.until(Duration::from_secs(10), Standing::Published);
    let n_puts = revision() - before - 1;
    say(&format!("{test}: {n_puts} puts and removals in {took:?}"));
    assert!((2..=100).contains(&n_puts), "{n_puts}");
    let found = directory(&store).fetch(&name("node-a"), b"{}").unwrap();
    assert_eq!(found.descriptor.buffers().len(), 10_000);
    owner.leave();
}
