//! The peer and an engine of ours who find each other in a metadata service over HTTP.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use te_suites::{
    Direction, Kind, Node, NodeSpec, free_port, need, now, pattern, retry_shim, say, te_bin,
    wait_until,
};

use super::node::{Wheel, WheelSpec, available};
use crate::watched::Watched;

const SIZE: u64 = 2 << 20;
const LEN: u64 = 1 << 20;

/// Our metadata server, in memory.
struct Service {
    child: Child,
    port: u16,
}

impl Service {
    fn start() -> Self {
        let port = free_port("127.0.0.1").expect("a free port");
        let mut command = Command::new(te_bin());
        command.args(["metadata-server", "--listen", &format!("127.0.0.1:{port}")]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("te can be started");
        wait_until(Duration::from_secs(60), "the service", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
        });
        Self { child, port }
    }

    fn uri(&self) -> String {
        format!("http://127.0.0.1:{}/metadata", self.port)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ours(service: &Service) -> NodeSpec {
    NodeSpec::new(Kind::Te, SIZE)
        .rdma("rxe0")
        .metadata(&service.uri())
        .host("node-te")
        .env("MC_TCP_BIND_ADDRESS", "127.0.0.1")
}

fn theirs(service: &Service) -> WheelSpec {
    let mut spec = WheelSpec::new("rxe2", SIZE).env("MC_TCP_BIND_ADDRESS", "127.0.0.1");
    spec.words = ["--name", "node-peer", "--metadata", &service.uri()].map(str::to_owned).to_vec();
    spec
}

/// We write to the peer until it goes well; how long that took.
fn reaches(from: &mut Node, to: &Wheel, seed: u64) -> Duration {
    let begun = now();
    from.pattern(0, LEN, seed);
    let src = from.addr();
    wait_until(Duration::from_secs(30), "a write to the peer", || {
        from.write("node-peer", src, to.address() + 4096, LEN).is_ok().then_some(())
    });
    let took = begun.elapsed();
    let there = to.bytes(4096, usize::try_from(LEN).expect("1 MiB"));
    assert!(there == pattern::bytes(seed, there.len()), "the peer has other bytes");
    took
}

#[test]
fn fault13_a_peer_that_restarts_behind_a_store_is_reached_at_its_new_port() {
    // Peer fault 13, issue 7: our initiator, the restarted peer, HTTP store; and the peer's own way
    // back to us, which works while we live.
    let test =
        "wheel::store::fault13_a_peer_that_restarts_behind_a_store_is_reached_at_its_new_port";
    need!(test, available());
    need!(test, Watched::with_devices(4));
    need!(test, Kind::Te.available());
    let service = Service::start();
    let mut ours = ours(&service).start();
    let mut peer = theirs(&service).start();
    let first = reaches(&mut ours, &peer, 1);
    peer.child().kill();
    let mut peer = theirs(&service).start();
    let second = reaches(&mut ours, &peer, 2);
    say(&format!("row the peer was reached in {first:.1?}, after its restart in {second:.1?}"));
    let to = ours.addr() + 4096;
    peer.put(0, &pattern::bytes(3, usize::try_from(LEN).expect("1 MiB")));
    assert_eq!(peer.transfer(Direction::Write, "node-te", (0, to), LEN), 0);
    ours.verify(4096, LEN, 3);
    peer.quit();
    ours.quit();
}

/// The peer writes to us; its return code and how long that took.
fn peer_writes(peer: &mut Wheel, ours: &mut Node, seed: u64) -> (i64, Duration) {
    peer.put(0, &pattern::bytes(seed, usize::try_from(LEN).expect("1 MiB")));
    let (to, begun) = (ours.addr() + 4096, now());
    let rc = peer.transfer(Direction::Write, "node-te", (0, to), LEN);
    if rc == 0 {
        ours.verify(4096, LEN, seed);
    }
    (rc, begun.elapsed())
}

#[test]
fn fault13_a_peer_that_knows_us_behind_a_store_never_finds_our_new_port() {
    // Peer fault 13, issue 7: the peer's failure is the expected result. It keeps the address of a name
    // for ever; an engine of ours and a fresh peer ask the store again. Its NICs give up here, so that
    // it is not their endless retries that fail.
    let test = "wheel::store::fault13_a_peer_that_knows_us_behind_a_store_never_finds_our_new_port";
    need!(test, available());
    need!(test, Watched::with_devices(4));
    need!(test, Kind::Te.available());
    let shim = need!(test, retry_shim().ok_or("TE_RETRY_SHIM names no file"));
    let service = Service::start();
    let mut target = ours(&service).start();
    let mut friend = ours(&service).rdma("rxe1").host("node-friend").start();
    let yielding = theirs(&service).env("LD_PRELOAD", &shim.display().to_string());
    let mut peer = yielding.start();
    assert_eq!(peer_writes(&mut peer, &mut target, 1).0, 0, "before the restart");
    friend.pattern(0, LEN, 2);
    friend.write("node-te", friend.addr(), target.addr(), LEN).ok();
    let old = target.rpc_port();
    target.child().kill();
    let mut target = ours(&service).start();
    assert_ne!(target.rpc_port(), old, "the port is another one");
    for _ in 0..2 {
        let (rc, took) = peer_writes(&mut peer, &mut target, 3);
        say(&format!("row the peer that knew us: return code {rc} after {took:.1?}"));
        assert_ne!(rc, 0, "it asks the store again: docs/rdma-faults.md says that it does not");
    }
    let begun = now();
    friend.pattern(0, LEN, 4);
    friend.write("node-te", friend.addr(), target.addr(), LEN).ok();
    target.verify(0, LEN, 4);
    say(&format!("row an engine of ours that knew us wrote after {:.1?}", begun.elapsed()));
    peer.lives();
    peer.quit();
    let mut fresh = yielding.start();
    let (rc, took) = peer_writes(&mut fresh, &mut target, 5);
    say(&format!("row a fresh peer: return code {rc} after {took:.1?}"));
    assert_eq!(rc, 0, "a fresh peer");
    fresh.quit();
    friend.quit();
    target.quit();
}
