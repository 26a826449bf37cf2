//! The peer and an engine of ours who find each other in a metadata service over HTTP.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use te_suites::{
    Direction, Kind, Node, NodeSpec, free_port, need, now, pattern, say, te_bin, wait_until,
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
