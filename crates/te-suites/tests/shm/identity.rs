//! Who is who: addresses, ports and process ids that say nothing.

use std::collections::HashSet;
use std::fs;

use te_suites::{Direction, Kind, Netns, Node, Parts, free_port, need, say};

use crate::{MIB, fresh, spec, via};

/// Where the buffers of both lie, so that only who they are tells them apart.
const AT: u64 = 0x5100_0000_0000;

/// Bytes as their owner's are, and nobody else's.
#[track_caller]
fn moves_both_ways(from: &mut Node, to: &mut Node, name: &str, len: u64) {
    let (here, there) = (from.addr(), to.addr());
    from.fill(0, len, 0xa1);
    to.fill(0, len, 0xb2);
    from.read(name, here, there, len).ok();
    from.verify_filled(0, len, 0xb2);
    to.verify_filled(0, len, 0xb2);
    from.fill(0, len, 0xa1);
    from.write(name, here, there, len / 2).ok();
    to.verify_filled(0, len / 2, 0xa1);
    to.verify_filled(len / 2, len - len / 2, 0xb2);
    from.verify_filled(0, len, 0xa1);
}

#[test]
fn fb41_the_same_address_in_two_processes_is_two_places() {
    // FB41: "same host" was decided by the IP address, and another process's address used as one's
    // own. Here both map a buffer at one address with different bytes, on one IP.
    let test = "fb41_the_same_address_in_two_processes_is_two_places";
    need!(test, Kind::Te.available());
    let (mut from, mut to) = (spec(4 * MIB).at(AT).start(), spec(4 * MIB).at(AT).start());
    let name = to.name().to_owned();
    assert_eq!((from.addr(), to.addr()), (AT, AT));
    assert_eq!(via(&mut from, &name), "shm");
    moves_both_ways(&mut from, &mut to, &name, 4 * MIB);
    from.quit();
    to.quit();
}

#[test]
fn fb41_j68_two_network_namespaces_that_share_an_address_are_two_hosts_or_prove_otherwise() {
    // FB41, J68: the same with two network namespaces that have an address in common, and buffers at
    // one address. A peer is never taken for local by its address, whatever form that has.
    let test =
        "fb41_j68_two_network_namespaces_that_share_an_address_are_two_hosts_or_prove_otherwise";
    need!(test, Kind::Te.available());
    let (left, right) = (need!(test, Netns::new()), need!(test, Netns::new()));
    need!(test, left.join("10.79.0.1/24", &right, "10.79.0.2/24"));
    for netns in [&left, &right] {
        need!(test, netns.ip(&["addr", "add", "10.99.0.1/32", "dev", "lo"]));
    }
    let node = |netns: &Netns, host: &str| {
        let spec = spec(MIB).at(AT).host(host);
        spec.within(netns).start()
    };
    let (mut from, mut to) = (node(&left, "10.79.0.1"), node(&right, "10.79.0.2"));
    let name = to.name().to_owned();
    assert_eq!(via(&mut from, &name), "tcp", "a socket's name means nothing in another namespace");
    moves_both_ways(&mut from, &mut to, &name, MIB);
    from.quit();
    to.quit();
}

#[test]
fn j68_the_same_host_in_any_spelling_is_reached_as_what_it_is() {
    // J68: the locality of a peer was taken from the text of its name. Here each spelling of this
    // host leads to the same process, which is another one than ours, or ours.
    let test = "j68_the_same_host_in_any_spelling_is_reached_as_what_it_is";
    need!(test, Kind::Te.available());
    let mut from = spec(MIB).host("127.0.0.1").start();
    for host in ["127.0.0.1", "localhost", "LOCALHOST"] {
        let mut to = spec(MIB).host(host).start();
        let name = to.name().to_owned();
        assert_eq!(via(&mut from, &name), "shm", "{name}");
        moves_both_ways(&mut from, &mut to, &name, MIB);
        // Our own segment under another spelling is our own process all the same.
        let own = format!("localhost:{}", from.rpc_port());
        assert_eq!(via(&mut from, &own), "local");
        to.quit();
    }
    from.quit();
}

#[test]
fn a_peer_that_starts_again_under_its_name_is_proven_again() {
    // A restarted peer: what was asked of the old process never reaches the new one, and the new one
    // is reached directly as soon as it is known.
    let test = "a_peer_that_starts_again_under_its_name_is_proven_again";
    need!(test, Kind::Te.available());
    let port = free_port("127.0.0.1").unwrap();
    let mut from = spec(16 * MIB).at(AT).start();
    from.fill(0, 16 * MIB, 0xa1);
    for round in 0..3 {
        let mut to = spec(16 * MIB).at(AT + (64 << 30)).port(port).start();
        let name = to.name().to_owned();
        // A caller that only knows the old process may be refused once.
        if !from.write(&name, from.addr(), to.addr(), 4096).is_ok() {
            from.write(&name, from.addr(), to.addr(), 4096).ok();
        }
        assert_eq!(via(&mut from, &name), "shm", "round {round}");
        to.verify_filled(0, 4096, 0xa1);
        let parts = Parts::tiled(64, 16 * MIB, (from.addr(), to.addr(), 16 * MIB));
        let id = from.submit(Direction::Write, &name, &parts);
        to.child().kill();
        let mut next = spec(16 * MIB).at(AT + (64 << 30)).port(port).start();
        next.fill(0, 16 * MIB, 0x77);
        let ended = from.wait(id);
        assert_eq!(ended.number("completed") + ended.number("failed"), 64, "{ended:?}");
        next.verify_filled(0, 16 * MIB, 0x77);
        next.quit();
    }
    from.quit();
}

#[test]
fn a_process_that_got_the_number_of_the_dead_peer_is_not_touched() {
    // A process id is given again: the successor has the number, the address and even the bytes'
    // place in common with the one that is dead, and nothing reaches it.
    let test = "a_process_that_got_the_number_of_the_dead_peer_is_not_touched";
    need!(test, Kind::Te.available());
    let mut from = spec(16 * MIB).start();
    from.fill(0, 16 * MIB, 0xa1);
    let mut seen = HashSet::new();
    for round in 0..3 {
        let mut to = fresh(&spec(16 * MIB).at(AT), &mut seen);
        let (name, pid) = (to.name().to_owned(), to.pid());
        from.write(&name, from.addr(), AT, MIB).ok();
        assert_eq!(via(&mut from, &name), "shm");
        let parts = Parts::tiled(64, 16 * MIB, (from.addr(), AT, 16 * MIB));
        let id = from.submit(Direction::Write, &name, &parts);
        to.child().kill();
        drop(to);
        let mut successor = need!(test, start_as(pid));
        say(&format!("{test}: round {round}: process {pid} again"));
        successor.fill(0, 16 * MIB, 0x77);
        let ended = from.wait(id);
        assert_eq!(ended.number("completed") + ended.number("failed"), 64, "{ended:?}");
        assert!(!from.write(&name, from.addr(), AT, 16 * MIB).is_ok());
        successor.verify_filled(0, 16 * MIB, 0x77);
        successor.quit();
    }
    from.quit();
}

/// Starts a node that has this process id.
fn start_as(pid: u32) -> Result<Node, String> {
    for _ in 0..50 {
        let told = fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string());
        told.map_err(|cause| format!("process ids cannot be chosen here: {cause}"))?;
        let node = spec(16 * MIB).at(AT).launch();
        match node.outcome() {
            Ok(node) if node.pid() == pid => return Ok(node),
            Ok(node) => node.quit(),
            Err((why, _)) => return Err(why),
        }
    }
    Err("the machine starts too many processes for one to get a certain number".into())
}
