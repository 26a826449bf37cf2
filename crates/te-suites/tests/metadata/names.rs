//! Engines that want one name, lose it, are paused, or die with it.

use std::time::Duration;

use te_metadata::StoreOptions;
use te_suites::{Kind as Engine, free_port, need, now, say, wait_until};

use crate::engines::{SOON, exchange, named, on_each, on_each_at_once, stands, write};
use crate::owner::answering;
use crate::service::{Kind, Service};

const RPC: &str = "mooncake/rpc_meta/node-a";
const RAM: &str = "mooncake/ram/node-a";
/// Those whose claims are one step.
const OWNING: [Kind; 3] = [Kind::Etcd, Kind::Redis, Kind::Ours];

#[test]
fn fault15_a_second_engine_of_a_name_is_refused_and_deletes_nothing() {
    // Peer faults 15, 16, FB10: its build fails and names where the first one answers.
    let test = "fault15_a_second_engine_of_a_name_is_refused_and_deletes_nothing";
    on_each(test, &Kind::ALL, |service| {
        let spec = named(&service.uri(), "node-a");
        let mut first = spec.start();
        let mut other = named(&service.uri(), "node-b").start();
        let (why, code) = spec.launch().outcome().expect_err("the name is taken");
        let address = format!("127.0.0.1:{}", first.rpc_port());
        assert!(why.contains("node-a") && why.contains("taken"), "{why}");
        assert!(why.contains(&address), "{why} does not name {address}");
        assert_eq!(code, Some(3), "it ends by itself");
        assert!(stands(service, "node-a"), "the second one deleted something");
        exchange(&mut first, &mut other, 1);
        first.quit();
        assert!(!stands(service, "node-a"));
    });
}

#[test]
fn fb10_of_engines_that_claim_a_name_at_once_one_gets_it() {
    // FB10: on services where a claim is one step.
    on_each("fb10_of_engines_that_claim_a_name_at_once_one_gets_it", &OWNING, |service| {
        let spec = named(&service.uri(), "node-a");
        let launched: Vec<_> = (0..6).map(|_| spec.launch()).collect();
        let outcomes = launched.into_iter().map(te_suites::Launched::outcome);
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.partition(Result::is_ok);
        for refused in lost {
            let (why, _) = refused.expect_err("it is one of those that lost");
            assert!(why.contains("taken by a living engine"), "{why}");
        }
        assert_eq!(won.len(), 1, "one of six has the name");
        let mut winner = won.into_iter().next().unwrap().unwrap();
        let mut other = named(&service.uri(), "node-b").start();
        write(&mut other, &mut winner, 3);
    });
}

#[test]
fn fault14_a_successor_takes_over_and_is_reached_without_opening_again() {
    // Peer faults 13, 14, FB19, FB26, B47: killed, its records stay, and its successor has other
    // ports and other memory.
    let test = "fault14_a_successor_takes_over_and_is_reached_without_opening_again";
    on_each(test, &Kind::ALL, |service| {
        let spec = named(&service.uri(), "node-a");
        let mut other = named(&service.uri(), "node-b").start();
        let mut owner = spec.start();
        write(&mut other, &mut owner, 1);
        for round in 2..4 {
            owner.child().kill();
            assert!(stands(service, "node-a"), "a dead owner gives nothing back");
            let begun = now();
            owner = spec.start();
            say(&format!("{:?}: a successor after {:?}", service.kind, begun.elapsed()));
            assert!(begun.elapsed() < SOON);
            write(&mut other, &mut owner, round);
        }
        exchange(&mut owner, &mut other, 9);
        owner.quit();
        assert!(!stands(service, "node-a"));
    });
}

#[test]
fn a_paused_owner_whose_name_was_taken_says_so() {
    // Peer faults 15, 16: stopped, so that it answers no probe; its successor keeps the name.
    on_each_at_once("a_paused_owner_whose_name_was_taken_says_so", &Kind::ALL, |service| {
        let spec = named(&service.uri(), "node-a");
        let mut paused = spec.start();
        let mut other = named(&service.uri(), "node-b").start();
        write(&mut other, &mut paused, 1);
        paused.child().stop();
        let mut heir = spec.start();
        paused.child().resume();
        wait_until(SOON, "the paused owner notices", || {
            (paused.publication() == "Taken").then_some(())
        });
        wait_until(SOON, "it logs that", || {
            paused.child().errors().contains("lost to a living owner").then_some(())
        });
        write(&mut other, &mut heir, 2);
        paused.quit();
        assert!(stands(service, "node-a"), "it deleted its successor's records");
        write(&mut other, &mut heir, 3);
        heir.quit();
        assert!(!stands(service, "node-a"));
    });
}

#[test]
fn fault17_a_paused_owner_whose_records_ended_publishes_again() {
    // Peer fault 17: paused for longer than its TTL, on services that end records.
    let test = "fault17_a_paused_owner_whose_records_ended_publishes_again";
    on_each_at_once(test, &OWNING, |service| {
        let spec = named(&service.uri(), "node-a").env("TE_METADATA_TTL_SECONDS", "3");
        let mut paused = spec.start();
        let mut other = named(&service.uri(), "node-b").start();
        write(&mut other, &mut paused, 1);
        paused.child().stop();
        let gone = || (!is_there(service)).then_some(());
        wait_until(Duration::from_secs(3 + 5), "the records end", gone);
        paused.child().resume();
        let begun = now();
        wait_until(SOON, "they are put again", || is_there(service).then_some(()));
        say(&format!("{:?}: published again after {:?}", service.kind, begun.elapsed()));
        assert!(begun.elapsed() < Duration::from_secs(5));
        let mut fresh = named(&service.uri(), "node-c").start();
        write(&mut fresh, &mut paused, 2);
        write(&mut other, &mut paused, 3);
        paused.quit();
        assert!(!stands(service, "node-a"));
    });
}

/// Whether both records stand; while they end and are put, one of them may.
fn is_there(service: &Service) -> bool {
    let store = service.store(&StoreOptions::default());
    [RPC, RAM].iter().all(|key| store.get(key).unwrap().is_some())
}

#[test]
fn fault16_a_stolen_name_is_reported_and_left_to_a_living_thief() {
    // Peer fault 16: a Mooncake engine puts over both records.
    let test = "fault16_a_stolen_name_is_reported_and_left_to_a_living_thief";
    on_each_at_once(test, &Kind::ALL, |service| {
        let store = service.store(&StoreOptions::default());
        let mut owner = named(&service.uri(), "node-a").start();
        let (thief, address) = answering();
        let rpc =
            format!("{{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":{}}}", address.port_or(0));
        store.put(RPC, rpc.as_bytes()).unwrap();
        store.put(RAM, b"{\"protocol\":\"tcp\"}").unwrap();
        wait_until(SOON, "the loss is noticed", || (owner.publication() == "Taken").then_some(()));
        wait_until(SOON, "it is logged, with who has it", || {
            let said = owner.child().errors();
            let told = said.contains("lost to a living owner");
            (told && said.contains(&address.to_string())).then_some(())
        });
        owner.quit();
        assert_eq!(store.get(RPC).unwrap().unwrap().value, rpc.as_bytes(), "it is the thief's");
        assert!(store.get(RAM).unwrap().is_some());
        drop(thief);
    });
}

#[test]
fn fault16_a_name_stolen_by_a_dead_engine_is_put_back_within_five_seconds() {
    // Peer fault 16: a late record of an engine that is gone.
    let test = "fault16_a_name_stolen_by_a_dead_engine_is_put_back_within_five_seconds";
    on_each_at_once(test, &Kind::ALL, |service| {
        let store = service.store(&StoreOptions::default());
        let mut owner = named(&service.uri(), "node-a").start();
        let before = [RPC, RAM].map(|key| store.get(key).unwrap().unwrap().value);
        let port = free_port("127.0.0.1").unwrap();
        let rpc = format!("{{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":{port}}}");
        store.put(RPC, rpc.as_bytes()).unwrap();
        store.put(RAM, b"{\"protocol\":\"tcp\"}").unwrap();
        let begun = now();
        let is_back = || {
            let now = [RPC, RAM].map(|key| store.get(key).unwrap().map(|record| record.value));
            (now == before.clone().map(Some)).then_some(())
        };
        wait_until(SOON, "both records are put back", is_back);
        let took = begun.elapsed();
        say(&format!("{:?}: put back after {took:?}", service.kind));
        assert!(took < Duration::from_secs(5), "{took:?}");
        let mut other = named(&service.uri(), "node-b").start();
        write(&mut other, &mut owner, 1);
        owner.quit();
        assert!(!stands(service, "node-a"));
    });
}

#[test]
fn fb20_the_records_of_a_hundred_killed_engines_end() {
    // Peer fault 17, FB20: within the TTL and five seconds; those of a living engine stay.
    let test = "fb20_the_records_of_a_hundred_killed_engines_end";
    need!(test, Engine::Te.available());
    let ttl = Duration::from_secs(5);
    let mut services = Vec::new();
    for kind in OWNING {
        match kind.available() {
            Ok(()) => services.push(Service::start(kind)),
            Err(why) => te_suites::skip(&format!("{test} ({kind:?})"), &why),
        }
    }
    let start = |service: &Service| {
        let spec = named(&service.uri(), "many").with_more(99).env("TE_METADATA_TTL_SECONDS", "5");
        (spec.launch(), named(&service.uri(), "alive").start())
    };
    let started: Vec<_> = services.iter().map(start).collect();
    let mut nodes: Vec<_> =
        started.into_iter().map(|(many, alive)| (many.ready(), alive)).collect();
    let keys = |service: &Service| {
        service.store(&StoreOptions::default()).list("mooncake/").unwrap().len()
    };
    for service in &services {
        assert_eq!(keys(service), 2 * 101, "{:?}", service.kind);
    }
    nodes.iter_mut().for_each(|(many, _)| many.child().kill());
    let killed = now();
    for service in &services {
        let ended = || (keys(service) == 2).then_some(());
        wait_until(ttl + Duration::from_secs(5), "their records end", ended);
        let took = killed.elapsed();
        say(&format!("{test}: {:?}: 200 records ended within {took:?}", service.kind));
        assert!(took < ttl + Duration::from_secs(5), "{took:?}");
        assert!(stands(service, "alive"));
    }
    nodes.iter_mut().for_each(|(_, alive)| assert_eq!(alive.publication(), "Published"));
}
