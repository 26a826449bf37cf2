//! Peers that die and come back under their name.

use std::time::Duration;

use te_suites::{
    Bound, Case, Direction, Heartbeat, Kind, Node, NodeSpec, Pair, Parts, Span, Version,
    available_memory, need, now, pace, say,
};

use crate::{MIB, OURS, amount, ours, whole};

/// Long enough to be in the middle of, in a debug build too.
const LONG: u64 = 512 * MIB;

/// What a failure after a death may take: a refused connection costs no waiting.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Ends `node` as a crash would, and starts another with `size` bytes under its name.
fn reborn(mut node: Node, size: u64) -> Node {
    let port = node.rpc_port();
    node.child().kill();
    NodeSpec::new(Kind::Te, size).port(port).start()
}

fn outlives(test: &str, dir: Direction) {
    need!(test, available_memory(3 * LONG));
    let mut pair = need!(test, Pair::start(OURS, LONG, Version::V2));
    pair.call(dir, Span { src: 0, dst: 0, len: 4096 }).ok();
    let case =
        Case::start(&format!("J78: a {} outlives its target", dir.word()), pair.initiator.pid());
    let heartbeat = Heartbeat::start();
    let (target, own) = (pair.target.name().to_owned(), pair.initiator.addr());
    let parts = whole(&pair.initiator, &pair.target, LONG);
    let id = pair.initiator.submit(dir, &target, &parts);
    pace(Duration::from_millis(40));
    pair.target.child().kill();
    let killed = now();
    let answer = pair.initiator.wait(id);
    heartbeat.assert_within("the end after a death", killed.elapsed(), AT_ONCE);
    assert_eq!(answer.value("states"), &serde_json::json!(["failed"]), "{answer:?}");
    if dir == Direction::Write {
        assert_eq!(answer.value("remote"), "in doubt", "{answer:?}");
    }
    say(&format!("{test}: {:?} after the death: {}", killed.elapsed(), answer.refused()));
    assert_eq!(answer.number("quarantined"), 0, "{answer:?}");
    // The local memory is free: it can be taken back at once.
    let begun = now();
    pair.initiator.unreg(own).ok();
    heartbeat.assert_within(
        "unregistering after the end",
        begun.elapsed(),
        Duration::from_millis(200),
    );
    for dst in [0, 4096] {
        let next = pair.initiator.transfer(dir, &target, (own, pair.target.addr() + dst), 4096);
        assert!(next.refused().contains("onne"), "{next:?}");
        heartbeat.assert_within("the next request", next.took(), AT_ONCE);
    }
    case.end(Bound::NOTHING.with_threads(2).with_rss_mib(LONG / MIB + 16));
    pair.initiator.quit();
}

#[test]
fn j78_fault09_a_caller_outlives_a_target_killed_in_a_write() {
    // J78, peer fault 9: the call fails at once, its memory is free, and the process lives.
    outlives("j78_fault09_a_caller_outlives_a_target_killed_in_a_write", Direction::Write);
}

#[test]
fn j78_fault09_a_caller_outlives_a_target_killed_in_a_read() {
    // J78, peer fault 9: the same in a read.
    outlives("j78_fault09_a_caller_outlives_a_target_killed_in_a_read", Direction::Read);
}

#[test]
fn fault09_a_dead_writer_lets_go_of_the_targets_memory() {
    // Peer fault 9, seen from the other side: the guard on the buffer goes with the connection.
    let test = "fault09_a_dead_writer_lets_go_of_the_targets_memory";
    need!(test, available_memory(3 * LONG));
    let mut target = ours(MIB);
    let case = Case::start("fault 9: a writer dies", target.pid());
    let heartbeat = Heartbeat::start();
    let buffer = target.alloc(LONG);
    for version in ["3", "2"] {
        let spec = NodeSpec::new(Kind::Te, LONG).env("MC_TCP_PROTO", version);
        let mut writer = spec.start();
        target.reg(buffer, LONG).ok();
        let mut parts = Parts::default();
        parts.push(writer.addr(), buffer, LONG);
        writer.submit(Direction::Write, target.name(), &parts);
        pace(Duration::from_millis(40));
        writer.child().kill();
        let answer = target.unreg(buffer).ok();
        heartbeat.assert_within("unregistering", answer.took(), Duration::from_millis(500));
        say(&format!("{test}: version {version}: unregistered in {:?}", answer.took()));
    }
    case.end(Bound::NOTHING.with_rss_mib(LONG / MIB + 16));
    target.quit();
}

#[test]
fn a_hundred_restarts_cost_at_most_what_was_in_flight() {
    // Peer fault 13 (P2P half), FB03: a restart under the same name fails what was under way and
    // nothing else, and the hundredth costs what the first did.
    const SIZE: u64 = 32 * MIB;
    let test = "a_hundred_restarts_cost_at_most_what_was_in_flight";
    let mut pair = need!(test, Pair::start(OURS, SIZE, Version::V2));
    let case = Case::start("100 restarts of the target", pair.initiator.pid());
    let heartbeat = Heartbeat::start();
    let name = pair.target.name().to_owned();
    let mut recovery = Vec::new();
    let (mut lost, mut kept) = (0, 0);
    for round in 0..100 {
        let in_flight = (round % 2 == 0).then(|| {
            let parts = whole(&pair.initiator, &pair.target, SIZE);
            pair.initiator.submit(Direction::BOTH[round / 2 % 2], &name, &parts)
        });
        if in_flight.is_some() {
            pace(Duration::from_millis(3 + round as u64 % 10));
        }
        pair.target = reborn(pair.target, SIZE);
        let came = now();
        if let Some(id) = in_flight {
            let ended = pair.initiator.wait(id).is_ok();
            lost += u64::from(!ended);
            kept += u64::from(ended);
            assert_eq!(pair.target.count(0, SIZE, 0), SIZE, "round {round}: bytes of the past");
        }
        pair.initiator.pattern(0, 65_536, round as u64);
        let begun = now();
        let (src, dst) = (pair.initiator.addr(), pair.target.addr());
        pair.initiator.write(&name, src, dst, 65_536).ok();
        recovery.push(begun.elapsed());
        heartbeat.assert_within("recovery", begun.elapsed(), Duration::from_secs(1));
        pair.target.verify(0, 65_536, round as u64);
        assert!(came.elapsed() < Duration::from_secs(10), "round {round}");
    }
    let middle = |times: &[Duration]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let (first, last) = (middle(&recovery[..20]), middle(&recovery[80..]));
    let worst = recovery.iter().max().unwrap();
    say(&format!(
        "{test}: {lost} of {} requests in flight were lost; recovery {first:?} in the first \
         twenty, {last:?} in the last, at worst {worst:?}",
        lost + kept
    ));
    assert!(last < 3 * first + Duration::from_millis(20), "recovery grows: {first:?}, {last:?}");
    case.end(Bound::NOTHING.with_threads(2).with_rss_mib(SIZE / MIB + 16));
    pair.initiator.quit();
    pair.target.quit();
}

#[test]
fn fb03_large_and_small_writes_go_on_after_every_restart() {
    // FB03: 200 writes, kill -9, restart under the same name, 1 KiB and 256 MiB; five times.
    const LARGE: u64 = 256 * MIB;
    let test = "fb03_large_and_small_writes_go_on_after_every_restart";
    need!(test, available_memory(4 * LARGE));
    let mut pair = need!(test, Pair::start(OURS, LARGE, Version::V2));
    let case = Case::start("FB03: five restarts", pair.initiator.pid());
    let heartbeat = Heartbeat::start();
    let name = pair.target.name().to_owned();
    let src = pair.initiator.addr();
    pair.initiator.pattern(0, LARGE, 3);
    let mut took = Vec::new();
    for round in 0..5 {
        let parts = Parts::tiled(50, 4096, (src, pair.target.addr(), MIB));
        for _ in 0..4 {
            pair.initiator.batch(Direction::Write, &name, &parts).ok();
        }
        pair.target = reborn(pair.target, LARGE);
        let begun = now();
        let mut failed = 0;
        for len in [1024, LARGE] {
            while !pair.initiator.write(&name, src, pair.target.addr(), len).is_ok() {
                failed += 1;
                assert!(failed < 2, "round {round}: more than one request failed");
            }
        }
        heartbeat.assert_within("both writes", begun.elapsed(), Duration::from_secs(5));
        took.push(begun.elapsed());
        pair.target.verify(0, LARGE, 3);
    }
    say(&format!("{test}: after each restart both writes took {took:?}"));
    assert!(took[4] < 2 * took[0] + Duration::from_millis(500), "recovery grows: {took:?}");
    case.end(Bound::NOTHING.with_threads(2).with_rss_mib(LARGE / MIB + 16));
    pair.initiator.quit();
}

#[test]
fn j114_k16_the_successor_of_a_dead_process_gets_no_byte_meant_for_it() {
    // J114, K16: same name, same port, a buffer of the same size at the same address. Requests that
    // were meant for the dead process end; none is sent to its successor.
    const EACH: u64 = 8 * MIB;
    const ALL: u64 = 32 * EACH;
    let test = "j114_k16_the_successor_of_a_dead_process_gets_no_byte_meant_for_it";
    need!(test, Kind::Te.available());
    need!(test, available_memory(3 * ALL));
    let mut from = ours(ALL);
    from.fill(0, ALL, 0xa5);
    let spec = NodeSpec::new(Kind::Te, ALL).at(0x5000_0000_0000);
    for round in 0..amount(test, 20, 6) {
        let mut target = spec.start();
        let (port, addr) = (target.rpc_port(), target.addr());
        from.write(target.name(), from.addr(), addr, 64).ok();
        let parts = Parts::tiled(32, EACH, (from.addr(), addr, ALL));
        let id = from.submit(Direction::Write, target.name(), &parts);
        pace(Duration::from_millis(5 * round));
        target.child().kill();
        let mut target = spec.clone().port(port).start();
        assert_eq!(target.addr(), addr);
        let answer = from.wait(id);
        let ended = answer.number("completed") + answer.number("failed");
        assert_eq!(ended, 32, "{answer:?}");
        assert_eq!(target.count(0, ALL, 0xa5), 0, "bytes meant for the dead process: {answer:?}");
        // A request that could still be meant for the dead process may be refused, once.
        let first = from.write(target.name(), from.addr(), addr, 4096);
        if !first.is_ok() {
            assert!(first.refused().contains("another process"), "{first:?}");
            assert_eq!(target.count(0, ALL, 0xa5), 0, "{first:?}");
            from.write(target.name(), from.addr(), addr, 4096).ok();
        }
        target.verify_filled(0, 4096, 0xa5);
        target.quit();
    }
    from.quit();
}
