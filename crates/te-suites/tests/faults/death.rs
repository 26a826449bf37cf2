//! A peer that dies in the middle.

use std::time::Duration;

use te_suites::{
    Bound, Case, Direction, Heartbeat, Kind, NodeSpec, Pair, Parts, Span, Version,
    available_memory, need, now, pace, say,
};

use crate::{MIB, OURS};

/// Long enough to be in the middle of after a quarter of a second, in a debug build too.
const LONG: u64 = 2048 * MIB;

/// Seconds that a failure after a death may take: a refused connection costs no waiting.
const AT_ONCE: Duration = Duration::from_secs(1);

fn killed(test: &str, dir: Direction) {
    need!(test, available_memory(2 * LONG + 1024 * MIB));
    let mut pair = need!(test, Pair::start(OURS, LONG, Version::V2));
    pair.call(dir, Span { src: 0, dst: 0, len: 4096 }).ok();
    let case = Case::start(&format!("fault 9: kill -9 in a {}", dir.word()), pair.initiator.pid());
    let heartbeat = Heartbeat::start();
    let (target, src, dst) =
        (pair.target.name().to_owned(), pair.initiator.addr(), pair.target.addr());
    let whole = pair.parts(&[Span { src: 0, dst: 0, len: LONG }]);
    let id = pair.initiator.submit(dir, &target, &whole);
    pace(Duration::from_millis(100));
    pair.target.child().kill();
    let start = now();
    let error = pair.initiator.wait(id).refused().to_owned();
    heartbeat.assert_within("the failure after a death", start.elapsed(), AT_ONCE);
    say(&format!("{test}: failed {:?} after the death: {error}", start.elapsed()));
    let next = pair.initiator.write(&target, src, dst, 4096);
    assert!(next.refused().contains("onne"), "the next write names no connection: {next:?}");
    heartbeat.assert_within("the next write", next.took(), AT_ONCE);
    let parts = Parts::tiled(64, 4096, (src, dst, MIB));
    let batch = pair.initiator.batch(Direction::Write, &target, &parts);
    assert_eq!(batch.number("failed"), 64, "{batch:?}");
    heartbeat.assert_within("the next batch of 64", batch.took(), AT_ONCE);
    say(&format!("{test}: then a write {:?}, a batch of 64 {:?}", next.took(), batch.took()));
    // What the read brought, or the write sent, stays in memory that was there before.
    case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16));
    comes_back(&mut pair, &target);
    pair.initiator.quit();
}

/// The peer starts again under its name; what was learned of its death is not held against it.
fn comes_back(pair: &mut Pair, name: &str) {
    let (_, port) = name.rsplit_once(':').unwrap();
    pair.target = NodeSpec::new(Kind::Te, MIB).arg("--port").arg(port).start();
    assert_eq!(pair.target.name(), name);
    pair.initiator.pattern(0, MIB, 9);
    let (src, dst) = (pair.initiator.addr(), pair.target.addr());
    let answer = pair.initiator.write(name, src, dst, MIB).ok();
    let heartbeat = Duration::from_secs(1);
    assert!(answer.took() < heartbeat, "the first write after a restart: {answer:?}");
    pair.target.verify(0, MIB, 9);
}

#[test]
fn fault09_a_target_killed_in_a_write_fails_it_at_once() {
    // Peer fault 9: kill -9 of the target in a 2 GiB write; no cool-down for what follows.
    killed("fault09_a_target_killed_in_a_write_fails_it_at_once", Direction::Write);
}

#[test]
fn fault09_a_target_killed_in_a_read_fails_it_at_once() {
    // Peer fault 9: the same in a read.
    killed("fault09_a_target_killed_in_a_read_fails_it_at_once", Direction::Read);
}

#[test]
fn fault09_an_initiator_killed_in_a_write_leaves_nothing_at_the_target() {
    // Peer fault 9, seen from the other side: the target keeps no connection and no thread.
    let test = "fault09_an_initiator_killed_in_a_write_leaves_nothing_at_the_target";
    need!(test, available_memory(2 * LONG + 1024 * MIB));
    let mut pair = need!(test, Pair::start(OURS, LONG, Version::V2));
    pair.call(Direction::Write, Span { src: 0, dst: 0, len: 4096 }).ok();
    let case = Case::start("fault 9: the initiator dies", pair.target.pid());
    let whole = pair.parts(&[Span { src: 0, dst: 0, len: LONG }]);
    let target = pair.target.name().to_owned();
    pair.initiator.submit(Direction::Write, &target, &whole);
    pace(Duration::from_millis(100));
    pair.initiator.child().kill();
    crate::serves(&mut pair.target);
    case.end(Bound::NOTHING.with_fds(2).with_rss_mib(LONG / MIB + 16));
    pair.target.quit();
}
