//! A peer that is refused again and again, and what an engine of ours tells of it.

use std::process::Command;
use std::time::Duration;

use te_suites::{Direction, Kind, Node, NodeSpec, need, now, say, wait_until};

use super::node::{Wheel, WheelSpec, available};
use crate::links::{Broken, nic};
use crate::watched::Watched;

const SIZE: u64 = 1 << 20;
const LINE: &str = "handshakes refused";

/// How many connected queue pairs the kernel has on a device.
fn queue_pairs_of(device: &str) -> usize {
    let shown = Command::new("rdma").args(["resource", "show", "qp"]).output();
    let shown = shown.expect("the tool `rdma` can be run");
    assert!(shown.status.success(), "{shown:?}");
    let (text, link) = (String::from_utf8_lossy(&shown.stdout), format!("link {device}/"));
    text.lines().filter(|line| line.starts_with(&link) && line.contains(" type RC ")).count()
}

/// The lines of its log that tell of refusals.
fn told(node: &mut Node) -> Vec<String> {
    let log = node.child().errors();
    log.lines().filter(|line| line.contains(LINE)).map(str::to_owned).collect()
}

/// Nothing more is gathered after so long without a question.
const GATHERED: Duration = Duration::from_secs(3);

#[test]
fn a_peer_that_is_refused_many_times_is_one_line_and_leaves_no_queue_pair() {
    // E57, issue 7, refusal: no leak, one summarised log line. Our GID is of another class than the peer's.
    let test =
        "wheel::refused::a_peer_that_is_refused_many_times_is_one_line_and_leaves_no_queue_pair";
    need!(test, available());
    need!(test, Watched::with_devices(4));
    need!(test, Kind::Te.available());
    let mut ours = NodeSpec::new(Kind::Te, SIZE).rdma("rxe0").env("MC_GID_INDEX", "1").start();
    let spec = WheelSpec::new("rxe2", SIZE).env("MC_TRANSFER_TIMEOUT", "10");
    let mut wheel = spec.clone().env("MC_GID_INDEX", "0").start();
    let before = queue_pairs_of("rxe0");
    let (name, to, begun) = (ours.name().to_owned(), ours.addr(), now());
    let rc = wheel.transfer(Direction::Write, &name, (0, to), 4096);
    assert_ne!(rc, 0);
    say(&format!("row the peer gave up with {rc} after {:.1?}", begun.elapsed()));
    wait_until(Duration::from_secs(20), "the line", || (!told(&mut ours).is_empty()).then_some(()));
    te_suites::pace(GATHERED);
    let lines = told(&mut ours);
    say(&format!("row {}", lines[0]));
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("different classes"), "{}", lines[0]);
    let times = lines[0].split("times=").nth(1).and_then(|rest| rest.split(' ').next());
    let times: u32 = times.and_then(|times| times.parse().ok()).expect("a count");
    assert!(times > 1, "{times} refusals");
    wait_until(Duration::from_secs(20), "its queue pairs to go", || {
        (queue_pairs_of("rxe0") == before).then_some(())
    });
    wheel.quit();
    // Whoever comes from a GID like ours is served, and is seen among the queue pairs.
    let mut good = spec.start();
    assert_eq!(good.transfer(Direction::Write, &name, (0, to), 4096), 0);
    assert!(queue_pairs_of("rxe0") > before, "its queue pairs are not seen");
    good.quit();
    ours.quit();
}

/// An engine of ours with one NIC, and a peer that has written to it and whose NIC gives up.
struct Known {
    ours: Node,
    wheel: Wheel,
}

impl Known {
    fn start() -> Result<Self, String> {
        let shim = te_suites::retry_shim().ok_or("TE_RETRY_SHIM names no file")?;
        let ours = NodeSpec::new(Kind::Te, SIZE).rdma("rxe0").start();
        let spec = WheelSpec::new("rxe2", SIZE).env("LD_PRELOAD", &shim.display().to_string());
        let mut known = Self { ours, wheel: spec.start() };
        assert_eq!(known.writes(), 0, "before the fault");
        Ok(known)
    }

    /// The return code of the peer.
    fn writes(&mut self) -> i64 {
        write(&mut self.wheel, &self.ours)
    }

    fn quit(self) {
        self.wheel.quit();
        self.ours.quit();
    }
}

fn write(wheel: &mut Wheel, ours: &Node) -> i64 {
    wheel.transfer(Direction::Write, ours.name(), (0, ours.addr()), 4096)
}

fn queue_pairs_go() {
    wait_until(Duration::from_secs(20), "the queue pairs to go", || {
        (queue_pairs_of("rxe0") == 0).then_some(())
    });
}

#[test]
fn a_peer_reaches_us_again_when_our_only_nic_was_down_meanwhile() {
    // E55, issue 7: it did not ask while the NIC was down.
    let test = "wheel::refused::a_peer_reaches_us_again_when_our_only_nic_was_down_meanwhile";
    need!(test, available());
    need!(test, Watched::with_devices(4));
    need!(test, Kind::Te.available());
    let mut known = need!(test, Known::start());
    let broken = Broken::down(&nic(0));
    queue_pairs_go();
    broken.mend();
    let begun = now();
    wait_until(Duration::from_secs(10), "the peer to reach us again", || {
        let our_nic_is_back = crate::host::ask_for(known.ours.name())
            .is_ok_and(|segment| segment.descriptor().protocol_name() == "rdma");
        (our_nic_is_back && known.writes() == 0).then_some(())
    });
    say(&format!("row it reached us {:.1?} after the port was active", begun.elapsed()));
    known.quit();
}

#[test]
fn a_peer_that_asks_while_our_only_nic_is_down_leaves_nothing_and_reaches_us_later() {
    // Refusal: while no NIC is active we publish RDMA without devices, so that it asks again.
    let test = "wheel::refused::a_peer_that_asks_while_our_only_nic_is_down_leaves_nothing_and_reaches_us_later";
    need!(test, available());
    need!(test, Watched::with_devices(4));
    need!(test, Kind::Te.available());
    let mut known = need!(test, Known::start());
    let broken = Broken::down(&nic(0));
    for _ in 0..2 {
        let begun = now();
        assert_ne!(known.writes(), 0, "the only NIC is down");
        say(&format!("row the peer gave up after {:.1?}", begun.elapsed()));
    }
    queue_pairs_go();
    broken.mend();
    let begun = now();
    let mut fresh = WheelSpec::new("rxe3", SIZE).start();
    wait_until(Duration::from_secs(20), "a fresh peer to reach us", || {
        (write(&mut fresh, &known.ours) == 0).then_some(())
    });
    say(&format!("row a fresh peer reached us {:.1?} after the port was active", begun.elapsed()));
    wait_until(Duration::from_secs(20), "the one that had asked meanwhile to reach us", || {
        (known.writes() == 0).then_some(())
    });
    say(&format!("row the one that had asked meanwhile, after {:.1?}", begun.elapsed()));
    fresh.quit();
    known.quit();
}
