//! Owners that share a name, die, lose their records, or their service.

use std::sync::Arc;
use std::time::Duration;

use te_metadata::{MetadataStore, Standing, StoreOptions};
use te_suites::{now, say, wait_until};

use crate::engines::on_each_at_once;
use crate::owner::{Owner, answering, directory, name};
use crate::service::{Kind, Service};

const RPC: &str = "mooncake/rpc_meta/node-a";
const RAM: &str = "mooncake/ram/node-a";
const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(30);

/// Does something on every kind that is there, on all at the same time, since most of it is waiting;
/// one that is not there is a skip of its own.
fn on_each(test: &str, check: impl Fn(&mut Service, &Arc<dyn MetadataStore>) + Sync) {
    on_each_at_once(test, &Kind::ALL, |service| {
        let store = service.store(&StoreOptions::default());
        check(service, &store);
    });
}

fn stands(store: &Arc<dyn MetadataStore>, key: &str) -> bool {
    store.get(key).unwrap().is_some()
}

#[test]
fn fault15_a_second_claimant_is_told_and_deletes_nothing() {
    // Peer faults 15, 16; FB20: the name of a living owner.
    on_each("fault15_a_second_claimant_is_told_and_deletes_nothing", |service, store| {
        let first = Owner::start(store, "node-a", TTL);
        first.until(SOON, Standing::Published);
        let other = service.store(&StoreOptions::default());
        let second = Owner::start(&other, "node-a", TTL);
        second.until(SOON, Standing::Taken);
        assert!(second.has_seen("taken"));
        second.leave();
        assert!(stands(store, RPC) && stands(store, RAM), "the leaving twin deleted something");
        first.until(SOON, Standing::Published);
        first.leave();
        assert!(!stands(store, RPC) && !stands(store, RAM), "the owner gives its records back");
    });
}

#[test]
fn fault14_the_name_of_a_dead_owner_is_taken_over() {
    // Peer fault 14: killed, and started again under its name, at once.
    on_each("fault14_the_name_of_a_dead_owner_is_taken_over", |service, store| {
        let first = Owner::start(store, "node-a", TTL);
        first.until(SOON, Standing::Published);
        first.die();
        assert!(stands(store, RPC) && stands(store, RAM), "a dead owner gives nothing back");
        let other = service.store(&StoreOptions::default());
        let heir = Owner::start(&other, "node-a", TTL);
        heir.until(SOON, Standing::Published);
        assert!(!heir.has_seen("taken"));
        let found = directory(store).fetch(&name("node-a"), b"{}").unwrap();
        assert_eq!(found.descriptor.buffers().len(), 1);
        heir.leave();
    });
}

#[test]
fn fault17_the_records_of_a_dead_owner_end() {
    // Peer fault 17, FB10: within the TTL and five seconds, where the service can.
    on_each("fault17_the_records_of_a_dead_owner_end", |_, store| {
        let ttl = Duration::from_secs(3);
        let owner = Owner::start(store, "node-a", ttl);
        owner.until(SOON, Standing::Published);
        let renewed = now() + 2 * ttl;
        wait_until(3 * ttl, "it lives on", || (now() > renewed).then_some(()));
        assert!(stands(store, RPC) && stands(store, RAM), "a living owner renews");
        owner.die();
        if !store.capabilities().unwrap().expiry {
            say(&format!("{}: ends no records", store.uri()));
            return;
        }
        let gone = || (!stands(store, RPC) && !stands(store, RAM)).then_some(());
        wait_until(ttl + Duration::from_secs(5), "the records end", gone);
    });
}

#[test]
fn fault16_a_stolen_name_is_told_and_taken_back() {
    // Peer fault 16: a Mooncake engine of the same name puts over both records.
    on_each("fault16_a_stolen_name_is_told_and_taken_back", |_, store| {
        let owner = Owner::start(store, "node-a", TTL);
        owner.until(SOON, Standing::Published);
        let (thief, address) = answering();
        let rpc =
            format!("{{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":{}}}", address.port_or(0));
        store.put(RPC, rpc.as_bytes()).unwrap();
        store.put(RAM, b"{\"protocol\":\"tcp\"}").unwrap();
        owner.until(SOON, Standing::Taken);
        assert!(owner.has_seen("lost"), "the loss is told");
        assert_eq!(store.get(RPC).unwrap().unwrap().value, rpc.as_bytes(), "and not fought");
        drop(thief);
        owner.until(SOON, Standing::Published);
        let found = directory(store).fetch(&name("node-a"), b"{}").unwrap();
        assert_eq!(found.descriptor.buffers().len(), 1);
        owner.leave();
    });
}

#[test]
fn fault20_records_come_back_to_an_emptied_service() {
    // Peer faults 19, 20: down, and back without anything, five seconds later it is as before.
    on_each("fault20_records_come_back_to_an_emptied_service", |service, store| {
        let owner = Owner::start(store, "node-a", TTL);
        owner.until(SOON, Standing::Published);
        service.kill();
        owner.until(SOON, Standing::Failing);
        owner.register(2);
        service.empty();
        service.restart();
        let back = now();
        let whole = || {
            let found = directory(store).fetch(&name("node-a"), b"{}").ok()?;
            (found.descriptor.buffers().len() == 2).then_some(())
        };
        wait_until(Duration::from_secs(5), "it is published again, as it is now", whole);
        say(&format!("{}: published again after {:?}", store.uri(), back.elapsed()));
        owner.until(SOON, Standing::Published);
        owner.leave();
    });
}
