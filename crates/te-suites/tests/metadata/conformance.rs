//! The contract of stores, on each real service.

use te_metadata::{StoreOptions, check_store};
use te_suites::{need, say};

use crate::service::{Kind, Service};

fn check(test: &str, kind: Kind) {
    need!(test, kind.available());
    let service = Service::start(kind);
    let store = service.store(&StoreOptions::default());
    say(&format!("{test}: {} can {:?}", store.uri(), store.capabilities().unwrap()));
    check_store(&*store);
}

#[test]
fn etcd_keeps_the_contract() {
    // B4, B5: and records end with their lease.
    check("etcd_keeps_the_contract", Kind::Etcd);
}

#[test]
fn redis_keeps_the_contract() {
    // B6: and an error reply is an error.
    check("redis_keeps_the_contract", Kind::Redis);
}

#[test]
fn the_peers_http_server_keeps_the_contract() {
    // B7, I26.
    check("the_peers_http_server_keeps_the_contract", Kind::PeerHttp);
}

#[test]
fn the_peers_master_keeps_the_contract() {
    // B7.
    check("the_peers_master_keeps_the_contract", Kind::PeerMaster);
}

#[test]
fn our_server_keeps_the_contract() {
    check("our_server_keeps_the_contract", Kind::Ours);
}
