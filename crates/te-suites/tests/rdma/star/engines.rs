//! Whole engines in processes of their own, `te-node`, over real verbs.

use std::time::Duration;

use serde_json::json;
use te_suites::{Direction, Kind, Node, NodeSpec, Parts, need, now, say, wait_until};

use crate::links::{Broken, nic};
use crate::watched::Watched;

const MIB: u64 = 1 << 20;

/// Whether engines can run here.
fn available() -> Result<(), String> {
    Watched::with_devices(8)?;
    Kind::Te.available()
}

fn start(devices: &str, size: u64) -> Node {
    NodeSpec::new(Kind::Te, size).rdma(devices).start()
}

/// One transfer, every byte checked on the receiving side.
#[track_caller]
fn moves(from: &mut Node, to: &mut Node, direction: Direction, len: u64, seed: u64) {
    let (name, ends) = (to.name().to_owned(), (from.addr() + 13, to.addr() + 4099));
    match direction {
        Direction::Write => from.pattern(13, len, seed),
        Direction::Read => to.pattern(4099, len, seed),
    }
    from.transfer(direction, &name, ends, len).ok();
    match direction {
        Direction::Write => to.verify(4099, len, seed),
        Direction::Read => from.verify(13, len, seed),
    }
}

#[test]
fn j93_two_engines_write_and_read_what_was_written() {
    // J93, and 1 byte to 16 MiB: requests of every length are cut, moved and compared.
    let test = "star::engines::j93_two_engines_write_and_read_what_was_written";
    need!(test, available());
    let (mut a, mut b) = (start("rxe0,rxe1", 20 * MIB), start("rxe4,rxe5", 20 * MIB));
    for (seed, len) in (1..).zip([1, 64, 4097, 65_537, MIB + 1, 16 * MIB + 5]) {
        for direction in Direction::BOTH {
            moves(&mut a, &mut b, direction, len, seed);
        }
    }
    // The other way over the connections that there are.
    moves(&mut b, &mut a, Direction::Write, MIB, 99);
    a.quit();
    b.quit();
}

#[test]
fn j92_an_engine_writes_to_itself_two_hundred_times() {
    // J92: 200 writes of 4,096,000 bytes in one process; an engine's way to itself is over its NIC here.
    let test = "star::engines::j92_an_engine_writes_to_itself_two_hundred_times";
    const LEN: u64 = 4_096_000;
    need!(test, available());
    let mut node = start("rxe0", 10 * MIB);
    let (name, base) = (node.name().to_owned(), node.addr());
    node.pattern(0, LEN, 3);
    let begun = now();
    let mut parts = Parts::default();
    (0..20).for_each(|_| parts.push(base, base + 5 * MIB, LEN));
    for _ in 0..10 {
        node.batch(Direction::Write, &name, &parts).ok();
    }
    node.verify(5 * MIB, LEN, 3);
    say(&format!("row 200 writes of 4,096,000 bytes to itself in {:.1?}", begun.elapsed()));
    node.quit();
}

/// The request is under way: bytes of it have come.
fn is_under_way(target: &mut Node) {
    wait_until(Duration::from_secs(30), "the first bytes", || {
        (target.count(0, 4096, 0) < 2048).then_some(())
    });
}

/// A link goes down in the middle of a request of 64 MiB, which is done all the same.
fn link_down(test: &str, device: usize) {
    const LEN: u64 = 64 * MIB;
    need!(test, available());
    let (mut a, mut b) = (start("rxe0,rxe1", LEN), start("rxe4,rxe5", LEN));
    let (name, base, to) = (b.name().to_owned(), a.addr(), b.addr());
    a.write(&name, base + MIB, to + MIB, 4096).ok();
    a.pattern(0, LEN, 7);
    let mut parts = Parts::default();
    parts.push(base, to, LEN);
    let id = a.submit(Direction::Write, &name, &parts);
    is_under_way(&mut b);
    let (broken, at) = (Broken::down(&nic(device)), now());
    a.wait(id).ok();
    let took = at.elapsed();
    b.verify(0, LEN, 7);
    broken.mend();
    say(&format!("row the request was done {took:.1?} after rxe{device} went down"));
    assert!(took < Duration::from_secs(20), "{took:?}");
    a.quit();
    b.quit();
}

#[test]
fn j96_one_of_our_links_goes_down_and_the_request_is_done() {
    // J96: no request fails while another NIC lives.
    link_down("star::engines::j96_one_of_our_links_goes_down_and_the_request_is_done", 0);
}

#[test]
fn j96_one_of_the_peers_links_goes_down_and_the_request_is_done() {
    // J96: the same at the other end.
    link_down("star::engines::j96_one_of_the_peers_links_goes_down_and_the_request_is_done", 4);
}

#[test]
fn fault13_a_peer_that_is_killed_fails_the_request_and_its_successor_serves() {
    // Peer fault 13, J95: kill -9 in the middle of a write; a new process under the same name and port.
    let test =
        "star::engines::fault13_a_peer_that_is_killed_fails_the_request_and_its_successor_serves";
    const LEN: u64 = 64 * MIB;
    need!(test, available());
    let (mut a, mut b) = (start("rxe0", LEN), start("rxe4", LEN));
    let (name, base, to, port) = (b.name().to_owned(), a.addr(), b.addr(), b.rpc_port());
    a.write(&name, base, to, 4096).ok();
    a.pattern(0, LEN, 7);
    b.fill(0, 4096, 0);
    let mut parts = Parts::default();
    parts.push(base, to, LEN);
    let id = a.submit(Direction::Write, &name, &parts);
    is_under_way(&mut b);
    b.child().kill();
    let killed = now();
    let answer = a.wait(id);
    let took = killed.elapsed();
    assert_eq!(answer.value("states"), &json!(["failed"]), "{answer:?}");
    // Settled where its NIC still said that the memory is gone, which ends the connection for good.
    let remote = answer.value("remote");
    assert!(remote == "in doubt" || remote == "settled", "{answer:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    say(&format!("row failed {took:.1?} after the death: {}", answer.refused()));
    let late = a.write(&name, base, to, 4096);
    assert!(!late.is_ok() && late.took() < Duration::from_secs(10), "{late:?}");
    let mut b = NodeSpec::new(Kind::Te, LEN).rdma("rxe4").port(port).start();
    assert_eq!(b.name(), name);
    let again = now();
    moves(&mut a, &mut b, Direction::Write, MIB, 9);
    say(&format!("row the first write to the successor was done after {:.1?}", again.elapsed()));
    moves(&mut b, &mut a, Direction::Read, MIB, 10);
    a.quit();
    b.quit();
}

#[test]
fn a_device_that_is_not_there_is_a_named_error_and_never_tcp() {
    // Issue 7, defect 9 of the peer: it takes TCP without a word.
    let test = "star::engines::a_device_that_is_not_there_is_a_named_error_and_never_tcp";
    need!(test, available());
    let spec = NodeSpec::new(Kind::Te, MIB).rdma("rxe99").env("TE_TRANSPORTS", "rdma,tcp");
    let (why, _) = spec.launch().outcome().expect_err("it started");
    assert!(why.contains("rxe99"), "{why}");
    say(&format!("row {why}"));
}
