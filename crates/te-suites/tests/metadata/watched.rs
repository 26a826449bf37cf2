//! Engines that learn from their service that a peer has changed.

use std::time::Duration;

use te_metadata::StoreOptions;
use te_suites::{Node, now, pace, say, wait_until};

use crate::engines::{SIZE, SOON, named, on_each, on_each_at_once, stands, write};
use crate::service::Kind;

/// Those that tell what changes.
const TELLING: [Kind; 2] = [Kind::Etcd, Kind::Ours];

/// Whether `node` knows a buffer of `target` there; nobody is asked.
fn knows(node: &mut Node, target: &str, addr: u64) -> bool {
    node.known(target, addr).ok().value("has") == true
}

#[test]
fn b44_a_peers_new_buffer_is_known_without_any_failure() {
    // B43, B44: no period is set, and nothing is transferred.
    on_each("b44_a_peers_new_buffer_is_known_without_any_failure", &TELLING, |service| {
        let uri = service.uri();
        let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "rack/b").start());
        a.known("rack/b", 0).ok();
        for round in 0..3 {
            let late = b.alloc(SIZE);
            let begun = now();
            b.reg(late, SIZE).ok();
            wait_until(SOON, "it is known", || knows(&mut a, "rack/b", late).then_some(()));
            let took = begun.elapsed();
            say(&format!("{:?}: round {round}: known after {took:?}", service.kind));
            b.unreg(late).ok();
            let unknown = || (!knows(&mut a, "rack/b", late)).then_some(());
            wait_until(SOON, "it is not known any more", unknown);
        }
        assert_eq!(a.stat("failed"), 0);
        // A burst: the last state counts.
        let many = b.reg_many((500, 4096), true);
        let last = many + 2 * 499 * 4096;
        wait_until(SOON, "the last is known", || knows(&mut a, "rack/b", last).then_some(()));
        assert_eq!(a.known("rack/b", last).number("buffers"), 501);
        a.quit();
        b.quit();
    });
}

#[test]
fn b44_a_successor_is_known_without_any_failure() {
    // B44, B47, FB26: another process under the name; and after the service was restarted.
    on_each("b44_a_successor_is_known_without_any_failure", &TELLING, |service| {
        let uri = service.uri();
        let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "node-b").start());
        write(&mut a, &mut b, 1);
        b.child().kill();
        let mut b = named(&uri, "node-b").start();
        let addr = b.addr();
        wait_until(SOON, "it is known", || knows(&mut a, "node-b", addr).then_some(()));
        service.restart();
        let store = service.store(&StoreOptions::default());
        wait_until(SOON, "all is published", || {
            (stands(service, "node-a") && a.publication() == "Published").then_some(())
        });
        let late = b.alloc(SIZE);
        b.reg(late, SIZE).ok();
        wait_until(SOON, "the watch goes on", || knows(&mut a, "node-b", late).then_some(()));
        write(&mut a, &mut b, 2);
        a.quit();
        b.quit();
        assert_eq!(store.list("").unwrap(), []);
    });
}

#[test]
fn b44_who_is_told_of_changes_does_not_wait_for_them() {
    // B41: the service hangs, and readers of what is known go on; an engine ends at once.
    on_each_at_once("b44_who_is_told_of_changes_does_not_wait_for_them", &TELLING, |service| {
        let uri = service.uri();
        let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "node-b").start());
        write(&mut a, &mut b, 1);
        pace(Duration::from_millis(200));
        service.signal("STOP");
        for seed in 2..20 {
            let begun = now();
            assert!(a.known("node-b", 0).is_ok());
            write(&mut a, &mut b, seed);
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        }
        service.signal("CONT");
        let begun = now();
        a.quit();
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        b.quit();
    });
}
