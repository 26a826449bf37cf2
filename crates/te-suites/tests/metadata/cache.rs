//! What engines keep of others' descriptors, and when they ask again.

use te_metadata::StoreOptions;
use te_suites::Node;

use crate::engines::{SIZE, exchange, named, on_each};
use crate::service::Kind;

/// Registers another buffer; gives its address.
fn later(node: &mut Node) -> u64 {
    let addr = node.alloc(SIZE);
    node.reg(addr, SIZE).ok();
    addr
}

#[test]
fn b42_without_a_cache_every_opening_asks() {
    // B42: and with it none does, on services that tell no changes.
    let silent = [Kind::Redis, Kind::PeerHttp, Kind::PeerMaster];
    on_each("b42_without_a_cache_every_opening_asks", &silent, |service| {
        let uri = service.uri();
        let mut asking = named(&uri, "node-a").env("MC_DISABLE_METACACHE", "1").start();
        let mut keeping = named(&uri, "node-b").start();
        let mut peer = named(&uri, "node-c").start();
        for node in [&mut asking, &mut keeping] {
            assert_eq!(node.known("node-c", 0).ok().number("buffers"), 1);
        }
        let addr = later(&mut peer);
        assert_eq!(asking.known("node-c", addr).ok().value("has"), true);
        assert_eq!(keeping.known("node-c", addr).ok().value("has"), false);
        for node in [asking, keeping, peer] {
            node.quit();
        }
    });
}

#[test]
fn b45_asking_for_all_tells_what_changed() {
    // B45: updated, unchanged and failed are counted; a peer that cannot be reached keeps what is
    // known of it, and who reads meanwhile reads what was there (B41).
    let silent = [Kind::Redis, Kind::PeerHttp, Kind::PeerMaster];
    on_each("b45_asking_for_all_tells_what_changed", &silent, |service| {
        let uri = service.uri();
        let mut node = named(&uri, "node-a").start();
        let (mut b, c) = (named(&uri, "node-b").start(), named(&uri, "node-c").start());
        assert_eq!(node.open_at_once(&["node-b", "node-c"]).number("failed"), 0);
        let mut counts = || {
            let report = node.sync();
            ["updated", "unchanged", "failed"].map(|key| report.number(key))
        };
        assert_eq!(counts(), [0, 2, 0]);
        let addr = later(&mut b);
        assert_eq!(counts(), [1, 1, 0]);
        c.quit();
        assert_eq!(counts(), [0, 1, 1], "one of them is gone");
        assert_eq!(node.known("node-b", addr).ok().value("has"), true);
        node.quit();
        b.quit();
    });
}

#[test]
fn b46_a_name_stays_the_name_that_was_opened() {
    // B46: a record that calls itself otherwise is asked for under the key where it was found.
    on_each("b46_a_name_stays_the_name_that_was_opened", &Kind::ALL, |service| {
        let uri = service.uri();
        let (mut a, mut b) = (named(&uri, "node-a").start(), named(&uri, "node-b").start());
        let store = service.store(&StoreOptions::default());
        for kind in ["ram", "rpc_meta"] {
            let value = store.get(&format!("mooncake/{kind}/node-b")).unwrap().unwrap().value;
            store.put(&format!("mooncake/{kind}/alias"), &value).unwrap();
        }
        exchange(&mut a, &mut b, 1);
        a.pattern(0, SIZE, 9);
        let (src, dst) = (a.addr(), b.addr());
        a.write("alias", src, dst, SIZE).ok();
        b.verify(0, SIZE, 9);
        // A buffer that the copy does not list: the owner is asked.
        let late = later(&mut b);
        a.write("alias", src, late, SIZE).ok();
        b.verify(b.off(late), SIZE, 9);
        store.remove("mooncake/ram/alias").unwrap();
        a.write("alias", src, dst, SIZE).ok();
        a.quit();
        b.quit();
    });
}
