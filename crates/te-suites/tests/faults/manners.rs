//! Data ports with manners that the peer has in some version, or that only a broken one has.

use std::time::Duration;

use te_suites::wire::{BASE, DataManner, HandTarget, TargetSpec};
use te_suites::{Kind, Node, NodeSpec, need, now, pattern};

const LEN: u64 = 4096;

fn target(manner: DataManner) -> HandTarget {
    HandTarget::start(TargetSpec { manner, ..TargetSpec::default() }, |_| ()).unwrap()
}

fn ours() -> Node {
    let mut ours = NodeSpec::new(Kind::Te, 1 << 20).start();
    ours.pattern(0, LEN, 8);
    ours
}

#[test]
fn a_status_that_is_not_ok_is_a_failure() {
    // J52: any code but 0 fails the request and nothing else.
    need!("a_status_that_is_not_ok_is_a_failure", Kind::Te.available());
    let mut ours = ours();
    for code in [1, 2, 0x7fff_ffff, u32::MAX] {
        let target = target(DataManner::Code(code));
        let here = ours.addr();
        let answer = ours.write(target.name(), here, BASE, LEN);
        assert!(!answer.refused().is_empty(), "code {code}: {answer:?}");
        ours.read(target.name(), here + LEN, BASE, LEN).ok();
        ours.verify(LEN, LEN, 8);
    }
    ours.quit();
}

#[test]
fn eight_bytes_that_are_no_status_are_a_failure() {
    // J56: what comes in place of a status is not believed.
    need!("eight_bytes_that_are_no_status_are_a_failure", Kind::Te.available());
    let mut ours = ours();
    let target = target(DataManner::BadMagic);
    let here = ours.addr();
    let answer = ours.write(target.name(), here, BASE, LEN);
    assert!(!answer.refused().is_empty(), "{answer:?}");
    ours.quit();
}

#[test]
fn fault11_a_target_that_closes_after_each_request_costs_no_request() {
    // Peer fault 11: each next request finds its connection gone, and is sent again.
    need!("fault11_a_target_that_closes_after_each_request_costs_no_request", Kind::Te.available());
    let mut ours = ours();
    let target = target(DataManner::CloseAfter);
    let here = ours.addr();
    for i in 0..20 {
        ours.write(target.name(), here, BASE + i * LEN, LEN).ok();
        ours.read(target.name(), here + LEN, BASE + i * LEN, LEN).ok();
        ours.verify(LEN, LEN, 8);
    }
    assert_eq!(target.bytes(0, 4096), pattern::bytes(8, 4096));
    ours.quit();
}

#[test]
fn an_ok_that_comes_early_is_taken() {
    // The peer's initiator takes a status that comes before the last byte was sent; so do we.
    need!("an_ok_that_comes_early_is_taken", Kind::Te.available());
    let mut ours = ours();
    let target = target(DataManner::EarlyOk);
    let here = ours.addr();
    for _ in 0..5 {
        ours.write(target.name(), here, BASE, LEN).ok();
    }
    ours.quit();
}

#[test]
fn j56_a_server_that_is_older_than_its_descriptor_fails_the_write_in_time() {
    // J56: the descriptor says version 2, the server knows no status. What bounds the wait is the
    // limit on a status, here 2 s.
    let test = "j56_a_server_that_is_older_than_its_descriptor_fails_the_write_in_time";
    need!(test, Kind::Te.available());
    let mut ours = NodeSpec::new(Kind::Te, 1 << 20).env("MC_TCP_STATUS_TIMEOUT_SEC", "2").start();
    let target = target(DataManner::OldVersion);
    let here = ours.addr();
    let start = now();
    let answer = ours.write(target.name(), here, BASE, LEN);
    assert!(!answer.refused().is_empty(), "{answer:?}");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    ours.quit();
}
