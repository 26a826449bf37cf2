//! A peer that is refused again and again, and what an engine of ours tells of it.

use std::process::Command;
use std::time::Duration;

use te_suites::{Direction, Kind, Node, NodeSpec, need, now, say, wait_until};

use super::node::{WheelSpec, available};
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
    // Issue 7, refusal: no leak, one summarised log line. Our GID is of another class than the peer's.
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
